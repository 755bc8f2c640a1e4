"""Sums over features in parallel lanes, which processors add at once; a single sum would wait for every addition."""

from __future__ import annotations

from typing import Any

from osamd.numerics import LANES


def score(weights: Any, x: Any) -> float:
    """The bias, which is last, plus sum_i w_i x_i."""
    n = x.shape[0]
    whole = n // LANES * LANES
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for i in range(0, whole, LANES):
        s0 += weights[i] * x[i]
        s1 += weights[i + 1] * x[i + 1]
        s2 += weights[i + 2] * x[i + 2]
        s3 += weights[i + 3] * x[i + 3]
        s4 += weights[i + 4] * x[i + 4]
        s5 += weights[i + 5] * x[i + 5]
        s6 += weights[i + 6] * x[i + 6]
        s7 += weights[i + 7] * x[i + 7]
    total = weights[n] + (((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7)))
    for i in range(whole, n):
        total += weights[i] * x[i]
    return float(total)


def squared_norm(a: Any) -> float:
    """sum_i a_i^2."""
    n = a.shape[0]
    whole = n // 4 * 4
    s0 = s1 = s2 = s3 = 0.0
    for i in range(0, whole, 4):
        s0 += a[i] * a[i]
        s1 += a[i + 1] * a[i + 1]
        s2 += a[i + 2] * a[i + 2]
        s3 += a[i + 3] * a[i + 3]
    total = (s0 + s2) + (s1 + s3)
    for i in range(whole, n):
        total += a[i] * a[i]
    return float(total)


def squared_distance(a: Any, b: Any) -> float:
    """sum_i (a_i - b_i)^2."""
    n = a.shape[0]
    whole = n // 4 * 4
    s0 = s1 = s2 = s3 = 0.0
    for i in range(0, whole, 4):
        s0 += (a[i] - b[i]) * (a[i] - b[i])
        s1 += (a[i + 1] - b[i + 1]) * (a[i + 1] - b[i + 1])
        s2 += (a[i + 2] - b[i + 2]) * (a[i + 2] - b[i + 2])
        s3 += (a[i + 3] - b[i + 3]) * (a[i + 3] - b[i + 3])
    total = (s0 + s2) + (s1 + s3)
    for i in range(whole, n):
        total += (a[i] - b[i]) * (a[i] - b[i])
    return float(total)


def weighted_distance(a: Any, b: Any, weights: Any) -> float:
    """sum_i w_i (a_i - b_i)^2."""
    n = a.shape[0]
    whole = n // 4 * 4
    s0 = s1 = s2 = s3 = 0.0
    for i in range(0, whole, 4):
        s0 += weights[i] * (a[i] - b[i]) * (a[i] - b[i])
        s1 += weights[i + 1] * (a[i + 1] - b[i + 1]) * (a[i + 1] - b[i + 1])
        s2 += weights[i + 2] * (a[i + 2] - b[i + 2]) * (a[i + 2] - b[i + 2])
        s3 += weights[i + 3] * (a[i + 3] - b[i + 3]) * (a[i + 3] - b[i + 3])
    total = (s0 + s2) + (s1 + s3)
    for i in range(whole, n):
        total += weights[i] * (a[i] - b[i]) * (a[i] - b[i])
    return float(total)
