"""Still and noisy tables: their laws, the best accuracy they allow, and the input they refuse."""

import numpy as np
import pytest
from scipy.special import expit, ndtr
from scipy.stats import kstest

from osamd.errors import InputError
from osamd.learner import source
from osamd.streams import LogisticTable, MachineTable, logistic_table, overlapping_gaussians, tight_classes

TABLES = {"logistic": logistic_table, "machine": MachineTable}
STILL = TABLES | {"overlapping": overlapping_gaussians, "tight": tight_classes}


def by_nearest_centre(stream, x):
    return ((x[:, None] - stream.centres) ** 2).sum(axis=2).argmin(axis=1)


@pytest.mark.parametrize("make", STILL.values(), ids=STILL)
def test_a_still_stream_is_the_same_on_the_same_seed_and_has_all_its_classes(make):
    stream, again = make(2500), make(2500)
    for draw in (lambda one, seed: one.sample(seed), lambda one, seed: one.source(50, seed)):
        assert all((a == b).all() for a, b in zip(draw(stream, 1), draw(again, 1), strict=True))
        assert any((a != b).any() for a, b in zip(draw(stream, 1), draw(stream, 2), strict=True))
    x, y = stream.sample(0)
    assert x.shape == (2500, stream.features)
    assert np.isfinite(x).all()
    assert set(y) == set(range(len(stream.classes)))


@pytest.mark.parametrize("make", STILL.values(), ids=STILL)
def test_nothing_drifts(make):
    x, y = make(8000).sample(0)
    early, late = np.c_[x, y][:4000], np.c_[x, y][4000:]
    # Seven standard errors of a difference of means, for every column and the label.
    assert (np.abs(early.mean(axis=0) - late.mean(axis=0)) < 7 * np.c_[x, y].std(axis=0) * np.sqrt(2 / 4000)).all()


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_labels_have_the_probability_that_the_table_says(make):
    stream = make(40_000)
    x, y = stream.sample(0)
    said = stream.probability(x)
    for low, high in zip(np.arange(0.0, 1.0, 0.1), np.arange(0.1, 1.1, 0.1), strict=True):
        some = (said >= low) & (said < high)
        if some.sum() >= 100:
            assert abs(y[some].mean() - said[some].mean()) < 5 * 0.5 / np.sqrt(some.sum())
    assert (said > 0.5).mean() == pytest.approx(y.mean(), abs=0.1)


@pytest.mark.parametrize(("make", "best"), [(logistic_table, 0.80), (MachineTable, 0.82)])
def test_the_best_accuracy_is_as_stated_and_nobody_is_better(make, best):
    stream = make(40_000)
    assert stream.best_accuracy() == pytest.approx(best, abs=0.005)
    x, y = stream.sample(0)
    right = ((stream.probability(x) > 0.5) == y).mean()
    assert right == pytest.approx(stream.best_accuracy(), abs=4 * 0.4 / np.sqrt(40_000))


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_a_linear_model_of_six_hundred_rows_is_nearly_as_good_as_the_best(make):
    stream = make(20_000)
    weights = source.fit(*stream.source(600, 0), classes=2)
    x, y = stream.sample(0)
    accuracy = ((x @ weights[:-1] + weights[-1] > 0.0) == y).mean()
    assert stream.best_accuracy() - 0.03 < accuracy < stream.best_accuracy() + 0.01


def test_the_strength_of_a_logistic_table_is_the_deviation_of_its_score():
    stream = logistic_table(50_000, features=12, strength=5.3)
    score = stream.sample(0)[0] @ stream.weights
    assert kstest(score / 5.3, "norm").pvalue > 1e-4  # false alarm 1e-4, on a fixed seed
    assert stream.best_accuracy() == pytest.approx(0.90, abs=0.005)
    assert (np.diff(np.abs(stream.weights)) < 0).all()
    assert (np.sign(stream.weights[::2]) == 1).all()
    assert (np.sign(stream.weights[1::2]) == -1).all()


def test_a_bias_makes_a_class_rare():
    stream = LogisticTable(20_000, [1.0, 0.0], bias=-3.0)
    x, y = stream.sample(0)
    assert y.mean() == pytest.approx(expit(x[:, 0] - 3.0).mean(), abs=4 * 0.26 / np.sqrt(20_000))


def test_readings_of_a_machine_follow_each_other_and_some_say_nothing():
    stream = MachineTable(20_000)
    x, y = stream.sample(0)
    related = np.corrcoef(np.c_[x, y].T)
    at = {name: i for i, name in enumerate(stream.columns)}
    assert related[at["load_percent"], at["current_ampere"]] > 0.9
    assert related[at["motor_celsius"], at["bearing_celsius"]] > 0.9
    assert related[at["load_percent"], at["speed_rpm"]] < -0.7
    nothing = [at[name] for name in ("voltage_volt", "humidity_percent", "night_shift", "asset_number")]
    assert np.abs(related[nothing, -1]).max() < 4 / np.sqrt(20_000)
    assert np.abs(related[at["bearing_celsius"], -1]) > 0.2


def test_without_wrong_inspections_a_machine_is_decided_better():
    assert MachineTable(10, noise=0.0).best_accuracy() > MachineTable(10).best_accuracy() + 0.05
    assert MachineTable(10, noise=0.5).best_accuracy() == pytest.approx(0.5)


def test_three_gaussians_allow_eighty_percent_and_two_what_the_normal_law_says():
    stream = overlapping_gaussians(40_000)
    x, y = stream.sample(0)
    assert (by_nearest_centre(stream, x) == y).mean() == pytest.approx(0.80, abs=4 * 0.4 / np.sqrt(40_000))
    two = overlapping_gaussians(40_000, classes=2, features=4, distance=1.0)
    x, y = two.sample(0)
    assert (by_nearest_centre(two, x) == y).mean() == pytest.approx(ndtr(1.0), abs=4 * 0.37 / np.sqrt(40_000))
    assert kstest(x[:, 2:].ravel(), "norm").pvalue > 1e-4  # false alarm 1e-4, on a fixed seed


def test_tight_classes_are_told_apart_by_neighbours_and_not_by_planes():
    stream = tight_classes(4000)
    x, y = stream.sample(0)
    rows, labels = stream.source(200, 0)
    neighbour = labels[((x[:, None] - rows) ** 2).sum(axis=2).argmin(axis=1)]
    weights = source.fit(rows, labels, classes=40)
    plane = (x @ weights[:, :-1].T + weights[:, -1]).argmax(axis=1)
    assert (by_nearest_centre(stream, x) == y).mean() > 0.98
    assert (neighbour == y).mean() > (plane == y).mean() + 0.05
    assert (tight_classes(10).centres == stream.centres).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: logistic_table(0), r"`LogisticTable\(rounds=0\)`: rounds must be a whole number"),
        (lambda: logistic_table(10, features=0), r"`logistic_table\(features=0\)`"),
        (lambda: logistic_table(10, strength=0.0), "strength is the standard deviation of the score"),
        (lambda: LogisticTable(10, []), "give one number for each feature"),
        (lambda: LogisticTable(10, [[1.0]]), "give one number for each feature"),
        (lambda: LogisticTable(10, [np.nan]), "weights must be finite"),
        (lambda: LogisticTable(10, [1.0], bias=np.inf), "bias must be a finite number"),
        (lambda: MachineTable(10, noise=0.6), r"`MachineTable\(noise=0.6\)`: noise is the share of wrong inspections"),
        (lambda: overlapping_gaussians(10, classes=1), "classes must be a whole number"),
        (lambda: overlapping_gaussians(10, distance=-1.0), "distance must be positive"),
        (lambda: tight_classes(10, features=1), "features must be a whole number"),
        (lambda: tight_classes(10, spread=0.0), "spread must be positive"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_rule(make, words):
    with pytest.raises(InputError, match=words):
        make()
