"""The guard's guarantee: its bound by hand, its inequality in every run, and its expectation over many draws.

The inequality for labels asked for holds in every run and for every path of members, so one violation is a fault. The
one in expectation is tested over draws of the queries on one stream: a mean above the bound by more than three standard
errors is a fault, and happens by chance in at most 1 of 700 tests.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osamd.errors import InputError
from osamd.evaluation import arbiter_guarantee
from osamd.evaluation.arbiter_guarantee import (
    MEMBERS,
    GuardRun,
    Regret,
    bound,
    constant,
    hardest_path,
    lead_without_labels,
    play,
    regret,
)
from osamd.learner.source import fit
from osamd.paper.queries import query_probability
from osamd.paper.scores import UNLABELLED
from osamd.preset.arbiter import (
    DOUBTS,
    GUARD_DOUBT,
    GUARD_SHARE,
    POWER,
    Arbiter,
    doubted,
    fall_back,
    guarded_into,
    keep_guard,
    likeliest,
    limits,
    open_guard,
    open_trust,
)
from osamd.preset.memory import MOST
from osamd.preset.round import gather, learn, observe, remember
from osamd.preset.state import EXPERTS, begin, open_state, open_work, work_of
from osamd.streams import Changed, abrupt, relabel, rotating_gaussian

RATE, FLOOR = limits(0.2, None)
ROUNDING = 1e-9


def opened(*, with_source: bool = True) -> Arbiter:
    views = Arbiter(np.zeros(len(EXPERTS)), np.empty(2 * len(DOUBTS)), np.empty(len(MEMBERS)))
    open_trust(views.trust)
    open_guard(views.guard, with_source)
    return views


def guard_alone(
    opinions: np.ndarray, labels: np.ndarray | Callable[[Arbiter, np.ndarray], int], seed: int, *, withheld: float = 0.0
) -> GuardRun:
    """The guard over given opinions, (T, N, K), with shipped steps in the order of `osamd.preset.round.learn`.

    Queries follow the margin and the floor; a share of the rounds is withheld, as a budget may.
    """
    rounds, members, classes = opinions.shape
    views, mixture = opened(), np.empty(classes)
    run = GuardRun(
        guard=np.empty(rounds),
        members=np.empty((rounds, members)),
        wrong=np.empty(rounds, dtype=bool),
        asked=np.empty(rounds, dtype=bool),
        probability=np.empty(rounds),
        rate=RATE,
        floor=FLOOR,
        classes=classes,
        with_source=True,
    )
    generator = np.random.default_rng(seed)
    for t, (trusted, source, *experts) in enumerate(opinions):
        shares = np.concatenate(experts)
        guarded_into(views.guard, trusted, source, shares, mixture)
        label, margin = likeliest(mixture)
        y = labels(views, opinions[t]) if callable(labels) else int(labels[t])
        allowed = generator.random() >= withheld
        probability = query_probability(margin**POWER, 0.01, FLOOR) if allowed else 0.0
        asked = generator.random() < probability
        run.guard[t], run.wrong[t], run.asked[t], run.probability[t] = (
            -math.log(mixture[y]),
            label != y,
            asked,
            probability,
        )
        run.members[t] = -np.log([doubted(share, GUARD_DOUBT, classes) for share in opinions[t, :, y]])
        if asked:
            keep_guard(views.guard, trusted, source, shares, y, min(1.0, FLOOR / probability))
        fall_back(views, RATE, with_source=True)
    return run


def opinionated(generator: np.random.Generator, right: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    """Members that give 0.9 to one class: the label's with probability right[t, e], else another."""
    said = np.where(generator.random(right.shape) < right, y[:, None], (y[:, None] + 1) % classes)
    return np.where(said[..., None] == np.arange(classes), 0.9, 0.1 / (classes - 1))


class Game(NamedTuple):
    """A stream of opinions and labels, and the paths that the guard is compared with."""

    opinions: np.ndarray
    labels: np.ndarray | Callable[[Arbiter, np.ndarray], int]
    paths: tuple[np.ndarray, ...]


def still_game(rounds: int = 600) -> Game:
    """What is trusted is right in 60 %, the source in 90 %, the others in 70 %: i.i.d., three classes."""
    generator = np.random.default_rng(1)
    y = generator.integers(3, size=rounds)
    right = np.full((rounds, len(MEMBERS)), 0.7)
    right[:, 0], right[:, 1] = 0.6, 0.9
    return Game(opinionated(generator, right, y, 3), y, tuple(constant(name, rounds) for name in MEMBERS))


def drifting_game(rounds: int = 600) -> Game:
    """Two classes; one member is good in each third of the rounds, and bad in the others."""
    generator = np.random.default_rng(2)
    y = generator.integers(2, size=rounds)
    best = np.repeat([0, 4, 1], rounds // 3)
    right = np.full((rounds, len(MEMBERS)), 0.4)
    right[np.arange(rounds), best] = 0.95
    return Game(opinionated(generator, right, y, 2), y, (best, constant("trusted", rounds), constant("source", rounds)))


def against_the_leader(views: Arbiter, opinions: np.ndarray) -> int:
    """The class that the member with the largest weight finds least likely: it sees the weights, and not the draw."""
    return int(opinions[int(views.guard.argmax())].argmin())


def adversarial_game(rounds: int = 600) -> Game:
    """Every member is sure of a class, and whichever leads is wrong."""
    generator = np.random.default_rng(3)
    said = generator.integers(2, size=(rounds, len(MEMBERS)))
    opinions = np.where(said[..., None] == np.arange(2), 0.99, 0.01)
    paths = (*(constant(name, rounds) for name in MEMBERS), np.repeat([0, 3, 0, 5], rounds // 4))
    return Game(opinions, against_the_leader, paths)


def two_camps(rounds: int = 600) -> Game:
    """What is trusted is sure of one class and everyone else of the other, and whichever leads is wrong."""
    said = np.random.default_rng(4).integers(2, size=(rounds, 1)).repeat(len(MEMBERS), axis=1)
    said[:, 1:] = 1 - said[:, 1:]
    opinions = np.where(said[..., None] == np.arange(2), 0.99, 0.01)
    return Game(opinions, against_the_leader, (constant("trusted", rounds), constant("source", rounds)))


GAMES = {"still": still_game, "drifting": drifting_game, "adversarial": adversarial_game, "two camps": two_camps}


def holds_for_every_path(run: GuardRun) -> bool:
    found = regret(run, hardest_path(run))
    return found.estimated <= found.bound.value + ROUNDING


def mean_is_below(found: list[Regret]) -> bool:
    excess = np.array([one.known - one.bound.value for one in found])
    return bool(excess.mean() <= 3.0 * excess.std(ddof=1) / math.sqrt(len(excess)))


def test_the_bound_is_its_formula() -> None:
    prior, rho = arbiter_guarantee.priors(with_source=True), GUARD_SHARE * RATE
    found = bound([1, 1, 0, 0, 0], rate=RATE, floor=FLOOR)
    assert found.terms == pytest.approx(
        {
            "start": math.log(1 / prior[1]) / FLOOR,
            "changes": math.log(1 / (rho * prior[0])) / FLOOR,
            "staying": (-math.log(1 - rho * (1 - prior[1])) - 2 * math.log(1 - rho * (1 - prior[0]))) / FLOOR,
        }
    )
    assert found.value == pytest.approx(sum(found.terms.values()))
    assert found.holds


@pytest.mark.parametrize("with_source", [True, False])
def test_priors_are_where_the_guard_begins(with_source: bool) -> None:
    prior = arbiter_guarantee.priors(with_source=with_source)
    assert prior.tolist() == opened(with_source=with_source).guard.tolist()
    assert prior.sum() == pytest.approx(1.0)


def test_half_the_labels_cost_twice_as_much_but_for_what_returns_to_the_prior() -> None:
    whole, half = (bound(constant("source", 100), rate=r, floor=r / 2) for r in (0.1, 0.05))
    assert half.terms["start"] == pytest.approx(2 * whole.terms["start"])
    assert half.terms["staying"] == pytest.approx(whole.terms["staying"], rel=1e-3)


def test_a_bound_that_says_nothing_names_the_assumption_that_fails() -> None:
    assert "give the budget a floor" in bound([0], rate=0.1, floor=0.0).failed[0]
    without = bound([0, 1], rate=0.1, floor=0.05, with_source=False)
    assert without.value == math.inf
    assert "there is none" in without.failed[0]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ([], "one member for each round"),
        ([0.5], "one member"),
        ([-1], "between 0 and"),
        ([len(MEMBERS)], "between 0 and"),
    ],
)
def test_a_path_that_is_none_is_refused(path: list[float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        bound(path, rate=0.1, floor=0.05)


def test_a_path_of_another_length_than_the_run_is_refused() -> None:
    game = still_game(rounds=3)
    with pytest.raises(InputError, match="each of the 3 rounds"):
        regret(guard_alone(*game[:2], seed=0), [0, 0])


def test_the_hardest_path_is_the_hardest_of_all() -> None:
    game = adversarial_game(rounds=3 * 4)
    run = guard_alone(game.opinions[:4], game.labels, seed=1)
    run = run._replace(asked=np.ones(4, dtype=bool), probability=np.array([FLOOR, 0.5, FLOOR, FLOOR]))

    def excess(path: tuple[int, ...]) -> float:
        found = regret(run, path)
        return found.estimated - found.bound.value

    everyone = range(len(MEMBERS))
    assert excess(tuple(hardest_path(run))) == pytest.approx(max(map(excess, itertools.product(everyone, repeat=4))))


@pytest.mark.parametrize("name", GAMES)
def test_no_path_of_members_beats_the_guard_by_more_than_the_bound_in_any_run(name: str) -> None:
    game = GAMES[name]()
    for seed in range(4):
        assert holds_for_every_path(guard_alone(*game[:2], seed=seed, withheld=0.1 * seed))


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 40), st.floats(0.0, 1.0))
def test_neither_do_wild_opinions_and_labels(seed: int, classes: int, rounds: int, withheld: float) -> None:
    generator = np.random.default_rng(seed)
    opinions = generator.dirichlet(np.full(classes, 0.05), size=(rounds, len(MEMBERS)))
    assert holds_for_every_path(
        guard_alone(opinions, generator.integers(classes, size=rounds), seed, withheld=withheld)
    )


@pytest.mark.parametrize("name", GAMES)
def test_over_draws_the_mean_regret_is_below_the_bound(name: str) -> None:
    game = GAMES[name]()
    runs = [guard_alone(*game[:2], seed=seed, withheld=0.1) for seed in range(12)]
    for path in game.paths:
        assert mean_is_below([regret(run, path) for run in runs])


@pytest.mark.parametrize("name", GAMES)
def test_labels_asked_for_stand_for_all_rounds_that_may_be_asked(name: str) -> None:
    game = GAMES[name](rounds=300)
    found = [regret(guard_alone(*game[:2], seed=seed, withheld=0.2), game.paths[0]) for seed in range(40)]
    apart = np.array([one.estimated - one.known for one in found])
    assert abs(apart.mean()) <= 4.0 * apart.std(ddof=1) / math.sqrt(len(apart))


class Stage(NamedTuple):
    """A learner before its first round, and the stream it will meet."""

    state: np.ndarray
    x: np.ndarray
    labels: np.ndarray | arbiter_guarantee.Adversary


def begun(rows: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    """A state that starts from labelled rows, as a learner made from a source does."""
    state = open_state(rows.shape[1], classes, RATE, MOST)
    weights = fit(rows, y, classes)
    begin(state, np.stack([-0.5 * weights, 0.5 * weights]) if classes == 2 else weights)
    work = open_work(state)
    gather(state, work, rows)
    remember(state, work, rows, y)
    return state


def flipped(*, with_source: bool) -> Stage:
    """Two classes whose centres turn, and whose labels are swapped at half time."""
    world = Changed(rotating_gaussian(rounds=300), relabel([1, 0]), abrupt(150))
    x, y = world.sample(seed=0)
    state = begun(*world.source(60, seed=0), 2) if with_source else open_state(x.shape[1], 2, RATE, MOST)
    return Stage(state, x, y)


def real() -> Stage:
    datasets = pytest.importorskip("sklearn.datasets")
    x, y = datasets.load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], y[order]
    return Stage(begun(x[:40], y[:40], 3), x[40:], y[40:])


def spiteful() -> Stage:
    """Whatever the member with the largest weight says is wrong."""

    def against(views: Arbiter, seen: arbiter_guarantee.Work) -> int:
        opinions = np.concatenate([seen.trusted, seen.source, seen.shares]).reshape(len(MEMBERS), -1)
        return against_the_leader(views, opinions)

    world = rotating_gaussian(rounds=200)
    return Stage(begun(*world.source(60, seed=0), 2), world.sample(seed=0)[0], against)


STAGES = {
    "drifting, with a source": lambda: flipped(with_source=True),
    "drifting, from nothing": lambda: flipped(with_source=False),
    "real": real,
    "adversarial": spiteful,
}


@pytest.fixture(scope="module", params=STAGES)
def runs(request: pytest.FixtureRequest) -> list[GuardRun]:
    """The whole learner on one stream, over several draws of its queries."""
    stage = STAGES[request.param]()
    return [play(*stage, seed=seed) for seed in range(6)]


def test_in_every_run_of_the_learner_no_path_beats_the_bound(runs: list[GuardRun]) -> None:
    assert all(holds_for_every_path(run) for run in runs)
    assert all(run.asked.sum() >= 10 for run in runs)


def test_over_draws_the_learner_loses_little_more_than_any_member(runs: list[GuardRun]) -> None:
    for name in MEMBERS:
        if runs[0].with_source or name != "source":
            path = constant(name, len(runs[0].guard))
            assert mean_is_below([regret(run, path) for run in runs]), name


def test_while_the_budget_allows_a_query_its_probability_is_at_least_the_floor(runs: list[GuardRun]) -> None:
    for run in runs:
        assert (run.probability[run.probability > 0.0] >= run.floor).all()
        assert run.asked.sum() <= run.rate * len(run.asked)


def test_a_mistake_costs_at_least_the_logarithm_of_two(runs: list[GuardRun]) -> None:
    for run in runs:
        assert (run.guard[run.wrong] >= math.log(2.0)).all()


def test_where_nobody_ever_answers_the_source_decides_wherever_it_leads() -> None:
    """The classes turn and swap, and the student trains itself all the while."""
    stage = flipped(with_source=True)
    state, work = stage.state.copy(), open_work(stage.state)
    seen, led = work_of(work, state), 0
    for row in stage.x:
        opinion = observe(state, work, row, 1.0, 0.0, FLOOR)
        decided, lead = likeliest(seen.source)
        if lead > lead_without_labels():
            led += 1
            assert opinion.label == decided
        learn(state, work, opinion.pseudolabel, UNLABELLED, 0.0)
    assert led > 0.9 * len(stage.x)


def test_playing_leaves_the_given_state_as_it_is_and_the_same_seed_plays_the_same() -> None:
    stage = flipped(with_source=True)
    before = stage.state.copy()
    one, other = (play(stage.state, stage.x[:40], stage.labels, seed=3) for _ in range(2))
    assert (stage.state == before).all()
    assert (one.guard == other.guard).all()
    assert (one.asked == other.asked).all()
