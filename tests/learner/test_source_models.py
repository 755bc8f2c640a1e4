"""Any fitted scikit-learn classifier as the source: it decides at first, stays as it is, and is given again at load."""

import numpy as np
import pytest

import osamd
from osamd.errors import InputError

pytest.importorskip("sklearn")
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def rings(count, seed, names=("in", "out")):
    """Two classes that no line separates."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    angle = rng.uniform(0, 2 * np.pi, count)
    x = (1.0 + 2.0 * y)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.normal(size=(count, 2))
    return x, np.array(names)[y]


X, Y = rings(400, 0)
FOREST = RandomForestClassifier(20, random_state=0).fit(X, Y)


def played(learner, x, y):
    right = 0
    for row, label in zip(x, y, strict=True):
        decision = learner.ask(row)
        right += decision.label == label
        learner.tell(decision, label if decision.query else None)
    return right / len(y)


@pytest.mark.parametrize(
    "model",
    [FOREST, make_pipeline(StandardScaler(), KNeighborsClassifier()), RidgeClassifier()],
    ids=lambda model: type(model).__name__,
)
def test_without_labels_the_learner_decides_as_its_source_does(model):
    model = model if model is FOREST else model.fit(X, Y)
    learner = osamd.OSAMD(source=model, budget=0.05)
    assert learner.classes == ["in", "out"]
    x, _ = rings(60, 1)
    assert [learner.ask(row).label for row in x] == model.predict(x).tolist()
    assert learner.predict(x).tolist() == model.predict(x).tolist()


def test_the_source_stays_and_the_learner_leaves_it_when_the_labels_speak_against_it():
    x, y = rings(1200, 2)
    still = osamd.OSAMD(source=FOREST, budget=0.1)
    assert played(still, x, y) > 0.95
    assert still.gain().value <= 0.05
    before = FOREST.predict_proba(x)
    turned = osamd.OSAMD.from_source(X, Y, source=FOREST, budget=0.1)
    swapped = np.where(y == "in", "out", "in")
    played(turned, x, swapped)
    later, labels = rings(300, 3)
    assert np.mean(turned.predict(later) != labels) > 0.8
    assert np.array_equal(FOREST.predict_proba(x), before)


def test_it_is_saved_without_the_model_which_load_needs_again(tmp_path):
    learner = osamd.OSAMD.from_sklearn(FOREST, budget=0.2)
    x, y = rings(200, 4)
    played(learner, x, y)
    learner.save(tmp_path / "learner.osamd")
    assert b"sklearn" not in (tmp_path / "learner.osamd").read_bytes()
    with pytest.raises(InputError, match=r"a RandomForestClassifier model, which is not in the file; .*source=model"):
        osamd.OSAMD.load(tmp_path / "learner.osamd")
    other = RandomForestClassifier(5, random_state=1).fit(X, Y[::-1])
    with pytest.raises(InputError, match="another model than the one that the learner was saved with"):
        osamd.OSAMD.load(tmp_path / "learner.osamd", source=other)
    again = osamd.OSAMD.load(tmp_path / "learner.osamd", source=FOREST)
    more, labels = rings(100, 5)
    assert played(again, more, labels) == played(learner, more, labels)
    assert np.array_equal(again.predict_proba(more), learner.predict_proba(more))
    assert np.array_equal(learner.copy().predict_proba(more), learner.predict_proba(more))
    small = again.from_state(learner.to_state())
    assert np.array_equal(small.predict_proba(more), learner.predict_proba(more))


def test_new_classes_and_late_labels_are_taken_in():
    learner = osamd.OSAMD(source=FOREST, budget=1.0)
    first = learner.ask([9.0, 9.0])
    second = learner.ask([0.0, 1.0])
    learner.tell(first, "far")
    learner.tell(second, "in")
    assert learner.classes == ["in", "out", "far"]
    again = osamd.OSAMD.from_bytes(learner.to_bytes(), source=FOREST)
    assert again.predict_proba([9.0, 9.0]) == learner.predict_proba([9.0, 9.0])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"source": RandomForestClassifier()}, "it is no fitted classifier"),
        ({"source": "forest"}, "it is no fitted classifier"),
        ({"source": FOREST, "method": "osamd"}, "only the default learner has a source model"),
        ({"source": FOREST, "classes": ["in", "of"]}, "the model knows the class 'out'"),
    ],
)
def test_what_cannot_be_a_source_is_refused(settings, words):
    with pytest.raises(InputError, match=words):
        osamd.OSAMD(**settings)


def test_a_learner_without_a_source_model_is_not_given_one():
    saved = osamd.OSAMD.from_sklearn(LogisticRegression().fit(X, Y)).to_bytes()
    assert osamd.OSAMD.from_bytes(saved).classes == ["in", "out"]
    with pytest.raises(InputError, match="saved without a source model"):
        osamd.OSAMD.from_bytes(saved, source=FOREST)


def test_samples_that_do_not_fit_are_refused_as_without_a_source():
    learner = osamd.OSAMD(source=FOREST)
    with pytest.raises(InputError, match="the model takes 2"):
        learner.ask([1.0])
    with pytest.raises(InputError, match="finite"):
        learner.ask([1.0, np.nan])


def test_such_a_learner_is_no_fixed_graph(tmp_path):
    pytest.importorskip("onnx")
    from osamd.adapters.onnx import export

    with pytest.raises(InputError, match="its source is a model of its own"):
        export(osamd.OSAMD(source=FOREST), tmp_path / "learner.onnx")
