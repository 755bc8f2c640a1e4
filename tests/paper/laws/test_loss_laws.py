"""Every loss: slope is the derivative of value, convexity, the implicit slope's equation, and the stated constants."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from law_cases import law, numbers, vectors

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.paper.losses import LOSSES, Loss, loss, on_scores, score_constants
from osamd.paper.scores import BINARY, MULTICLASS

every_loss = pytest.mark.parametrize("phi", LOSSES.values(), ids=LOSSES.keys())
margins = numbers(6.0)
reaches = st.sampled_from([0.0, 1e-9, 1e-3, 0.2, 1.0, 7.0, 500.0])
H = 1e-6


@st.composite
def scored(draw: st.DrawFn, size: float = 4.0) -> tuple[Array, int]:
    """Scores of three to five classes, and a label."""
    classes = draw(st.integers(3, 5))
    return draw(vectors(classes, size)), draw(st.integers(0, classes - 1))


def far_from_kinks(phi: Loss, margin: float) -> bool:
    return all(abs(margin - kink) > 10 * H for kink in phi.kinks)


@every_loss
@law
@given(margins)
def test_slope_is_the_derivative_of_value(phi: Loss, margin: float) -> None:
    assume(far_from_kinks(phi, margin))
    difference = (phi.value(margin + H) - phi.value(margin - H)) / (2 * H)
    assert phi.slope(margin) == pytest.approx(difference, abs=1e-8)


@every_loss
def test_values_and_slopes_of_many_margins_are_those_of_each(phi: Loss) -> None:
    many = np.array([-800.0, -3.0, 0.0, 0.5, 1.0, 2.0, 800.0]).reshape(7, 1)
    for function in (phi.value, phi.slope):
        assert function(many).shape == (7, 1)
        assert function(many).ravel() == pytest.approx([function(m) for m in many.ravel().tolist()], rel=1e-15)


@every_loss
@law
@given(margins, st.integers(0, 1))
def test_binary_slope_is_the_derivative_of_value(phi: Loss, h: float, y: int) -> None:
    value, slope, _ = on_scores(phi, BINARY)
    assume(far_from_kinks(phi, BINARY.margin(h, y)))
    assert slope(h, y) == pytest.approx((value(h + H, y) - value(h - H, y)) / (2 * H), abs=1e-8)


@every_loss
@law
@given(scored())
def test_multiclass_slope_is_the_gradient_of_value(phi: Loss, sample: tuple[Array, int]) -> None:
    h, y = sample
    others = np.sort(np.delete(h, y))
    assume(others[-1] - others[-2] > 10 * H)
    assume(far_from_kinks(phi, MULTICLASS.margin(h, y)))
    value, slope, _ = on_scores(phi, MULTICLASS)
    differences = [(value(h + H * e, y) - value(h - H * e, y)) / (2 * H) for e in np.eye(h.size)]
    assert slope(h, y) == pytest.approx(np.array(differences), abs=1e-8)


@every_loss
@law
@given(margins, margins)
def test_value_is_convex_falling_and_not_negative(phi: Loss, a: float, b: float) -> None:
    assert phi.value(b) >= phi.value(a) + phi.slope(a) * (b - a) - 1e-12
    assert phi.value(a) >= 0.0
    assert phi.slope(a) <= 0.0


@every_loss
@law
@given(scored(), st.data())
def test_multiclass_slope_is_a_subgradient(phi: Loss, sample: tuple[Array, int], data: st.DataObject) -> None:
    h, y = sample
    other = data.draw(vectors(h.size, 4.0))
    value, slope, _ = on_scores(phi, MULTICLASS)
    assert value(other, y) >= value(h, y) + float(slope(h, y) @ (other - h)) - 1e-12


def in_subdifferential(phi: Loss, g: float, margin: float) -> bool:
    """Whether g lies between the slopes just before and just after the margin."""
    room = 1e-9 * (1.0 + abs(margin))
    return phi.slope(margin - room) - 1e-7 <= g <= phi.slope(margin + room) + 1e-7


@every_loss
@law
@given(margins, reaches)
@example(1.0, 0.0)
@example(1.0, 3.0)
@example(0.0, 1.0)
@example(-1.0, 2.0)
def test_implicit_slope_is_the_slope_where_it_lands(phi: Loss, margin: float, reach: float) -> None:
    g = phi.implicit(margin, reach)
    assert in_subdifferential(phi, g, margin - reach * g)


def test_the_hinge_steps_fully_or_to_its_kink_or_not_at_all() -> None:
    svm = LOSSES["hinge"]
    assert svm.implicit(-1.0, 1.5) == -1.0
    assert 0.5 - 2.0 * svm.implicit(0.5, 2.0) == 1.0
    assert svm.implicit(1.25, 2.0) == 0.0


@every_loss
@pytest.mark.parametrize("margin", [-1e6, -800.0, 800.0, 1e6])
@pytest.mark.parametrize("reach", [0.0, 5e-324, 1e-300, 1e6, 1e12])
def test_extreme_margins_and_reaches_stay_finite(phi: Loss, margin: float, reach: float) -> None:
    g = phi.implicit(margin, reach)
    assert in_subdifferential(phi, g, margin - reach * g)
    assert math.isfinite(phi.value(margin))
    h = np.array([margin, 0.0, -margin, 3.0])
    for y in range(4):
        q = on_scores(phi, MULTICLASS).implicit(h, y, reach)
        assert np.isfinite(q).all()
        assert abs(q.sum()) <= 1e-9 * (1.0 + np.abs(q).max())


@every_loss
@law
@given(margins, st.integers(0, 1), reaches)
def test_binary_implicit_slope_carries_the_sign_of_the_label(phi: Loss, h: float, y: int, reach: float) -> None:
    assert on_scores(phi, BINARY).implicit(h, 1, reach) == phi.implicit(h, reach)
    assert on_scores(phi, BINARY).implicit(h, y, reach) == -on_scores(phi, BINARY).implicit(-h, 1 - y, reach)


@every_loss
@law
@given(scored(), st.sampled_from([1e-9, 1e-3, 0.2, 1.0, 7.0, 500.0]), st.integers(0, 2**32 - 1))
@example((np.zeros(4), 1), 0.5, 0)
@example((np.array([1.0, 1.0, 1.0, 2.0]), 0), 3.0, 1)
@example((np.array([0.0, 1.0, 0.999, 0.998]), 0), 0.01, 2)
def test_multiclass_implicit_step_minimises_its_objective(
    phi: Loss, sample: tuple[Array, int], reach: float, seed: int
) -> None:
    h, y = sample
    value, _, implicit = on_scores(phi, MULTICLASS)
    q = implicit(h, y, reach)
    landing = h - reach * q
    # q is a subgradient at the landing: the loss lies above its plane there. This certifies the minimiser.
    rng = np.random.default_rng(seed)
    for scale in 10.0 ** np.arange(-7, 2):
        moved = rng.normal(size=(20, h.size)) * scale
        toward = scale * np.concatenate([np.eye(h.size), -np.eye(h.size)])
        for move in np.concatenate([moved, toward]):
            assert value(landing + move, y) >= value(landing, y) + float(q @ move) - 1e-12 * (1.0 + value(landing, y))


@every_loss
@law
@given(scored())
def test_multiclass_implicit_slope_at_reach_zero_is_the_slope(phi: Loss, sample: tuple[Array, int]) -> None:
    _, slope, implicit = on_scores(phi, MULTICLASS)
    assert implicit(*sample, 0.0) == pytest.approx(slope(*sample), abs=1e-15)


@every_loss
def test_a_small_reach_beside_large_scores_loses_nothing(phi: Loss) -> None:
    # Two runners-up 1e-9 apart, tied by a reach of 1e-8: the shares differ by gap / reach.
    h = np.array([1000.0, 1000.0 + 2**-30, 1003.0])
    q = on_scores(replace(phi, scores=None), MULTICLASS).implicit(h, 2, 1e-8)
    g = phi.slope(3.0 - 2**-31)
    assert q.sum() == pytest.approx(0.0, abs=1e-15)
    assert q[2] == pytest.approx(g, abs=1e-7)
    if g < -0.5:
        assert q[1] - q[0] == pytest.approx(2**-30 / 1e-8, rel=1e-12)
    far = np.array([500.0, -2000.0, 500.5])
    assert on_scores(replace(phi, scores=None), MULTICLASS).implicit(far, 2, 1e-12).tolist() == pytest.approx(
        [-phi.slope(0.5), 0.0, phi.slope(0.5)], rel=1e-9
    )


@every_loss
def test_the_lipschitz_constant_holds_and_is_attained(phi: Loss) -> None:
    steepest = max(abs(phi.slope(margin)) for margin in np.linspace(-50.0, 50.0, 2001).tolist())
    if math.isinf(phi.lipschitz):
        assert abs(phi.slope(-1e6)) > 1e5
    else:
        assert phi.lipschitz * (1 - 1e-9) <= steepest <= phi.lipschitz


@every_loss
def test_the_smoothness_constant_holds_and_is_attained(phi: Loss) -> None:
    grid = np.linspace(-10.0, 10.0, 20_001)
    slopes = np.array([phi.slope(margin) for margin in grid.tolist()])
    steepest = float(np.max(np.diff(slopes) / np.diff(grid)))
    if math.isinf(phi.smoothness):
        assert steepest > 100.0
    else:
        assert phi.smoothness * (1 - 1e-6) <= steepest <= phi.smoothness * (1 + 1e-9)


@every_loss
@pytest.mark.parametrize("classes", [3, 5])
def test_the_constants_in_the_scores_hold_and_are_attained(phi: Loss, classes: int) -> None:
    assert score_constants(phi, 2) == (phi.lipschitz, phi.smoothness)
    lipschitz, smoothness = score_constants(phi, classes)
    slope = on_scores(phi, MULTICLASS).slope
    rng = np.random.default_rng(0)
    far = [np.eye(classes)[1] * size for size in (0.0, 1e-3, 40.0, 1e6)]
    lengths = [float(np.linalg.norm(slope(h, 0))) for h in (*far, *rng.normal(size=(200, classes)) * 3)]
    if math.isinf(lipschitz):
        assert max(lengths) > 1e5
    else:
        assert lipschitz * (1 - 1e-9) <= max(lengths) <= lipschitz * (1 + 1e-15)
    # The curvature along e_1 - e_2 with those two classes equal and the others far below; across a tie, a jump.
    h = np.r_[0.0, 0.0, np.full(classes - 2, -60.0)]
    apart = 1e-5 * (np.eye(classes)[0] - np.eye(classes)[1])
    curvature = max(
        float(np.linalg.norm(slope(h + apart, y) - slope(h - apart, y)) / np.linalg.norm(2 * apart))
        for y in (0, classes - 1)
    )
    if math.isinf(smoothness):
        assert curvature > 1e4
    else:
        assert curvature == pytest.approx(smoothness, rel=1e-8)


@every_loss
def test_the_kinks_are_where_the_slope_or_the_curvature_jumps(phi: Loss) -> None:
    def curvature(margin: float) -> float:
        return (phi.slope(margin + 1e-5) - phi.slope(margin - 1e-5)) / 2e-5

    grid = [i / 4 for i in range(-20, 21)]
    jumps = tuple(
        margin
        for margin in grid
        if abs(phi.slope(margin + 1e-6) - phi.slope(margin - 1e-6)) > 0.1
        or abs(curvature(margin + 1e-3) - curvature(margin - 1e-3)) > 0.1
    )
    assert jumps == phi.kinks


@pytest.mark.parametrize("l2", [-0.1, math.inf, math.nan])
def test_a_bad_l2_term_is_refused(l2: float) -> None:
    with pytest.raises(InputError, match=r"`loss\(l2=.*zero or positive"):
        loss("hinge", l2=l2)


def test_an_unknown_loss_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="Did you mean 'hinge'"):
        loss("hing")


def test_two_classes_of_softmax_are_the_logistic_loss() -> None:
    softmax, logistic = on_scores(LOSSES["softmax"], MULTICLASS), LOSSES["logistic"]
    for margin in np.linspace(-30.0, 30.0, 41).tolist():
        h = np.array([-margin / 2, margin / 2])
        assert softmax.value(h, 1) == pytest.approx(logistic.value(margin), rel=1e-12, abs=1e-15)
        assert softmax.slope(h, 1)[1] == pytest.approx(logistic.slope(margin), rel=1e-12, abs=1e-15)
        # A reach r on two scores moves their difference by 2 r.
        assert softmax.implicit(h, 1, 1.5)[1] == pytest.approx(logistic.implicit(margin, 3.0), rel=1e-9, abs=1e-15)
