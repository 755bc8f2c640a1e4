"""Whole blocks and single samples, compiled: the same signature for the fused round and for the lowered statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from osamd.algorithm import Rates, State, bind
from osamd.compiled.flat import fused, padded, sums
from osamd.compiled.lowering import in_one_vector, jit, lower
from osamd.losses import on_scores
from osamd.methods import Learner
from osamd.numerics import lane_sum
from osamd.scores import UNLABELLED, binary_margin

GOOD, NOT_FINITE, NO_CLASS, DIVERGED = 0, 1, 2, 3
"""How a block ended; all but the first name the round at which it stopped."""

_made: dict[Any, Any] = {}


def once(kind: str, learner: Learner, make: Callable[[], Any], *also: Any) -> Any:
    """One compiled function for each combination of parts; numbers and switches travel in `Rates`."""
    key = (kind, learner.loss.name, learner.geometry, learner.model.classes, learner.model.bias, *also)
    if key not in _made:
        _made[key] = make()
    return _made[key]


def is_flat(learner: Learner) -> bool:
    """Whether the fused round applies: two classes on the whole Euclidean space."""
    return learner.geometry.flat and learner.model.classes == 2


def block_kernel(learner: Learner) -> Any:
    """kernel(x, y, u, teacher, student, rates, columns, totals) -> (how it ended, round).

    Rows of x are raw features; columns are those of the ledger without `label`, and one of length 0 is not kept.
    Teacher and student are changed in place; totals gain (right, asked, pseudolabel errors, loss).
    """
    return once("block", learner, lambda: jit(_flat_block(learner) if is_flat(learner) else _general_block(learner)))


def write(columns: Any, t: Any, label: Any, pseudolabel: Any, confidence: Any, probability: Any, query: Any) -> Any:
    """One row of the ledger, in the columns that are kept."""
    if columns[0].shape[0] > 0:
        columns[0][t] = label
    if columns[1].shape[0] > 0:
        columns[1][t] = pseudolabel
    if columns[2].shape[0] > 0:
        columns[2][t] = confidence
    if columns[3].shape[0] > 0:
        columns[3][t] = probability
    if columns[4].shape[0] > 0:
        columns[4][t] = query


def _flat_block(learner: Learner) -> Any:
    observe: Any
    learn: Any
    observe, learn = (lower(half) for half in fused(learner.loss))
    value, bias = lower(learner.loss.value), learner.model.bias
    for helper in (sums, binary_margin, padded, write):
        lower(helper)

    def block(x: Any, y: Any, u: Any, teacher: Any, student: Any, rates: Any, columns: Any, totals: Any) -> Any:
        loss, params = columns[5], columns[6]
        features, width = x.shape[1], teacher.shape[0]
        size = padded(width)
        theta, w, row, adapted = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size)
        penalty, shrink = np.zeros(size), np.ones(size)
        theta[:width], w[:width], penalty[:width] = teacher, student, rates.penalty
        ridged = False
        for i in range(width):
            shrink[i] = 1.0 / (1.0 + 2.0 * rates.eta * penalty[i])
            ridged = ridged or penalty[i] > 0.0
        if bias:
            row[features] = 1.0
        rates = Rates(
            rates.self_training,
            rates.teacher_decides,
            rates.sigma,
            rates.floor,
            rates.eta,
            rates.cap,
            rates.target,
            rates.scale,
            rates.inner_loops,
            rates.inner_rate,
            penalty,
        )
        lose = loss.shape[0] > 0
        keep = params.shape[0] > 0 or (lose and ridged)
        right, queries, errors, total = 0, 0, 0, 0.0
        ended, t = GOOD, 0
        for t in range(x.shape[0]):
            for i in range(features):
                row[i] = x[t, i]
            seen = observe(theta, w, shrink, row, u[t], rates, ridged, keep, adapted)
            # One comparison catches features and parameters that are not finite; which of them, is seen afterwards.
            if not seen.square + abs(seen.score) + seen.confidence < np.inf:
                ended = DIVERGED
                for i in range(features):
                    if not np.isfinite(row[i]):
                        ended = NOT_FINITE
                break
            if not 0 <= y[t] < 2:
                ended = NO_CLASS
                break
            learn(theta, w, row, y[t] if seen.query else UNLABELLED, seen, rates, ridged, adapted)
            right += seen.label == y[t]
            queries += seen.query
            errors += seen.pseudolabel != y[t]
            if lose:
                suffered = value(binary_margin(seen.score, y[t]))
                if ridged:
                    for i in range(width):
                        suffered += penalty[i] * adapted[i] * adapted[i]
                loss[t] = suffered
                total += suffered
            write(columns, t, seen.label, seen.pseudolabel, seen.confidence, seen.probability, seen.query)
            if params.shape[0] > 0:
                params[t] = adapted[:width]
        teacher[:], student[:] = theta[:width], w[:width]
        totals[0] += right
        totals[1] += queries
        totals[2] += errors
        totals[3] += total
        return ended, t

    return block


def _general_block(learner: Learner) -> Any:
    """The statement itself, lowered: any loss, geometry and number of classes, parameters as one vector."""
    model = in_one_vector(learner.model)
    observe: Any
    learn: Any
    observe, learn = (lower(half) for half in bind(model, learner.loss, learner.geometry))
    value: Any = lower(on_scores(learner.loss, model.reading).value)
    scores: Any = lower(model.scores)
    bias, signed, classes = model.bias, model.signed, model.classes
    for helper in (write, widen):
        lower(helper)

    def block(x: Any, y: Any, u: Any, teacher: Any, student: Any, rates: Any, columns: Any, totals: Any) -> Any:
        loss, params = columns[5], columns[6]
        lose, keep = loss.shape[0] > 0, params.shape[0] > 0
        state = State(teacher.copy(), student.copy())
        row = np.zeros((x.shape[1] + bias) * (2 if signed else 1))
        ended, t = GOOD, 0
        for t in range(x.shape[0]):
            if not widen(x[t], row, bias, signed):
                ended = NOT_FINITE
                break
            if not 0 <= y[t] < classes:
                ended = NO_CLASS
                break
            decided = observe(state, row, u[t], rates)
            w = decided.adapted
            suffered = 0.0
            if lose:
                suffered = value(scores(w, row), y[t]) + lane_sum(rates.penalty * w * w)
                loss[t] = suffered
            if not abs(suffered) + decided.margin < np.inf:
                ended = DIVERGED
                break
            state = learn(state, row, decided, y[t] if decided.query else UNLABELLED, rates)
            write(columns, t, decided.label, decided.pseudolabel, decided.margin, decided.probability, decided.query)
            if keep:
                params[t] = w
            totals[0] += decided.label == y[t]
            totals[1] += decided.query
            totals[2] += decided.pseudolabel != y[t]
            totals[3] += suffered
        teacher[:], student[:] = state.teacher, state.student
        return ended, t

    return block


def widen(x: Any, row: Any, bias: Any, signed: Any) -> Any:
    """`Linear.augment` for one sample, in place; says whether every feature is finite."""
    finite, n = True, x.shape[0]
    for i in range(n):
        row[i] = x[i]
        finite = finite and abs(x[i]) < np.inf
    if bias:
        row[n] = 1.0
        n += 1
    if signed:
        for i in range(n):
            row[n + i] = -row[i]
    return finite
