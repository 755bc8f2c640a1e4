"""Dynamic regret, path length and temporal variability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from osamd.errors import InputError
from osamd.evaluation.comparators import Comparator
from osamd.geometry import Geometry
from osamd.ledger import Ledger
from osamd.losses import Loss
from osamd.methods import Learner
from osamd.models import Linear
from osamd.numerics import Array
from osamd.streams import ExactStream


def expected_losses(stream: ExactStream, loss: Loss, model: Linear, params: Array) -> Array:
    """l_t(w_t), the L2 term included, for one row of parameters a round."""
    penalty = model.penalty(loss.l2, loss.free_bias)
    data = stream.expected_loss(loss, np.arange(len(params)), model.weights(params))
    total: Array = data + (penalty * params * params).sum(axis=1)
    return total


def dynamic_regret(ledger: Ledger, stream: ExactStream, learner: Learner, optima: Array) -> Array:
    """sum_{s <= t} l_s(w_s) - l_s(w_s*) for every round t, with exact expected losses.

    `optima` are the w_t* of `exact_optima` for the same loss and geometry. The ledger must hold the parameters.
    """
    if ledger.params is None:
        raise InputError("`dynamic_regret(ledger=...)`: the ledger holds no parameters; play with keep_params=True.")
    suffered = expected_losses(stream, learner.loss, learner.model, ledger.params)
    return np.cumsum(suffered - expected_losses(stream, learner.loss, learner.model, optima))


def windowed_regret(ledger: Ledger, comparators: Sequence[Comparator], window: int) -> Array:
    """sum_{s <= t} f_s(w_s) minus the best comparator of each window, for every round t.

    For streams without an exact l_t. A comparator's mean loss is spread evenly over its window; the value at the end of
    each window is the regret against the best fixed parameters of every window, to the comparators' tolerance.
    """
    best = np.repeat([comparator.value for comparator in comparators], window)[: len(ledger)]
    if len(best) != len(ledger):
        raise InputError(
            f"`windowed_regret(window={window})`: {len(comparators)} windows do not cover {len(ledger)} rounds;"
            " pass the window that the comparators were computed with."
        )
    return np.cumsum(ledger.loss - best)


def path_length(points: Array, geometry: Geometry) -> float:
    """C_T = sum_t ||w_{t+1} - w_t|| in the norm of the geometry.

    >>> from osamd.geometry import euclidean
    >>> path_length(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]), euclidean())
    6.0
    """
    return float(sum(geometry.norm(step) for step in np.diff(points, axis=0)))


def temporal_variability(
    stream: ExactStream, loss: Loss, model: Linear, geometry: Geometry, *, probes: int = 256, seed: int = 0
) -> float:
    """sum_t sup_{w in K} |l_t(w) - l_{t+1}(w)|, the sup taken over `probes` points of K.

    A lower estimate that rises to the true value with more probes; the propositions give upper bounds. The points lie
    on the boundary of K, where a difference of losses tends to be largest. The L2 term cancels.
    """
    if not np.isfinite(geometry.diameter(int(np.prod(model.shape)))):
        raise InputError(
            f"`temporal_variability(geometry={geometry.name!r})`: the sup over an unbounded set is infinite;"
            " use a bounded one, such as ball(radius)."
        )
    generator = np.random.default_rng(seed)
    rounds: NDArray[np.int64] = np.arange(stream.rounds)
    largest = np.zeros(stream.rounds - 1)
    for _ in range(probes):
        direction = generator.standard_normal(model.shape) * 10.0 * (1.0 + geometry.norm(geometry.start(model.shape)))
        point = geometry.project(np.exp(direction) if geometry.decision_set.total is not None else direction * 1e3)
        losses = stream.expected_loss(loss, rounds, np.tile(model.weights(point), (stream.rounds, 1)))
        largest = np.maximum(largest, np.abs(np.diff(losses)))
    return float(largest.sum())
