"""Sums in a fixed order, and the two scalar equations to which every exact step reduces.

The same seed must give the same queries on every machine, but every BLAS adds in its own order. So scores are summed
here instead, in eight lanes that are then added as a tree. That order still vectorises, so faster paths can keep it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LANES = 8
"""The number of partial sums in `lane_sum`: one AVX-512 register of doubles, or two AVX2 registers."""

NEWTON = 60
"""The most Newton steps for any root in the package. All converge in 5 to 20 steps from their starting points. The
limit only ends a loop that rounding keeps moving by one unit in the last place."""


def lane_sum(products: Array) -> Array:
    """Sum over the last axis in the fixed order; shape (..., n) to shape (...).

    Eight lanes start at 0.0. Element i is added to lane i mod 8, in increasing i. Then lane j + 4 is added to lane j,
    lane j + 2 to lane j, and lane 1 to lane 0.

    >>> lane_sum(np.array([[0.5, 1.5, 2.0], [1.0, -1.0, 0.0]])).tolist()
    [4.0, 0.0]
    """
    length = products.shape[-1]
    padded = np.zeros((*products.shape[:-1], -(-length // LANES) * LANES))
    padded[..., :length] = products
    lanes = padded.reshape(*products.shape[:-1], padded.shape[-1] // LANES, LANES).sum(axis=-2, initial=0.0)
    half = lanes[..., :4] + lanes[..., 4:]
    quarter = half[..., :2] + half[..., 2:]
    total: Array = quarter[..., 0] + quarter[..., 1]
    return total


def dot(a: Array, b: Array) -> float:
    """The inner product of two vectors, summed in the fixed order.

    >>> dot(np.array([0.4, 0.0, -4.0]), np.array([15.0, 0.0, 1.0]))
    2.0
    """
    return float(lane_sum(a * b))


def log_omega(z: Array, ridge: Array) -> Array:
    """The t with t + ridge exp(t) = z, elementwise; ridge >= 0, and both have the same shape.

    With u = t + log ridge and c = z + log ridge this is u + exp(u) = c, so exp(u) is the Wright omega function of c.
    Newton's method starts to the right of the root of that convex increasing function, and falls monotonically onto it.

    >>> t = log_omega(np.array([1.0]), np.array([2.0]))
    >>> round(float((t + 2.0 * np.exp(t))[0]), 12)
    1.0
    """
    ridged = ridge > 0.0
    if not np.any(ridged):
        return z
    log_ridge = np.log(np.where(ridged, ridge, 1.0))
    c = z + log_ridge
    u = np.where(c > 1.0, np.log(np.maximum(c, 1.0)), np.minimum(c, 0.0))
    for _ in range(NEWTON):
        omega = np.exp(u)
        after = u - (u + omega - c) / (1.0 + omega)
        if np.all(after >= u):
            break
        u = np.minimum(after, u)
    # t = u - log ridge = z - exp(u); each form is used where it has no cancellation.
    return np.where(ridged, np.where(c > 0.0, u - log_ridge, z - np.exp(np.minimum(u, 0.0))), z)


def tempered_softmax(b: Array, ridge: Array, floor: float, total: float) -> Array:
    """The w with log w_i + ridge_i w_i = b_i - nu, no w_i below `floor`, and sum `total`, which determines nu.

    `b`, `ridge` and w have shape (n,), ridge >= 0, and n floor < total. With ridge = floor = 0 it is
    total * softmax(b). It is the entropic step with an L2 term, and the proximal step of the softmax cross-entropy.
    The sum is convex and decreasing in nu, so Newton's method from the left of the root is monotone.

    >>> tempered_softmax(np.zeros(4), np.zeros(4), 0.0, 1.0).tolist()
    [0.25, 0.25, 0.25, 0.25]
    >>> w = tempered_softmax(np.array([0.0, 3.0, -9.0]), np.array([0.0, 2.0, 0.0]), 0.01, 1.0)
    >>> w.round(4).tolist(), round(float(w.sum()), 12)
    ([0.1944, 0.7956, 0.01], 1.0)
    """
    # Shifted so that at nu = 0 one w_i is the total and none exceeds it: the sum is too large, and nothing overflows.
    z = b - np.max(b - ridge * total) + math.log(total)
    nu = 0.0
    w = b
    for _ in range(NEWTON):
        w = np.exp(log_omega(z - nu, ridge))
        free = w > floor
        w = np.maximum(w, floor)
        excess = float(lane_sum(w)) - total
        if excess <= 0.0:
            break
        after = nu + excess / float(lane_sum(np.where(free, w / (1.0 + ridge * w), 0.0)))
        if after == nu:
            break
        nu = after
    return w
