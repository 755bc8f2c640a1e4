"""The constants of the theory: bounds that hold on every sample, and alpha* against the law."""

import math
from dataclasses import replace

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.evaluation.comparators import exact_optima
from osamd.evaluation.constants import constants_for
from osamd.evaluation.theory import theorem4
from osamd.paper.geometry import ball, box, euclidean, p_norm, signed_simplex, simplex
from osamd.paper.losses import loss
from osamd.paper.models import linear
from osamd.streams import Rotating, ball_noise, rotating_balls, rotating_gaussian

GEOMETRIES = [ball(1.5), box(-0.8, 0.8), simplex(2.0, 1e-3), signed_simplex(2.0, 1e-3), p_norm(1.5, 1.2)]


def known(geometry, f, stream=None, bias=True, **changes):
    stream = stream or rotating_balls(6, 3)
    model = linear(stream.features, bias=bias, signed=geometry.signed)
    start = geometry.start(model.shape)
    points = np.tile(start, (stream.rounds, 1))
    arguments = {
        "separators": points,
        "optima": points,
        "teacher": start,
        "student": start,
        "R": 0.1,
        "V_T": 1.0,
        "x_radius": 1.0,
    }
    return model, constants_for(stream, f, model, geometry, **(arguments | changes))


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
@pytest.mark.parametrize("name", ["smoothed-hinge", "logistic", "squared-hinge"])
@pytest.mark.parametrize("bias", [True, False])
def test_slopes_curvature_and_values_stay_within_G_L_and_F(geometry, name, bias):
    f = loss(name, l2=0.1, free_bias=False)
    model, c = known(geometry, f, bias=bias)
    penalty, rng = model.penalty(f.l2, f.free_bias), np.random.default_rng(0)
    directions = rng.normal(size=(300, 3))
    x = model.augment(directions / np.linalg.norm(directions, axis=1, keepdims=True))  # on the unit sphere
    spread = 3.0 * rng.normal(size=(300, 2, *model.shape))
    for row, pair in zip(x, spread, strict=True):
        w, other = (geometry.project(np.exp(p) if geometry.decision_set.total else p) for p in pair)
        slopes = [float(f.slope(row @ p)) * row + 2 * penalty * p for p in (w, other)]
        assert geometry.dual_norm(row) <= c.G * (1 + 1e-12)
        assert geometry.dual_norm(slopes[0]) <= c.G * (1 + 1e-12)
        assert geometry.dual_norm(slopes[0] - slopes[1]) <= c.L * geometry.norm(w - other) * (1 + 1e-9)
        assert 0.0 <= float(f.value(row @ w)) + float(penalty @ (w * w)) <= c.F


def test_alpha_is_the_expected_hinge_at_margin_R_in_the_worst_round():
    noise = ball_noise(0.6, 3)
    stream = Rotating("overlap", [[-0.3, 0.0, 0.0], [0.3, 0.0, 0.0]], noise, 5, turn=1.0)
    still = np.tile([1.0, 0.0, 0.0], (5, 1))  # does not turn with the stream, so the last round is the worst
    _, c = known(ball(1.0), loss("smoothed-hinge"), stream, bias=False, separators=still, optima=still, R=0.2)
    x, y = stream.draw(np.random.default_rng(0), np.full(200_000, 4))
    sampled = np.maximum(0.0, 0.2 - np.where(y == 1, 1.0, -1.0) * x[:, 0])
    assert c.alpha == pytest.approx(sampled.mean(), abs=5 * sampled.std() / math.sqrt(200_000))  # false alarm 6e-7
    assert c.C_T == 0.0
    assert c.T == 5


def test_starts_and_paths_are_measured_in_the_geometry():
    stream, geometry, model = rotating_balls(4, 2, turn=math.pi), ball(2.0), linear(2, bias=False)
    v = stream.rotation(np.arange(4)) @ np.array([2.0, 0.0])
    optima = exact_optima(stream, loss("logistic"), model, geometry)
    c = constants_for(
        stream,
        loss("logistic"),
        model,
        geometry,
        separators=v,
        optima=optima,
        teacher=[0.0, 5.0],
        student=optima[0],
        R=0.2,
        V_T=0.5,
        x_radius=1.0,
    )
    assert pytest.approx(3 * 2 * 2 * math.sin(math.pi / 6)) == c.C_T
    assert c.eps_v == pytest.approx(4.0)  # the teacher starts at (0, 2), once in K; ||(2, -2)||^2 / 2
    assert (c.eps_w, c.alpha, c.V_T) == (0.0, 0.0, 0.5)


def test_unbounded_features_or_sets_give_infinite_constants_which_the_bounds_name():
    _, gaussian = known(ball(1.0), loss("logistic", l2=0.1), rotating_gaussian(4), x_radius=math.inf)
    assert all(math.isinf(value) for value in (gaussian.G, gaussian.L, gaussian.F))
    _, whole = known(euclidean(), loss("smoothed-hinge"))
    assert pytest.approx(math.sqrt(2.0)) == whole.G  # 1-Lipschitz in the score, ||(x, 1)|| <= sqrt 2
    assert all(math.isinf(value) for value in (whole.D, whole.F))
    assert not theorem4(whole, 0.1, 0.01).holds
    assert not theorem4(replace(gaussian, R=1.0), 0.1, 0.01).holds


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"R": 0.0}, "R must be positive and finite"),
        ({"x_radius": -1.0}, "x_radius must be positive"),
        ({"x_radius": 0.5}, r"x_radius=0.5\)`: the stream 'rotating-balls' has an x of norm .*inf where it has none"),
        ({"separators": np.full((6, 4), 9.0)}, "v of round 0 lies .* outside K of 'ball'"),
        ({"separators": np.zeros((5, 4))}, r"separators must have shape \(6, 4\)"),
        ({"optima": np.full((6, 4), math.nan)}, "optima must be finite"),
        ({"teacher": [0.0]}, r"teacher must have shape \(4,\)"),
        ({"V_T": -1.0}, "V_T must be zero or more"),
    ],
)
def test_bad_input_is_refused(changes, says):
    with pytest.raises(InputError, match=says):
        known(ball(1.0), loss("logistic"), **changes)
