"""The best parameters in K for a loss: exact w_t* of a stream, or the best of each window of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.errors import InputError, reject, require_positive
from osamd.geometry import DecisionSet, Geometry
from osamd.losses import Loss, on_scores
from osamd.models import Linear
from osamd.numerics import Array
from osamd.streams import ExactStream

Objective = Callable[[Array], tuple[float, Array]]
"""Parameters (as a vector) to value and gradient; convex and differentiable."""


class Comparator(NamedTuple):
    """The best parameters found, their value, and a certificate: no parameters in K are better by more than `gap`."""

    params: Array
    value: float
    gap: float


def lowest(a: Array, feasible: DecisionSet, around: Array) -> float:
    """min over K of <a, v>; where K is the whole space, over the ball of radius 10 (1 + ||around||) around `around`."""
    if feasible.radius < np.inf:
        dual = feasible.p / (feasible.p - 1.0)
        return -feasible.radius * float(np.linalg.norm(a, ord=dual))
    if feasible.total is not None:
        return feasible.low * float(a.sum()) + (feasible.total - feasible.low * a.size) * float(a.min())
    if feasible.low > -np.inf:
        return float(np.minimum(a * feasible.low, a * feasible.high).sum())
    return float(a @ around) - 10.0 * (1.0 + float(np.linalg.norm(around))) * float(np.linalg.norm(a))


def minimise(objective: Objective, geometry: Geometry, start: Array) -> Comparator:
    """argmin over K of a smooth convex function, certified by its Frank-Wolfe gap <g, w> - min_K <g, v>.

    On the whole space the certificate holds for every comparator within 10 (1 + ||w||) of the answer.
    """
    from scipy.optimize import minimize

    feasible = geometry.decision_set
    shape = start.shape
    bounds = None if feasible.low == -np.inf else [(feasible.low, feasible.high)] * start.size
    constraints: list[Any] = []
    if feasible.radius < np.inf:
        # In units of the radius and as a squared norm: smooth at zero for p = 2, and well scaled.
        def room(w: Array) -> float:
            return 1.0 - float(np.sum(np.abs(w / feasible.radius) ** feasible.p))

        def room_gradient(w: Array) -> Array:
            unit = w / feasible.radius
            slope: Array = -feasible.p * np.sign(unit) * np.abs(unit) ** (feasible.p - 1.0) / feasible.radius
            return slope

        constraints.append({"type": "ineq", "fun": room, "jac": room_gradient})
    if feasible.total is not None:
        constraints.append({"type": "eq", "fun": lambda w: w.sum() - feasible.total, "jac": np.ones_like})
    # SLSQP takes constraints, L-BFGS-B many parameters; both with tolerances at the end of double precision.
    method, options = ("SLSQP", {"ftol": 1e-15}) if constraints else ("L-BFGS-B", {"ftol": 1e-16, "gtol": 1e-11})
    solver: Any = minimize
    found = solver(
        objective,
        start.ravel(),
        jac=True,
        method=method,
        bounds=bounds,
        constraints=constraints,
        options={"maxiter": 10000, **options},
    )
    w = geometry.project(np.asarray(found.x, dtype=np.float64).reshape(shape)).ravel()
    value, gradient = objective(w)
    gap = max(0.0, float(gradient @ w) - lowest(gradient, feasible, w))
    return Comparator(w.reshape(shape), value, gap)


def exact_optima(stream: ExactStream, loss: Loss, model: Linear, geometry: Geometry) -> Array:
    """w_t* = argmin_K l_t for every round (rounds x parameters), from the exact expected loss and gradient.

    Where K and the L2 term are unchanged by rotations of the features, the problem in round t is the first one,
    rotated, and is solved once; otherwise each round is solved from the answer of the one before.
    """
    penalty = model.penalty(loss.l2, loss.free_bias)

    def problem(t: int) -> Objective:
        round_t = np.array([t])

        def objective(w: Array) -> tuple[float, Array]:
            weights = model.weights(w)[None]
            value = float(stream.expected_loss(loss, round_t, weights)[0]) + float(penalty @ (w * w))
            pulled = stream.expected_gradient(loss, round_t, weights)[0]
            return value, (np.concatenate([pulled, -pulled]) if model.signed else pulled) + 2.0 * penalty * w

        return objective

    rounds = np.arange(stream.rounds)
    first = minimise(problem(0), geometry, geometry.start(model.shape)).params
    turned = stream.rotation(rounds) if geometry.isotropic else None
    optima = np.tile(first, (stream.rounds, 1))
    if turned is not None:
        optima[:, : stream.features] = turned @ first[: stream.features]
        return optima
    for t in range(1, stream.rounds):
        optima[t] = minimise(problem(t), geometry, optima[t - 1]).params
    return optima


def window_comparators(
    x: Array,
    y: NDArray[np.int64],
    window: int,
    loss: Loss,
    model: Linear,
    geometry: Geometry,
    *,
    tolerance: float = 1e-3,
) -> list[Comparator]:
    """The best parameters in K for the mean loss of each window of samples, each certified to `tolerance`.

    Losses with kinks are minimised through their Moreau envelope of width `tolerance` / 4, which lies below the loss
    by at most lipschitz^2 times that; its slope is the implicit slope of the loss, ties between classes included.
    """
    require_positive("window_comparators", "tolerance", tolerance)
    if window < 1:
        raise reject("window_comparators", "window", window, "a window holds at least one sample.")
    value, slope, implicit = on_scores(loss, model.reading)
    penalty = model.penalty(loss.l2, loss.free_bias)
    kinked = not np.isfinite(loss.smoothness) or (model.classes > 2 and loss.scores is None)
    width = tolerance / 4.0 if kinked else 0.0
    rows = model.augment(x)
    inner = model.reading.inner

    def problem(some: Array, labels: list[int]) -> Objective:
        def objective(flat: Array) -> tuple[float, Array]:
            w = flat.reshape(model.shape)
            total, pulled = 0.0, np.zeros(model.shape)
            for row, label in zip(some, labels, strict=True):
                h = model.scores(w, row)
                q = implicit(h, label, width) if width else slope(h, label)
                total += value(h - width * q, label) + 0.5 * width * inner(q, q)
                pulled += model.pull(q, row)
            n = len(labels)
            mean = total / n + float(np.sum(penalty * w * w))
            return mean, (pulled / n + 2.0 * penalty * w).ravel()

        return objective

    found = []
    start = geometry.start(model.shape)
    for first in range(0, len(rows), window):
        some, labels = rows[first : first + window], y[first : first + window].tolist()
        smooth = minimise(problem(some, labels), geometry, start)
        start = smooth.params
        exact = float(
            np.mean([value(model.scores(start, row), label) for row, label in zip(some, labels, strict=True)])
        )
        exact += float(np.sum(penalty * start * start))
        gap = max(0.0, exact - smooth.value) + smooth.gap
        if gap > tolerance:
            raise InputError(
                f"`window_comparators(window={window}, tolerance={tolerance})`: rounds {first}.."
                f"{first + len(labels) - 1} reached {gap:.2g} only; ask for a larger tolerance or a larger window."
            )
        found.append(Comparator(start, exact, gap))
    return found
