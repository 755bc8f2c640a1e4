"""Sums and steps in vector instructions: the stated order to the last bit, and nothing read beside the sample."""

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from osamd.compiled.lanes import add, padded, sums
from osamd.numerics import lane_sum


@numba.njit
def compiled_sums(theta, w, at, x, start, features, bias):
    return sums(theta, w, at, x, start, features, bias)


@numba.njit
def compiled_add(scale, x, start, features, bias, w, at):
    add(scale, x, start, features, bias, w, at)


def drawn(features, bias, at, start):
    """Padded parameters from `at` on, and a sample from `start` on; all around them is not a number."""
    generator = np.random.default_rng([features, bias, at, start])
    width, size = features + bias, padded(features + bias)
    theta, w = np.full((2, at + size + 3), np.nan)
    for params in (theta, w):
        params[at : at + size] = 0.0
        params[at : at + width] = generator.normal(size=width)
    x = np.full(start + features + 9, np.nan)
    x[start : start + features] = generator.normal(size=features)
    row = np.append(x[start : start + features], np.ones(int(bias)))
    return theta, w, x, row


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("features", [1, 2, 3, 6, 7, 8, 9, 15, 16, 54, 784])
@pytest.mark.parametrize(("at", "start"), [(0, 0), (8, 5)])
def test_sums_keep_the_stated_order_to_the_last_bit(features, bias, at, start):
    theta, w, x, row = drawn(features, bias, at, start)
    own = slice(at, at + len(row))
    stated = [lane_sum(other * row) for other in (theta[own], w[own], row)]
    assert list(compiled_sums(theta, w, at, x, start, features, bias)) == stated


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("features", [1, 3, 7, 8, 9, 54])
@pytest.mark.parametrize(("at", "start"), [(0, 0), (8, 5)])
def test_a_step_moves_its_own_parameters_and_no_others(features, bias, at, start):
    _, w, x, row = drawn(features, bias, at, start)
    moved = w.copy()
    moved[at : at + len(row)] += 0.3 * row
    compiled_add(0.3, x, start, features, bias, w, at)
    np.testing.assert_array_equal(w, moved)


def test_samples_that_are_not_contiguous_are_refused():
    x = np.zeros((4, 6))[:, ::2]
    with pytest.raises(TypingError, match="contiguous float64"):
        compiled_sums(np.zeros(8), np.zeros(8), 0, x, 0, 3, False)
