"""Ask and tell: the paper's round without delay, the stated meaning with it."""

import numpy as np
import pytest

import osamd
from osamd.errors import InputError
from osamd.learner.linear import REACH
from osamd.paper.geometry import ball, signed_simplex
from osamd.paper.methods import KNOWN, METHODS, InnerLoops, Settings, learner
from osamd.paper.models import linear
from osamd.paper.play import play
from osamd.paper.scores import UNLABELLED
from osamd.streams import Arrays
from osamd.streams.base import query_generator

ROUNDS = 300


def samples(classes, rounds=ROUNDS, features=3, seed=0):
    """Classes whose centres wander."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rounds)
    turn = np.linspace(0.0, 2.0, rounds)[:, None]
    centres = np.eye(max(classes, features))[:classes, :features] * 2.0
    return rng.normal(size=(rounds, features)) * 0.7 + centres[y] + np.sin(turn), y


KINDS = {
    "flat": {},
    "inner loops and an L2 term": {"adaptation": InnerLoops(3, 0.1), "l2": 0.01},
    "ball": {"geometry": ball(2.0)},
    "signed simplex": {"geometry": signed_simplex(3.0)},
    "logistic": {"loss": "logistic"},
}


def plain_learner(classes, method, kind, features=3):
    """The plain learner with the same settings as `osamd.OSAMD(...)`."""
    held = osamd.OSAMD(features=features, classes=classes, method=method, label_rate=0.2, sigma=0.3, **KINDS[kind])
    settings = Settings(
        eta=REACH / (features + 1),
        sigma=0.3,
        loss=held._recipe.settings.loss,
        geometry=held._recipe.settings.geometry,
        adaptation=held._recipe.settings.adaptation,
        label_rate=0.2,
    )
    return learner(method, linear(features, classes, signed=settings.geometry.signed), settings)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("classes", "kind"), [(2, kind) for kind in KINDS] + [(4, "flat"), (4, "ball")])
def test_without_delay_it_is_the_plain_round(classes, kind, method):
    x, y = samples(classes)
    ledger, state = play(plain_learner(classes, method, kind), Arrays(x, y.tolist(), classes=range(classes)), seed=5)
    held = osamd.OSAMD(features=3, classes=classes, method=method, label_rate=0.2, sigma=0.3, seed=5, **KINDS[kind])
    for t, (row, label) in enumerate(zip(x, y.tolist(), strict=True)):
        decision = held.ask(row)
        assert (decision.id, decision.label, decision.pseudolabel, decision.query) == (
            t,
            ledger.decision[t],
            ledger.pseudolabel[t],
            ledger.asked[t],
        )
        assert decision.probability == pytest.approx(ledger.probability[t], rel=1e-12)
        held.tell(decision, label if decision.query else None)
    model = plain_learner(classes, method, kind).model
    np.testing.assert_allclose(held.teacher_weights, model.weights(state.teacher), atol=1e-12)
    assert held.asked == ledger.asked.sum() == held.told
    assert held.rounds == ROUNDS


def delays(kind, rounds, rng):
    """When the label of each round comes, as a round number; never is beyond all."""
    asked = np.arange(rounds)
    return {
        "none": asked,
        "fixed": asked + 20,
        "random": asked + rng.geometric(0.05, rounds),
        "bursty": (asked // 50 + 1) * 50,
        "lost": np.where(rng.random(rounds) < 0.3, 10**9, asked + 5),
    }[kind]


@pytest.mark.parametrize("kind", ["none", "fixed", "random", "bursty", "lost"])
@pytest.mark.parametrize("classes", [2, 3])
def test_under_delay_it_is_the_round_played_when_the_label_comes(kind, classes):
    """The simulator below states the meaning in full, with the plain round alone."""
    x, y = samples(classes)
    due = delays(kind, ROUNDS, np.random.default_rng(1))
    plain = plain_learner(classes, "osamd", "flat")
    (observe, learn), state, rates = plain.round, plain.state, plain.rates
    uniforms = query_generator(5).random(ROUNDS)
    held = osamd.OSAMD(features=3, classes=classes, sigma=0.3, seed=5, expire_after=100)
    waiting: dict[int, object] = {}

    def second_half(state, t, label):
        row = plain.model.augment(x[t : t + 1])[0]
        state = learn(state, row, observe(state, row, 1.0, rates), label, rates)
        waiting.pop(t, None)
        return state

    def told(state, now, t, label):
        state = second_half(state, t, label)
        for old in [old for old in waiting if now - old > 100]:
            state = second_half(state, old, UNLABELLED)
        return state

    for t in range(ROUNDS):
        row = plain.model.augment(x[t : t + 1])[0]
        said = observe(state, row, uniforms[t], rates)
        decision = held.ask(x[t])
        assert (decision.label, decision.query) == (said.label, said.query)
        if said.query:
            waiting[t] = decision
        else:
            state = told(state, t, t, UNLABELLED)
            held.tell(decision, None)
        for s in [s for s in waiting if due[s] <= t]:
            held.tell(waiting[s] if s % 2 else s, int(y[s]))
            state = told(state, t, s, int(y[s]))
    assert [decision.id for decision in held.pending] == sorted(waiting)
    np.testing.assert_allclose(held.weights, state.student, atol=1e-12)
    assert held.told + held.expired + len(waiting) == held.asked
    assert held.expired > 0 or kind != "lost"


@pytest.mark.parametrize("method", KNOWN)
def test_asking_changes_nothing_in_the_model(method):
    held = osamd.OSAMD(features=3, method=method, **({} if method == "omd-all" else {"budget": 0.5}))
    x, _ = samples(2)
    held.tell(held.ask(x[0]), 1)
    before = held.weights, held.teacher_weights, held.predict(x[5])
    for row in x[:20]:
        held.ask(row)
    after = held.weights, held.teacher_weights, held.predict(x[5])
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("method", ["osamd-preset", "osamd"])
def test_predicting_counts_and_draws_nothing_and_is_what_ask_would_say(method):
    x, y = samples(3)
    one, other = (osamd.OSAMD(features=3, classes=3, method=method, budget=0.3, seed=2) for _ in range(2))
    for row, label in zip(x, y.tolist(), strict=True):
        first = one.ask(row)
        predicted, shares, peeked = other.predict(row), other.predict_proba(row), other.peek(row)
        assert (predicted, shares) == (first.label, first.probabilities)
        assert (peeked.margin, peeked.probability, peeked.query) == (first.margin, first.probability, False)
        assert sum(shares.values()) == pytest.approx(1.0)
        second = other.ask(row)
        other.predict(-row)
        assert (second.query, second.margin) == (first.query, first.margin)
        one.tell(first, label if first.query else None)
        other.tell(second, label if second.query else None)
    assert np.array_equal(one.weights, other.weights)
    assert one.rounds == other.rounds == ROUNDS


def test_a_label_that_was_not_asked_for_teaches_and_is_not_counted():
    held = osamd.OSAMD(features=3, sigma=1e-9, start=[1.0, 0.0, 0.0, 0.0])
    decision = held.ask([1.0, 0.0, 0.0])
    assert not decision.query
    before = held.teacher_weights
    held.tell(decision, 0)
    assert not np.array_equal(before, held.teacher_weights)
    assert held.asked == held.told == held.accuracy().labels == 0


def test_from_nothing_it_begins_to_ask_and_meets_classes_one_by_one():
    x, y = samples(4, rounds=600, features=4)
    held = osamd.OSAMD(classes=["a", "b", "c", "d"], sigma=1.0)
    order = np.argsort(y[:200], kind="stable")  # the classes come one after the other at first
    x[:200], y[:200] = x[:200][order], y[:200][order]
    assert held.ask(x[0]).probability == 1.0
    right = 0
    for t, (row, label) in enumerate(zip(x, y.tolist(), strict=True)):
        decision = held.ask(row)
        right += t >= 400 and decision.label == "abcd"[label]
        held.tell(decision, "abcd"[label] if decision.query else None)
    assert right / 200 > 0.8


def test_running_standardisation_makes_scale_and_shift_irrelevant():
    x, y = samples(2)
    scale, shift = np.array([1e-3, 1.0, 1e4]), np.array([5.0, -100.0, 1e6])
    plain, moved = (osamd.OSAMD(features=3, standardise=True, budget=0.3) for _ in range(2))
    for row, label in zip(x, y.tolist(), strict=True):
        one, other = plain.ask(row), moved.ask(row * scale + shift)
        assert one.margin == pytest.approx(other.margin, abs=1e-5)
        plain.tell(one, label if one.query else None)
        moved.tell(other, label if other.query else None)
    statistics = plain._core._statistics
    np.testing.assert_allclose(statistics[1:4], x.mean(axis=0))
    np.testing.assert_allclose(statistics[4:7] / ROUNDS, x.var(axis=0))


def test_a_feature_that_never_varies_does_no_harm():
    held = osamd.OSAMD(features=2, standardise=True, sigma=1.0)
    for t in range(50):
        held.tell(held.ask([7.0, float(t % 2)]), t % 2)
    assert held.weights[0] == 0.0
    assert held.predict([7.0, 1.0]) == 1


def test_late_labels_of_standardised_features_use_the_sample_as_it_came():
    held = osamd.OSAMD(features=1, standardise=True, sigma=1.0)
    first, _second = held.ask([10.0]), held.ask([20.0])
    held.tell(first, 1)
    assert held._core._statistics[1] == 10.0


def test_starting_from_source_data_knows_the_classes_and_the_names():
    import_pandas = pytest.importorskip("pandas")
    x, y = samples(3, features=4)
    names = ["north", "east", "south", "west"]
    frame = import_pandas.DataFrame(x, columns=names)
    held = osamd.OSAMD.from_source(frame, np.array(["red", "green", "blue"])[y], budget=0.1, standardise=True)
    assert held.classes == ["blue", "green", "red"]
    assert held.features == names
    as_row, as_dict = held.predict(frame.iloc[3]), held.predict(dict(zip(names, x[3].tolist(), strict=True)))
    assert as_row == as_dict == held.predict(x[3])
    right = np.mean([held.predict(row) == ["red", "green", "blue"][label] for row, label in zip(x, y, strict=True)])
    assert right > 0.8


def test_a_fitted_linear_model_of_scikit_learn_is_taken_over():
    models = pytest.importorskip("sklearn.linear_model")
    for classes in (2, 4):
        x, y = samples(classes)
        model = models.LogisticRegression().fit(x, y)
        held = osamd.OSAMD.from_sklearn(model, sigma=0.1)
        scores = model.decision_function(x)
        # eta is small: the decision after adapting to the pseudolabel is the model's own
        agree = np.mean([held.predict(row) == label for row, label in zip(x, model.predict(x), strict=True)])
        assert agree > 0.99
        margin = abs(scores[0]) if classes == 2 else np.diff(np.sort(scores[0]))[-1]
        assert held.ask(x[0]).margin == pytest.approx(margin)


def test_source_data_of_any_scale_and_offset_is_fitted():
    x, y = samples(2, rounds=600)
    moved = x * [1e-4, 1.0, 1e6] + [300.0, -1e4, 1e9]
    right = []
    for rows in (x, moved):
        held = osamd.OSAMD.from_source(rows, y)
        right.append(np.mean([held.predict(row) == label for row, label in zip(rows, y, strict=True)]))
    assert right[1] == pytest.approx(right[0], abs=0.02)


def test_what_is_no_linear_model_is_refused():
    with pytest.raises(InputError, match="coef_"):
        osamd.OSAMD.from_sklearn(object())
