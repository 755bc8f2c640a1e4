"""The best parameters in K for a loss: exact w_t* of a stream, or the best of each window of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osamd.errors import InputError, reject, require_positive, require_whole
from osamd.evaluation.array_checks import finite_array
from osamd.numerics import Array
from osamd.paper.geometry import DecisionSet, Geometry
from osamd.paper.losses import Loss, on_scores
from osamd.paper.models import Linear
from osamd.streams import ExactStream

Objective = Callable[[Array], tuple[float, Array]]
"""Parameters (as a vector) to value and gradient; convex, differentiable and not negative."""

RESTARTS = 10
"""The most solves of one problem; a restart resets the solver's curvature, which resolves most stalls. Few need one."""


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


def minimise(objective: Objective, geometry: Geometry, start: Array, tolerance: float) -> Comparator:
    """argmin over K of a smooth convex function, certified by its Frank-Wolfe gap <g, w> - min_K <g, v>.

    No function here is negative, so a value below that gap is the better certificate. The solver restarts from where it
    ended until the gap is at most `tolerance`, at most RESTARTS times. Check the gap, which is NaN if the function
    overflows. On the whole space it holds for every comparator within 10 (1 + ||w||) of the answer.
    """
    best = _solve(objective, geometry, start)
    for _ in range(RESTARTS - 1):
        if best.gap <= tolerance or not np.isfinite(best.gap):
            break
        again = _solve(objective, geometry, best.params)
        best = again if again.gap < best.gap else best
    return best


def _solve(objective: Objective, geometry: Geometry, start: Array) -> Comparator:
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
    # SLSQP takes constraints, L-BFGS-B many parameters. Both have tolerances at the end of double precision, where
    # SLSQP may cycle: its limit is what the hardest problems seen needed, and restarts do the rest.
    slsqp, lbfgs = {"ftol": 1e-15, "maxiter": 300}, {"ftol": 1e-16, "gtol": 1e-11, "maxiter": 10000}
    method, options = ("SLSQP", slsqp) if constraints else ("L-BFGS-B", lbfgs)
    solver: Any = minimize
    found = solver(
        objective, start.ravel(), jac=True, method=method, bounds=bounds, constraints=constraints, options=options
    )
    w = geometry.project(np.asarray(found.x, dtype=np.float64).reshape(shape)).ravel()
    value, gradient = objective(w)
    gap = np.maximum(float(gradient @ w) - lowest(gradient, feasible, w), 0.0)
    return Comparator(w.reshape(shape), value, float(np.minimum(gap, value)))  # these keep NaN, Python's do not


def require_signed_match(call: str, model: Linear, geometry: Geometry) -> None:
    """Refuse a model of plain weights on a geometry of signed pairs, and the other way round."""
    if model.signed != geometry.signed:
        raise InputError(
            f"`{call}(model=<signed={model.signed}>, geometry={geometry.name!r})`: this geometry needs a model with"
            f" signed={geometry.signed}; build it with linear(..., signed={geometry.signed})."
        )


def require_exact_match(call: str, stream: ExactStream, model: Linear, geometry: Geometry) -> None:
    """Refuse a model that is not for this stream (binary, its features, with or without a bias) and this geometry."""
    if (model.features, model.classes) != (stream.features, 2):
        raise InputError(
            f"`{call}(model=<{model.features} features, {model.classes} classes>)`: the stream {stream.name!r} has"
            f" {stream.features} features and expected losses for 2 classes; build it with"
            f" linear(features={stream.features})."
        )
    require_signed_match(call, model, geometry)


def expected_slope(stream: ExactStream, loss: Loss, model: Linear, rounds: NDArray[np.int64], params: Array) -> Array:
    """The gradient of E phi(y H(w)) in the parameters, without the L2 term, one row per round."""
    pulled = stream.expected_gradient(loss, rounds, model.weights(params))
    return np.concatenate([pulled, -pulled], axis=1) if model.signed else pulled


def exact_optima(
    stream: ExactStream, loss: Loss, model: Linear, geometry: Geometry, *, tolerance: float = 1e-6
) -> Array:
    """w_t* = argmin_K l_t for every round (rounds x parameters), from the exact expected loss and gradient.

    Where K and the L2 term are unchanged by rotations of the features, the problem in round t is the first one,
    rotated, and is solved once; otherwise each round is solved from the answer of the one before. Every solved problem
    has a Frank-Wolfe gap of at most `tolerance`: l_t(w_t*) is that close to the minimum, or the call is refused.

    On the whole space a minimum need not exist: the logistic loss of a separable law falls forever. With an L2 term it
    exists (the two classes hold a free bias in place). Without one, the call is refused if doubling the parameters is
    an improvement, which cannot happen at the minimum of a convex function. The exception is a loss that reaches zero
    (the hinges) with an answer that loses at most `tolerance`, since no minimum is below zero. This check looks only
    along the ray of w_t*; the gap looks within 10 (1 + ||w_t*||) of it.
    """
    call = "exact_optima"
    require_positive(call, "tolerance", tolerance)
    require_exact_match(call, stream, model, geometry)
    penalty = model.penalty(loss.l2, loss.free_bias)
    reaches_zero = float(loss.value(100.0)) == 0.0  # the logistic loss is 4e-44 there
    unpinned = loss.l2 == 0.0 and not np.isfinite(geometry.diameter(model.shape[0]))

    def solve(t: int, start: Array) -> Array:
        rounds = np.array([t])

        def objective(w: Array) -> tuple[float, Array]:
            value = float(stream.expected_loss(loss, rounds, model.weights(w)[None])[0]) + float(penalty @ (w * w))
            return value, expected_slope(stream, loss, model, rounds, w[None])[0] + 2.0 * penalty * w

        best = minimise(objective, geometry, start, tolerance)
        if not best.gap <= tolerance:
            raise InputError(
                f"`{call}(tolerance={tolerance})`: round {t} reached only a gap of {best.gap:.2g};"
                " ask for a larger tolerance."
            )
        if unpinned and not (reaches_zero and best.value <= tolerance):
            doubled = objective(2.0 * best.params)[0]
            if doubled < best.value * (1.0 - 1e-9):  # beyond rounding
                raise InputError(
                    f"`{call}(loss={loss.name!r}, geometry={geometry.name!r})`: in round {t} the loss falls forever"
                    " and has no minimum on the whole space; give it an L2 term, or use a bounded set such as ball."
                )
        return best.params

    first = solve(0, geometry.start(model.shape))
    optima = np.tile(first, (stream.rounds, 1))
    turned = stream.rotation(np.arange(stream.rounds)) if geometry.isotropic else None
    if turned is not None:
        optima[:, : stream.features] = turned @ first[: stream.features]
        return optima
    for t in range(1, stream.rounds):
        optima[t] = solve(t, optima[t - 1])
    return optima


def window_comparators(
    x: ArrayLike,
    y: ArrayLike,
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
    On the whole space the certificate is against all parameters within 10 (1 + ||w||) of the answer w.
    Shapes: x (n, features), y (n,) of class indices. The last window may be shorter.

    >>> from osamd.paper.geometry import ball
    >>> from osamd.paper.losses import loss
    >>> from osamd.paper.models import linear
    >>> best = window_comparators([[-1.0], [1.0], [1.0]], [0, 1, 1], 2, loss("hinge"), linear(1), ball(2.0))
    >>> len(best), all(one.value < 1e-3 for one in best)
    (2, True)
    """
    require_positive("window_comparators", "tolerance", tolerance)
    window = require_whole("window_comparators", "window", window)
    require_signed_match("window_comparators", model, geometry)
    rows, classes = _samples(model, x, y)
    value, slope, implicit = on_scores(loss, model.reading)
    penalty = model.penalty(loss.l2, loss.free_bias)
    kinked = not np.isfinite(loss.smoothness) or (model.classes > 2 and loss.scores is None)
    width = tolerance / 4.0 if kinked else 0.0
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
        some, labels = rows[first : first + window], classes[first : first + window].tolist()
        smooth = minimise(problem(some, labels), geometry, start, tolerance / 2.0)
        start = smooth.params
        exact = float(
            np.mean([value(model.scores(start, row), label) for row, label in zip(some, labels, strict=True)])
        )
        exact += float(np.sum(penalty * start * start))
        gap = smooth.gap + (exact - smooth.value if not exact < smooth.value else 0.0)
        if not gap <= tolerance:  # NaN too
            raise InputError(
                f"`window_comparators(window={window}, tolerance={tolerance})`: rounds {first}.."
                f"{first + len(labels) - 1} reached only a gap of {gap:.2g}; ask for a larger tolerance or window."
            )
        found.append(Comparator(start, exact, gap))
    return found


def _samples(model: Linear, x: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[np.int64]]:
    """The rows as the weights take them, and their class indices, or an error."""
    call = "window_comparators"
    rows = finite_array(call, "x", x, 2)
    if rows.shape[1] != model.features:
        raise InputError(
            f"`{call}(x=<shape {rows.shape}>)`: the model takes {model.features} features;"
            " give x one column for each, or build the model with linear(features=...)."
        )
    labels = np.asarray(y)
    if labels.shape != (len(rows),):
        raise InputError(
            f"`{call}(y=<shape {labels.shape}>)`: y must hold one label per row of x, shape ({len(rows)},)."
        )
    known = np.zeros(len(rows), dtype=np.bool_)
    if labels.dtype.kind in "iu":
        known = (labels >= 0) & (labels < model.classes)
    if not known.all():
        bad = int(np.argmin(known))
        rule = (
            f"row {bad} must be a whole class index 0..{model.classes - 1}; Arrays(x, y) turns labels of any kind into"
            " class indices."
        )
        raise reject(call, "y", labels[bad].item(), rule)
    return model.augment(rows), labels.astype(np.int64)
