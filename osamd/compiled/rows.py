"""The exact round on the whole Euclidean space with several classes and no L2 term, fused row by row.

Rows of weights lie one after the other in one vector, each padded to whole lanes. As with two classes, w_t is never
stored: its scores are those of the student minus reach times the implicit slope.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osamd.algorithm import Rates
from osamd.compiled.kernels import DIVERGED, GOOD, NO_CLASS, NOT_FINITE, without_array
from osamd.compiled.lanes import add, padded, sums
from osamd.compiled.lowering import lower
from osamd.losses import on_scores
from osamd.methods import Learner
from osamd.numerics import Array
from osamd.queries import query_probability
from osamd.scores import multiclass_decide, multiclass_margin, runner_up


def student_step(w: Array, slope: Array, x: Array, start: int, features: int, bias: bool, rates: Rates) -> None:
    """w_hat -= eta q x, for every class whose slope is not zero."""
    size = padded(features + bias)
    for s in range(slope.shape[0]):
        if slope[s] != 0.0:
            add(-rates.eta * slope[s], x, start, features, bias, w, s * size)


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


def rows_block(learner: Learner) -> Any:
    """The kernel of `kernels.block_kernel` for these learners."""
    lifted: Any = on_scores(learner.loss, learner.model.reading)
    loss_value, slope_of, implicit_slope = (lower(function) for function in lifted)
    bias = learner.model.bias
    called: list[Any] = [
        student_step,
        teacher_step,
        multiclass_decide,
        multiclass_margin,
        query_probability,
        padded,
        without_array,
    ]
    for function in called:
        lower(function)

    def block(x: Any, y: Any, u: Any, teacher: Any, student: Any, rates: Any, columns: Any, totals: Any) -> Any:
        decision, pseudolabels, margins, probabilities, asked, loss, params = columns
        features, width = x.shape[1], x.shape[1] + bias
        classes, size = teacher.shape[0] // width, padded(width)
        theta, w = np.zeros(classes * size), np.zeros(classes * size)
        for s in range(classes):
            for i in range(width):
                theta[s * size + i], w[s * size + i] = teacher[s * width + i], student[s * width + i]
        numbers = without_array(rates)
        h, scores = np.zeros(classes), np.zeros(classes)
        ended, t = GOOD, 0
        for t in range(x.shape[0]):
            start, square = t * features, 0.0
            for s in range(classes):
                h[s], scores[s], square = sums(theta, w, s * size, x, start, features, bias)
            pseudolabel = multiclass_decide(h)
            q = np.zeros(classes)
            if numbers.teacher_decides:
                scores[:] = h
            elif numbers.self_training:
                reach = numbers.eta * square
                q = implicit_slope(scores, pseudolabel, reach)
                scores -= reach * q
            confidence = multiclass_margin(h, pseudolabel)
            if not square + np.abs(scores).sum() + confidence < np.inf:
                ended = DIVERGED
                for i in range(features):
                    if not np.isfinite(x[t, i]):
                        ended = NOT_FINITE
                break
            if not 0 <= y[t] < classes:
                ended = NO_CLASS
                break
            probability = query_probability(confidence, numbers.sigma, numbers.floor)
            label, query = multiclass_decide(scores), u[t] < probability
            totals[0] += label == y[t]
            totals[1] += query
            totals[2] += pseudolabel != y[t]
            if loss.shape[0] > 0:
                loss[t] = loss_value(scores, y[t])
                totals[3] += loss[t]
            if params.shape[0] > 0:
                for s in range(classes):
                    for i in range(width):
                        kept = theta[s * size + i] if numbers.teacher_decides else w[s * size + i]
                        seen = x[t, i] if i < features else 1.0
                        params[t, s * width + i] = kept - numbers.eta * q[s] * seen
            if decision.shape[0] > 0:
                decision[t] = label
            if pseudolabels.shape[0] > 0:
                pseudolabels[t] = pseudolabel
            if margins.shape[0] > 0:
                margins[t] = confidence
            if probabilities.shape[0] > 0:
                probabilities[t] = probability
            if asked.shape[0] > 0:
                asked[t] = query
            if query:
                teacher_step(theta, h, x, start, features, bias, y[t], square, numbers)
                if not (numbers.self_training and y[t] == pseudolabel):
                    q = slope_of(scores, y[t])
            if not numbers.teacher_decides and (query or numbers.self_training):
                student_step(w, q, x, start, features, bias, numbers)
        for s in range(classes):
            for i in range(width):
                teacher[s * width + i], student[s * width + i] = theta[s * size + i], w[s * size + i]
        return ended, t

    return block
