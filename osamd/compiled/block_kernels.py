"""Kernels for whole blocks, with one signature: the fused round for two classes, and the plain round, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from osamd.compiled.lanes import add, padded, sums
from osamd.compiled.lowering import in_one_vector, lower
from osamd.compiled.two_classes import fused
from osamd.numerics import lane_sum
from osamd.paper.algorithm import Rates, State, bind
from osamd.paper.losses import on_scores
from osamd.paper.methods import Learner
from osamd.paper.scores import UNLABELLED, binary_margin

GOOD, NOT_FINITE, NO_CLASS, DIVERGED = 0, 1, 2, 3
"""How a block ended; all but GOOD come with the round at which it stopped."""

_made: dict[Any, Any] = {}


def once(kind: str, learner: Learner, make: Callable[[], Any], *also: Any) -> Any:
    """One compiled function for each combination of parts; numbers and switches are passed in `Rates`.

    A loss is identified by its functions, and a geometry by its code and the numbers of its set, so that two that were
    built alike share the compiled function. Models with three or more classes share it too.
    """
    loss, geometry, model = learner.loss, learner.geometry, learner.model
    functions = (loss.value, loss.slope, loss.implicit, loss.scores)
    key = (
        kind,
        functions,
        geometry.name,
        geometry.step.__code__,
        geometry.decision_set,
        model.classes == 2,
        model.bias,
        *also,
    )
    if key not in _made:
        _made[key] = make()
    return _made[key]


def kind_of_round(learner: Learner) -> str:
    """The kind of round for this learner.

    "flat" is for two classes on the whole Euclidean space, "rows" for several classes there with the exact step and no
    L2 term, and "general" for everything else.
    """
    if not learner.geometry.flat:
        return "general"
    if learner.model.classes == 2:
        return "flat"
    return "general" if learner.rates.inner_loops > 0 or learner.rates.penalty.any() else "rows"


def without_array(rates: Any) -> Any:
    """The numbers of `Rates`, without its array."""
    return Rates(
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
        0.0,  # type: ignore[arg-type]
    )


def flat_block(learner: Learner) -> Any:
    """The fused round of `osamd.compiled.two_classes` over a block. It is long because a call in its loop costs."""
    parts: Any = (lower(part, inline=True) for part in fused(learner.loss))
    adapt, adapt_by_row, observe, correct = parts
    value, bias = lower(learner.loss.value), learner.model.bias
    for helper in (binary_margin, padded, without_array):
        lower(helper, inline=True)

    def block(x: Any, y: Any, u: Any, teacher: Any, student: Any, rates: Any, columns: Any, totals: Any) -> Any:
        decision, pseudolabel, margin, probability, asked, loss, params = columns
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
        numbers = without_array(rates)
        lose = loss.shape[0] > 0
        by_row = ridged or numbers.inner_loops > 0 or params.shape[0] > 0
        right, queries, errors, total = 0, 0, 0, 0.0
        ended, t = GOOD, 0
        for t in range(x.shape[0]):
            start = t * features
            h, s, square = sums(theta, w, 0, x, start, features, bias)
            score, q = 0.0, 0.0
            if by_row:
                for i in range(features):
                    row[i] = x[t, i]
                score, q = adapt_by_row(h, s, theta, w, penalty, shrink, row, numbers, adapted)
            else:
                score, q = adapt(h, s, square, numbers)
            seen = observe(h, score, q, square, u[t], numbers)
            # One comparison catches features and parameters that are not finite; the code below finds out which.
            if not square + abs(score) + seen.confidence < np.inf:
                ended = DIVERGED
                for i in range(features):
                    if not np.isfinite(x[t, i]):
                        ended = NOT_FINITE
                break
            if not 0 <= y[t] < 2:
                ended = NO_CLASS
                break
            if seen.query:
                tau, q = correct(y[t], seen, numbers)
                if tau != 0.0:
                    add(tau, x, start, features, bias, theta, 0)
            if not numbers.teacher_decides and (seen.query or numbers.self_training):
                if ridged:
                    for i in range(size):
                        w[i] -= numbers.eta * (q * row[i] + 2.0 * penalty[i] * adapted[i])
                elif q != 0.0:
                    add(-numbers.eta * q, x, start, features, bias, w, 0)
            right += seen.label == y[t]
            queries += seen.query
            errors += seen.pseudolabel != y[t]
            if lose:
                suffered = value(binary_margin(score, y[t]))
                if ridged:
                    for i in range(width):
                        suffered += penalty[i] * adapted[i] * adapted[i]
                loss[t] = suffered
                total += suffered
            if decision.shape[0] > 0:
                decision[t] = seen.label
            if pseudolabel.shape[0] > 0:
                pseudolabel[t] = seen.pseudolabel
            if margin.shape[0] > 0:
                margin[t] = seen.confidence
            if probability.shape[0] > 0:
                probability[t] = seen.probability
            if asked.shape[0] > 0:
                asked[t] = seen.query
            if params.shape[0] > 0:
                for i in range(width):
                    params[t, i] = adapted[i]
        teacher[:], student[:] = theta[:width], w[:width]
        totals[0] += right
        totals[1] += queries
        totals[2] += errors
        totals[3] += total
        return ended, t

    return block


def general_block(learner: Learner) -> Any:
    """The plain round itself, compiled: any loss, geometry and number of classes, with parameters as one vector."""
    model = in_one_vector(learner.model)
    observe: Any
    learn: Any
    observe, learn = (lower(half) for half in bind(model, learner.loss, learner.geometry))
    value: Any = lower(on_scores(learner.loss, model.reading).value)
    scores: Any = lower(model.scores)
    bias, signed = model.bias, model.signed
    lower(widen)

    def block(x: Any, y: Any, u: Any, teacher: Any, student: Any, rates: Any, columns: Any, totals: Any) -> Any:
        decision, pseudolabel, margin, probability, asked, loss, params = columns
        lose, keep = loss.shape[0] > 0, params.shape[0] > 0
        state = State(teacher.copy(), student.copy())
        row = np.zeros((x.shape[1] + bias) * (2 if signed else 1))
        classes = max(2, teacher.shape[0] // row.shape[0])
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
            if decision.shape[0] > 0:
                decision[t] = decided.label
            if pseudolabel.shape[0] > 0:
                pseudolabel[t] = decided.pseudolabel
            if margin.shape[0] > 0:
                margin[t] = decided.margin
            if probability.shape[0] > 0:
                probability[t] = decided.probability
            if asked.shape[0] > 0:
                asked[t] = decided.query
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
    """`Linear.augment` for one sample, in place; returns whether every feature is finite."""
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
