"""Ridge logistic (softmax) regressions, one fitted to the whole memory and one to the newest labels.

    min_w  RIDGE / 2 ||w||^2 - sum_k log p(y_k | z_k; w)

is solved by coordinate ascent in its dual: w = sum_k a_k z_k with a_kc = ([c = y_k] - p_c) / RIDGE at the optimum. A
visit to sample k moves its a_k by a damped Newton step, and w with it. Fits start warm: a label moves them little, so a
few visits suffice, and a sample that leaves the memory takes exactly its a_k z_k along. With two classes, a_k0 = -a_k1
and w_0 = -w_1, so one of the two rows is enough to work with.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from osamd.preset.linear_models import scores_into, softmax_in_place
from osamd.preset.memory import Memory
from osamd.preset.sums import score
from osamd.preset.views import Sizes, cut

RIDGE = 1.0
"""The ridge of scikit-learn's C = 1; with 3 or 1/3, means over tables change by 0.1 points."""
BIAS = 10.0
"""The squared constant next to the features: the bias is penalised a tenth as much as their weights."""
NEWEST = 16
"""The number of labels that the fast fit looks back: it is for recent changes."""
SWEEPS = 2
"""Visits to every sample per label, if they cost no more than EFFORT."""
EFFORT = 25_000
"""The multiplications per label that the visits may cost, some ten microseconds; with twice as many, means over tables
change by less than 0.1 points. FEWEST visits are always made."""
FEWEST = 64
FLATTEST = 0.05
"""The least curvature of a damped step, so that a sample on the wrong side moves far, but not without bound."""


FARTHEST = 700.0
"""The largest number whose exponential is taken."""


class Regression(NamedTuple):
    """Views of the state."""

    weights: Any
    """One row per class, the bias last."""
    duals: Any
    """a_k: one row per remembered sample, one number per class."""


def cut_regression(vector: Any, at: int, sizes: Sizes) -> Any:
    weights, at = cut(vector, at, sizes.classes * (sizes.features + 1))
    duals, at = cut(vector, at, sizes.capacity * sizes.classes)
    shaped = weights.reshape((sizes.classes, sizes.features + 1))
    return Regression(shaped, duals.reshape((sizes.capacity, sizes.classes))), at


def move(fit: Regression, z: Any, c: int, by: float) -> None:
    """Move the weights by the change of one dual number."""
    d = z.shape[0]
    for i in range(d):
        fit.weights[c, i] += by * z[i]
    fit.weights[c, d] += by * BIAS


def newton_step(p: float, is_class: bool, dual: float, norm: float) -> float:
    """A damped Newton step for one dual number of a sample with this squared norm. Twice the diagonal bounds the
    curvature of the softmax."""
    gap = (1.0 if is_class else 0.0) - p - RIDGE * dual
    return gap / (RIDGE + 2.0 * (BIAS + norm) * max(p * (1.0 - p), FLATTEST))


def visit(fit: Regression, memory: Memory, norm: float, place: int, scores: Any) -> None:
    """A step for the dual of one sample."""
    z, y = memory.samples[place], int(memory.labels[place])
    scores_into(fit.weights, z, scores)
    softmax_in_place(scores, 1.0)
    for c in range(scores.shape[0]):
        step = newton_step(scores[c], c == y, fit.duals[place, c], norm)
        fit.duals[place, c] += step
        move(fit, z, c, step)


def visit_of_two(fit: Regression, memory: Memory, norm: float, place: int) -> None:
    """The same step for two classes, for the row of the second alone."""
    z = memory.samples[place]
    p = 1.0 / (1.0 + math.exp(min(-2.0 * score(fit.weights[1], z), FARTHEST)))
    step = newton_step(p, memory.labels[place] == 1.0, fit.duals[place, 1], norm)
    fit.duals[place, 1] += step
    fit.duals[place, 0] = -fit.duals[place, 1]
    move(fit, z, 1, step)


def drop(fit: Regression, memory: Memory, place: int) -> None:
    """Take a sample out of the fit."""
    for c in range(fit.duals.shape[1]):
        if fit.duals[place, c] != 0.0:
            move(fit, memory.samples[place], c, -fit.duals[place, c])
            fit.duals[place, c] = 0.0


def refit(fit: Regression, memory: Memory, norms: Any, kept: int, newest: int, scores: Any) -> None:
    """Visit the `newest` of `kept` samples, from the newest back, sweep after sweep, as far as EFFORT allows."""
    ring, classes = fit.duals.shape
    cost = classes * fit.weights.shape[1]
    visits = min(SWEEPS * newest, max(FEWEST, EFFORT // cost))
    back = 0
    for v in range(visits):
        if v == 1 and visits < newest:  # an incomplete sweep continues where that of the label before ended
            back = (kept * visits + 1) % newest
        place = (kept - 1) % ring - back
        place += ring if place < 0 else 0
        back = back + 1 if back + 1 < newest else 0
        if classes == 2:
            visit_of_two(fit, memory, norms[place], place)
        else:
            visit(fit, memory, norms[place], place, scores)
    if classes == 2:
        for i in range(fit.weights.shape[1]):
            fit.weights[0, i] = -fit.weights[1, i]


def restate(fit: Regression, memory: Memory, count: int) -> None:
    """Compute the weights from the duals, after the memory was converted to another scale."""
    fit.weights[:] = 0.0
    for k in range(count):
        for c in range(fit.duals.shape[1]):
            if fit.duals[k, c] != 0.0:
                move(fit, memory.samples[k], c, fit.duals[k, c])
