"""Sums in the stated order, bit for bit, and the two scalar equations at ordinary and extreme inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax, wrightomega

from osamd.numerics import LANES, Array, dot, lane_sum, log_omega, tempered_softmax

repeatable = settings(derandomize=True, deadline=None, max_examples=150)


def summed_by_hand(products: list[float]) -> float:
    """The stated order, one addition at a time."""
    lanes = [0.0] * LANES
    for i, product in enumerate(products):
        lanes[i % LANES] += product
    half = [lanes[j] + lanes[j + 4] for j in range(4)]
    quarter = [half[j] + half[j + 2] for j in range(2)]
    return quarter[0] + quarter[1]


@repeatable
@given(st.data(), st.integers(1, 40))
def test_lane_sum_adds_in_the_stated_order_bit_for_bit(data: st.DataObject, length: int) -> None:
    products = data.draw(arrays(np.float64, length, elements=st.floats(-1e100, 1e100)))
    assert float(lane_sum(products)).hex() == summed_by_hand(products.tolist()).hex()


@pytest.mark.parametrize("length", range(1, 41))
def test_lane_sum_of_rows_is_the_sum_of_each_row_bit_for_bit(length: int) -> None:
    rng = np.random.default_rng(length)
    products = rng.normal(size=(5, length)) * 10.0 ** rng.integers(-8, 8, size=(5, length))
    for layout in (products, np.asfortranarray(products), np.repeat(products, 2, axis=1)[:, ::2]):
        assert [total.hex() for total in lane_sum(layout).tolist()] == [
            summed_by_hand(row).hex() for row in products.tolist()
        ]


def test_lane_sum_keeps_its_order_on_long_and_on_deep_inputs() -> None:
    rng = np.random.default_rng(0)
    for shape in ((10_007,), (3, 785), (784, 17), (2, 3, 100)):
        products = rng.normal(size=shape)
        totals = lane_sum(products)
        assert totals.shape == shape[:-1]
        by_hand = [summed_by_hand(row) for row in products.reshape(-1, shape[-1]).tolist()]
        assert totals.ravel().tolist() == by_hand


def test_a_sum_of_nothing_is_zero_and_of_negative_zeros_is_positive() -> None:
    assert lane_sum(np.zeros((2, 0))).tolist() == [0.0, 0.0]
    assert math.copysign(1.0, float(lane_sum(np.full(LANES, -0.0)))) == 1.0


@repeatable
@given(st.data(), st.integers(1, 40))
def test_dot_is_the_lane_sum_of_the_products(data: st.DataObject, length: int) -> None:
    a, b = (data.draw(arrays(np.float64, length, elements=st.floats(-1e9, 1e9))) for _ in range(2))
    assert dot(a, b) == summed_by_hand((a * b).tolist())


def residual(t: Array, z: Array, ridge: Array) -> Array:
    """How far t + ridge exp(t) is from z, in units of what rounding t and log ridge changes it by."""
    log_ridge = np.array([math.log(r) if r > 0 else -math.inf for r in ridge])
    grown = np.exp(t + log_ridge)
    size = 1.0 + np.abs(t) + np.where(ridge > 0, np.abs(log_ridge), 0.0)
    return np.abs(t + grown - z) / ((1.0 + grown) * size)


@repeatable
@given(
    arrays(np.float64, 6, elements=st.floats(-1e6, 1e6)),
    arrays(np.float64, 6, elements=st.one_of(st.just(0.0), st.floats(1e-12, 1e12))),
)
@example(np.array([1000.0, 800.0, -800.0, 0.0, 0.0, 1e5]), np.array([0.0, 1e-300, 1e300, 1e300, 1e-300, 5e-324]))
@example(np.array([1e300, -1e300, 1e-300, 1e15, 30.0, 0.0]), np.array([1.0, 1.0, 1e-9, 1e15, 1e30, 1e30]))
def test_log_omega_solves_its_equation(z: Array, ridge: Array) -> None:
    assert np.max(residual(log_omega(z, ridge), z, ridge)) < 1e-14


def test_log_omega_is_the_logarithm_of_the_wright_omega_function() -> None:
    z = np.concatenate([np.linspace(-30.0, 30.0, 121), np.geomspace(30.0, 1e12, 40)])
    assert np.exp(log_omega(z, np.ones_like(z))) == pytest.approx(wrightomega(z), rel=1e-13)
    ridge = np.geomspace(1e-6, 1e6, z.size)
    assert ridge * np.exp(log_omega(z, ridge)) == pytest.approx(wrightomega(z + np.log(ridge)), rel=1e-12)


@repeatable
@given(arrays(np.float64, 5, elements=st.floats(-700, 700)), st.floats(1e-3, 1e3))
def test_tempered_softmax_without_ridge_and_floor_is_softmax(b: Array, total: float) -> None:
    assert tempered_softmax(b, np.zeros(5), 0.0, total) == pytest.approx(total * softmax(b), rel=1e-12, abs=1e-300)


@repeatable
@given(
    arrays(np.float64, 5, elements=st.floats(-50, 50)),
    arrays(np.float64, 5, elements=st.sampled_from([0.0, 1e-9, 0.3, 7.0, 1e6])),
    st.sampled_from([0.0, 1e-9, 1e-2]),
    st.sampled_from([0.1, 1.0, 30.0]),
)
@example(np.zeros(5), np.array([1e9, 0.0, 0.0, 0.0, 0.0]), 0.0, 1.0)
@example(np.array([0.0, 1e4, -1e4, 1e6, 1e6]), np.array([0.0, 1e4, 1e4, 1e6, 1e6]), 1e-9, 1.0)
@example(np.array([1e7, 0.0, 0.0, 0.0, -1e7]), np.array([1e3, 1e3, 0.0, 1e12, 0.0]), 1e-3, 1.0)
def test_tempered_softmax_solves_its_equations(b: Array, ridge: Array, floor: float, total: float) -> None:
    w = tempered_softmax(b, ridge, floor, total)
    assert float(w.sum()) == pytest.approx(total, rel=1e-12)
    assert (w >= floor).all()
    # One multiplier nu for all weights above the floor, and no more than theirs for the weights at it.
    normal = w > 1e-290
    nu = b[normal] - np.log(w[normal]) - ridge[normal] * w[normal]
    rounding = 1e-12 * (1.0 + np.max(np.abs(b)) + np.max(ridge * w))
    above = w[normal] > floor
    assert np.ptp(nu[above]) <= rounding
    assert (nu[~above] <= np.min(nu[above]) + rounding).all()


@repeatable
@given(arrays(np.float64, 4, elements=st.floats(-5, 5)), arrays(np.float64, 4, elements=st.floats(0, 10)))
def test_tempered_softmax_does_not_mind_a_shift(b: Array, ridge: Array) -> None:
    assert tempered_softmax(b + 1024.0, ridge, 1e-6, 1.0) == pytest.approx(
        tempered_softmax(b, ridge, 1e-6, 1.0), rel=1e-11
    )
