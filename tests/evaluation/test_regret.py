"""Comparators are optimal to their certificate, and regret is what it says."""

import math

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.evaluation.comparators import exact_optima, window_comparators
from osamd.evaluation.drift import ball_total_variation
from osamd.evaluation.propositions import temporal_variability_from_total_variation
from osamd.evaluation.regret import (
    dynamic_regret,
    expected_losses,
    path_length,
    temporal_variability,
    windowed_regret,
)
from osamd.geometry import ball, box, euclidean, p_norm, signed_simplex, simplex
from osamd.losses import LOSSES, loss
from osamd.methods import METHODS, Settings, learner
from osamd.models import linear
from osamd.play import play
from osamd.streams import TwoPoint, rotating_balls, rotating_gaussian

BOUNDED = [ball(1.0), box(-0.8, 0.8), simplex(2.0, 1e-3), signed_simplex(2.0, 1e-3), p_norm(1.5, 1.0)]


def random_points(geometry, shape, number, rng):
    spread = rng.normal(size=(number, *shape)) * 10.0 ** rng.uniform(-3, 1, size=(number, *[1] * len(shape)))
    return [geometry.project(np.exp(point) if geometry.decision_set.total else point) for point in spread]


@pytest.mark.parametrize("geometry", [euclidean(), *BOUNDED], ids=lambda g: g.name)
@pytest.mark.parametrize("name", ["hinge", "logistic"])
def test_no_point_of_k_beats_the_exact_optimum(geometry, name):
    stream, f = rotating_balls(3, turn=1.0), loss(name, l2=0.05)
    model = linear(features=2, signed=geometry.signed)
    optima = exact_optima(stream, f, model, geometry)
    best = expected_losses(stream, f, model, optima)
    rng = np.random.default_rng(0)
    for near in (False, True):
        for point in random_points(geometry, model.shape, 100, rng):
            rival = geometry.project(0.999 * optima[1] + 0.001 * point) if near else point
            assert np.all(expected_losses(stream, f, model, np.tile(rival, (3, 1)))[1] >= best[1] - 1e-9)


def test_the_rotated_optimum_is_the_optimum_of_the_rotated_problem():
    stream, f, model = rotating_gaussian(400), loss("hinge", l2=0.2), linear(2)
    optima = exact_optima(stream, f, model, euclidean())
    penalty = model.penalty(0.2, True)
    gradient = stream.expected_gradient(f, np.arange(400), optima) + 2 * penalty * optima
    assert np.abs(gradient).max() < 1e-6
    assert np.ptp(expected_losses(stream, f, model, optima)) < 1e-12


def test_regret_rises_in_every_round_and_ends_at_the_sum_of_gaps():
    stream, f = rotating_gaussian(300), loss("hinge", l2=0.2)
    optima = exact_optima(stream, f, linear(2), euclidean())
    for name in METHODS:
        bound = learner(name, linear(2), Settings(eta=0.01, sigma=0.3, loss=f, label_rate=0.2), [0.4, 0.0, -4.0])
        ledger = play(bound, stream, 0, keep_params=True).ledger
        regret = dynamic_regret(ledger, stream, bound, optima)
        assert np.all(np.diff(regret) > -1e-9)
        gaps = expected_losses(stream, f, linear(2), ledger.params) - expected_losses(stream, f, linear(2), optima)
        assert regret[-1] == pytest.approx(gaps.sum())


def test_regret_needs_the_parameters():
    bound = learner("osamd", linear(2), Settings(eta=0.01, sigma=0.3), [0.4, 0.0, -4.0])
    ledger = play(bound, rotating_gaussian(10), 0).ledger
    with pytest.raises(InputError, match="play with keep_params=True"):
        dynamic_regret(ledger, rotating_gaussian(10), bound, np.zeros((10, 3)))


@pytest.mark.parametrize("geometry", [euclidean(), *BOUNDED], ids=lambda g: g.name)
@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("classes", [2, 3])
def test_window_comparators_are_as_good_as_their_certificate(geometry, name, classes):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 2)), rng.integers(classes, size=40)
    x[:, 0] += y
    model = linear(features=2, classes=classes, signed=geometry.signed)
    f = loss(name, l2=0.05)
    found = window_comparators(x, y, 20, f, model, geometry, tolerance=2e-3)
    assert len(found) == 2
    bound = learner("omd-all", model, Settings(eta=0.1, sigma=1.0, loss=f, geometry=geometry))
    for first, comparator in zip((0, 20), found, strict=True):
        assert 0.0 <= comparator.gap <= 2e-3
        np.testing.assert_allclose(geometry.project(comparator.params), comparator.params, atol=1e-9)

        def mean_loss(params, first=first):
            value = _value(bound, params, x[first : first + 20], y[first : first + 20])
            return value + float(np.sum(model.penalty(0.05, True) * params**2))

        assert mean_loss(comparator.params) == pytest.approx(comparator.value)
        for point in random_points(geometry, model.shape, 60, rng):
            rival = geometry.project(0.95 * comparator.params + 0.05 * point)
            assert mean_loss(rival) >= comparator.value - comparator.gap


def _value(bound, params, x, y):
    from osamd.losses import on_scores

    value = on_scores(bound.loss, bound.model.reading).value
    rows = bound.model.augment(x)
    return float(
        np.mean([value(bound.model.scores(params, row), int(label)) for row, label in zip(rows, y, strict=True)])
    )


def test_windowed_regret_is_the_loss_above_the_best_of_each_window():
    stream, f, model = rotating_gaussian(250), loss("hinge", l2=0.2), linear(2)
    bound = learner("omd-all", model, Settings(eta=0.01, sigma=0.3, loss=f), [0.4, 0.0, -4.0])
    ledger = play(bound, stream, 0).ledger
    x, y = stream.sample(0)
    found = window_comparators(x, y, 100, f, model, euclidean())
    assert len(found) == 3
    regret = windowed_regret(ledger, found, 100)
    best = 100 * found[0].value + 100 * found[1].value + 50 * found[2].value
    assert regret[-1] == pytest.approx(ledger.loss.sum() - best)
    with pytest.raises(InputError, match="do not cover 250 rounds"):
        windowed_regret(ledger, found, 50)


def test_a_window_that_cannot_be_certified_is_an_error():
    x, y = rotating_gaussian(50).sample(0)
    with pytest.raises(InputError, match="ask for a larger tolerance"):
        window_comparators(x, y, 50, loss("logistic"), linear(2), euclidean(), tolerance=1e-300)


@pytest.mark.parametrize(("argument", "value"), [("window", 0), ("tolerance", 0.0)])
def test_bad_windows_are_refused(argument, value):
    arguments = {"window": 10, "tolerance": 1e-3, argument: value}
    with pytest.raises(InputError, match=argument):
        window_comparators(
            np.zeros((10, 2)), np.zeros(10, int), loss=loss("hinge"), model=linear(2), geometry=euclidean(), **arguments
        )


def test_path_length_of_a_half_turn_is_half_a_circle():
    stream = rotating_gaussian(2000)
    optima = exact_optima(stream, loss("hinge", l2=0.2), linear(2), euclidean())
    assert path_length(optima, euclidean()) == pytest.approx(math.pi * np.linalg.norm(optima[0, :2]), rel=1e-5)


@pytest.mark.parametrize("geometry", BOUNDED, ids=lambda g: g.name)
def test_temporal_variability_stays_below_proposition_1(geometry):
    stream, f = rotating_balls(60, distance=0.5, radius=0.4), loss("logistic")
    model = linear(features=2, bias=False, signed=geometry.signed)
    measured = temporal_variability(stream, f, model, geometry, probes=64)
    largest = geometry.diameter(4)  # bounds |w . x| for ||x|| <= 1 in every geometry of the list
    drift = 59 * ball_total_variation(2 * 0.5 * math.sin(0.5 * math.pi / 59), 0.4, 2)
    assert 0.0 < measured <= temporal_variability_from_total_variation(drift, float(f.value(-largest)))


def test_temporal_variability_rises_with_probes_towards_the_true_value():
    """On Theorem 2's stream the loss changes once, by hinge(-w_1) - hinge(w_1): at most 2, at w_1 = 1."""
    few, many = (
        temporal_variability(TwoPoint(10), loss("hinge"), linear(2, bias=False), ball(1.0), probes=p) for p in (2, 256)
    )
    assert few <= many <= 2.0
    assert many > 1.99


def test_temporal_variability_needs_a_bounded_set():
    with pytest.raises(InputError, match="unbounded"):
        temporal_variability(TwoPoint(10), loss("hinge"), linear(2, bias=False), euclidean())
