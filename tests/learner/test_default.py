"""Nothing but a budget: without a method it is the preset, and a setting of the paper's rounds means the paper's."""

import inspect

import numpy as np
import pytest

import osamd
from osamd.adapters import river as river_adapter
from osamd.adapters import sklearn as sklearn_adapter
from osamd.errors import InputError
from osamd.paper.geometry import ball
from osamd.paper.methods import KNOWN, OF_THE_PAPER, InnerLoops, experiments_step, method_name

GIVEN = {
    "eta": 0.1,
    "sigma": 1.0,
    "loss": "hinge",
    "l2": 0.0,
    "geometry": ball(2.0),
    "teacher": experiments_step(),
    "adaptation": InnerLoops(3, 0.1),
    "label_rate": 0.2,
    "standardise": False,
}
OTHERS = {
    "budget": 0.1,
    "max_labels": 9,
    "floor": 0.01,
    "window": 50,
    "seed": 3,
    "expire_after": 7,
    "start": [0.0, 1.0, 0.5],
}


def samples(rounds=1500, classes=3, seed=0):
    """Classes whose centres wander, as dictionaries of features of unlike scales."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rounds)
    x = rng.normal(size=(rounds, 3)) * 0.6 + 2.0 * np.eye(3)[y] + np.linspace(0.0, 2.0, rounds)[:, None]
    return [dict(zip("abc", row, strict=True)) for row in (x * [1.0, 1e4, 1e-3]).tolist()], y.tolist()


def played(learner, x, y):
    right = []
    for row, label in zip(x, y, strict=True):
        decision = learner.ask(row)
        right.append(decision.label == label)
        learner.tell(decision, label if decision.query else None)
    return np.array(right)


def test_nothing_but_a_budget_is_the_preset_bit_for_bit():
    x, y = samples()
    one, named = osamd.OSAMD(classes=3, budget=0.1), osamd.OSAMD(classes=3, budget=0.1, method="osamd-preset")
    right = played(one, x, y)
    assert np.array_equal(right, played(named, x, y))
    assert one.method == "osamd-preset"
    assert repr(one).startswith("<OSAMD preset for 0, 1, 2: 1500 rounds")
    assert right[500:].mean() > 0.85
    assert one.asked <= 150


def test_the_rule_knows_every_setting_of_the_paper_and_no_other():
    assert set(GIVEN) == set(OF_THE_PAPER)
    for name, value in GIVEN.items():
        assert osamd.OSAMD(features=2, **{name: value}).method == "osamd", name
        assert method_name(None, {name: None}) == "osamd-preset"
    for name, value in OTHERS.items():
        assert osamd.OSAMD(features=2, **{name: value}).method == "osamd-preset", name
    for method in KNOWN:
        assert osamd.OSAMD(features=2, method=method, budget=0.1).method == method


def test_what_can_be_given_is_none_until_it_is():
    for made in (osamd.OSAMD, sklearn_adapter.OSAMDClassifier, river_adapter.OSAMDClassifier):
        parameters = inspect.signature(made).parameters
        assert all(parameters[name].default is None for name in ("method", *OF_THE_PAPER) if name in parameters)


@pytest.mark.parametrize("given", [{}, {"eta": 0.1}, {"standardise": True}, {"method": "paa"}])
def test_starts_follow_the_same_rule(given):
    models = pytest.importorskip("sklearn.linear_model")
    x, y = samples(classes=2)
    rows = np.array([list(row.values()) for row in x])
    expected = given.get("method") or ("osamd" if given else "osamd-preset")
    assert osamd.OSAMD.from_source(rows, y, **given).method == expected
    if "standardise" not in given:
        fitted = models.LogisticRegression().fit(rows / rows.std(axis=0), y)
        assert osamd.OSAMD.from_sklearn(fitted, **given).method == expected


@pytest.mark.parametrize("given", [{"label_rate": 0.1}, {"geometry": ball(1.0)}, {"adaptation": InnerLoops(2, 0.1)}])
def test_the_preset_by_its_name_refuses_a_setting_of_the_paper_with_a_remedy(given):
    with pytest.raises(InputError, match="name a method of the paper, as method='osamd'"):
        osamd.OSAMD(method="osamd-preset", **given)


def test_a_made_preset_takes_no_eta_and_the_paper_no_other_models():
    held = osamd.OSAMD(features=2, budget=0.1)
    for name in ("eta", "sigma", "label_rate"):
        with pytest.raises(InputError, match="this is osamd-preset, which has none; leave it out"):
            held.remade(**{name: 0.1})
    assert held.remade(budget=0.2).method == "osamd-preset"


def test_files_keep_their_method_whatever_they_were_made_with(tmp_path):
    for given in ({}, {"eta": 0.1}, {"sigma": 1.0}, {"method": "osamd"}):
        held = osamd.OSAMD(features=2, **given)
        held.save(tmp_path / "saved")
        assert osamd.OSAMD.load(tmp_path / "saved").method == held.method == held.copy().method


def test_a_source_too_large_for_the_geometry_is_refused_without_a_warning():
    rows = np.array([[1e200, 0.0], [-1e200, 0.0], [0.0, 1.0], [0.0, 2.0]])
    with pytest.raises(InputError, match="scale its columns"):
        osamd.OSAMD.from_source(rows, [0, 1, 0, 1])
