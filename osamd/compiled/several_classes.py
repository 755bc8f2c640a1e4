"""The exact round on the whole Euclidean space with several classes and no L2 term, fused row by row.

The rows of weights follow each other in one vector, each padded to whole lanes. Only one row of w_t is held at a time.
The exact step makes classes tie, and rounding decides between them, so w_t, its scores and the student's step are
computed in exactly the order of `osamd.paper.algorithm`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from osamd.compiled.block_kernels import DIVERGED, GOOD, NO_CLASS, NOT_FINITE, without_array
from osamd.compiled.lanes import add, padded, sums
from osamd.compiled.lowering import lower
from osamd.numerics import Array
from osamd.paper.algorithm import Rates
from osamd.paper.losses import Loss, on_scores
from osamd.paper.methods import Learner
from osamd.paper.queries import query_probability
from osamd.paper.scores import MULTICLASS, UNLABELLED, multiclass_decide, multiclass_margin, runner_up


class SeveralClassRound(NamedTuple):
    """The round, to be compiled: observe fills in the scores and the slope that learn needs."""

    observe: Callable[..., Any]
    learn: Callable[..., Any]


class SeveralClassSeen(NamedTuple):
    """What `observe` found, apart from the scores."""

    label: int
    pseudolabel: int
    confidence: float
    probability: float
    square: float
    """x . x"""
    finite: bool
    """Whether the sample, the scores and the confidence are all finite."""


def move_row(
    w: Array, at: int, q: float, x: Array, start: int, features: int, bias: bool, rates: Rates, to: Array, there: int
) -> None:
    """Set the row of `to` that begins at `there` to the row of w that begins at `at`, minus eta q x."""
    for i in range(features):
        to[there + i] = w[at + i] - rates.eta * (q * x.flat[start + i])
    if bias:
        to[there + features] = w[at + features] - rates.eta * q


def student_step(w: Array, slope: Array, x: Array, start: int, features: int, bias: bool, rates: Rates) -> None:
    """w_hat -= eta q x, for every class whose slope is not zero."""
    size = padded(features + bias)
    for s in range(slope.shape[0]):
        if slope[s] != 0.0:
            move_row(w, s * size, slope[s], x, start, features, bias, rates, w, s * size)


def teacher_step(
    theta: Array, h: Array, x: Array, start: int, features: int, bias: bool, y: int, square: float, rates: Rates
) -> None:
    """theta += tau grad Psi: towards class y, away from its runner-up."""
    shortfall = max(0.0, rates.target - multiclass_margin(h, y))
    tau = rates.scale * shortfall if rates.scale > 0.0 else shortfall / max(2.0 * square, 1e-300)
    tau = min(rates.cap, tau)
    if tau != 0.0:
        size = padded(features + bias)
        add(tau, x, start, features, bias, theta, y * size)
        add(-tau, x, start, features, bias, theta, runner_up(h, y) * size)


def fused_rows(loss: Loss) -> SeveralClassRound:
    """The halves of the round for one loss.

    For every class, `h` is the teacher's score, `scores` the score of the parameters that decide, and `q` the slope
    that led to w_t. The sample is `features` numbers of `x` from `start` on.
    """
    _, slope_of, implicit_slope = on_scores(loss, MULTICLASS)

    def observe(
        theta: Array,
        w: Array,
        x: Array,
        start: int,
        features: int,
        bias: bool,
        h: Array,
        scores: Array,
        q: Array,
        rates: Rates,
    ) -> SeveralClassSeen:
        """The decision, the pseudolabel and the query probability; h, scores and q are filled in."""
        size, square = padded(features + bias), 0.0
        for s in range(h.shape[0]):
            h[s], scores[s], square = sums(theta, w, s * size, x, start, features, bias)
        pseudolabel = multiclass_decide(h)
        q[:] = 0.0
        if rates.teacher_decides:
            scores[:] = h
        elif rates.self_training:
            q[:] = implicit_slope(scores, pseudolabel, rates.eta * square)
            adapted = np.zeros(size)
            for s in range(h.shape[0]):
                if q[s] != 0.0:
                    move_row(w, s * size, q[s], x, start, features, bias, rates, adapted, 0)
                    scores[s] = sums(adapted, adapted, 0, x, start, features, bias)[0]
        confidence = multiclass_margin(h, pseudolabel)
        finite = square + np.abs(scores).sum() + confidence < np.inf
        probability = query_probability(confidence, rates.sigma, rates.floor)
        return SeveralClassSeen(multiclass_decide(scores), pseudolabel, confidence, probability, square, finite)

    def learn(
        theta: Array,
        w: Array,
        x: Array,
        start: int,
        features: int,
        bias: bool,
        h: Array,
        scores: Array,
        q: Array,
        seen: SeveralClassSeen,
        y: int,
        rates: Rates,
    ) -> None:
        """The steps of teacher and student; y is the label, or UNLABELLED."""
        labelled = y != UNLABELLED
        if labelled:
            teacher_step(theta, h, x, start, features, bias, y, seen.square, rates)
        if not rates.teacher_decides and (labelled or rates.self_training):
            slope = q
            if labelled and not (rates.self_training and y == seen.pseudolabel):
                slope = slope_of(scores, y)
            student_step(w, slope, x, start, features, bias, rates)

    return SeveralClassRound(observe, learn)


def rows_block(learner: Learner) -> Any:
    """The kernel of `osamd.compiled.compiled_runs.block_kernel` for these learners.

    It is long because a call in its loop would cost more than the round.
    """
    parts: Any = (lower(part, inline=True) for part in fused_rows(learner.loss))
    observe, learn = parts
    loss_value: Any = lower(on_scores(learner.loss, learner.model.reading).value)
    bias = learner.model.bias
    for helper in (padded, without_array):
        lower(helper)

    def block(x: Any, y: Any, u: Any, teacher: Any, student: Any, rates: Any, columns: Any, totals: Any) -> Any:
        decision, pseudolabel, margin, probability, asked, loss, params = columns
        features, width = x.shape[1], x.shape[1] + bias
        classes, size = teacher.shape[0] // width, padded(width)
        theta, w = np.zeros(classes * size), np.zeros(classes * size)
        for s in range(classes):
            for i in range(width):
                theta[s * size + i], w[s * size + i] = teacher[s * width + i], student[s * width + i]
        numbers = without_array(rates)
        h, scores, q = np.zeros(classes), np.zeros(classes), np.zeros(classes)
        ended, t = GOOD, 0
        for t in range(x.shape[0]):
            start = t * features
            seen = observe(theta, w, x, start, features, bias, h, scores, q, numbers)
            if not seen.finite:
                ended = DIVERGED
                for i in range(features):
                    if not np.isfinite(x[t, i]):
                        ended = NOT_FINITE
                break
            if not 0 <= y[t] < classes:
                ended = NO_CLASS
                break
            query = u[t] < seen.probability
            totals[0] += seen.label == y[t]
            totals[1] += query
            totals[2] += seen.pseudolabel != y[t]
            if loss.shape[0] > 0:
                loss[t] = loss_value(scores, y[t])
                totals[3] += loss[t]
            if params.shape[0] > 0:
                for s in range(classes):
                    for i in range(width):
                        kept = theta[s * size + i] if numbers.teacher_decides else w[s * size + i]
                        feature = x[t, i] if i < features else 1.0
                        params[t, s * width + i] = kept - numbers.eta * (q[s] * feature)
            if decision.shape[0] > 0:
                decision[t] = seen.label
            if pseudolabel.shape[0] > 0:
                pseudolabel[t] = seen.pseudolabel
            if margin.shape[0] > 0:
                margin[t] = seen.confidence
            if probability.shape[0] > 0:
                probability[t] = seen.probability
            if asked.shape[0] > 0:
                asked[t] = query
            known = y[t] if query else UNLABELLED
            learn(theta, w, x, start, features, bias, h, scores, q, seen, known, numbers)
        for s in range(classes):
            for i in range(width):
                teacher[s * width + i], student[s * width + i] = theta[s * size + i], w[s * size + i]
        return ended, t

    return block
