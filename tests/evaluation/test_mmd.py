"""Kernels and the maximum mean discrepancy: against the law, and the laws of a kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest

from osamd.evaluation.mmd import KERNELS, Gaussian, Laplace, linear_kernel, mmd, mmd_squared


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
    assert mmd_squared(p, q, lambda x, y: 3 * linear_kernel(x, y)) == 3 * mmd_squared(p, q, "linear")


def test_windows_that_are_one_point_have_no_mmd():
    assert mmd_squared(np.ones((3, 2)), np.ones((4, 2))) == pytest.approx(0.0, abs=1e-15)
