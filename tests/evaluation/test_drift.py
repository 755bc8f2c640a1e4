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
    ball_total_variation,
    class_conditional,
    gaussian_total_variation,
    joint_gaussian_total_variation,
    nearest_neighbours,
    total_variation,
    wasserstein_infinity,
)
from osamd.evaluation.mmd import Gaussian, Laplace, mmd, mmd_squared
from osamd.streams import rotating_gaussian

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
    # Each pair exceeds with probability at most 0.1: 34 or more of 200 has binomial probability 0.0015.
    assert above <= 33


def test_low_comes_near_total_variation_where_the_event_is_easily_learned():
    rng = np.random.default_rng(5)
    truth = gaussian_total_variation([0.0], [3.0], [[1.0]])
    for seed in range(20):
        drift = total_variation(rng.normal(0, 1, (2000, 1)), rng.normal(3, 1, (2000, 1)), seed=seed)
        # The limits of the four frequencies 0.93 and 0.07 at n = 1000 are 0.02 wide, two of them to a difference, and
        # `low` averages two of those; six standard deviations (0.008) further down: false alarm 1e-8 a seed.
        assert truth - 0.09 < drift.low < drift.value
        assert drift.high == 1.0


def test_low_is_valid_for_an_event_learner_of_the_callers_own():
    rng = np.random.default_rng(6)
    p, q = rng.normal(size=(400, 20)), rng.normal(size=(400, 20))
    q[:, 0] += 2.0  # in one of 20 features: a threshold sees it better than neighbours do

    def threshold(p, q):
        middle = (p[:, 0].mean() + q[:, 0].mean()) / 2
        return lambda rows: middle - rows[:, 0]

    truth = gaussian_total_variation(np.zeros(1), [2.0], [[1.0]])
    own, neighbours = total_variation(p, q, learn=threshold), total_variation(p, q)
    assert neighbours.value < own.value
    assert own.low < truth
    assert own.value == pytest.approx(truth, abs=0.15)  # standard deviation 0.037: false alarm 5e-5


def test_an_event_learner_that_learns_nothing_sees_no_drift():
    rng = np.random.default_rng(7)
    p, q = rng.normal(size=(100, 1)), rng.normal(5.0, 1, size=(100, 1))
    assert total_variation(p, q, learn=lambda p, q: lambda rows: np.ones(len(rows))) == (0.0, 0.0, 1.0)


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
    assert 0.5 < drift.low < 1.0  # 20 of 20 twice, each at a risk of 0.025: 2 * 0.025^(1/20) - 1 = 0.66


def test_same_seed_same_estimate_and_more_confidence_a_lower_limit():
    rng = np.random.default_rng(3)
    p, q = rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 1
    assert total_variation(p, q, seed=4) == total_variation(p, q, seed=4)
    narrow, wide = total_variation(p, q, confidence=0.5), total_variation(p, q, confidence=0.99)
    assert wide.low < narrow.low < narrow.value == wide.value


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


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 6), st.integers(1, 3))
def test_windows_of_unequal_size_are_coupled_as_if_each_point_were_many(data, n, m, d):
    p, q = (np.array(data.draw(st.lists(st.tuples(*[coordinates] * d), min_size=k, max_size=k))) for k in (n, m))
    common = math.lcm(n, m)  # the same laws, as windows of equal size
    expected = wasserstein_infinity(np.repeat(p, common // n, axis=0), np.repeat(q, common // m, axis=0))
    assert wasserstein_infinity(p, q) == wasserstein_infinity(q, p) == expected


def test_windows_of_unequal_size_on_the_line_compare_quantiles():
    rng = np.random.default_rng(13)
    p, q = rng.normal(size=(120, 1)), rng.normal(1.0, 2, size=(90, 1))
    levels = np.arange(360)  # of lcm(120, 90)
    gaps = np.sort(p, axis=0)[levels // 3] - np.sort(q, axis=0)[levels // 4]
    assert wasserstein_infinity(p, q) == pytest.approx(np.abs(gaps).max())


def test_two_windows_of_a_stream_have_a_class_conditional_bottleneck():
    x, y = rotating_gaussian(200).sample(seed=0)
    assert np.sum(y[:100]) != np.sum(y[100:])  # so each class has windows of unequal size
    drift = class_conditional(wasserstein_infinity, x[:100], y[:100], x[100:], y[100:])
    assert 15.0 < drift < 35.0  # the far class moves by 21 (a right angle at 15), its noise by a few more


def test_on_the_line_the_bottleneck_matches_sorted_samples():
    rng = np.random.default_rng(6)
    p, q = rng.normal(size=(300, 1)), rng.normal(1.0, 2, size=(300, 1))
    assert wasserstein_infinity(p, q) == pytest.approx(np.abs(np.sort(p, axis=0) - np.sort(q, axis=0)).max())


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
        (ROWS, [["a"], ["b"]], "q must be numbers; one of them is the text 'a'"),
    ],
)
def test_bad_windows_are_refused_by_every_measure(measure, p, q, says):
    with pytest.raises(InputError, match=says):
        measure(p, q)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: total_variation(ROWS, [[0.0]]), "q=<1 rows>.*at least 2 rows"),
        (lambda: mmd([[0.0]], ROWS), "p=<1 rows>.*at least 2 rows"),
        (lambda: total_variation(ROWS, ROWS, confidence=1.0), r"confidence=1\.0"),
        (
            lambda: total_variation(ROWS, ROWS, learn=lambda p, q: lambda rows: 1.0),
            r"learn=.*turn 1 rows into 1 numbers",
        ),
        (lambda: total_variation(ROWS, ROWS, learn=lambda p, q: lambda rows: [math.nan]), "positive inside the event"),
        (lambda: nearest_neighbours(0), "neighbours must be a whole number"),
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
        (lambda: class_conditional(mmd, ROWS, [1], ROWS, [1, 1]), r"y_p must hold one label per row, shape \(2,\)"),
        (lambda: class_conditional(mmd, [0.0], [1], ROWS, [1, 1]), "x_p must be a 2-D array"),
    ],
)
def test_bad_arguments_are_refused_with_the_rule(call, says):
    with pytest.raises(InputError, match=says):
        call()
