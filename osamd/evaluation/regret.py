"""Dynamic regret, path length and temporal variability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osamd.errors import InputError, require_whole
from osamd.evaluation.array_checks import finite_array
from osamd.evaluation.comparators import Comparator, expected_slope, require_exact_match
from osamd.numerics import Array
from osamd.paper.geometry import Geometry
from osamd.paper.ledger import Ledger
from osamd.paper.losses import Loss
from osamd.paper.methods import Learner
from osamd.paper.models import Linear
from osamd.streams import ExactStream

ASCENT = 100
"""The most mirror steps of the ascent in `temporal_variability`; it ends earlier once no step gains anything."""

BEST = 4
"""In each step of the stream, the ascent starts from this many probes with the most negative changes, and from as many
with the most positive ones."""


def expected_losses(stream: ExactStream, loss: Loss, model: Linear, params: Array) -> Array:
    """l_t(w_t), the L2 term included, for one row of parameters per round."""
    penalty = model.penalty(loss.l2, loss.free_bias)
    data = stream.expected_loss(loss, np.arange(len(params)), model.weights(params))
    total: Array = data + (penalty * params * params).sum(axis=1)
    return total


def dynamic_regret(ledger: Ledger, stream: ExactStream, learner: Learner, optima: ArrayLike) -> Array:
    """sum_{s <= t} l_s(w_s) - l_s(w_s*) for every round t, with exact expected losses.

    `optima` are the w_t* of `exact_optima` for the same loss and geometry, (rounds x parameters). The ledger is that
    of the learner on this stream, and must hold the parameters.
    """
    call = "dynamic_regret"
    if ledger.params is None:
        raise InputError(f"`{call}(ledger=...)`: the ledger holds no parameters; play with keep_params=True.")
    require_exact_match(call, stream, learner.model, learner.geometry)
    if len(ledger) != stream.rounds:
        raise InputError(
            f"`{call}(ledger=<{len(ledger)} rounds>)`: the stream has {stream.rounds} rounds;"
            " pass the ledger and the stream of one run."
        )
    best = finite_array(call, "optima", optima, 2, like=(stream.rounds, *learner.model.shape))
    suffered = expected_losses(stream, learner.loss, learner.model, ledger.params)
    return np.cumsum(suffered - expected_losses(stream, learner.loss, learner.model, best))


def windowed_regret(ledger: Ledger, comparators: Sequence[Comparator], window: int) -> Array:
    """sum_{s <= t} f_s(w_s) minus the best comparator of each window, for every round t.

    For streams without an exact l_t. A comparator's mean loss is spread evenly over its window; the value at the end of
    a window is the regret against the best fixed parameters of every window so far. It is at most that regret, and
    below it by no more than `windowed_tolerance`.
    """
    lengths = _lengths("windowed_regret", ledger, comparators, window)
    best = np.repeat([comparator.value for comparator in comparators], lengths)
    return np.cumsum(ledger.loss - best)


def windowed_tolerance(ledger: Ledger, comparators: Sequence[Comparator], window: int) -> float:
    """How far the last value of `windowed_regret` may lie below the true one: the sum of rounds times gap."""
    lengths = _lengths("windowed_tolerance", ledger, comparators, window)
    return float(lengths @ np.array([comparator.gap for comparator in comparators]))


def _lengths(call: str, ledger: Ledger, comparators: Sequence[Comparator], window: int) -> NDArray[np.int64]:
    """The rounds of each window; the last may be shorter."""
    window = require_whole(call, "window", window)
    if len(comparators) != -(-len(ledger) // window):
        raise InputError(
            f"`{call}(window={window})`: {len(ledger)} rounds do not make the {len(comparators)} windows of the"
            " comparators; pass the window that they were computed with, and all of them."
        )
    lengths: NDArray[np.int64] = np.minimum(window, len(ledger) - window * np.arange(len(comparators)))
    return lengths


def path_length(points: ArrayLike, geometry: Geometry) -> float:
    """C_T = sum_t ||w_{t+1} - w_t|| in the norm of the geometry.

    >>> from osamd.paper.geometry import euclidean
    >>> path_length(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]), euclidean())
    6.0
    """
    rows = finite_array("path_length", "points", points, 2)
    return float(sum(geometry.norm(step) for step in np.diff(rows, axis=0)))


def temporal_variability(
    stream: ExactStream, loss: Loss, model: Linear, geometry: Geometry, *, probes: int = 256, seed: int = 0
) -> float:
    """A lower estimate of sum_t sup_{w in K} |l_t(w) - l_{t+1}(w)|; the propositions give upper bounds.

    A difference of convex functions may have many maxima, so the largest one found is reported: from the best of
    `probes` random points of K (its boundary, its inside and `geometry.start`), mirror steps up the difference, as long
    as they help. The L2 term cancels. Where K is unchanged by rotations, steps of the stream that turn it by the same
    angle have the same sup, and only one of them is solved.

    >>> from osamd.paper.geometry import ball
    >>> from osamd.paper.losses import loss
    >>> from osamd.paper.models import linear
    >>> from osamd.streams import TwoPoint  # its hinge loss changes once, by 2 at w = (1, 0)
    >>> round(temporal_variability(TwoPoint(10), loss("hinge"), linear(2, bias=False), ball(1.0)), 6)
    2.0
    """
    call = "temporal_variability"
    require_exact_match(call, stream, model, geometry)
    probes = require_whole(call, "probes", probes)
    if not np.isfinite(geometry.diameter(model.shape[0])):
        raise InputError(
            f"`{call}(geometry={geometry.name!r})`: the sup over an unbounded set is infinite;"
            " use a bounded one, such as ball(radius)."
        )
    steps, counts = _distinct_steps(stream, geometry)
    if steps.size == 0:
        return 0.0
    points = _points(model, geometry, probes, np.random.default_rng(seed))

    found = np.array([_change(stream, loss, model, steps, np.tile(point, (len(steps), 1))) for point in points])
    largest = np.abs(found).max(axis=0)
    order = np.argsort(found, axis=0, kind="stable")
    for row in np.unique(
        np.concatenate([order[:BEST], order[-BEST:]]), axis=0
    ):  # the most negative and the most positive
        largest = np.maximum(largest, _ascend(stream, loss, model, geometry, steps, points[row]))
    return float(counts @ largest)


def _distinct_steps(stream: ExactStream, geometry: Geometry) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The steps t to t + 1 that must be solved, and how many steps have the sup of each.

    With K unchanged by rotations, sup_w |l_t(w) - l_{t+1}(w)| depends on R_t^T R_{t+1} alone, R_t the rotation of P_0
    that gives P_t.
    """
    steps: NDArray[np.int64] = np.arange(stream.rounds - 1)
    turned = stream.rotation(np.arange(stream.rounds)) if geometry.isotropic and steps.size else None
    if turned is None:
        return steps, np.ones_like(steps)
    relative = np.matmul(turned[:-1].transpose(0, 2, 1), turned[1:]).reshape(len(steps), -1).round(10)
    _, first, counts = np.unique(relative, axis=0, return_index=True, return_counts=True)
    return first.astype(np.int64), counts.astype(np.int64)


def _points(model: Linear, geometry: Geometry, number: int, generator: np.random.Generator) -> Array:
    """Points of K: its start, then random ones by turns on the boundary and inside, on the way there from the start."""
    start = geometry.start(model.shape)
    points = [start]
    size = 10.0 if geometry.decision_set.total is not None else 1e3 * geometry.diameter(start.size)
    for i in range(1, number):
        direction = size * generator.standard_normal(model.shape)
        far = geometry.project(direction if geometry.decision_set.total is None else np.exp(direction))
        points.append(far if i % 2 else start + generator.random() * (far - start))
    return np.stack(points)


def _ascend(
    stream: ExactStream, loss: Loss, model: Linear, geometry: Geometry, steps: NDArray[np.int64], points: Array
) -> Array:
    """|l_t - l_{t+1}| at the end of mirror steps up it, for one starting point for each t of `steps`.

    A step that gains is doubled and one that does not is quartered; each begins at the size of K, and a t is done when
    its step falls below 1e-6 of that.
    """
    size = geometry.diameter(model.shape[0])
    at, value = points.copy(), np.abs(_change(stream, loss, model, steps, points))
    rate = np.full(len(steps), np.inf)
    active = np.arange(len(steps))
    for _ in range(ASCENT):
        before, here = steps[active], at[active]
        sign = np.where(_change(stream, loss, model, before, here) < 0.0, -1.0, 1.0)
        up = expected_slope(stream, loss, model, before, here) - expected_slope(stream, loss, model, before + 1, here)
        steepness = np.array([max(geometry.dual_norm(row), 1e-300) for row in up])
        length = np.minimum(rate[active], size / steepness)
        moves = zip(here, -(sign * length)[:, None] * up, strict=True)
        there = np.stack([geometry.step(row, move) for row, move in moves])
        reached = np.abs(_change(stream, loss, model, before, there))
        gains = reached > value[active]
        at[active], value[active] = np.where(gains[:, None], there, here), np.maximum(reached, value[active])
        rate[active] = np.where(gains, 2.0, 0.25) * length
        active = active[rate[active] * steepness > 1e-6 * size]
        if active.size == 0:
            break
    return value


def _change(stream: ExactStream, loss: Loss, model: Linear, before: NDArray[np.int64], params: Array) -> Array:
    """l_t - l_{t+1} at one row of parameters for each t of `before`; the L2 term cancels."""
    weights = model.weights(params)
    change: Array = stream.expected_loss(loss, before, weights) - stream.expected_loss(loss, before + 1, weights)
    return change
