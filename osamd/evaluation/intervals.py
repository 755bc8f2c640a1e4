"""Means over seeds with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from osamd.numerics import Array


class Mean(NamedTuple):
    """A mean over seeds and the half-width of its two-sided 90 % interval."""

    mean: float
    half_width_90: float


def half_width_90(values: Array) -> Array:
    """t_{0.95, n-1} s / sqrt(n) over the first axis (seeds): Student's 90 % interval; 0 for a single seed."""
    from scipy.special import stdtrit

    n = len(values)
    if n < 2:
        return np.zeros(values.shape[1:])
    half: Array = float(stdtrit(n - 1, 0.95)) * values.std(axis=0, ddof=1) / math.sqrt(n)
    return half


def mean_90(values: Sequence[float] | Array) -> Mean:
    """The mean over seeds with the half-width of its 90 % interval.

    >>> mean_90([1.0, 2.0, 3.0])
    Mean(mean=2.0, half_width_90=1.68585...)
    """
    values = np.asarray(values, dtype=np.float64)
    return Mean(float(values.mean()), float(half_width_90(values)))
