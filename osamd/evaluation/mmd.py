"""Kernels, and the maximum mean discrepancy of two windows of samples (Proposition 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist

from osamd.errors import lookup, reject, require_positive
from osamd.evaluation.array_checks import two_windows
from osamd.numerics import Array

Kernel = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Gaussian:
    """k(x, y) = exp(-||x - y||² / (2 bandwidth²)): (n, d), (m, d) to (n, m)."""

    bandwidth: float

    def __post_init__(self) -> None:
        require_positive("Gaussian", "bandwidth", self.bandwidth)

    def __call__(self, x: Array, y: Array) -> Array:
        return np.exp(-cdist(x, y, "sqeuclidean") / (2 * self.bandwidth**2))


@dataclass(frozen=True)
class Laplace:
    """k(x, y) = exp(-||x - y|| / bandwidth), the Euclidean norm: (n, d), (m, d) to (n, m)."""

    bandwidth: float

    def __post_init__(self) -> None:
        require_positive("Laplace", "bandwidth", self.bandwidth)

    def __call__(self, x: Array, y: Array) -> Array:
        return np.exp(-cdist(x, y) / self.bandwidth)


def linear_kernel(x: Array, y: Array) -> Array:
    """k(x, y) = <x, y>, whose MMD is the distance of the means: (n, d), (m, d) to (n, m)."""
    return x @ y.T


def median_distance(pooled: Array) -> float:
    """Median distance between distinct points, the usual bandwidth; 1 if all points coincide, where any value would do.

    >>> median_distance(np.array([[0.0], [1.0], [3.0]]))
    2.0
    """
    distances = pdist(pooled)
    distinct = distances[distances > 0]
    return float(np.median(distinct)) if distinct.size else 1.0


KERNELS: Mapping[str, Callable[[Array], Kernel]] = MappingProxyType(
    {
        "gaussian": lambda pooled: Gaussian(median_distance(pooled)),
        "linear": lambda pooled: linear_kernel,
        "laplace": lambda pooled: Laplace(median_distance(pooled)),
    }
)
"""Kernels by name, each fitted to the pooled samples (n + m, d)."""


def mmd_squared(p: ArrayLike, q: ArrayLike, kernel: str | Kernel = "gaussian") -> float:
    """Unbiased estimate of MMD²(P, Q) = ||E φ(x) - E φ(x')||²; it may be negative when P and Q are close.

    mean_{i≠j} k(p_i, p_j) + mean_{i≠j} k(q_i, q_j) - 2 mean k(p_i, q_j), k(x, y) = <φ(x), φ(y)> (Proposition 3;
    Gretton et al., JMLR 2012, Lemma 6). `kernel` is a name in `KERNELS` or a callable (n, d), (m, d) to (n, m).
    Shapes: p (n, d), q (m, d), n and m at least 2. Unbiased for a fixed kernel: the bandwidth of "gaussian" and
    "laplace" comes from the samples. To sum over a stream, fix φ, as Proposition 3 does: pass `Gaussian(bandwidth)`.

    >>> mmd_squared([[0.0], [2.0]], [[3.0], [5.0]], kernel="linear")  # (1 - 4)² - 2 * (sample variance 2) / 2
    7.0
    """
    call = "mmd_squared"
    a, b = two_windows(call, p, q, least=2)
    if isinstance(kernel, str):
        kernel = lookup(call, "kernel", kernel, KERNELS)(np.concatenate([a, b]))
    grams = [np.asarray(kernel(x, y), dtype=np.float64) for x, y in ((a, a), (b, b), (a, b))]
    for gram, shape in zip(grams, ((len(a), len(a)), (len(b), len(b)), (len(a), len(b))), strict=True):
        if gram.shape != shape or not np.isfinite(gram).all():
            raise reject(call, "kernel", kernel, f"it must return finite numbers of shape (n, m), here {shape}.")
    within = [(gram.sum() - np.trace(gram)) / (len(gram) * (len(gram) - 1)) for gram in grams[:2]]
    return float(within[0] + within[1] - 2 * grams[2].mean())


def mmd(p: ArrayLike, q: ArrayLike, kernel: str | Kernel = "gaussian") -> float:
    """Maximum mean discrepancy: the root of the positive part of `mmd_squared`, same arguments and shapes.

    >>> round(mmd([[0.0], [2.0]], [[3.0], [5.0]], kernel="linear"), 4)
    2.6458
    """
    return math.sqrt(max(mmd_squared(p, q, kernel), 0.0))
