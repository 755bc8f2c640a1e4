"""The guarantee of the default learner's guard: how far it may fall behind any sequence of its members, as a number.

The guard (`osamd.preset.arbiter`) mixes N members. It begins at the prior pi, returns to it by rho = GUARD_SHARE * rate
in every round, and multiplies the weight of member e by q_e(y)^w at a label that was asked for with probability p, with
w = min(1, c / p) and c the floor of the budget. For every path of members e_1, ..., e_T and in every single run

    sum_t Z_t w_t (loss of the guard - loss of e_t) <= c * bound(path)
    c * bound(path) = ln 1/pi(e_1) + sum over changes ln 1/(rho pi(e_t)) + sum over stays ln 1/(1 - rho (1 - pi(e_t)))

where Z_t says whether the label was asked for. Z_t w_t / c has the expectation a_t = min(1, p_t / c), which is 1 if the
budget allowed a query and 0 if it withheld it. So E sum_t a_t (loss of the guard - loss of e_t) <= bound(path).
The page on guarantees has the proof and its assumptions. `play` records the losses, and `regret` compares them:

>>> import numpy as np
>>> from osamd.preset.state import begin, open_state
>>> state = open_state(features=1, classes=2, rate=0.1)
>>> begin(state, np.array([[-1.0, 0.0], [1.0, 0.0]]))
>>> x = np.random.default_rng(0).normal(size=(200, 1))
>>> run = play(state, x, (x[:, 0] > 0).astype(int), seed=0)
>>> found = regret(run, constant("source", rounds=200))
>>> found.estimated <= found.bound.value, sorted(found.bound.terms), found.bound.holds
(True, ['changes', 'start', 'staying'], True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osamd.accounting import book as books
from osamd.accounting import budget, steering
from osamd.errors import InputError, lookup, reject, require_number, require_rate, require_whole
from osamd.evaluation.theory import Bound
from osamd.numerics import Array
from osamd.paper.scores import UNLABELLED
from osamd.preset.arbiter import DOUBTS, GUARD_DOUBT, GUARD_SHARE, POWER, Arbiter, doubted, guard_prior, limits
from osamd.preset.round import learn, observe
from osamd.preset.state import CLASSES, RATE, SOURCED, VOICES, Work, open_work, parts_of, work_of
from osamd.streams.base import query_generator

MEMBERS = ("trusted", "source", *VOICES)
"""The guard's members for linear models, in the order of its weights."""
NETWORK_MEMBERS = ("trusted", "source", "student", "teacher")
"""The guard's members for networks."""

Adversary = Callable[[Arbiter, Work], int]
"""Chooses the label of a round from the weights and from what every member says, before the query is drawn."""


class GuardRun(NamedTuple):
    """The losses of the guard and its members in every round of a run, whether or not its label was asked for."""

    guard: Array
    """-ln of the probability that the mixture that decided gave to the label, (T,)."""
    members: Array
    """The same for every member, mixed with GUARD_DOUBT of the uniform distribution as the guard uses it, (T, N)."""
    wrong: NDArray[np.bool_]
    """Whether the decision was wrong, (T,)."""
    asked: NDArray[np.bool_]
    probability: Array
    """The probability of asking, (T,); 0 if the budget withheld the query."""
    rate: float
    floor: float
    classes: int
    with_source: bool


class Regret(NamedTuple):
    """How far the guard fell behind a path of members, in nats."""

    known: float
    """With all labels known, over the rounds in which a query was allowed. Its expectation is at most the bound."""
    estimated: float
    """From the labels asked for alone, each weighted by min(1, c / p) / c. It never exceeds the bound, in any run."""
    bound: Bound


def priors(*, with_source: bool, members: Sequence[str] = MEMBERS) -> Array:
    """pi: the initial weight of every member, to which it returns."""
    return np.array([guard_prior(member, len(members), with_source) for member in range(len(members))])


def constant(member: str, rounds: int, members: Sequence[str] = MEMBERS) -> NDArray[np.int64]:
    """The path that stays with one of the `members`.

    >>> constant("source", rounds=3).tolist(), constant("teacher", rounds=2, members=NETWORK_MEMBERS).tolist()
    ([1, 1, 1], [3, 3])
    """
    places = {name: place for place, name in enumerate(members)}
    return np.full(require_whole("constant", "rounds", rounds), lookup("constant", "member", member, places))


def bound(
    path: ArrayLike, *, rate: float, floor: float, with_source: bool = True, members: Sequence[str] = MEMBERS
) -> Bound:
    """The most by which the guard's expected loss exceeds that of `path`, the places in `members` of e_1, ..., e_T.

    `rate` is the budget's and `floor` is c, the least probability of a query. Its terms are 1 / c times

    - start: ln 1/pi(e_1);
    - changes: ln 1/(rho pi(e_t)) for each t with e_t != e_{t-1};
    - staying: ln 1/(1 - rho (1 - pi(e_t))) for each other t > 1.

    >>> source_alone = bound([1, 1, 1], rate=0.05, floor=0.025)
    >>> source_alone.terms["changes"], source_alone.value > bound([0, 0, 0], rate=0.05, floor=0.025).value
    (0.0, True)
    """
    places = _path("bound", path, members)
    rule = "rate is the budget's share of rounds: a number above 0, and at most 1."
    rate = require_number("bound", "rate", rate, lambda v: 0.0 < v <= 1.0, rule)
    floor = require_rate("bound", "floor", floor)
    prior, rho = priors(with_source=with_source, members=members), GUARD_SHARE * rate
    failed = []
    if floor == 0.0:
        failed.append("The least probability of a query is 0, so no label counts; give the budget a floor.")
    if (prior[places] == 0.0).any():
        failed.append("The path passes through the source, but there is none; leave it out of the path.")
    if failed:
        return Bound(math.inf, {}, tuple(failed))
    changed = np.flatnonzero(np.diff(places)) + 1
    stayed = np.flatnonzero(np.diff(places) == 0) + 1
    terms = {
        "start": -math.log(prior[places[0]]) / floor,
        "changes": float(np.log(1.0 / (rho * prior[places[changed]])).sum()) / floor,
        "staying": float(np.log(1.0 / (1.0 - rho * (1.0 - prior[places[stayed]]))).sum()) / floor,
    }
    return Bound(sum(terms.values()), terms, ())


def lead_without_labels() -> float:
    """If no label has ever come and the source's likeliest class leads by more than this, it is the decision.

    The trusted member is then the source alone, at every level of doubt, and the guard is at its prior. With s the
    source's lead, the mixture prefers its class by at least (1 - GUARD_DOUBT) (s (pi_trusted mean(1 - DOUBTS) +
    pi_source) - the prior of the experts), since no expert can lead by more than 1.
    """
    prior = priors(with_source=True)
    heard = sum(1.0 - doubt for doubt in DOUBTS) / len(DOUBTS)
    return float(prior[2:].sum() / (prior[0] * heard + prior[1]))


def weights(run: GuardRun) -> Array:
    """Z_t min(1, c / p_t): the weight of each round's loss for the guard."""
    counted = np.zeros(len(run.guard))
    counted[run.asked] = np.minimum(1.0, run.floor / run.probability[run.asked])
    return counted


def regret(run: GuardRun, path: ArrayLike) -> Regret:
    """The guard against one path of members, with all labels known and from those asked for, beside its bound."""
    members = members_of(run)
    places = _path("regret", path, members)
    if len(places) != len(run.guard):
        raise reject("regret", "path", places.tolist(), f"give one member for each of the {len(run.guard)} rounds.")
    most = bound(places, rate=run.rate, floor=run.floor, with_source=run.with_source, members=members)
    if not most.holds:
        raise InputError(f"`regret(...)`: {' '.join(most.failed)}")
    behind = run.guard - run.members[np.arange(len(places)), places]
    allowed = np.minimum(1.0, run.probability / run.floor)
    return Regret(float(allowed @ behind), float(weights(run) @ behind) / run.floor, most)


def hardest_path(run: GuardRun) -> NDArray[np.int64]:
    """The path, among all N^T, with the largest `estimated` minus its bound: if the bound holds there, it always does.

    By dynamic programming (Viterbi): minimise the weighted losses plus the costs of starting, changing and staying.
    """
    prior, rho = priors(with_source=run.with_source, members=members_of(run)), GUARD_SHARE * run.rate
    with np.errstate(divide="ignore"):
        start, change, stay = (
            np.log(1.0 / prior),
            np.log(1.0 / (rho * prior)),
            np.log(1.0 / (1.0 - rho * (1.0 - prior))),
        )
    losses = weights(run)[:, None] * run.members
    cost, before = start + losses[0], np.zeros(losses.shape, dtype=np.int64)
    everyone = np.arange(len(prior))
    for t in range(1, len(losses)):
        cheapest = int(cost.argmin())
        switches = cost[cheapest] + change < cost + stay
        before[t] = np.where(switches, cheapest, everyone)
        cost = np.where(switches, cost[cheapest] + change, cost + stay) + losses[t]
    path = np.empty(len(losses), dtype=np.int64)
    path[-1] = cost.argmin()
    for t in range(len(losses) - 1, 0, -1):
        path[t - 1] = before[t, path[t]]
    return path


def play(
    state: Array, x: Array, labels: ArrayLike | Adversary, *, floor: float | None = None, seed: int = 0
) -> GuardRun:
    """Play the default learner from a state of `osamd.preset.state`; every label it asks for comes at once.

    `labels` holds the class of every row, or chooses it: see `Adversary`. The given state is not changed.
    """
    state = state.copy()
    work = open_work(state)
    arbiter, seen, sourced = parts_of(state).arbiter, work_of(work, state), bool(state[SOURCED] > 0.0)
    rate, floor = limits(float(state[RATE]), floor)
    allowed = budget.budget(rate, floor=floor)
    book, least = steering.open_book(allowed, sigma=1.0, query="margin"), budget.least(allowed)
    steering.hasten(book, on=not sourced)
    rounds = len(x)
    run = GuardRun(
        guard=np.empty(rounds),
        members=np.empty((rounds, len(MEMBERS))),
        wrong=np.empty(rounds, dtype=np.bool_),
        asked=np.empty(rounds, dtype=np.bool_),
        probability=np.empty(rounds),
        rate=rate,
        floor=least,
        classes=int(state[CLASSES]),
        with_source=sourced,
    )
    for t, u in enumerate(query_generator(seed).random(rounds).tolist()):
        sigma, lowest, _ = books.terms(book)
        opinion = observe(state, work, x[t], u, sigma, lowest)
        if opinion.label < 0:
            raise reject("play", "x", x[t].tolist(), f"row {t} does not fit the state, or is not finite.")
        y = labels(arbiter, seen) if callable(labels) else int(np.asarray(labels)[t])
        run.guard[t], run.members[t] = -math.log(seen.mixture[y]), member_losses(seen, y)
        run.wrong[t], run.asked[t], run.probability[t] = opinion.label != y, opinion.query, opinion.probability
        steering.enter(book, opinion.margin**POWER, opinion.probability, opinion.query)
        weight = min(1.0, least / opinion.probability) if opinion.query else 0.0
        learn(state, work, opinion.pseudolabel, y if opinion.query else UNLABELLED, weight)
    return run


def member_losses(seen: Any, y: int) -> Array:
    """The loss of every member on the label, as the guard uses it; `seen` is that of `osamd.preset.arbiter.consult`."""
    classes = seen.mixture.shape[0]
    shares = [seen.trusted[y], seen.source[y], *seen.shares[y::classes]]
    return np.array([-math.log(doubted(share, GUARD_DOUBT, classes)) for share in shares])


def members_of(run: GuardRun) -> Sequence[str]:
    """The members that played, of a linear model or of a network."""
    return NETWORK_MEMBERS if run.members.shape[1] == len(NETWORK_MEMBERS) else MEMBERS


def _path(call: str, path: ArrayLike, members: Sequence[str]) -> NDArray[np.int64]:
    places = np.asarray(path)
    if places.ndim != 1 or not len(places) or places.dtype.kind not in "iu":
        raise reject(
            call, "path", path, "give the place of one member for each round; constant('source', T) makes one."
        )
    if places.min() < 0 or places.max() >= len(members):
        raise reject(call, "path", path, f"its places must lie between 0 and {len(members) - 1}, those of the members.")
    return places.astype(np.int64)
