"""The distance of two data distributions, or of two windows of samples: total variation and Wasserstein infinity.

The paper bounds the drift V_T = sum_t d(P_t, P_{t+1}) in one of three distances d (section "Domain Discrepancy to
Temporal Variability"): total variation (Proposition 1), Wasserstein infinity (2), and the maximum mean discrepancy (3),
which is in `osamd.evaluation.mmd`. Closed forms are for known laws, such as those of synthetic streams; the sample
measures take windows, arrays (n, d). `osamd.evaluation.propositions` turns the sum of any of them into a bound on the
temporal variability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching, maximum_flow
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from scipy.special import betainc, betaincinv, ndtr

from osamd.errors import InputError, reject, require_positive, require_whole
from osamd.evaluation.array_checks import finite_array, two_windows
from osamd.numerics import Array

Decide = Callable[[Array], ArrayLike]
"""Maps rows (n, d) to numbers (n,), positive inside an event."""

EventLearner = Callable[[Array, Array], Decide]
"""Maps samples of P (n, d) and of Q (m, d) to the event where P is estimated to outweigh Q."""


# Closed forms: the law is known.


def gaussian_total_variation(
    mean_p: ArrayLike, mean_q: ArrayLike, covariance: ArrayLike, weight_p: float = 1.0, weight_q: float = 1.0
) -> float:
    """Mass by which one weighted Gaussian exceeds another of the same covariance; with unit weights, their d_TV.

    With D the Mahalanobis distance of the means, f and g the densities, p and q the weights,
        ∫ (p f - q g)_+ = p Φ(D/2 + log(p/q)/D) - q Φ(-D/2 + log(p/q)/D),
    which is (p - q)_+ at D = 0 and 2 Φ(D/2) - 1 at p = q = 1: the d_TV of Assumption 1 and Proposition 1.
    This form is for equal covariances only; different covariances have no such closed form.
    Shapes: means (d,), covariance (d, d), positive definite.

    >>> round(gaussian_total_variation([0.0, 0.0], [0.0, 2.0], np.eye(2)), 4)
    0.6827
    """
    call = "gaussian_total_variation"
    for name, weight in (("weight_p", weight_p), ("weight_q", weight_q)):
        if not 0 <= weight < math.inf:
            raise reject(call, name, weight, f"{name} must be finite and not negative; it is a class prior, or 1.")
    gap = finite_array(call, "mean_p", mean_p, 1) - finite_array(call, "mean_q", mean_q, 1, like=np.shape(mean_p))
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
    rows_p = finite_array(call, "means_p", means_p, 2)
    rows_q = finite_array(call, "means_q", means_q, 2, like=rows_p.shape)
    classes = rows_p.shape[:1]
    weights_p = _priors(call, "priors_p", finite_array(call, "priors_p", priors_p, 1, like=classes))
    weights_q = _priors(call, "priors_q", finite_array(call, "priors_q", priors_q, 1, like=classes))
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
    dimension = require_whole(call, "dimension", dimension)
    half = min(distance / (2 * radius), 1.0)
    return float(betainc(0.5, (dimension + 1) / 2, half * half))


# From samples: two windows of a stream.


class Estimate(NamedTuple):
    """A total variation estimated from samples: a value that tends to be low, a lower limit, and a trivial upper limit.

    `low` is a lower confidence limit of d_TV. `high` is 1: without assumptions on the laws no sample bounds d_TV from
    above, since two laws that share no point may give samples that look alike.
    """

    value: float
    low: float
    high: float = 1.0


def nearest_neighbours(neighbours: int | None = None) -> EventLearner:
    """The event where P outnumbers Q among the nearest samples, each counted as a share of its own window.

    `neighbours`: how many; the root of the number of samples by default. Distances are Euclidean: scale the
    features first.
    """
    if neighbours is not None:
        neighbours = require_whole("nearest_neighbours", "neighbours", neighbours)

    def learn(p: Array, q: Array) -> Decide:
        pool = np.concatenate([p, q])
        votes = np.repeat([len(q), -len(p)], [len(p), len(q)])  # shares a/n > b/m as integers a m > b n: exact
        order = np.random.default_rng(0).permutation(len(pool))  # otherwise ties in distance would be broken by window
        tree, votes = KDTree(pool[order]), votes[order]
        k = min(neighbours or math.isqrt(len(pool)), len(pool))
        return lambda rows: votes[tree.query(rows, k=[*range(1, k + 1)])[1]].sum(axis=1)

    return learn


def total_variation(
    p: ArrayLike, q: ArrayLike, *, confidence: float = 0.9, learn: EventLearner | None = None, seed: int = 0
) -> Estimate:
    """A lower estimate of total variation, sup_E |P(E) - Q(E)|: learn an event E, and measure it on other samples.

    Each window is halved at random. On one half `learn` (by default `nearest_neighbours()`) finds an event E; on the
    other half P(E) - Q(E) is measured. The halves then swap, and `value` is the mean of the two differences; it tends
    to lie below d_TV, and the more so the worse E is learned. Shapes: p (n, d), q (m, d), n and m at least 2.

    `low` lies above d_TV with probability at most 1 - `confidence`, for any laws, sizes and learner: no event exceeds
    d_TV, and given E the counts on the other half are binomial, so Clopper and Pearson's limits of the four
    frequencies, each at a quarter of 1 - `confidence`, hold together. `high` is 1. All are clipped to [0, 1].

    >>> rng = np.random.default_rng(0)
    >>> drift = total_variation(rng.normal(0, 1, (500, 1)), rng.normal(2, 1, (500, 1)))
    >>> truth = 2 * ndtr(1.0) - 1  # 0.683
    >>> bool(0.4 < drift.low < truth), drift.high
    (True, 1.0)
    """
    call = "total_variation"
    a, b = two_windows(call, p, q, least=2)
    if not 0 < confidence < 1:
        raise reject(call, "confidence", confidence, "confidence must lie strictly between 0 and 1, such as 0.9.")
    rng = np.random.default_rng(seed)
    a, b = rng.permutation(a), rng.permutation(b)
    halves = (a[: len(a) // 2], b[: len(b) // 2]), (a[len(a) // 2 :], b[len(b) // 2 :])
    risk = (1 - confidence) / 4
    value = low = 0.0
    for taught, measured in (halves, halves[::-1]):
        decide = (learn or nearest_neighbours())(*taught)
        (inside_p, n), (inside_q, m) = (_inside(call, decide, window) for window in measured)
        value += (inside_p / n - inside_q / m) / 2
        # Clopper and Pearson: the frequency at which this many or more (or fewer) inside have a probability of `risk`.
        least_p = float(betaincinv(inside_p, n - inside_p + 1, risk)) if inside_p > 0 else 0.0
        most_q = float(betaincinv(inside_q + 1, m - inside_q, 1 - risk)) if inside_q < m else 1.0
        low += (least_p - most_q) / 2
    return Estimate(min(max(value, 0.0), 1.0), max(low, 0.0))


def _inside(call: str, decide: Decide, window: Array) -> tuple[int, int]:
    """How many rows of the window lie inside the event, and how many rows there are."""
    decided = np.asarray(decide(window), dtype=np.float64)
    if decided.shape != (len(window),) or np.isnan(decided).any():
        rule = f"what it returns must turn {len(window)} rows into {len(window)} numbers, positive inside the event."
        raise InputError(f"`{call}(learn=...)`: {rule}")
    return int(np.sum(decided > 0)), len(window)


def wasserstein_infinity(p: ArrayLike, q: ArrayLike) -> float:
    """Wasserstein infinity distance of two windows: the least r such that all mass can move by r or less.

    W_inf = min over couplings of the largest distance moved (Proposition 2), with mass 1/n on each row of p and 1/m on
    each of q; exact, by bisection over the distinct distances. Each step asks whether a coupling within r exists: for
    n = m a maximum bipartite matching, otherwise a maximum flow of nm / gcd(n, m) units. Shapes: p (n, d), q (m, d).
    Differs from the paper: the infimum is over couplings, not over maps h, because samples may repeat a point.

    >>> wasserstein_infinity([[0.0], [1.0]], [[1.5], [0.0]])
    0.5
    >>> wasserstein_infinity([[0.0], [4.0]], [[0.0], [1.0], [4.0]])  # half of the mass at 1 comes from 4
    3.0
    """
    a, b = two_windows("wasserstein_infinity", p, q)
    distances = cdist(a, b)
    floor = max(distances.min(axis=0).max(), distances.min(axis=1).max())  # each point must reach its nearest point
    radii = np.unique(distances[distances >= floor])
    low, high = 0, len(radii) - 1
    while low < high:
        middle = (low + high) // 2
        if _coupled(distances <= radii[middle]):
            high = middle
        else:
            low = middle + 1
    return float(radii[low])


def _coupled(near: NDArray[np.bool_]) -> bool:
    """Whether mass 1/n on every row can be moved to mass 1/m on every column, along near pairs only."""
    n, m = near.shape
    if n == m:
        return bool(np.all(maximum_bipartite_matching(csr_array(near), perm_type="column") >= 0))
    unit = math.gcd(n, m)
    give, take = m // unit, n // unit  # a row gives, a column takes
    rows, columns = np.nonzero(near)
    # Nodes: the rows, the columns, the source, the sink.
    source, sink = np.full(n, n + m), np.full(m, n + m + 1)
    tails = np.concatenate([source, rows, n + np.arange(m)])
    heads = np.concatenate([np.arange(n), n + columns, sink])
    capacity = np.repeat(np.array([give, min(give, take), take], dtype=np.int32), [n, len(rows), m])
    graph = csr_array((capacity, (tails, heads)), shape=(n + m + 2, n + m + 2))
    return bool(maximum_flow(graph, n + m, n + m + 1).flow_value == n * give)


def class_conditional(
    measure: Callable[[Array, Array], float], x_p: ArrayLike, y_p: ArrayLike, x_q: ArrayLike, y_q: ArrayLike
) -> float:
    """Largest drift over the classes: max_y measure(P(X | Y=y), Q(X | Y=y)).

    With `wasserstein_infinity` this is ρ of Proposition 2, with `mmd` the d_MMD of Proposition 3; for total
    variation pass `lambda p, q: total_variation(p, q).value`, a lower estimate. Shapes: x (n, d), y (n,).

    >>> class_conditional(wasserstein_infinity, [[0.0], [5.0]], [-1, 1], [[7.0], [1.0]], [1, -1])
    2.0
    """
    call = "class_conditional"
    a, b = two_windows(call, x_p, x_q, names=("x_p", "x_q"))
    labels = {"y_p": np.asarray(y_p), "y_q": np.asarray(y_q)}
    for (name, y), rows in zip(labels.items(), (len(a), len(b)), strict=True):
        if y.shape != (rows,):
            raise InputError(
                f"`{call}({name}=<shape {y.shape}>)`: {name} must hold one label per row, shape ({rows},)."
            )
    classes = np.unique(np.concatenate([*labels.values()]))
    for name, y in labels.items():
        for missing in np.setdiff1d(classes, y).tolist():
            rule = f"class {missing!r} is missing in this window and present in the other; widen it or drop the class."
            raise InputError(f"`{call}({name}=<{len(y)} labels>)`: {rule}")
    return max(float(measure(a[labels["y_p"] == y], b[labels["y_q"] == y])) for y in classes)


def _priors(call: str, name: str, priors: Array) -> Array:
    if (priors < 0).any() or abs(priors.sum() - 1) > 1e-9:
        raise reject(call, name, priors.tolist(), f"{name} must be probabilities that sum to 1; divide by their sum.")
    return priors


def _cholesky(call: str, covariance: ArrayLike, dimension: int) -> Array:
    matrix = finite_array(call, "covariance", covariance, 2, like=(dimension, dimension))
    rule = "covariance must be symmetric and positive definite; add a small multiple of the identity if it is singular."
    if not np.allclose(matrix, matrix.T):
        raise reject(call, "covariance", matrix.tolist(), rule)
    try:
        return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise reject(call, "covariance", matrix.tolist(), rule) from None
