"""Comparators are optimal to their certificate, and regret is what it says."""

import math
from dataclasses import replace

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.evaluation.comparators import exact_optima, minimise, window_comparators
from osamd.evaluation.drift import ball_total_variation
from osamd.evaluation.propositions import temporal_variability_from_total_variation
from osamd.evaluation.regret import (
    dynamic_regret,
    expected_losses,
    path_length,
    temporal_variability,
    windowed_regret,
    windowed_tolerance,
)
from osamd.paper.geometry import ball, box, euclidean, p_norm, signed_simplex, simplex
from osamd.paper.losses import LOSSES, loss
from osamd.paper.methods import METHODS, Settings, learner
from osamd.paper.models import linear
from osamd.paper.play import play
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


@pytest.mark.parametrize("geometry", BOUNDED, ids=lambda g: g.name)
@pytest.mark.parametrize("name", ["hinge", "smoothed-hinge", "logistic"])
def test_every_exact_optimum_is_certified_on_the_papers_stream(geometry, name):
    """Rotating Gaussian on each set is where solvers stall; the call raises where a gap exceeds the tolerance."""
    model = linear(features=2, signed=geometry.signed)
    optima = exact_optima(rotating_gaussian(12), loss(name), model, geometry, tolerance=1e-6)
    assert np.isfinite(optima).all()


def test_an_optimum_that_misses_the_tolerance_is_refused_with_its_round():
    with pytest.raises(InputError, match=r"tolerance=1e-300\)`: round 0 reached only a gap of .* larger tolerance"):
        exact_optima(rotating_gaussian(5), loss("logistic"), linear(2), ball(50.0), tolerance=1e-300)


def test_a_loss_that_falls_for_ever_has_no_optimum_on_the_whole_space():
    for geometry in (euclidean(), p_norm(1.5)):
        with pytest.raises(InputError, match=r"round 0 the loss falls forever .* give it an L2 term, or .* ball"):
            exact_optima(rotating_balls(5), loss("logistic"), linear(2, bias=False), geometry)
    model = linear(2, bias=False)
    assert np.isfinite(exact_optima(rotating_balls(5), loss("logistic", l2=1e-3), model, euclidean())).all()
    assert np.isfinite(exact_optima(rotating_gaussian(5), loss("logistic"), linear(2), euclidean())).all()


@pytest.mark.parametrize("name", ["hinge", "smoothed-hinge", "squared-hinge"])
@pytest.mark.parametrize("geometry", [euclidean(), p_norm(1.5)], ids=lambda g: g.name)
def test_a_loss_that_reaches_zero_has_an_optimum_on_the_whole_space(geometry, name):
    for stream in (rotating_balls(20), rotating_balls(10, 20, turn=1.0)):
        model = linear(stream.features, bias=False)
        optima = exact_optima(stream, loss(name), model, geometry)
        assert expected_losses(stream, loss(name), model, optima).max() <= 1e-6
        assert np.abs(optima).max() < 1e4


@pytest.mark.parametrize(
    ("model", "geometry", "says"),
    [
        (linear(3), euclidean(), "<3 features, 2 classes>.*has 2 features"),
        (linear(2, classes=3), euclidean(), "<2 features, 3 classes>"),
        (linear(2, signed=True), ball(1.0), r"signed=True>, geometry='ball'.*linear\(..., signed=False\)"),
        (linear(2), signed_simplex(), r"signed=False>, geometry='signed-simplex'.*linear\(..., signed=True\)"),
    ],
)
def test_a_model_that_does_not_fit_stream_and_geometry_is_refused(model, geometry, says):
    stream = rotating_gaussian(5)
    with pytest.raises(InputError, match="exact_optima.*" + says):
        exact_optima(stream, loss("hinge", l2=0.1), model, geometry)
    with pytest.raises(InputError, match="temporal_variability.*" + says):
        temporal_variability(stream, loss("hinge"), model, geometry)


def test_nan_is_never_certified():
    found = minimise(lambda w: (math.nan, np.full(2, math.nan)), ball(1.0), np.zeros(2), 1e-3)
    assert math.isnan(found.gap)
    x, y = np.full((3, 1), 1e300), np.array([0, 0, 1])  # finite, and yet the squared hinge overflows
    with np.errstate(all="ignore"), pytest.raises(InputError, match=r"rounds 0\.\.2 reached .* larger tolerance"):
        window_comparators(x, y, 3, loss("squared-hinge"), linear(1), ball(1e10))


def one_run(rounds=10):
    stream, f = rotating_gaussian(rounds), loss("hinge", l2=0.2)
    bound = learner("osamd", linear(2), Settings(eta=0.01, sigma=0.3, loss=f), [0.4, 0.0, -4.0])
    return play(bound, stream, 0, keep_params=True).ledger, stream, bound, np.zeros((rounds, 3))


def test_regret_refuses_what_is_not_of_one_run():
    ledger, stream, bound, optima = one_run()
    for wrong, says in (
        ((ledger, rotating_gaussian(11), bound, np.zeros((11, 3))), "ledger=<10 rounds>.*the stream has 11"),
        ((ledger, stream, bound, optima[:9]), r"optima=<shape \(9, 3\)>.*must have shape \(10, 3\)"),
        ((ledger, stream, bound, optima[:, :2]), r"must have shape \(10, 3\)"),
        ((ledger, stream, bound, optima + math.nan), "optima must be finite"),
        ((ledger, rotating_gaussian(10, features=3), bound, optima), "has 3 features"),
    ):
        with pytest.raises(InputError, match="dynamic_regret.*" + says):
            dynamic_regret(*wrong)
    assert len(dynamic_regret(ledger, stream, bound, optima.tolist())) == 10


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
    from osamd.paper.losses import on_scores

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
    gaps = [one.gap for one in found]
    assert windowed_tolerance(ledger, found, 100) == pytest.approx(100 * gaps[0] + 100 * gaps[1] + 50 * gaps[2])
    for wrong in (50, 125, 250):
        for measure in (windowed_regret, windowed_tolerance):
            with pytest.raises(InputError, match="250 rounds do not make the 3 windows"):
                measure(ledger, found, wrong)
    assert len(windowed_regret(ledger, found, 84)) == 250  # 84, 84, 82: three windows too, which no one can tell apart
    with pytest.raises(InputError, match="window must be a whole number"):
        windowed_regret(ledger, found, 0)


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


X, Y = np.zeros((4, 2)), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("x", "y", "model", "geometry", "says"),
    [
        (X[:, 0], Y, linear(2), euclidean(), "x must be a 2-D array; reshape"),
        (X[:0], Y[:0], linear(2), euclidean(), "x must not be empty"),
        (X, Y[:3], linear(2), euclidean(), r"y=<shape \(3,\)>.*one label per row of x, shape \(4,\)"),
        (X, Y, linear(3), euclidean(), r"x=<shape \(4, 2\)>.*takes 3 features"),
        (X + math.nan, Y, linear(2), euclidean(), "x must be finite"),
        ([["a", "b"]], [0], linear(2), euclidean(), "x must be numbers"),
        (X, Y - 1, linear(2), euclidean(), r"y=-1\)`: row 0 must be a whole class index 0..1"),
        (X, Y + 1, linear(2), euclidean(), r"y=2\)`: row 1 must be"),
        (X, Y + 0.5, linear(2), euclidean(), r"y=0.5\)`: row 0 must be"),
        (X, ["no", "yes"] * 2, linear(2), euclidean(), r"y='no'\)`: row 0.*Arrays\(x, y\) turns"),
        (X, Y, linear(2), signed_simplex(), "signed=False>, geometry='signed-simplex'"),
        (X, Y, linear(2, signed=True), ball(1.0), "signed=True>, geometry='ball'"),
    ],
)
def test_samples_that_the_model_cannot_take_are_refused(x, y, model, geometry, says):
    with pytest.raises(InputError, match="window_comparators.*" + says):
        window_comparators(x, y, 2, loss("hinge"), model, geometry)


def test_lists_are_taken_as_arrays_are():
    arguments = (2, loss("hinge", l2=0.1), linear(2), ball(1.0))
    x = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    lists, arrays = window_comparators(x, [0, 1, 1], *arguments), window_comparators(np.array(x), Y[1:], *arguments)
    assert len(lists) == len(arrays) == 2


def test_path_length_of_a_half_turn_is_half_a_circle():
    stream = rotating_gaussian(2000)
    optima = exact_optima(stream, loss("hinge", l2=0.2), linear(2), euclidean())
    assert path_length(optima, euclidean()) == pytest.approx(math.pi * np.linalg.norm(optima[0, :2]), rel=1e-5)


@pytest.mark.parametrize("geometry", BOUNDED, ids=lambda g: g.name)
def test_temporal_variability_stays_below_proposition_1(geometry):
    stream, f = rotating_balls(10, distance=0.5, radius=0.4), loss("logistic")
    model = linear(features=2, bias=False, signed=geometry.signed)
    measured = temporal_variability(stream, f, model, geometry, probes=64)
    largest = geometry.diameter(4)  # bounds |w . x| for ||x|| <= 1 in every geometry of the list
    drift = 9 * ball_total_variation(2 * 0.5 * math.sin(0.5 * math.pi / 9), 0.4, 2)
    assert 0.0 < measured <= temporal_variability_from_total_variation(drift, float(f.value(-largest)))


@pytest.mark.parametrize("name", ["hinge", "smoothed-hinge", "logistic"])
@pytest.mark.parametrize("geometry", [*BOUNDED, ball(5.0)], ids=lambda g: g.name)
def test_temporal_variability_is_at_least_that_of_a_dense_grid(geometry, name):
    """In the plane; and no more than 3 % above it, which is what the grid may miss."""
    stream, f = rotating_balls(5, distance=0.5, radius=0.4), loss(name)
    model = linear(features=2, bias=False, signed=geometry.signed)
    side = np.linspace(-geometry.diameter(4), geometry.diameter(4), 201)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    feasible = geometry.decision_set
    if geometry.signed:  # w+ - w-, with each part at the floor or above
        grid = grid[np.abs(grid).sum(axis=1) <= feasible.total - 4 * feasible.low]
    elif feasible.total is not None:
        share = np.linspace(feasible.low, feasible.total - feasible.low, 2001)
        grid = np.stack([share, feasible.total - share], axis=1)
    elif feasible.radius < math.inf:
        grid = grid[(np.abs(grid) ** feasible.p).sum(axis=1) <= feasible.radius**feasible.p]
    else:
        side = np.linspace(feasible.low, feasible.high, 101)
        grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    losses = np.stack([stream.expected_loss(f, np.full(len(grid), t), grid) for t in range(5)])
    on_grid = np.abs(np.diff(losses, axis=0)).max(axis=1).sum()
    assert on_grid * (1 - 1e-9) <= temporal_variability(stream, f, model, geometry, probes=16) <= 1.03 * on_grid


def test_temporal_variability_finds_the_change_in_many_dimensions():
    """256 random points of the 20-dimensional ball see 60 % of it."""
    stream = rotating_balls(200, 20, distance=0.5, radius=0.4375)
    model = linear(features=20, bias=False)
    assert temporal_variability(stream, loss("smoothed-hinge"), model, ball(1.25)) >= 1.9
    alone = temporal_variability(stream, loss("smoothed-hinge"), model, ball(1.25), probes=1)
    assert alone >= 1.9


def test_steps_of_the_same_angle_are_solved_once_and_counted():
    stream, f, model = rotating_balls(9, distance=0.5, radius=0.4), loss("logistic"), linear(2, bias=False)
    uneven = replace(ball(1.0), isotropic=False)  # every step on its own
    assert temporal_variability(stream, f, model, ball(1.0)) == pytest.approx(
        temporal_variability(stream, f, model, uneven), rel=1e-6
    )
    assert temporal_variability(rotating_balls(1), f, model, ball(1.0)) == 0.0


@pytest.mark.parametrize("probes", [0, -1, 2.5])
def test_temporal_variability_needs_a_point_to_start_from(probes):
    with pytest.raises(InputError, match="probes must be a whole number"):
        temporal_variability(TwoPoint(10), loss("hinge"), linear(2, bias=False), ball(1.0), probes=probes)


def test_temporal_variability_needs_a_bounded_set():
    with pytest.raises(InputError, match="unbounded"):
        temporal_variability(TwoPoint(10), loss("hinge"), linear(2, bias=False), euclidean())
