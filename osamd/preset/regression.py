"""Ridge logistic (softmax) regressions, one fitted to the whole memory and one to the newest labels.

    min_w  RIDGE / 2 ||w||^2 - sum_k log p(y_k | z_k; w)

is solved by coordinate ascent in its dual: w = sum_k a_k z_k with a_kc = ([c = y_k] - p_c) / RIDGE at the optimum. A
visit to sample k moves its a_k by a damped Newton step, and w with it. Fits start warm: a label moves them little, so a
few visits suffice, and a sample that leaves the memory takes exactly its a_k z_k along.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from osamd.preset.linear_models import scores_into, softmax_in_place
from osamd.preset.memory import Memory
from osamd.preset.sums import squared_norm
from osamd.preset.views import Sizes, cut

RIDGE = 1.0
"""The ridge of scikit-learn's C = 1; with 3 or 1/3, means over tables change by 0.1 points."""
BIAS = 10.0
"""The squared constant next to the features: the bias is penalised a tenth as much as their weights."""
NEWEST = 16
"""The number of labels that the fast fit looks back: it is for recent changes."""
SWEEPS = 2
"""Visits to every sample per label, if they cost no more than EFFORT."""
EFFORT = 50_000
"""The multiplications per label that the visits may cost, some tens of microseconds. FEWEST visits are always made."""
FEWEST = 64
FLATTEST = 0.05
"""The least curvature of a damped step, so that a sample on the wrong side moves far, but not without bound."""


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
    """Visit the `newest` of `kept` samples, from the newest back, sweep after sweep, as far as EFFORT allows."""
    ring, classes = fit.duals.shape
    cost = classes * fit.weights.shape[1]
    visits = min(SWEEPS * newest, max(FEWEST, EFFORT // cost))
    for v in range(visits):
        # An incomplete sweep continues at the next label where this one ended.
        back = v % newest if visits >= newest or v == 0 else (kept * visits + v) % newest
        visit(fit, memory, (kept - 1 - back) % ring, scores)


def restate(fit: Regression, memory: Memory, count: int) -> None:
    """Compute the weights from the duals, after the memory was converted to another scale."""
    fit.weights[:] = 0.0
    for k in range(count):
        for c in range(fit.duals.shape[1]):
            if fit.duals[k, c] != 0.0:
                move(fit, memory.samples[k], c, fit.duals[k, c])
