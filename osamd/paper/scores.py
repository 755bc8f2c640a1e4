"""How scores are read: the decision, the confidence, and the margin Psi with its slope.

Binary models give one score H; the class of index 1 is the paper's +1, index 0 its -1. Multiclass models give a score
for each class, a vector of shape (classes,). Inside the package labels are class indices, and `UNLABELLED` stands
for a missing label.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from osamd.numerics import Array, dot

UNLABELLED = -1

Score = Any  # a float for a binary model, otherwise a vector with one score per class


class Reading(NamedTuple):
    """How one kind of score is read; `BINARY` (Algorithm 1) and `MULTICLASS` (Algorithm 2) are the two.

    >>> BINARY.decide(-2.0), BINARY.confidence(-2.0), BINARY.margin(-2.0, 1)
    (0, 2.0, -2.0)
    >>> h = np.array([0.5, 3.0, 1.0])
    >>> MULTICLASS.decide(h), MULTICLASS.confidence(h), MULTICLASS.margin(h, 0)
    (1, 2.0, -2.5)
    """

    decide: Callable[[Score], int]
    """The class that the scores favour."""
    confidence: Callable[[Score], float]
    """p_t >= 0: the margin of the class that they favour."""
    margin: Callable[[Score, int], float]
    """Psi, the margin of a class: positive if the scores favour it."""
    margin_slope: Callable[[Score, int], Score]
    """dPsi/dH, shaped like the scores."""
    inner: Callable[[Score, Score], float]
    """The inner product of two scores."""


def binary_decide(h: float) -> int:
    """sign H, as a class index; a score of zero is read as +1."""
    return 1 if h >= 0.0 else 0


def binary_confidence(h: float) -> float:
    """|H|."""
    return abs(h)


def binary_margin(h: float, y: int) -> float:
    """y H, with y in {-1, +1}."""
    return h if y == 1 else -h


def binary_margin_slope(h: float, y: int) -> float:
    """d(yH)/dH = y."""
    return 1.0 if y == 1 else -1.0


def binary_inner(a: float, b: float) -> float:
    """a b."""
    return a * b


def runner_up(h: Array, y: int) -> int:
    """The class other than y with the best score; the first one in a tie.

    >>> runner_up(np.array([1.0, 3.0, 1.0]), 1)
    0
    """
    best = 1 if y == 0 else 0
    for s in range(best + 1, h.shape[0]):
        if s != y and h[s] > h[best]:
            best = s
    return best


def multiclass_decide(h: Array) -> int:
    """argmax_s H^s; the first one in a tie."""
    return int(np.argmax(h))


def multiclass_confidence(h: Array) -> float:
    """p_t: the best score minus the second best."""
    return multiclass_margin(h, multiclass_decide(h))


def multiclass_margin(h: Array, y: int) -> float:
    """Psi = H^y - max_{s != y} H^s."""
    return float(h[y] - h[runner_up(h, y)])


def multiclass_margin_slope(h: Array, y: int) -> Array:
    """dPsi/dH = e_y - e_s, with s the runner-up."""
    slope = np.zeros(h.shape[0])
    slope[y] = 1.0
    slope[runner_up(h, y)] = -1.0
    return slope


def multiclass_inner(a: Array, b: Array) -> float:
    """<a, b>, summed in the stated order."""
    return dot(a, b)


BINARY = Reading(binary_decide, binary_confidence, binary_margin, binary_margin_slope, binary_inner)
MULTICLASS = Reading(
    multiclass_decide, multiclass_confidence, multiclass_margin, multiclass_margin_slope, multiclass_inner
)
