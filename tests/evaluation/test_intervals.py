"""Intervals over seeds."""

import math

import numpy as np
import pytest
from scipy.stats import t

from osamd.errors import InputError
from osamd.evaluation.intervals import half_width_90, mean_90


def test_the_interval_is_students():
    values = [1.0, 2.0, 4.0, 8.0]
    low, high = t.interval(0.9, 3, np.mean(values), np.std(values, ddof=1) / 2)
    mean, half = mean_90(values)
    assert (mean - half, mean + half) == (pytest.approx(low), pytest.approx(high))


def test_curves_have_an_interval_in_every_round():
    curves = np.array([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    assert half_width_90(curves).tolist() == [mean_90([1.0, 3.0, 8.0]).half_width_90, 0.0]


def test_one_seed_has_no_interval():
    assert mean_90([0.5]) == (0.5, None)
    with pytest.raises(InputError, match="at least two seeds"):
        half_width_90(np.zeros((1, 10)))


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], 3.0])
def test_a_mean_of_no_seeds_is_refused(values):
    with pytest.raises(InputError, match=r"`mean_90\(values=.*one number per seed"):
        mean_90(values)


def test_equal_seeds_have_an_interval_of_no_width():
    assert mean_90([2.0, 2.0]) == (2.0, 0.0)
    assert math.isfinite(mean_90([2.0, 2.0]).half_width_90)
