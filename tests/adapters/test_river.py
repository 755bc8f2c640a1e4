"""The River adapters pass River's own checks, grow with features and classes, and keep the budget in River's loop."""

import copy
import pickle

import numpy as np
import pytest
from river import checks, datasets, evaluate, metrics, preprocessing, stream

from osamd import OSAMD
from osamd.adapters.river import OSAMDActive, OSAMDClassifier
from osamd.errors import InputError

pytestmark = pytest.mark.usefixtures("compiled_learners")

MODELS = {
    "classifier": OSAMDClassifier(),
    "classifier of the paper": OSAMDClassifier(method="osamd"),
    "pipeline": preprocessing.StandardScaler() | OSAMDClassifier(eta=0.01),
    "active": OSAMDActive(OSAMDClassifier(budget=0.3)),
    "active pipeline": OSAMDActive(preprocessing.StandardScaler() | OSAMDClassifier(max_labels=50)),
}
CHECKS = [
    pytest.param(model, check, id=f"{name}-{i}-{check.__name__}")
    for name, model in MODELS.items()
    for i, check in enumerate(checks.yield_checks(model))
]


@pytest.mark.parametrize(("model", "check"), CHECKS)
def test_rivers_own_checks_pass(model, check):
    assert check.__name__ not in model._unit_test_skips()
    check(model.clone())


def samples(rounds=200, features=8, classes=("no", "yes"), seed=4):
    rng = np.random.default_rng(seed)
    centres = 1.5 * rng.normal(size=(len(classes), features))
    for y in rng.integers(0, len(classes), rounds).tolist():
        row = centres[y] + rng.normal(size=features)
        yield {f"f{i}": float(value) for i, value in enumerate(row)}, classes[y]


def rows_of(pairs):
    return [(np.array(list(x.values())), y) for x, y in pairs]


@pytest.mark.parametrize("method", [None, "osamd"])
def test_two_classes_are_learned_as_if_they_had_been_declared(method):
    pairs = [(x, y if t % 3 else None) for t, (x, y) in enumerate(samples())]
    first, second = list(dict.fromkeys(y for _, y in pairs if y is not None))
    ours, plain = OSAMDClassifier(method=method), OSAMD(features=8, classes=[second, first], method=method)
    for (x, y), (row, _) in zip(pairs, rows_of(pairs), strict=True):
        ours.learn_one(x, y)
        plain.tell(plain.ask(row), y)
        if set(ours.predict_proba_one(x)) == {first, second}:
            assert ours.predict_proba_one(x) == plain.predict_proba(row)


@pytest.mark.parametrize("given", [{}, {"eta": 0.05}], ids=["preset", "paper"])
def test_features_that_come_and_go_are_zeros_where_they_are_not(given):
    rng = np.random.default_rng(1)
    names = [f"word {i}" for i in range(60)]
    ours, plain = OSAMDClassifier(**given), OSAMD(features=60, classes=["ham", "spam"], **given)
    ours.learn_one({}, "spam")
    plain.tell(plain.ask(np.zeros(60)), "spam")
    for t in range(300):
        row = np.where(rng.random(60) < 0.1, rng.normal(size=60), 0.0) * (np.arange(60) < 5 + t)
        y = ["ham", "spam"][int(row.sum() > 0)]
        ours.learn_one({name: value for name, value in zip(names, row, strict=True) if value}, y)
        plain.tell(plain.ask(row), y)
    x = dict(zip(names, rng.normal(size=60).tolist(), strict=True))
    # The preset's trees draw their splits among all columns, of which the growing model has spare ones.
    near = 1e-9 if given else 0.05
    assert ours.predict_proba_one(x) == pytest.approx(plain.predict_proba(list(x.values())), abs=near)
    assert ours.predict_proba_one(x | {"never seen": 7.0}) == ours.predict_proba_one(x)


@pytest.mark.parametrize("method", ["osamd", "paa"])
def test_a_third_class_leaves_the_first_two_scored_against_each_other_as_before(method):
    model = OSAMDClassifier(method=method)
    for x, y in samples(50):
        model.learn_one(x, y)
    before, teacher = model.learner.weights, model.learner.teacher_weights
    model._named("maybe")
    for old, new in ((before, model.learner.weights), (teacher, model.learner.teacher_weights)):
        assert np.array_equal(new[1] - new[0], old)
        assert not new[2].any()
    assert model.learner.rounds == 50


@pytest.mark.parametrize("method", [None, "osamd"])
def test_many_classes_that_come_one_by_one_are_learned(method):
    pairs = list(samples(600, classes="abcdef"))
    model, right = OSAMDClassifier(method=method), 0
    for t, (x, y) in enumerate(pairs):
        right += t >= 300 and model.predict_one(x) == y
        model.learn_one(x, y)
    assert right > 0.85 * 300
    assert set(model.predict_proba_one(pairs[0][0])) == set("abcdef")


def test_predicting_changes_nothing():
    model = OSAMDClassifier()
    for x, y in samples(30):
        model.learn_one(x, y)
    before = pickle.dumps(model)
    model.predict_one(x), model.predict_proba_one(x | {"new": 1.0})
    assert pickle.dumps(model) == before


def test_a_prediction_before_any_label_is_none():
    model = OSAMDClassifier()
    assert model.predict_one({"a": 1.0}) is None
    model.learn_one({"a": 1.0}, None)
    model.learn_one({"a": 1.0}, float("nan"))
    assert model.predict_one({"a": 1.0}) is None
    model.learn_one({"a": 1.0}, "first")
    assert model.predict_proba_one({"a": -1.0}) == {"first": 1.0}


def test_the_active_model_asks_as_the_learner_does_with_the_same_seed():
    pairs = list(samples(400))
    ours = OSAMDActive(OSAMDClassifier(budget=0.2, seed=7))
    asked = []
    for x, y in pairs:
        asked.append(ours.predict_one(x)[1])
        if asked[-1]:
            ours.learn_one(x, y)
    first, second = dict.fromkeys(y for (_, y), ask in zip(pairs, asked, strict=True) if ask)
    plain = OSAMD(features=8, classes=[second, first], budget=0.2, seed=7)
    for (row, y), ask in zip(rows_of(pairs), asked, strict=True):
        decision = plain.ask(row)
        assert decision.query == ask
        plain.tell(decision, y if ask else None)
    assert ours.classifier.learner.asked == plain.asked > 60
    assert ours.classifier.learner.accuracy() == plain.accuracy()


@pytest.mark.parametrize("delay", [None, 25])
@pytest.mark.parametrize("method", [None, "osamd"])
def test_progressive_validation_counts_the_labels_and_the_budget_holds_throughout(method, delay):
    model = OSAMDActive(preprocessing.StandardScaler() | OSAMDClassifier(budget=0.2, method=method))
    metric = metrics.Accuracy()
    steps = evaluate.iter_progressive_val_score(datasets.Phishing(), model, metric, delay=delay)
    used = [step["Samples used"] for step in steps]
    assert len(used) == 1250
    assert all(labels <= 0.2 * (t + 1 + (delay or 0)) for t, labels in enumerate(used))
    assert used[-1] > 0.9 * 0.2 * 1250
    assert metric.get() > 0.8
    learner = model.classifier["OSAMDClassifier"].learner
    assert (learner.rounds, learner.told, learner.pending) == (1250, used[-1], [])


@pytest.mark.parametrize("model", [OSAMDClassifier(), preprocessing.StandardScaler() | OSAMDClassifier(eta=0.03)])
def test_progressive_validation_of_the_plain_classifier_takes_every_label(model):
    assert evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy()).get() > 0.85


@pytest.mark.parametrize("given", [{"budget": 0.9}, {"sigma": 1.0}], ids=["preset", "paper"])
def test_late_labels_find_their_samples_while_the_model_grows(given):
    model = OSAMDActive(OSAMDClassifier(**given))
    waiting = []
    for t, (x, y) in enumerate(samples(120, classes="abc")):
        grown = {f"{name}/{t // 10}": value for name, value in x.items()}
        if model.predict_one(grown)[1]:
            waiting.append((grown, y))
        if len(waiting) > 20:
            model.learn_one(*waiting.pop(0))
    learner = model.classifier.learner
    assert len(learner.pending) == len(waiting)
    for x, _ in waiting[:-1]:
        model.learn_one(x, None)
    assert len(learner.pending) == 1
    assert learner.told + learner.expired + 1 == learner.asked


def test_a_pickled_active_model_goes_on_as_the_model_does():
    pairs = list(samples(100))
    model = OSAMDActive(OSAMDClassifier(budget=0.5))
    for x, _ in pairs[:50]:
        model.predict_one(x)
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        for x, y in pairs[:50]:
            one.learn_one(x, y)
    for x, _ in pairs[50:]:
        assert model.predict_proba_one(x) == again.predict_proba_one(x)


def test_features_may_come_from_river_streams_of_arrays():
    x, y = np.eye(4), [0, 1, 0, 1]
    model = OSAMDClassifier()
    for row, label in stream.iter_array(x, y):
        model.learn_one(row, label)
    assert [model.predict_one(row) for row, _ in stream.iter_array(x)] == y


def test_what_cannot_be_used_is_refused_in_one_sentence():
    with pytest.raises(InputError, match="feature 'colour' holds the text 'red'"):
        OSAMDClassifier().learn_one({"colour": "red"}, 1)
    with pytest.raises(InputError, match="must be finite"):
        OSAMDClassifier().learn_one({"size": float("nan")}, 1)
    with pytest.raises(InputError, match="eta must be positive"):
        OSAMDClassifier(eta=-1.0).learn_one({"size": 1.0}, 1)
    with pytest.raises(InputError, match="a pipeline that ends in one"):
        OSAMDActive(preprocessing.StandardScaler())
    with pytest.raises(InputError, match="call ask_one first"):
        OSAMDClassifier().learn_one({"size": 1.0}, 1, decision=0)


def test_rivers_metrics_take_what_is_predicted_for_a_label():
    active = OSAMDActive(OSAMDClassifier(budget=0.5))
    label, ask = active.predict_one({"a": 1.0})
    assert (label, type(ask)) == (None, bool)
    plain, by_hand, taken_apart = OSAMDClassifier(), metrics.Accuracy(), metrics.Accuracy()
    for t in range(200):
        x, y = {"a": float(t % 2), "b": 1.0}, bool(t % 2)
        predicted = active.predict_one(x)
        by_hand.update(y, predicted)
        taken_apart.update(y, predicted[0])
        if predicted[1]:
            active.learn_one(x, y)
        plain.learn_one(x, y)
        assert not isinstance(plain.predict_one(x), tuple)
    assert by_hand.get() == taken_apart.get() > 0.9
    assert copy.deepcopy(predicted) == predicted == predicted[0]
    rows = [({"a": float(t % 2)}, ["no", "yes"][t % 2]) for t in range(300)]
    found = evaluate.progressive_val_score(
        rows, preprocessing.StandardScaler() | OSAMDActive(OSAMDClassifier(budget=0.5)), metrics.Accuracy()
    )
    assert found.get() > 0.9


def test_a_measured_label_is_refused():
    with pytest.raises(InputError, match=r"`learn_one\(y=0.37\)`: .* cut a measured number into ranges"):
        OSAMDClassifier().learn_one({"a": 1.0}, 0.37)
