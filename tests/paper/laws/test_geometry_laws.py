"""Every geometry: steps land in K and obey the three-point inequality, R is what it says, the constants hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_cases import CASES, SETS, Case, argmin, law, points, ridges, vectors, violation

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.paper.geometry import GEOMETRIES, Geometry, ball, box, p_norm, signed_simplex, simplex
from osamd.paper.models import linear

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
dimensions = st.integers(1, 6)


def ridge_value(ridge: Array, v: Array) -> float:
    return 0.5 * float((ridge * v * v).sum())


def test_every_geometry_has_its_decision_set_written_out() -> None:
    assert SETS.keys() == GEOMETRIES.keys()


@every_case
def test_a_geometry_states_its_decision_set(case: Case) -> None:
    assert case.geometry.decision_set == case.decision_set


@every_case
def test_rotations_change_nothing_where_they_are_said_to(case: Case) -> None:
    g = case.geometry
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    v, w = g.step(g.start((4,)), rng.normal(size=4)), g.step(g.start((4,)), rng.normal(size=4))
    if g.isotropic:
        assert g.project(turn @ v) == pytest.approx(turn @ v, abs=1e-12)
        assert g.step(turn @ w, turn @ v) == pytest.approx(turn @ g.step(w, v), abs=1e-12)
        assert g.divergence(turn @ v, turn @ w) == pytest.approx(g.divergence(v, w), abs=1e-12)


def test_the_whole_space_and_the_ball_are_isotropic_and_the_box_is_not() -> None:
    assert GEOMETRIES["euclidean"]().isotropic
    assert ball(0.7).isotropic
    assert not box(-1.0, 1.0).isotropic
    assert not p_norm(1.5).isotropic
    assert not simplex().isotropic


@every_case
@law
@given(dimensions, st.sampled_from([1e-3, 1.0, 30.0, 1e4]), st.data())
def test_a_step_lands_in_the_decision_set(case: Case, n: int, size: float, data: st.DataObject) -> None:
    g, k = case
    w, a, ridge = data.draw(points(g, n)), data.draw(vectors(n, size)), data.draw(ridges(n))
    for landed in (g.start((n,)), g.step(w, a), g.proximal(w, a, ridge), g.project(w - a)):
        assert violation(k, landed) <= 1e-12
        assert g.project(landed) == pytest.approx(landed, rel=1e-12, abs=1e-300)


@every_case
@law
@given(dimensions, st.data())
def test_a_step_of_rate_zero_is_the_identity(case: Case, n: int, data: st.DataObject) -> None:
    g = case.geometry
    w = data.draw(points(g, n))
    nothing = np.zeros(n)
    assert g.step(w, nothing) == pytest.approx(w, rel=1e-12, abs=1e-15)
    assert g.proximal(w, nothing, nothing) == pytest.approx(w, rel=1e-12, abs=1e-15)
    assert g.project(w) == pytest.approx(w, rel=1e-12, abs=1e-15)


@every_case
@law
@given(dimensions, st.data())
def test_a_step_leaves_its_arguments_alone_and_keeps_their_shape(case: Case, n: int, data: st.DataObject) -> None:
    g = case.geometry
    w, a, ridge = (
        each.reshape(1, n) for each in (data.draw(points(g, n)), data.draw(vectors(n)), data.draw(ridges(n)))
    )
    before = w.copy(), a.copy(), ridge.copy()
    landed = g.proximal(w, a, ridge)
    assert landed.shape == g.step(w, a).shape == g.mirror(w).shape == g.project(w).shape == (1, n)
    assert landed.ravel() == pytest.approx(g.proximal(w.ravel(), a.ravel(), ridge.ravel()), rel=1e-14)
    for now, then in zip((w, a, ridge), before, strict=True):
        assert np.array_equal(now, then)


@every_case
@law
@given(dimensions, st.data())
def test_the_three_point_inequality(case: Case, n: int, data: st.DataObject) -> None:
    # w = argmin_K f + D(., c) implies f(w) - f(d) <= D(d, c) - D(d, w) - D(w, c) for every d in K (Beck and Teboulle).
    g = case.geometry
    c, d, a = data.draw(points(g, n)), data.draw(points(g, n)), data.draw(vectors(n))
    for ridge, w in ((r, g.proximal(c, a, r)) for r in (np.zeros(n), data.draw(ridges(n)))):
        gained = float(a @ (w - d)) + ridge_value(ridge, w) - ridge_value(ridge, d)
        bound = g.divergence(d, c) - g.divergence(d, w) - g.divergence(w, c)
        size = 1.0 + abs(gained) + g.divergence(d, c) + g.divergence(d, w) + ridge_value(ridge, d)
        assert gained <= bound + 1e-12 * size


@every_case
@law
@given(dimensions, st.data())
def test_the_mirror_map_is_strongly_convex_in_its_norm(case: Case, n: int, data: st.DataObject) -> None:
    g = case.geometry
    v, w = data.draw(points(g, n)), data.draw(points(g, n))
    size = 1e-13 * (1.0 + float(np.abs(g.mirror(w)) @ np.abs(v - w)) + g.norm(v) ** 2)
    assert g.divergence(v, w) >= 0.5 * g.norm(v - w) ** 2 - 100 * size
    assert 0.0 <= g.divergence(w, w) <= size


@every_case
@law
@given(dimensions, st.data())
def test_the_divergence_belongs_to_the_mirror_map(case: Case, n: int, data: st.DataObject) -> None:
    g = case.geometry
    x, y, z = (data.draw(points(g, n)) for _ in range(3))
    # The three-point identity, and the derivative of D(., z) along directions that keep the sign of every parameter.
    turn = g.mirror(y) - g.mirror(z)
    size = 1.0 + g.divergence(x, z) + g.divergence(y, z) + float(np.abs(turn) @ np.abs(x - y))
    assert g.divergence(x, z) - g.divergence(x, y) - g.divergence(y, z) == pytest.approx(
        float(turn @ (x - y)), abs=1e-12 * size
    )
    h = 1e-5
    along = y * data.draw(vectors(n, 1.0))
    difference = (g.divergence(y + h * along, z) - g.divergence(y - h * along, z)) / (2 * h)
    assert difference == pytest.approx(float(turn @ along), abs=1e-8 * size)


@every_case
@law
@given(dimensions, st.data())
def test_the_dual_norm_is_dual(case: Case, n: int, data: st.DataObject) -> None:
    g = case.geometry
    a, w = data.draw(vectors(n)), data.draw(vectors(n))
    assert abs(float(a @ w)) <= g.dual_norm(a) * g.norm(w) * (1 + 1e-12)
    # The gradient of the dual norm, by differences, is the w of norm 1 that attains it.
    h = 1e-5
    best = np.array([(g.dual_norm(a + h * e) - g.dual_norm(a - h * e)) / (2 * h) for e in np.eye(n)])
    assert float(a @ best) >= g.dual_norm(a) * g.norm(best) - 1e-3 * h**0.5


@every_case
@law
@given(dimensions, st.data())
def test_gamma_and_the_diameter_hold(case: Case, n: int, data: st.DataObject) -> None:
    g = case.geometry
    x, y, z = (data.draw(points(g, n, size)) for size in (3.0, 3.0, 100.0))
    apart = g.norm(x - y)
    assert apart <= g.diameter(n) * (1 + 1e-12) + 1e-12
    if apart > 0.0:
        assert g.divergence(x, z) - g.divergence(y, z) <= g.gamma(n) * apart + 1e-12 * (1.0 + g.divergence(x, z))


@every_case
@pytest.mark.parametrize("n", [2, 5])
def test_the_diameter_and_gamma_are_attained(case: Case, n: int) -> None:
    # The far ends of K along a coordinate pair or the diagonal; gamma where x and y are near one end, z at the other.
    g = case.geometry
    pair = np.zeros(n)
    pair[0], pair[1] = 1.0, -1.0
    reached, steepest = 0.0, 0.0
    for direction in (np.ones(n), pair):
        one, other = (g.step(g.start((n,)), sign * 1e4 * direction) for sign in (1.0, -1.0))
        reached = max(reached, g.norm(one - other))
        near = one + 1e-4 * (other - one)
        if g.norm(one - near) > 0.0:
            rise = (g.divergence(one, other) - g.divergence(near, other)) / g.norm(one - near)
            steepest = max(steepest, rise)
    if math.isinf(g.diameter(n)):
        assert math.isinf(g.gamma(n))
        assert reached > 1e3
    else:
        assert reached == pytest.approx(g.diameter(n), rel=1e-9)
        assert 0.7 * g.gamma(n) <= steepest <= g.gamma(n) * (1 + 1e-9)


@every_case
@law
@given(dimensions, st.data())
def test_reach_bounds_how_far_a_slope_moves_the_score(case: Case, n: int, data: st.DataObject) -> None:
    g = case.geometry
    w, x, ridge = data.draw(points(g, n)), data.draw(vectors(n)), data.draw(ridges(n))
    q, r = data.draw(vectors(1, 3.0))[0], data.draw(vectors(1, 3.0))[0]
    moved = float(x @ (g.proximal(w, r * x, ridge) - g.proximal(w, q * x, ridge)))
    longest = g.reach(x, ridge) * abs(q - r)
    room = 1e-11 * (1.0 + longest)
    assert abs(moved) <= longest + room
    assert moved * (q - r) >= -room
    if g.flat:
        assert moved == pytest.approx(g.reach(x, ridge) * (q - r), abs=room)


@every_case
@law
@given(st.integers(1, 3), st.data())
def test_reach_bounds_how_far_slopes_move_the_scores_of_several_classes(
    case: Case, n: int, data: st.DataObject
) -> None:
    g = case.geometry
    model = linear(n, 3, bias=False)
    w = data.draw(points(g, 3 * n)).reshape(3, n)
    x, ridge = data.draw(vectors(n)), data.draw(ridges(n))
    q, r = data.draw(vectors(3)), data.draw(vectors(3))
    one, other = (g.proximal(w, model.pull(s, x), np.tile(ridge, (3, 1))) for s in (q, r))
    moved = model.scores(one, x) - model.scores(other, x)
    longest = g.reach(x, ridge) * float(np.linalg.norm(q - r))
    assert float(np.linalg.norm(moved)) <= longest + 1e-11 * (1.0 + longest)


def numeric_proximal(case: Case, w: Array, a: Array, ridge: Array) -> Array:
    g, k = case

    def value(v: Array) -> float:
        return float(a @ v) + ridge_value(ridge, v) + g.divergence(v, w)

    def gradient(v: Array) -> Array:
        return a + ridge * v + g.mirror(v) - g.mirror(w)

    return argmin(value, gradient, k, g.start(w.shape) + (0.0 if k.low > 0 else 0.01))


@every_case
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ridged", [False, True])
def test_the_proximal_step_is_the_minimiser_that_scipy_finds(case: Case, seed: int, ridged: bool) -> None:
    g = case.geometry
    rng = np.random.default_rng(seed)
    n = 4
    w = g.step(g.start((n,)), rng.normal(size=n))
    a = rng.normal(size=n) * (0.3, 1.0, 2.0, 4.0)[seed]
    ridge = rng.choice([0.0, 0.5, 3.0], size=n) if ridged else np.zeros(n)
    landed, found = g.proximal(w, a, ridge), numeric_proximal(case, w, a, ridge)

    def value(v: Array) -> float:
        return float(a @ v) + ridge_value(ridge, v) + g.divergence(v, w)

    assert value(landed) <= value(g.project(found)) + 1e-12
    assert value(landed) == pytest.approx(value(found), abs=1e-8)
    assert landed == pytest.approx(found, abs=1e-4)
    if not ridged:
        assert g.step(w, a) == pytest.approx(landed, abs=1e-14)


@every_case
@pytest.mark.parametrize("seed", range(3))
def test_the_projection_is_the_minimiser_that_scipy_finds(case: Case, seed: int) -> None:
    g, k = case
    rng = np.random.default_rng(seed)
    w = np.exp(rng.normal(size=4) * 3.0)
    w[0] = k.low / 10 if k.low > 0 else -w[0]  # below the floor, where K has one
    w *= (0.01, 1.0, 100.0)[seed]
    landed, found = g.project(w), numeric_proximal(case, w, np.zeros(4), np.zeros(4))
    assert g.divergence(landed, w) <= g.divergence(g.project(found), w) + 1e-12 * (1.0 + g.norm(w) ** 2)
    assert landed == pytest.approx(found, abs=1e-4 * (1.0 + np.abs(w).max()))


@every_case
@pytest.mark.parametrize("size", [1e-8, 1e3, 1e7])
@pytest.mark.parametrize("ridge", [0.0, 1e-8, 1e8])
def test_extreme_steps_land_in_the_decision_set_without_a_warning(case: Case, size: float, ridge: float) -> None:
    g, k = case
    rng = np.random.default_rng(0)
    for n in (1, 9):
        ridges = np.full(n, ridge)
        ridges[-1] = 0.0
        w = g.start((n,))
        for _ in range(3):
            w = g.proximal(w, size * rng.normal(size=n), ridges)
            assert np.isfinite(w).all()
            assert violation(k, w) <= 1e-12


@pytest.mark.parametrize("radius", [1e-100, 1e-9, 1.0, 1e100])
@pytest.mark.parametrize("far", [1e60, 1e120, 1e300])
@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_a_point_whose_square_overflows_is_projected_on_the_ball(radius: float, far: float, ridge: float) -> None:
    landed = ball(radius).proximal(far * np.array([0.6, 0.0, -0.8]), np.zeros(3), np.full(3, ridge))
    expected = min(radius, far / (1.0 + ridge)) * np.array([0.6, 0.0, -0.8])
    assert landed == pytest.approx(expected, rel=1e-14)


def test_a_weight_below_the_floor_is_projected_as_it_is() -> None:
    # Scaled to a sum of 1, (1e-5, 0.1) has its first weight at 1e-4: that ends at the floor, not above it.
    assert simplex(1.0, 1e-3).project(np.array([1e-5, 0.1])) == pytest.approx([1e-3, 0.999])
    assert simplex(1.0, 1e-9).project(np.array([0.0, -1.0, 2.0, 2.0])) == pytest.approx([1e-9, 1e-9, 0.5, 0.5])


def test_a_comparator_may_touch_the_border_of_the_whole_simplex() -> None:
    assert simplex().divergence(np.array([0.0, 1.0]), np.array([0.5, 0.5])) == pytest.approx(math.log(2.0))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ball(-1.0), r"`ball\(radius=-1.0\)`: radius must be positive"),
        (lambda: ball(math.inf), "radius must be positive and finite"),
        (lambda: box(1.0, 1.0), r"`box\(low=1\.0, high=1\.0\)`: low must be below high"),
        (lambda: box(-math.inf, 1.0), "low must be a finite number"),
        (lambda: ball(1e-160), "from 1e-100 to 1e\\+100"),
        (lambda: signed_simplex(-1.0), r"`signed_simplex\(scale=-1\.0\)`"),
        (lambda: simplex(0.0), "scale must be positive"),
        (lambda: simplex(1.0, 0.0), "floor must lie between"),
        (lambda: simplex(1.0, 1.0), "floor must lie between"),
        (lambda: simplex(1.0, 0.25).start((2, 2)), "leave no room"),
        (lambda: simplex(1.0, 0.25).project(np.ones(4)), "leave no room"),
        (lambda: simplex(1.0, 0.25).gamma(5), "leave no room"),
        (lambda: simplex(1.0, 0.25).diameter(5), "leave no room"),
        (lambda: p_norm(1.0), r"p must lie in \(1, 2\]"),
        (lambda: p_norm(2.5), r"p must lie in \(1, 2\]"),
        (lambda: p_norm(1.5, radius=0.0), "radius must be positive"),
    ],
)
def test_bad_parameters_are_refused(make: object, says: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=says):
        make()


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_geometry_is_registered_under_its_name(name: str) -> None:
    g = GEOMETRIES[name]()
    assert isinstance(g, Geometry)
    assert g.name == name
