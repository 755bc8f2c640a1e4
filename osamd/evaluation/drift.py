"""How far two data distributions, or two windows of samples, are apart.

The paper bounds the drift V_T = sum_t d(P_t, P_{t+1}) in one of three distances d (section "Domain Discrepancy to
Temporal Variability"): total variation (Proposition 1), Wasserstein infinity (2), maximum mean discrepancy (3).
Closed forms serve laws that are known, such as synthetic streams; the sample measures take windows, arrays (n, d).
`osamd.evaluation.propositions` turns the sum of any of them into a bound on the temporal variability.
Past 300 lines because the three distances share one boundary (the last section) and are read side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist, pdist
from scipy.special import betainc, ndtr, ndtri

from osamd.errors import InputError, lookup, reject, require_positive

Floats = NDArray[np.float64]
Kernel = Callable[[Floats, Floats], Floats]


# Closed forms: the law is known.


def gaussian_total_variation(
    mean_p: ArrayLike, mean_q: ArrayLike, covariance: ArrayLike, weight_p: float = 1.0, weight_q: float = 1.0
) -> float:
    """Mass by which one weighted Gaussian exceeds another of the same covariance; with unit weights, their d_TV.

    With D the Mahalanobis distance of the means, f and g the densities, p and q the weights,
        ∫ (p f - q g)_+ = p Φ(D/2 + log(p/q)/D) - q Φ(-D/2 + log(p/q)/D),
    which is (p - q)_+ at D = 0 and 2 Φ(D/2) - 1 at p = q = 1: the d_TV of Assumption 1 and Proposition 1.
    Shapes: means (d,), covariance (d, d), positive definite.

    >>> round(gaussian_total_variation([0.0, 0.0], [0.0, 2.0], np.eye(2)), 4)
    0.6827
    """
    call = "gaussian_total_variation"
    for name, weight in (("weight_p", weight_p), ("weight_q", weight_q)):
        if not 0 <= weight < math.inf:
            raise reject(call, name, weight, f"{name} must be finite and not negative; it is a class prior, or 1.")
    gap = _finite(call, "mean_p", mean_p, 1) - _finite(call, "mean_q", mean_q, 1, like=np.shape(mean_p))
    distance = float(np.linalg.norm(np.linalg.solve(_cholesky(call, covariance, gap.size), gap)))
    if distance == 0 or weight_p == 0 or weight_q == 0:
        return max(float(weight_p) - float(weight_q), 0.0)
    tilt = (math.log(weight_p) - math.log(weight_q)) / distance
    excess = weight_p * ndtr(distance / 2 + tilt) - weight_q * ndtr(-distance / 2 + tilt)
    return max(float(excess), 0.0)


def joint_gaussian_total_variation(
    means_p: ArrayLike, priors_p: ArrayLike, means_q: ArrayLike, priors_q: ArrayLike, covariance: ArrayLike
) -> float:
    """Total variation of the joint law of (X, Y), each class a Gaussian of one shared covariance.

    d_TV(P, Q) = sum_y ∫ (P(y) f_y - Q(y) g_y)_+, since both laws have mass 1 (Assumption 1 is on the joint law).
    Shapes: means (classes, d), priors (classes,) that sum to 1, covariance (d, d).

    >>> round(joint_gaussian_total_variation([[0.0], [9.0]], [0.5, 0.5], [[0.0], [9.0]], [0.7, 0.3], [[1.0]]), 12)
    0.2
    """
    call = "joint_gaussian_total_variation"
    rows_p = _finite(call, "means_p", means_p, 2)
    rows_q = _finite(call, "means_q", means_q, 2, like=rows_p.shape)
    classes = rows_p.shape[:1]
    weights_p = _priors(call, "priors_p", _finite(call, "priors_p", priors_p, 1, like=classes))
    weights_q = _priors(call, "priors_q", _finite(call, "priors_q", priors_q, 1, like=classes))
    per_class = zip(rows_p, rows_q, weights_p, weights_q, strict=True)
    return min(sum(gaussian_total_variation(f, g, covariance, float(p), float(q)) for f, g, p, q in per_class), 1.0)


def ball_total_variation(distance: float, radius: float, dimension: int) -> float:
    """Total variation of the uniform laws on two balls of one radius whose centres are `distance` apart.

    One minus the shared part of the volume, two caps: with h = distance / (2 radius), d the dimension and I the
    regularised incomplete beta function, d_TV = 1 - I_{1-h²}((d+1)/2, 1/2) = I_{h²}(1/2, (d+1)/2), and 1 for h >= 1.

    >>> ball_total_variation(distance=0.5, radius=1.0, dimension=1)
    0.25
    """
    call = "ball_total_variation"
    if not distance >= 0:
        raise reject(call, "distance", distance, "distance must not be negative.")
    require_positive(call, "radius", radius)
    if dimension < 1 or int(dimension) != dimension:
        raise reject(call, "dimension", dimension, "dimension must be a whole number, at least 1.")
    half = min(distance / (2 * radius), 1.0)
    return float(betainc(0.5, (dimension + 1) / 2, half * half))


# From samples: two windows of a stream.


@dataclass(frozen=True)
class Estimate:
    """A number read off samples, and an interval; the call that made it says what the interval covers."""

    value: float
    low: float
    high: float


def total_variation(
    p: ArrayLike, q: ArrayLike, *, confidence: float = 0.9, neighbours: int | None = None, seed: int = 0
) -> Estimate:
    """Total variation sup_E |P(E) - Q(E)| from samples, by learning an event E and measuring it on other samples.

    Each window is halved at random. On one half, E is the set where P outnumbers Q (each share taken of its own
    window) among the `neighbours` nearest points; on the other half P(E) - Q(E) is measured. The halves then swap
    and the two differences are averaged. Shapes: p (n, d), q (m, d), n and m at least 2. Default neighbours: the
    root of the size of the half. Distances are Euclidean: bring features to one scale first.

    [low, high] covers, at `confidence`, the mean of P(E) - Q(E) over the two *learned* events. No event exceeds
    d_TV, so `low` is a lower bound of d_TV at confidence (1 + confidence) / 2; `high` is NOT an upper bound: an
    event learned imperfectly biases `value` downwards. All three are clipped to [0, 1].

    >>> rng = np.random.default_rng(0)
    >>> drift = total_variation(rng.normal(0, 1, (500, 1)), rng.normal(2, 1, (500, 1)))
    >>> bool(drift.low < 2 * ndtr(1.0) - 1 < drift.high)  # the truth, 0.683
    True
    """
    call = "total_variation"
    a, b = _windows(call, p, q, least=2)
    if not 0 < confidence < 1:
        raise reject(call, "confidence", confidence, "confidence must lie strictly between 0 and 1, such as 0.9.")
    smallest = len(a) // 2 + len(b) // 2
    if neighbours is not None and not 1 <= neighbours <= smallest:
        raise reject(call, "neighbours", neighbours, f"neighbours must lie in 1..{smallest}, the points of a half.")
    rng = np.random.default_rng(seed)
    a, b = rng.permutation(a), rng.permutation(b)
    halves = (a[: len(a) // 2], b[: len(b) // 2]), (a[len(a) // 2 :], b[len(b) // 2 :])
    first = _held_out_gap(halves[0], halves[1], neighbours, rng)
    second = _held_out_gap(halves[1], halves[0], neighbours, rng)
    value = (first[0] + second[0]) / 2
    # Each fold teaches the event the other measures, so their errors correlate (at P = Q, positively): the standard
    # deviation of their mean is at most the mean of theirs, whatever the correlation.
    width = float(ndtri((1 + confidence) / 2)) * (first[1] + second[1]) / 2
    return Estimate(*(min(max(bound, 0.0), 1.0) for bound in (value, value - width, value + width)))


def _held_out_gap(
    learn: tuple[Floats, Floats], measure: tuple[Floats, Floats], neighbours: int | None, rng: np.random.Generator
) -> tuple[float, float]:
    """P(E) - Q(E) on `measure` for the event E learned on `learn`, and its standard deviation given E."""
    sizes = len(learn[0]), len(learn[1])
    pool = np.concatenate(learn)
    votes = np.repeat([sizes[1], -sizes[0]], sizes)  # shares a/n > b/m as integers a m > b n: exact
    order = rng.permutation(len(pool))  # else points at equal distance would be chosen by window
    tree, votes = KDTree(pool[order]), votes[order]
    k = neighbours or math.isqrt(len(pool))
    frequencies, variance = [], 0.0
    for window in measure:
        nearest = tree.query(window, k=[*range(1, k + 1)])[1]
        inside = int(np.sum(votes[nearest].sum(axis=1) > 0))
        frequencies.append(inside / len(window))
        smoothed = (inside + 1) / (len(window) + 2)  # Laplace's rule: none or all inside must not read as certainty
        variance += smoothed * (1 - smoothed) / len(window)
    return frequencies[0] - frequencies[1], math.sqrt(variance)


def wasserstein_infinity(p: ArrayLike, q: ArrayLike) -> float:
    """Wasserstein infinity distance of two windows of equal size: the least r that matches all points within r.

    W_inf = min over permutations s of max_i ||p_i - q_s(i)|| (Proposition 2), exact, by bisection over the distinct
    distances, each step a maximum bipartite matching. Shapes: p (n, d), q (n, d).
    Differs from the paper: the infimum is over couplings, not over maps h, because samples may repeat a point.

    >>> wasserstein_infinity([[0.0], [1.0]], [[1.5], [0.0]])
    0.5
    """
    a, b = _windows("wasserstein_infinity", p, q)
    if len(a) != len(b):
        rule = f"both windows need equally many rows, p has {len(a)}; draw {min(len(a), len(b))} of the larger."
        raise InputError(f"`wasserstein_infinity(q=<{len(b)} rows>)`: {rule}")
    distances = cdist(a, b)
    floor = max(distances.min(axis=0).max(), distances.min(axis=1).max())  # each point must reach its nearest one
    radii = np.unique(distances[distances >= floor])
    low, high = 0, len(radii) - 1
    while low < high:
        middle = (low + high) // 2
        matching = maximum_bipartite_matching(csr_array(distances <= radii[middle]), perm_type="column")
        if np.all(matching >= 0):
            high = middle
        else:
            low = middle + 1
    return float(radii[low])


# Kernels, and the maximum mean discrepancy.


@dataclass(frozen=True)
class Gaussian:
    """k(x, y) = exp(-||x - y||² / (2 bandwidth²)): (n, d), (m, d) to (n, m)."""

    bandwidth: float

    def __post_init__(self) -> None:
        require_positive("Gaussian", "bandwidth", self.bandwidth)

    def __call__(self, x: Floats, y: Floats) -> Floats:
        return np.exp(-cdist(x, y, "sqeuclidean") / (2 * self.bandwidth**2))


@dataclass(frozen=True)
class Laplace:
    """k(x, y) = exp(-||x - y|| / bandwidth), the Euclidean norm: (n, d), (m, d) to (n, m)."""

    bandwidth: float

    def __post_init__(self) -> None:
        require_positive("Laplace", "bandwidth", self.bandwidth)

    def __call__(self, x: Floats, y: Floats) -> Floats:
        return np.exp(-cdist(x, y) / self.bandwidth)


def linear(x: Floats, y: Floats) -> Floats:
    """k(x, y) = <x, y>, whose MMD is the distance of the means: (n, d), (m, d) to (n, m)."""
    return x @ y.T


def median_distance(pooled: Floats) -> float:
    """Median distance between distinct points, the usual bandwidth; 1 if all coincide, where any serves.

    >>> median_distance(np.array([[0.0], [1.0], [3.0]]))
    2.0
    """
    distances = pdist(pooled)
    distinct = distances[distances > 0]
    return float(np.median(distinct)) if distinct.size else 1.0


KERNELS: Mapping[str, Callable[[Floats], Kernel]] = MappingProxyType(
    {
        "gaussian": lambda pooled: Gaussian(median_distance(pooled)),
        "linear": lambda pooled: linear,
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
    a, b = _windows(call, p, q, least=2)
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


def class_conditional(
    measure: Callable[[Floats, Floats], float], x_p: ArrayLike, y_p: ArrayLike, x_q: ArrayLike, y_q: ArrayLike
) -> float:
    """Largest drift over the classes: max_y measure(P(X | Y=y), Q(X | Y=y)).

    With `wasserstein_infinity` this is ρ of Proposition 2, with `mmd` the d_MMD of Proposition 3; for total
    variation pass `lambda p, q: total_variation(p, q).value`. Shapes: x (n, d), y (n,).

    >>> class_conditional(wasserstein_infinity, [[0.0], [5.0]], [-1, 1], [[7.0], [1.0]], [1, -1])
    2.0
    """
    call = "class_conditional"
    a, b = _windows(call, x_p, x_q, names=("x_p", "x_q"))
    labels = {"y_p": np.asarray(y_p), "y_q": np.asarray(y_q)}
    for (name, y), rows in zip(labels.items(), (len(a), len(b)), strict=True):
        if y.shape != (rows,):
            raise InputError(f"`{call}({name}=<shape {y.shape}>)`: {name} must hold one label a row, shape ({rows},).")
    classes = np.unique(np.concatenate([*labels.values()]))
    for name, y in labels.items():
        for missing in np.setdiff1d(classes, y).tolist():
            rule = f"class {missing!r} is missing in this window and present in the other; widen it or drop the class."
            raise InputError(f"`{call}({name}=<{len(y)} labels>)`: {rule}")
    return max(float(measure(a[labels["y_p"] == y], b[labels["y_q"] == y])) for y in classes)


# The boundary: what is refused.


def _finite(call: str, name: str, value: ArrayLike, dimensions: int, like: tuple[int, ...] | None = None) -> Floats:
    """A finite, non-empty array of that many dimensions (and of shape `like`), or an error."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{call}({name}=...)`: {name} must be an array of numbers; {error}.") from None
    here = f"`{call}({name}=<shape {array.shape}>)`: {name} must"
    if array.ndim != dimensions:
        remedy = "; reshape(-1, 1) turns a list of numbers into rows" if (array.ndim, dimensions) == (1, 2) else ""
        raise InputError(f"{here} be a {dimensions}-D array{remedy}.")
    if array.size == 0:
        raise InputError(f"{here} not be empty.")
    if like is not None and array.shape != like:
        raise InputError(f"{here} have shape {like}, to go with the other arguments.")
    if not np.isfinite(array).all():
        raise InputError(f"{here} be finite; drop or fill the rows that hold NaN or infinity.")
    return array


def _windows(
    call: str, p: ArrayLike, q: ArrayLike, *, least: int = 1, names: tuple[str, str] = ("p", "q")
) -> tuple[Floats, Floats]:
    """Two windows of samples with the same columns and at least `least` rows each, or an error."""
    a, b = _finite(call, names[0], p, 2), _finite(call, names[1], q, 2)
    if a.shape[1] != b.shape[1]:
        rule = f"it must have as many columns as {names[0]}, which has {a.shape[1]}."
        raise InputError(f"`{call}({names[1]}=<shape {b.shape}>)`: {rule}")
    for name, window in zip(names, (a, b), strict=True):
        if len(window) < least:
            raise InputError(
                f"`{call}({name}=<{len(window)} rows>)`: it needs at least {least} rows; widen the window."
            )
    return a, b


def _priors(call: str, name: str, priors: Floats) -> Floats:
    if (priors < 0).any() or abs(priors.sum() - 1) > 1e-9:
        raise reject(call, name, priors.tolist(), f"{name} must be probabilities that sum to 1; divide by their sum.")
    return priors


def _cholesky(call: str, covariance: ArrayLike, dimension: int) -> Floats:
    matrix = _finite(call, "covariance", covariance, 2, like=(dimension, dimension))
    rule = "covariance must be symmetric and positive definite; add a small multiple of the identity if it is singular."
    if not np.allclose(matrix, matrix.T):
        raise reject(call, "covariance", matrix.tolist(), rule)
    try:
        return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise reject(call, "covariance", matrix.tolist(), rule) from None
