"""Losses f(w; x, y): a convex function of the scores, and an optional L2 term on the weights.

A *margin loss* is a falling convex phi of the margin Psi (of yH for a binary model), so `hinge` on a multiclass model
is the multiclass hinge. Each loss has its value, its slope phi', and its *implicit slope*: the g with
g = phi'(margin - reach g), the slope at the place where an implicit step lands. `on_scores` lifts these from the
margin to the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import lookup, require_not_negative
from osamd.numerics import NEWTON, Array, lane_sum, tempered_softmax
from osamd.paper.scores import BINARY, MULTICLASS, Reading, Score, runner_up

Margin = Any  # a float or an array of margins: values and slopes take both
ScoreValue = Callable[[Score, int], float]
ScoreSlope = Callable[[Score, int], Score]
ScoreImplicit = Callable[[Score, int, float], Score]


class OnScores(NamedTuple):
    """A loss as a function of scores H and label y: value, slope, and implicit slope for a given reach.

    The implicit slope q is a (sub)gradient of the loss at H - reach q, where an implicit step lands:
    argmin_s reach loss(s, y) + ||s - H||^2 / 2.
    """

    value: ScoreValue
    slope: ScoreSlope
    implicit: ScoreImplicit


@dataclass(frozen=True)
class Loss:
    """A margin loss with its constants; `scores` replaces the margin form for a multiclass model (softmax).

    `lipschitz` is sup |phi'| and `smoothness` sup phi'', infinite where there is no bound. `kinks` are the margins
    where phi' (the hinge) or phi'' jumps. Between two neighbouring `bends` a smooth phi is regular enough for a
    quadrature with a few nodes. `score_constants` are the Lipschitz and smoothness constants of `scores`. `l2` is the
    paper's C in C ||w||^2; with `free_bias` the bias is left out of it.
    """

    name: str
    value: Callable[[Margin], Margin]
    slope: Callable[[Margin], Margin]
    implicit: Callable[[float, float], float]
    lipschitz: float
    smoothness: float
    kinks: tuple[float, ...] = ()
    bends: tuple[float, ...] = ()
    scores: OnScores | None = None
    score_constants: tuple[float, float] = (math.inf, math.inf)
    l2: float = 0.0
    free_bias: bool = True

    def __post_init__(self) -> None:
        require_not_negative("loss", "l2", self.l2)


def hinge_value(margin: Margin) -> Margin:
    """max(0, 1 - m)."""
    return np.maximum(0.0, 1.0 - margin)


def hinge_slope(margin: Margin) -> Margin:
    """-1 below the kink at 1, else 0."""
    return 0.0 - (margin < 1.0)


def hinge_implicit(margin: float, reach: float) -> float:
    """Closed form: a full step if it stays short of the kink, else a step to the kink."""
    if margin >= 1.0:
        return 0.0
    return -1.0 if 1.0 - margin >= reach else (margin - 1.0) / reach


def squared_hinge_value(margin: Margin) -> Margin:
    """max(0, 1 - m)^2."""
    gap = np.maximum(0.0, 1.0 - margin)
    return gap * gap


def squared_hinge_slope(margin: Margin) -> Margin:
    """-2 max(0, 1 - m)."""
    return -2.0 * np.maximum(0.0, 1.0 - margin)


def squared_hinge_implicit(margin: float, reach: float) -> float:
    """Closed form: g = -2 (1 - m + reach g) below the kink."""
    return -2.0 * max(0.0, 1.0 - margin) / (1.0 + 2.0 * reach)


def smoothed_hinge_value(margin: Margin) -> Margin:
    """The hinge with its corner rounded by a parabola between 0 and 1: (1 - m)^2 / 2 there, 1/2 - m below.

    It is 1-Lipschitz and 1-smooth, so unlike the hinge it satisfies Assumption 4 of the paper.
    """
    gap = np.maximum(0.0, 1.0 - margin)
    rounded = np.minimum(1.0, gap)
    return rounded * (gap - 0.5 * rounded)


def smoothed_hinge_slope(margin: Margin) -> Margin:
    """-(1 - m), clipped to [-1, 0]."""
    return -np.minimum(1.0, np.maximum(0.0, 1.0 - margin))


def smoothed_hinge_implicit(margin: float, reach: float) -> float:
    """Closed form: g = -(1 - m + reach g) on the parabola, clipped to [-1, 0]."""
    return max(-1.0, min(0.0, (margin - 1.0) / (1.0 + reach)))


def logistic_value(margin: Margin) -> Margin:
    """log(1 + exp(-m)), without overflow."""
    return np.log1p(np.exp(-np.abs(margin))) + np.maximum(0.0, -margin)


def logistic_slope(margin: Margin) -> Margin:
    """-1 / (1 + exp(m)), without overflow and exact in the far tail too."""
    small = np.exp(-np.abs(margin))
    return -np.where(margin >= 0.0, small, 1.0) / (1.0 + small)


def logistic_implicit(margin: float, reach: float) -> float:
    """The slope at the landing margin l, the root of l + reach phi'(l) = margin: Newton, inside a shrinking bracket.

    phi' lies in [-1, 0], so l lies in [margin, margin + reach]; phi'' = -phi' (1 + phi') <= 1/4 gives the start.
    """
    low, high = margin, margin + reach
    landing = margin - reach * float(logistic_slope(margin)) / (1.0 + 0.25 * reach)
    for _ in range(NEWTON):
        g = float(logistic_slope(landing))
        error = landing + reach * g - margin
        if error > 0.0:
            high = landing
        else:
            low = landing
        after = landing - error / (1.0 - reach * g * (1.0 + g))
        if not low <= after <= high:
            after = 0.5 * (low + high)
        if after == landing:
            break
        landing = after
    return float(logistic_slope(landing))


def softmax_value(h: Array, y: int) -> float:
    """log sum_s exp(H^s) - H^y."""
    top = float(np.max(h))
    return math.log(float(lane_sum(np.exp(h - top)))) + top - float(h[y])


def softmax_slope(h: Array, y: int) -> Array:
    """softmax(H) - e_y."""
    grown = np.exp(h - np.max(h))
    slope: Array = grown / lane_sum(grown)
    slope[y] -= 1.0
    return slope


def softmax_implicit(h: Array, y: int, reach: float) -> Array:
    """The p - e_y with log p_s + reach p_s = H^s + reach [s = y] - c and sum p = 1: one scalar root, in c."""
    target = h.copy()
    target[y] += reach
    slope = tempered_softmax(target, np.full(h.shape[0], reach), 0.0, 1.0)
    slope[y] -= 1.0
    return slope


def on_scores(loss: Loss, reading: Reading) -> OnScores:
    """A loss as a function of the scores that `reading` interprets.

    >>> on_scores(LOSSES["hinge"], MULTICLASS).implicit(np.array([0.0, 1.0, 0.5]), 0, 1.0).tolist()
    [-1.0, 0.75, 0.25]
    """
    if loss.scores is not None and reading is MULTICLASS:
        return loss.scores
    phi, phi_slope, phi_implicit = loss.value, loss.slope, loss.implicit
    margin, margin_slope = reading.margin, reading.margin_slope

    def value(h: Score, y: int) -> float:
        return float(phi(margin(h, y)))

    def slope(h: Score, y: int) -> Score:
        return phi_slope(margin(h, y)) * margin_slope(h, y)

    def binary_implicit(h: float, y: int, reach: float) -> float:
        return float(phi_implicit(margin(h, y), reach) * margin_slope(h, y))

    def multiclass_implicit(h: Array, y: int, reach: float) -> Array:
        """The slope g of the margin, shared among the runners-up that the step brings to one level.

        With the best m of them at that level, the margin to their mean satisfies the scalar equation with a reach of
        reach (1 + 1/m). The first m whose level stays above the next score is the answer. Scores are taken relative
        to the best runner-up, so that a reach far smaller than the scores loses nothing to rounding.
        """
        classes = h.shape[0]
        best = runner_up(h, y)
        q = np.zeros(classes)
        mean, g = 0.0, 0.0
        tied = np.zeros(classes, dtype=np.bool_)
        following = best
        for m in range(1, classes):
            tied[following] = True
            mean += (h[following] - h[best] - mean) / m
            g = phi_implicit(h[y] - h[best] - mean, reach * (1.0 + 1.0 / m))
            following = -1
            for s in range(classes):
                if s != y and not tied[s] and (following < 0 or h[s] > h[following]):
                    following = s
            if following < 0 or mean + reach * g / m >= h[following] - h[best]:
                for s in range(classes):
                    if tied[s]:
                        apart = (h[s] - h[best] - mean) / reach if m > 1 else 0.0  # m > 1 only where reach |g| > a gap
                        q[s] = max(0.0, apart - g / m)
                break
        q[y] = g
        return q

    return OnScores(value, slope, binary_implicit if reading is BINARY else multiclass_implicit)


def score_constants(loss: Loss, classes: int) -> tuple[float, float]:
    """The Lipschitz and smoothness constants of the loss in the scores H, in the Euclidean norm, without its L2 term.

    For a binary model, which has one score, they are those of phi. With more classes Psi = H^y - H^s has a slope of
    length sqrt(2), so a margin loss is sqrt(2) times as steep; where runners-up tie, Psi has a kink, so no margin loss
    is smooth. The softmax cross-entropy has slope p - e_y, shorter than sqrt(2), and curvature at most I / 2:
    it is diag(p) - p p^T.

    >>> score_constants(LOSSES["logistic"], 2), score_constants(LOSSES["softmax"], 3)[1]
    ((1.0, 0.25), 0.5)
    """
    if classes == 2:
        return loss.lipschitz, loss.smoothness
    return loss.score_constants if loss.scores is not None else (math.sqrt(2.0) * loss.lipschitz, math.inf)


LOGISTIC_BENDS = (-40.0, -16.0, -4.0, -1.0, 0.0, 1.0, 4.0, 16.0, 40.0)
"""Panels that widen with the distance from the poles of phi' at +-i pi; beyond 40 phi is a line to 1e-17."""

LOSSES = {
    loss.name: loss
    for loss in (
        Loss("hinge", hinge_value, hinge_slope, hinge_implicit, 1.0, math.inf, (1.0,)),
        Loss("squared-hinge", squared_hinge_value, squared_hinge_slope, squared_hinge_implicit, math.inf, 2.0, (1.0,)),
        Loss(
            "smoothed-hinge", smoothed_hinge_value, smoothed_hinge_slope, smoothed_hinge_implicit, 1.0, 1.0, (0.0, 1.0)
        ),
        Loss("logistic", logistic_value, logistic_slope, logistic_implicit, 1.0, 0.25, bends=LOGISTIC_BENDS),
        Loss(
            "softmax",
            logistic_value,
            logistic_slope,
            logistic_implicit,
            1.0,
            0.25,
            bends=LOGISTIC_BENDS,
            scores=OnScores(softmax_value, softmax_slope, softmax_implicit),
            score_constants=(math.sqrt(2.0), 0.5),
        ),
    )
}


def loss(name: str, *, l2: float = 0.0, free_bias: bool = True) -> Loss:
    """A loss from the registry by name, with its L2 term.

    >>> svm = loss("hinge", l2=0.2)
    >>> svm.value(np.array([0.25, 2.0])).tolist(), svm.slope(0.25), svm.implicit(0.25, 3.0)
    ([0.75, 0.0], -1.0, -0.25)
    """
    return replace(lookup("loss", "name", name, LOSSES), l2=l2, free_bias=free_bias)
