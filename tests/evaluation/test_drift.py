"""Drift measures: closed forms against integration, exact matching against brute force, estimates against the law."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import multivariate_normal, norm

from osamd.errors import InputError
from osamd.evaluation.drift import (
    KERNELS,
    Gaussian,
    Laplace,
    ball_total_variation,
    class_conditional,
    gaussian_total_variation,
    joint_gaussian_total_variation,
    linear,
    mmd,
    mmd_squared,
    total_variation,
    wasserstein_infinity,
)

COVARIANCE = np.array([[2.0, 0.6], [0.6, 0.5]])


def grid_excess(mean_p, mean_q, weight_p, weight_q):
    """∫ (p f - q g)_+ by the midpoint rule on a grid that holds all but 1e-9 of the mass."""
    x, y = np.arange(-12, 14, 0.02) + 0.01, np.arange(-6, 8, 0.02) + 0.01
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    f = multivariate_normal(mean_p, COVARIANCE).pdf(points)
    g = multivariate_normal(mean_q, COVARIANCE).pdf(points)
    return np.maximum(weight_p * f - weight_q * g, 0).sum() * 0.02**2


# Closed forms


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.7, 0.3), (0.2, 0.8), (0.5, 0.0), (0.0, 0.5)])
@pytest.mark.parametrize("mean_q", [[1.0, 1.0], [0.0, 0.0], [0.2, 0.0]])
def test_gaussian_form_equals_the_integral_of_the_positive_part(weights, mean_q):
    integral = grid_excess([0.0, 0.0], mean_q, *weights)
    assert gaussian_total_variation([0.0, 0.0], mean_q, COVARIANCE, *weights) == pytest.approx(integral, abs=1e-5)


def test_gaussian_form_is_continuous_at_equal_means():
    for weights in ((0.5, 0.5), (0.6, 0.4), (0.4, 0.6)):
        at, near = (gaussian_total_variation([0.0], [gap], [[1.0]], *weights) for gap in (0.0, 1e-9))
        assert near == pytest.approx(at, abs=1e-9)


def test_gaussian_form_uses_the_mahalanobis_distance():
    assert gaussian_total_variation([0.0], [3.0], [[9.0]]) == pytest.approx(2 * ndtr(0.5) - 1, abs=1e-14)


def test_joint_form_equals_half_the_integrated_difference_of_joint_densities():
    means_p, means_q = [[-1.0], [1.5]], [[-0.4], [1.0]]
    priors_p, priors_q = [0.3, 0.7], [0.45, 0.55]

    def difference(x):
        return sum(
            abs(a * norm.pdf(x, m[0], 1.3) - b * norm.pdf(x, n[0], 1.3))
            for m, a, n, b in zip(means_p, priors_p, means_q, priors_q, strict=True)
        )

    integral = quad(difference, -15, 15, limit=500)[0] / 2
    joint = joint_gaussian_total_variation(means_p, priors_p, means_q, priors_q, [[1.69]])
    assert joint == pytest.approx(integral, abs=1e-7)


def test_joint_form_exceeds_the_one_of_the_inputs_alone_when_classes_swap():
    swapped = joint_gaussian_total_variation([[-3.0], [3.0]], [0.5, 0.5], [[3.0], [-3.0]], [0.5, 0.5], [[1.0]])
    assert swapped == pytest.approx(2 * ndtr(3.0) - 1, abs=1e-12)  # the law of X alone has not moved at all


@pytest.mark.parametrize("dimension", [1, 2, 3, 8])
@pytest.mark.parametrize("distance", [0.0, 0.3, 1.1, 3.0])
def test_ball_form_equals_the_share_of_one_ball_outside_the_other(dimension, distance):
    rng = np.random.default_rng(dimension)
    radius, n = 1.5, 100_000
    directions = rng.normal(size=(n, dimension))
    points = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    points *= radius * rng.uniform(size=(n, 1)) ** (1 / dimension)
    points[:, 0] -= distance
    outside = np.mean(np.linalg.norm(points, axis=1) > radius * (1 + 1e-12))
    # Standard deviation of the share <= 0.0016; five of them: false alarm 6e-7 a case.
    assert ball_total_variation(distance, radius, dimension) == pytest.approx(outside, abs=0.008)


def test_balls_that_touch_or_are_apart_are_fully_different():
    assert ball_total_variation(2.0, 1.0, 5) == ball_total_variation(math.inf, 1.0, 5) == 1.0


# Total variation from samples


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_low_is_a_lower_bound_of_total_variation_at_its_confidence(shift):
    truth = gaussian_total_variation([0.0], [shift], [[1.0]])
    rng = np.random.default_rng(11)
    above = 0
    for seed in range(200):
        p, q = rng.normal(0, 1, (60, 1)), rng.normal(shift, 1, (60, 1))
        above += total_variation(p, q, seed=seed).low > truth
    # Each pair exceeds with probability at most 0.05: 21 or more of 200 has binomial probability 0.0011.
    assert above <= 20


def test_interval_covers_the_truth_where_the_event_is_easily_learned():
    rng = np.random.default_rng(5)
    truth = gaussian_total_variation([0.0], [3.0], [[1.0]])
    hits = 0
    for seed in range(200):
        drift = total_variation(rng.normal(0, 1, (200, 1)), rng.normal(3, 1, (200, 1)), seed=seed)
        hits += drift.low <= truth <= drift.high
        assert drift.low <= drift.value <= drift.high < drift.low + 0.25
    # Covered with probability at least 0.9: 165 or fewer of 200 has binomial probability 0.0008.
    assert hits > 165


def test_large_samples_recover_total_variation():
    rng = np.random.default_rng(1)
    p, q = rng.normal(size=(8000, 2)), rng.normal([1.5, 0.0], 1, (6000, 2))
    # Simulated at this size: bias -0.004, standard deviation 0.006. Four of them below: false alarm 2e-5.
    truth = gaussian_total_variation([0.0, 0.0], [1.5, 0.0], np.eye(2))
    assert total_variation(p, q).value == pytest.approx(truth, abs=0.03)


def test_windows_of_unequal_size_vote_by_share_not_by_count():
    rng = np.random.default_rng(2)
    # A vote by count would call the whole space P, and so miss the drift of the second pair.
    assert total_variation(rng.normal(size=(2000, 1)), rng.normal(size=(100, 1))).low == 0
    moved = total_variation(rng.normal(size=(4000, 1)), rng.normal(1.0, 1, size=(200, 1)))
    assert moved.value > 0.15  # truth 0.383; simulated mean 0.32, standard deviation 0.045: false alarm 1e-4


def test_repeated_points_do_not_favour_the_first_window():
    p, q = np.repeat([[0.0], [1.0]], [300, 700], axis=0), np.repeat([[0.0], [1.0]], [700, 300], axis=0)
    for seed in range(3):  # the truth is 0.4, and the event plain: 30 votes at each point, 70 to 30
        assert total_variation(p, q, seed=seed).value == pytest.approx(0.4, abs=0.05)
        assert total_variation(q, p, seed=seed).value == pytest.approx(0.4, abs=0.05)


def test_disjoint_windows_are_fully_different_and_the_interval_is_not_certain():
    p = np.linspace(0, 1, 40)[:, None]
    drift = total_variation(p, p + 10)
    assert (drift.value, drift.high) == (1.0, 1.0)
    assert 0.7 < drift.low < 1.0


def test_same_seed_same_estimate_and_more_confidence_a_wider_interval():
    rng = np.random.default_rng(3)
    p, q = rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 1
    assert total_variation(p, q, seed=4) == total_variation(p, q, seed=4)
    narrow, wide = total_variation(p, q, confidence=0.5), total_variation(p, q, confidence=0.99)
    assert wide.low < narrow.low < narrow.value == wide.value < narrow.high < wide.high


# Wasserstein infinity

coordinates = st.floats(-5, 5).map(lambda value: round(value, 1))  # coarse, so that distances tie


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 3))
def test_bottleneck_matching_equals_the_best_of_all_permutations(data, n, d):
    rows = st.lists(st.tuples(*[coordinates] * d), min_size=n, max_size=n)
    p, q = np.array(data.draw(rows)), np.array(data.draw(rows))
    orders = itertools.permutations(range(n))
    best = min(np.linalg.norm(p - q[list(order)], axis=1).max() for order in orders)
    assert wasserstein_infinity(p, q) == pytest.approx(best, abs=1e-12)


def test_on_the_line_the_bottleneck_matches_sorted_samples():
    rng = np.random.default_rng(6)
    p, q = rng.normal(size=(300, 1)), rng.normal(1.0, 2, size=(300, 1))
    assert wasserstein_infinity(p, q) == pytest.approx(np.abs(np.sort(p, axis=0) - np.sort(q, axis=0)).max())


# Maximum mean discrepancy


def test_mmd_squared_is_unbiased_for_a_fixed_kernel():
    rng = np.random.default_rng(7)
    bandwidth, shift = 0.8, 0.5
    draws = [
        mmd_squared(rng.normal(size=(6, 1)), rng.normal(shift, 1, (9, 1)), Gaussian(bandwidth)) for _ in range(6000)
    ]

    # E exp(-z²/2b²) for z ~ N(m, 2) is sqrt(b²/(b²+2)) exp(-m²/2(b²+2)).
    def expected(m):
        return math.sqrt(bandwidth**2 / (bandwidth**2 + 2)) * math.exp(-(m**2) / (2 * (bandwidth**2 + 2)))

    truth = 2 * expected(0.0) - 2 * expected(shift)
    error = np.std(draws) / math.sqrt(len(draws))
    assert abs(np.mean(draws) - truth) < 4 * error  # false alarm 6e-5
    assert 2 * (1 - expected(0.0)) / 9 > 20 * error  # a biased V-statistic would exceed by at least this: seen
    assert min(draws) < 0  # as the docstring warns
    assert mmd([[0.0], [1.0]], [[0.0], [1.0]]) == 0.0  # there the root is taken of the positive part


def test_linear_mmd_is_the_distance_of_the_means():
    rng = np.random.default_rng(8)
    p, q = rng.normal(size=(4000, 3)), rng.normal([3.0, 0.0, 4.0], 1, (4000, 3))
    assert mmd(p, q, "linear") == pytest.approx(5.0, abs=0.12)  # standard deviation 0.0224; false alarm 1e-7


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_symmetric_and_positive_semidefinite(name):
    x = np.random.default_rng(9).normal(size=(30, 2))
    gram = KERNELS[name](x)(x, x)
    assert gram == pytest.approx(gram.T, abs=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-9


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_tells_a_far_window_from_a_near_one(name):
    p = np.random.default_rng(10).normal(size=(80, 2))
    assert mmd_squared(p, p + 3, name) > 0.1 > mmd_squared(p, p + 0.01, name)


def test_a_name_is_the_kernel_with_the_median_bandwidth_and_a_callable_is_taken_as_it_is():
    p, q = [[0.0], [1.0]], [[3.0], [3.0]]  # distances 1, 3, 3, 2, 2, 0: the median of the distinct points is 2
    assert mmd_squared(p, q) == mmd_squared(p, q, Gaussian(2.0))
    assert mmd_squared(p, q, "laplace") == mmd_squared(p, q, Laplace(2.0))
    assert mmd_squared(p, q, lambda x, y: 3 * linear(x, y)) == 3 * mmd_squared(p, q, "linear")


def test_windows_that_are_one_point_have_no_mmd():
    assert mmd_squared(np.ones((3, 2)), np.ones((4, 2))) == pytest.approx(0.0, abs=1e-15)


# Class-conditional measures


def test_class_conditional_takes_the_class_that_moved_most():
    rng = np.random.default_rng(12)
    x, y = rng.normal(size=(90, 2)), np.repeat(["cat", "dog", "eel"], 30)
    moved = x + np.where(y == "dog", 2.0, 0.5)[:, None]
    order = rng.permutation(90)
    expected = max(wasserstein_infinity(x[y == name], moved[y == name]) for name in ("cat", "dog", "eel"))
    assert class_conditional(wasserstein_infinity, x, y, moved[order], y[order]) == expected
    assert expected == wasserstein_infinity(x[y == "dog"], moved[y == "dog"])
    drift = class_conditional(lambda p, q: total_variation(p, q).value, x, y, moved, y)
    assert drift == total_variation(x[y == "dog"], moved[y == "dog"]).value


# Bad input

ROWS = [[0.0], [1.0]]


@pytest.mark.parametrize("measure", [total_variation, wasserstein_infinity, mmd, mmd_squared])
@pytest.mark.parametrize(
    ("p", "q", "says"),
    [
        ([0.0, 1.0], ROWS, "p must be a 2-D array; reshape"),
        (ROWS, np.zeros((0, 1)), "q must not be empty"),
        (ROWS, [[0.0], [math.nan]], "q must be finite; drop or fill"),
        ([[0.0], [math.inf]], ROWS, "p must be finite"),
        (ROWS, [[0.0, 1.0], [1.0, 1.0]], "as many columns as p, which has 1"),
        (ROWS, [["a"], ["b"]], "q must be an array of numbers"),
    ],
)
def test_bad_windows_are_refused_by_every_measure(measure, p, q, says):
    with pytest.raises(InputError, match=says):
        measure(p, q)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: wasserstein_infinity(ROWS, [[0.0]]), "equally many rows, p has 2; draw 1 of the larger"),
        (lambda: total_variation(ROWS, [[0.0]]), "q=<1 rows>.*at least 2 rows"),
        (lambda: mmd([[0.0]], ROWS), "p=<1 rows>.*at least 2 rows"),
        (lambda: total_variation(ROWS, ROWS, confidence=1.0), r"confidence=1\.0"),
        (lambda: total_variation(ROWS, ROWS, neighbours=3), r"neighbours must lie in 1\.\.2"),
        (lambda: total_variation(ROWS, ROWS, neighbours=0), r"neighbours must lie in 1\.\.2"),
        (lambda: mmd(ROWS, ROWS, "gausian"), "Did you mean 'gaussian'"),
        (lambda: mmd(ROWS, ROWS, lambda x, y: np.ones(3)), r"shape \(n, m\), here \(2, 2\)"),
        (lambda: Gaussian(0.0), "bandwidth must be positive"),
        (lambda: Laplace(math.nan), "bandwidth must be positive"),
        (lambda: ball_total_variation(-1.0, 1.0, 2), "distance must not be negative"),
        (lambda: ball_total_variation(math.nan, 1.0, 2), "distance must not be negative"),
        (lambda: ball_total_variation(1.0, 0.0, 2), "radius must be positive"),
        (lambda: ball_total_variation(1.0, 1.0, 0), "dimension must be a whole number"),
        (lambda: gaussian_total_variation([0.0], [1.0], [[0.0]]), "positive definite"),
        (lambda: gaussian_total_variation([0.0, 1.0], [1.0, 1.0], [[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: gaussian_total_variation([0.0], [1.0, 2.0], [[1.0]]), r"mean_q must have shape \(1,\)"),
        (lambda: gaussian_total_variation([0.0], [1.0], np.eye(2)), r"covariance must have shape \(1, 1\)"),
        (lambda: gaussian_total_variation([0.0], [1.0], [[1.0]], -0.1), r"weight_p=-0\.1"),
        (lambda: joint_gaussian_total_variation(ROWS, [0.5, 0.6], ROWS, [0.5, 0.5], [[1.0]]), "priors_p.*sum to 1"),
        (lambda: class_conditional(mmd, ROWS, [1, -1], ROWS, [1, 1]), "y_q=<2 labels>.*class -1 is missing"),
        (lambda: class_conditional(mmd, ROWS, [1], ROWS, [1, 1]), r"y_p must hold one label a row, shape \(2,\)"),
        (lambda: class_conditional(mmd, [0.0], [1], ROWS, [1, 1]), "x_p must be a 2-D array"),
    ],
)
def test_bad_arguments_are_refused_with_the_rule(call, says):
    with pytest.raises(InputError, match=says):
        call()
