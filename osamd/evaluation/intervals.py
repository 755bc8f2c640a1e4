"""Means over seeds with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from osamd.errors import InputError, reject
from osamd.numerics import Array


class Mean(NamedTuple):
    """A mean over seeds and the half-width of its two-sided 90 % interval, which is None for a single seed."""

    mean: float
    half_width_90: float | None


def half_width_90(values: Array) -> Array:
    """t_{0.95, n-1} s / sqrt(n) over the first axis (n seeds, at least 2), of Student's 90 % interval."""
    from scipy.special import stdtrit

    n = len(values)
    if n < 2:
        raise InputError(f"`half_width_90(values=<{n} seeds>)`: an interval needs at least two seeds; run more.")
    half: Array = float(stdtrit(n - 1, 0.95)) * values.std(axis=0, ddof=1) / math.sqrt(n)
    return half


def mean_90(values: Sequence[float] | Array) -> Mean:
    """The mean over seeds with the half-width of its 90 % interval, which a single seed does not have.

    >>> mean_90([1.0, 2.0, 3.0])
    Mean(mean=2.0, half_width_90=1.68585...)
    >>> mean_90([1.0])
    Mean(mean=1.0, half_width_90=None)
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or numbers.size == 0:
        raise reject(
            "mean_90", "values", numbers.tolist(), "give a list with one number per seed, for at least one seed."
        )
    return Mean(float(numbers.mean()), float(half_width_90(numbers)) if numbers.size > 1 else None)
