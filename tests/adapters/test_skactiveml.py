"""The margin query and its budget in scikit-activeml's own stream loop."""

import pickle
from collections import deque

import numpy as np
import pytest
from skactiveml.classifier import ParzenWindowClassifier, SklearnClassifier
from skactiveml.stream import StreamProbabilisticAL, VariableUncertainty
from skactiveml.utils import call_func
from sklearn.base import clone

from osamd import OSAMD
from osamd.adapters.skactiveml import MarginQuery, OSAMDBudgetManager, margin_of, utility_of
from osamd.adapters.sklearn import OSAMDClassifier
from osamd.errors import InputError
from osamd.streams import rotating_gaussian

BUDGET = 0.1


def drifting(rounds, seed=2):
    x, y = zip(*rotating_gaussian(rounds).blocks(seed), strict=True)
    return np.concatenate(x) / 10.0, np.concatenate(y)


def played(strategy, clf, x, y, learn):
    """The loop of scikit-activeml's stream tutorial: which samples were asked for, and which decided rightly."""
    asked, right = [], []
    for row, label in zip(x, y, strict=True):
        candidate = row.reshape([1, -1])
        right.append(clf.predict(candidate)[0] == label)
        sampled, utilities = call_func(
            strategy.query, candidates=candidate, clf=clf, return_utilities=True, fit_clf=False
        )
        call_func(
            strategy.update,
            candidates=candidate,
            queried_indices=sampled,
            budget_manager_param_dict={"utilities": utilities},
        )
        asked.append(len(sampled) > 0)
        learn(clf, candidate, label if asked[-1] else clf.missing_label)
    return np.array(asked), np.array(right)


def partial_fit(clf, candidate, label):
    clf.partial_fit(candidate, np.array([label]))


def osamd_classifier(**given):
    return SklearnClassifier(OSAMDClassifier(**given), classes=[0, 1], include_unlabeled_samples=True)


def test_the_tutorial_loop_keeps_the_budget_and_follows_the_drift():
    x, y = drifting(800)
    clf = osamd_classifier().partial_fit(x[:10], y[:10].astype(float))
    asked, right = played(MarginQuery(budget=BUDGET, random_state=0), clf, x[10:], y[10:], partial_fit)
    assert (np.cumsum(asked) <= BUDGET * np.arange(1, len(asked) + 1)).all()
    assert asked.mean() > 0.9 * BUDGET
    assert right[200:].mean() > 0.9


@pytest.mark.parametrize("given", [{"method": "osamd-preset"}, {"method": "osamd", "eta": 0.05, "sigma": 0.5}])
def test_the_loop_asks_as_the_learner_does_with_the_same_seed(given):
    x, y = drifting(600)
    manager = OSAMDBudgetManager(budget=BUDGET, floor=0.02, sigma=given.get("sigma", 1.0), random_state=3)
    clf = osamd_classifier(**given).fit(x[:20], y[:20])
    asked, _ = played(MarginQuery(budget_manager=manager), clf, x[20:], y[20:], partial_fit)
    plain = OSAMD.from_source(x[:20], y[:20], budget=BUDGET, floor=0.02, seed=3, **given)
    expected = []
    for row, label in zip(x[20:], y[20:].tolist(), strict=True):
        decision = plain.ask(row)
        plain.tell(decision, label if decision.query else None)
        expected.append(decision.query)
    if given["method"] == "osamd":
        assert asked.tolist() == expected
    else:  # the guard does not hear with which probability labels were asked for outside, so a tie may go the other way
        assert np.mean(asked == np.array(expected)) > 0.98


def test_it_asks_for_other_classifiers_too_by_their_probabilities():
    x, y = drifting(300)
    window = deque(zip(x[:20], y[:20], strict=True), maxlen=100)

    def refit(clf, candidate, label):
        window.append((candidate[0], label))
        clf.fit(np.array([row for row, _ in window]), np.array([label for _, label in window]))

    clf = ParzenWindowClassifier(classes=[0, 1], random_state=0).fit(x[:20], y[:20])
    asked, _ = played(MarginQuery(budget=0.2, random_state=0), clf, x[20:], y[20:], refit)
    assert (np.cumsum(asked) <= 0.2 * np.arange(1, len(asked) + 1)).all()
    assert asked.mean() > 0.15


def test_query_is_pure_and_update_counts():
    x, y = drifting(400)
    clf = osamd_classifier().partial_fit(x, y.astype(float))
    strategy = MarginQuery(budget=0.5, random_state=0)
    asked, utilities = strategy.query(x, clf, return_utilities=True)
    before = pickle.dumps(strategy)
    for _ in range(3):
        again, same = strategy.query(x, clf, return_utilities=True)
        assert again.tolist() == asked.tolist()
        assert same.tolist() == utilities.tolist()
    assert pickle.dumps(strategy) == before
    strategy.update(x, asked, budget_manager_param_dict={"utilities": utilities})
    assert strategy.query(x, clf).tolist() != asked.tolist()
    assert strategy.budget_manager_.book_.sum() != 0.0


def test_many_candidates_at_once_are_asked_as_one_after_the_other():
    utilities = np.random.default_rng(0).random(500)
    at_once, one_by_one = (OSAMDBudgetManager(budget=0.2, random_state=5) for _ in range(2))
    asked = at_once.query_by_utility(utilities)
    singly = []
    for i in range(500):
        here = one_by_one.query_by_utility(utilities[i : i + 1])
        one_by_one.update(np.zeros((1, 2)), here, utilities=utilities[i : i + 1])
        singly += [i] if len(here) else []
    at_once.update(np.zeros((500, 2)), asked, utilities=utilities)
    assert asked.tolist() == singly
    assert np.array_equal(at_once.book_, one_by_one.book_)
    assert 0.18 * 500 < len(asked) <= 0.2 * 500


def test_the_largest_number_of_labels_and_the_window_hold():
    utilities = np.random.default_rng(1).random(2000)
    assert len(OSAMDBudgetManager(budget=0.5, max_labels=7, random_state=0).query_by_utility(utilities)) == 7
    asked = np.zeros(2000)
    asked[OSAMDBudgetManager(budget=0.25, window=40, random_state=0).query_by_utility(utilities)] = 1.0
    assert np.convolve(asked, np.ones(40), "valid").max() <= 10


@pytest.mark.parametrize("strategy", [VariableUncertainty, StreamProbabilisticAL])
def test_other_strategies_may_spend_our_budget(strategy):
    x, y = drifting(300)
    clf = ParzenWindowClassifier(classes=[0, 1], random_state=0).fit(x[:50], y[:50])
    manager = OSAMDBudgetManager(budget=BUDGET, random_state=0)
    asked, _ = played(strategy(budget_manager=manager, random_state=0), clf, x[50:], y[50:], lambda *_: None)
    assert (np.cumsum(asked) <= BUDGET * np.arange(1, len(asked) + 1)).all()
    assert asked.sum() >= 15


def test_what_has_no_utility_is_never_asked_for_and_counts_as_a_sample():
    manager = OSAMDBudgetManager(budget=0.5, random_state=0)
    nothing = np.full(100, np.nan)
    assert len(manager.query_by_utility(nothing)) == 0
    manager.update(np.zeros((100, 1)), [], utilities=nothing)
    assert len(manager.query_by_utility(np.ones(20))) == 20


def test_update_before_any_query_counts_as_one_after_it():
    utilities = np.array([0.2, 0.6, 0.8, 0.9, 0.1])
    early, late = (OSAMDBudgetManager(budget=0.5, random_state=np.random.RandomState(0)) for _ in range(2))
    asked = late.query_by_utility(utilities)
    for manager in (early, late):
        manager.update(np.zeros((5, 1)), asked, utilities=utilities)
    assert early.query_by_utility(utilities).tolist() == late.query_by_utility(utilities).tolist()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"queried_indices": "string"}, IndexError),
        ({"queried_indices": [2]}, IndexError),
        ({"queried_indices": [0.5]}, IndexError),
        ({"candidates": None}, TypeError),
        ({"utilities": [0.5]}, InputError),
    ],
)
def test_an_update_that_cannot_be_used_counts_nothing(given, error):
    usual = {"candidates": [[0], [1]], "queried_indices": [0], "utilities": np.array([0.2, 0.8])}
    manager = OSAMDBudgetManager(random_state=0).update(**usual)
    before = pickle.dumps(manager)
    with pytest.raises(error):
        manager.update(**usual | given)
    assert pickle.dumps(manager) == before


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"random_state": "state"}, ValueError), ({"budget": 1.1}, ValueError), ({"budget": "state"}, TypeError)],
)
def test_settings_that_cannot_be_used_are_refused(settings, error):
    with pytest.raises(error):
        OSAMDBudgetManager(**settings).query_by_utility(np.array([0.5]))


@pytest.mark.parametrize("utilities", ["state", 0.0, [0.1]])
def test_utilities_must_be_an_array_as_for_other_managers(utilities):
    with pytest.raises(TypeError):
        OSAMDBudgetManager().query_by_utility(utilities)


def test_utilities_are_margins_seen_the_other_way_round():
    margin = np.array([0.0, 1e-3, 0.5, 2.0, 1e3])
    assert margin_of(utility_of(margin)) == pytest.approx(margin, rel=1e-9)


def test_strategy_and_manager_are_cloned_with_their_parameters():
    strategy = clone(MarginQuery(budget_manager=OSAMDBudgetManager(budget=0.3, window=50, sigma=2.0), random_state=4))
    assert strategy.get_params()["budget_manager__window"] == 50
    assert strategy.get_params()["random_state"] == 4


def test_what_cannot_be_used_is_refused():
    x, y = drifting(20)
    clf = osamd_classifier().partial_fit(x, y.astype(float))
    strategy = MarginQuery(random_state=0)
    with pytest.raises(InputError, match="pass them to the strategy as budget_manager_param_dict"):
        strategy.update(x, strategy.query(x, clf))
    with pytest.raises(ValueError, match="budget"):
        MarginQuery(budget=0.0).query(x, clf)
    with pytest.raises(TypeError, match="clf"):
        MarginQuery().query(x, OSAMDClassifier())
    with pytest.raises(InputError, match="no window may hold a label"):
        OSAMDBudgetManager(budget=0.02, window=10).query_by_utility(np.array([0.5]))
