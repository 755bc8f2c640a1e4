"""The scikit-learn adapter passes scikit-learn's own checks, and a missing label is an unlabelled round."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from osamd import OSAMD
from osamd.adapters.sklearn import OSAMDClassifier
from osamd.errors import InputError

pytestmark = pytest.mark.usefixtures("compiled_learners")


@parametrize_with_checks(
    [OSAMDClassifier(), OSAMDClassifier(method="osamd"), OSAMDClassifier(eta=0.05, standardise=True)]
)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def blobs(classes, rows=120, seed=3):
    x, y = make_blobs(rows, 3, centers=4.0 * np.eye(3)[:classes], cluster_std=0.7, random_state=seed)
    return x, y


MISSING = {
    "nan": lambda y, gone: np.where(gone, np.nan, y),
    "None": lambda y, gone: [None if g else int(v) for v, g in zip(y, gone, strict=True)],
    "-1": lambda y, gone: np.where(gone, -1, y),
    "nan among objects": lambda y, gone: np.array(
        [np.nan if g else int(v) for v, g in zip(y, gone, strict=True)], dtype=object
    ),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("given", [{}, {"eta": 0.1}], ids=["preset", "paper"])
@pytest.mark.parametrize("written", MISSING)
def test_a_missing_label_is_an_unlabelled_round_however_it_is_written(written, given, classes):
    x, y = blobs(classes)
    gone = np.random.default_rng(0).random(len(y)) < 0.8
    ours = OSAMDClassifier(random_state=5, **given)
    ours.partial_fit(x, MISSING[written](y, gone), classes=range(classes))
    plain = OSAMD(features=3, classes=range(classes), seed=5, **given)
    for row, label, absent in zip(x, y.tolist(), gone, strict=True):
        plain.tell(plain.ask(row), None if absent else label)
    assert ours.learner_.told == plain.told
    for row in x:
        assert ours.learner_.ask(row).score == pytest.approx(plain.ask(row).score, abs=0)


def test_fit_is_the_source_fit_of_the_labelled_rows_and_a_round_for_each_other_row():
    x, y = blobs(3)
    half = np.where(np.arange(len(y)) % 2, -1, y)
    ours = OSAMDClassifier(random_state=5).fit(x, half)
    plain = OSAMD.from_source(x[half >= 0], y[half >= 0].tolist(), classes=[0, 1, 2], seed=5)
    for row in x[half < 0]:
        plain.tell(plain.ask(row), None)
    assert ours.predict(x).tolist() == [plain.predict(row) for row in x]
    assert ours.learner_.rounds == (half < 0).sum()


def test_minus_one_is_a_class_where_it_is_declared_or_only_one_other_is_there():
    x, y = blobs(2)
    signs = 2 * y - 1
    assert OSAMDClassifier().fit(x, signs).classes_.tolist() == [-1, 1]
    assert OSAMDClassifier().partial_fit(x, signs, classes=[-1, 1]).score(x, signs) > 0.9
    assert OSAMDClassifier().partial_fit(x, signs, classes=[-1, 0, 1]).score(x, signs) > 0.9
    assert OSAMDClassifier().fit(x, np.where(np.arange(len(y)) % 2, -1, y)).classes_.tolist() == [0, 1]


def test_predicting_changes_nothing():
    x, y = blobs(3)
    model = OSAMDClassifier(random_state=1).fit(x, y)
    before = pickle.dumps(model)
    model.predict(x), model.predict_proba(x), model.decision_function(x)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("classes", [2, 3])
def test_a_pickled_model_goes_on_as_the_model_does(classes):
    x, y = blobs(classes)
    model = OSAMDClassifier(random_state=1).fit(x[:60], y[:60])
    again = pickle.loads(pickle.dumps(model))
    unlabelled = np.full(60, np.nan)
    for one in (model, again):
        one.partial_fit(x[60:], unlabelled)
    assert np.array_equal(model.decision_function(x), again.decision_function(x))
    assert model.learner_.rounds == again.learner_.rounds == 60


def test_a_grid_search_over_a_pipeline_runs_and_finds_a_good_model():
    x, y = blobs(3)
    pipeline = make_pipeline(StandardScaler(), OSAMDClassifier(random_state=0))
    found = GridSearchCV(pipeline, {"osamdclassifier__eta": [1e-3, 0.05]}, cv=3).fit(x, y)
    assert found.best_score_ > 0.9
    assert clone(found.best_estimator_)[-1].eta == found.best_params_["osamdclassifier__eta"]


def test_text_labels_come_back_as_text():
    x, y = blobs(2)
    words = np.array(["cat", "dog"], dtype=object)[y]
    words[::3], words[1::3] = None, np.nan
    for given in (words, words.tolist()):
        model = OSAMDClassifier().fit(x, given)
        assert set(model.predict(x)) == {"cat", "dog"}
        assert model.learner_.rounds == 80


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, x, y: m.partial_fit(x, y), "the first call must name all classes"),
        (lambda m, x, y: m.fit(x, np.zeros(len(y))), "y holds 1 class"),
        (lambda m, x, y: m.fit(x, np.full(len(y), np.nan)), "y holds 0 classes"),
        (lambda m, x, y: m.fit(x, y).partial_fit(x, y, classes=[0, 1, 2]), "fit starts from scratch"),
        (lambda m, x, y: m.fit(x, y).partial_fit(x, np.full(len(y), 7)), "7"),
        (lambda m, x, y: m.set_params(eta=-1.0).fit(x, y), "eta must be positive"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(call, said):
    with pytest.raises(InputError, match=said):
        call(OSAMDClassifier(), *blobs(2))


def test_a_label_outside_the_classes_leaves_the_model_as_it_was():
    x, y = blobs(2)
    model = OSAMDClassifier(random_state=0).fit(x, y)
    before = pickle.dumps(model)
    with pytest.raises(InputError):
        model.partial_fit(x[:2], [0, 7])
    assert pickle.dumps(model) == before


def test_scores_and_grids_leave_rows_without_a_label_out():
    from sklearn.model_selection import GridSearchCV

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    x = rng.normal(size=(300, 2)) + 3.0 * y[:, None]
    partly = np.where(rng.random(300) < 0.7, -1, y)
    model = OSAMDClassifier(standardise=True).fit(x, partly)
    assert model.score(x, partly) > 0.9
    grid = GridSearchCV(OSAMDClassifier(standardise=True), {"eta": [0.01, 0.1]}, cv=3).fit(x, partly)
    assert grid.best_score_ > 0.9


def test_the_learner_inside_keeps_the_budget():
    x, y = blobs(2)
    model = clone(OSAMDClassifier(budget=0.1, random_state=0)).fit(x, y)
    assert model.get_params()["budget"] == model.learner_.limits.rate == 0.1
    for row in x:
        model.learner_.tell(model.learner_.ask(row))
    assert 0 < model.learner_.asked <= 0.1 * len(x)


def test_measured_labels_are_refused():
    x, _ = blobs(2)
    with pytest.raises(ValueError, match="continuous"):
        OSAMDClassifier().fit(x, x[:, 0])
