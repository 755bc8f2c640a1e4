"""Ridge logistic (softmax) regressions, fitted to what is remembered: one to all of it, one to the newest labels.

    min_w  RIDGE / 2 ||w||^2 - sum_k log p(y_k | z_k; w)

is solved by coordinate ascent in its dual: w = sum_k a_k z_k with a_kc = ([c = y_k] - p_c) / RIDGE at the optimum. A
visit to sample k moves its a_k by a damped Newton step, and w with it. Fits are warm: a label moves them little, so a
few visits suffice, and a sample that leaves the memory takes its a_k z_k along exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from osamd.preset.linear import scores_into, softmax_in_place
from osamd.preset.memory import Memory
from osamd.preset.sums import squared_norm
from osamd.preset.views import Sizes, cut

RIDGE = 1.0
"""As scikit-learn's C = 1; three times as much or as little changes means over tables by 0.1 points."""
BIAS = 10.0
"""The squared constant that stands beside the features: the bias is penalised a tenth as much as they are."""
NEWEST = 16
"""Labels that the fast fit reaches back: it is for what has just changed."""
SWEEPS = 2
"""Visits to every sample per label, where that is no more than EFFORT."""
EFFORT = 50_000
"""Products per label that the visits may cost, some tens of microseconds; at least FEWEST samples are visited all the same."""
FEWEST = 64
FLATTEST = 0.05
"""The least curvature of a damped step, so that a sample on the wrong side moves far and not without end."""


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
    """Let one dual number's share of the weights move."""
    d = z.shape[0]
    for i in range(d):
        fit.weights[c, i] += by * z[i]
    fit.weights[c, d] += by * BIAS


def visit(fit: Regression, memory: Memory, place: int, scores: Any) -> None:
    """A damped Newton step for the dual of one sample. Twice the diagonal bounds the curvature of the softmax."""
    z, y = memory.samples[place], int(memory.labels[place])
    norm = BIAS + squared_norm(z)
    scores_into(fit.weights, z, scores)
    softmax_in_place(scores, 1.0)
    for c in range(scores.shape[0]):
        p = scores[c]
        gap = (1.0 if c == y else 0.0) - p - RIDGE * fit.duals[place, c]
        step = gap / (RIDGE + 2.0 * norm * max(p * (1.0 - p), FLATTEST))
        fit.duals[place, c] += step
        move(fit, z, c, step)


def drop(fit: Regression, memory: Memory, place: int) -> None:
    """Take a sample out of the fit."""
    for c in range(fit.duals.shape[1]):
        if fit.duals[place, c] != 0.0:
            move(fit, memory.samples[place], c, -fit.duals[place, c])
            fit.duals[place, c] = 0.0


def refit(fit: Regression, memory: Memory, kept: int, newest: int, scores: Any) -> None:
    """Visit the `newest` of `kept` samples from the newest back, round after round, as far as EFFORT goes."""
    ring, classes = fit.duals.shape
    cost = classes * fit.weights.shape[1]
    visits = min(SWEEPS * newest, max(FEWEST, EFFORT // cost))
    for v in range(visits):
        # A sweep that is not whole goes on, at the next label, where the one before it ended.
        back = v % newest if visits >= newest or v == 0 else (kept * visits + v) % newest
        visit(fit, memory, (kept - 1 - back) % ring, scores)


def restate(fit: Regression, memory: Memory, count: int) -> None:
    """The weights from the duals, after the memory was carried over to another scale."""
    fit.weights[:] = 0.0
    for k in range(count):
        for c in range(fit.duals.shape[1]):
            if fit.duals[k, c] != 0.0:
                move(fit, memory.samples[k], c, fit.duals[k, c])
