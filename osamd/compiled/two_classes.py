"""The round on the whole Euclidean space with two classes, fused: three sums, a few scalars, and one pass to update.

There the exact implicit step has a closed form, so w_t is never stored: with r_i = 1 / (1 + ridge_i) and the slope q it
is r_i (w_hat_i - eta q x_i), and its score is a scalar. Vectors are padded with zeros to whole lanes (see
`osamd.compiled.lanes`). Everything here is held equal to `osamd.paper.algorithm` by differential tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from osamd.compiled.lanes import padded_sums
from osamd.numerics import Array
from osamd.paper.algorithm import Rates
from osamd.paper.losses import Loss
from osamd.paper.queries import query_probability


class TwoClassRound(NamedTuple):
    """The round, to be compiled. An exact step without an L2 term passes no arrays.

    A call that passes an array counts references, and six of those cost more than the rest of a short round. So the
    callers write out the steps: theta += tau x, and w -= eta (q x + 2 penalty w_t) if the student moves at all, because
    there is a label or because it trains itself.
    """

    adapt: Callable[..., Any]
    adapt_by_row: Callable[..., Any]
    observe: Callable[..., Any]
    correct: Callable[..., Any]


def copy(source: Array, target: Array) -> None:
    """target = source, element by element: a slice would be an object whose references are counted."""
    for i in range(target.shape[0]):
        target[i] = source[i]


class TwoClassSeen(NamedTuple):
    """What `observe` found, including the scores that learning needs."""

    label: int
    pseudolabel: int
    confidence: float
    probability: float
    query: bool
    score: float
    """The score of the parameters that decide."""
    slope: float
    teacher_score: float
    square: float
    """x . x"""


def fused(loss: Loss) -> TwoClassRound:
    """The parts of the round for one loss; h, s and square are theta . x, w . x and x . x.

    The function is long because its parts share the loss by closure, which is how numba takes it.
    """
    phi_slope, phi_implicit = loss.slope, loss.implicit

    def adapt(h: float, s: float, square: float, rates: Rates) -> tuple[float, float]:
        """The score of w_t and the slope that led to it: the exact step, without an L2 term."""
        if rates.teacher_decides:
            return h, 0.0
        if not rates.self_training:
            return s, 0.0
        sign = 1.0 if h >= 0.0 else -1.0
        reach = rates.eta * square
        q = phi_implicit(sign * s, reach) * sign
        return s - reach * q, q

    def exact_step(sign: float, w: Array, shrink: Array, x: Array, rates: Rates, adapted: Array) -> tuple[float, float]:
        for i in range(x.shape[0]):
            adapted[i] = shrink[i] * x[i]
        weighted, s, _ = padded_sums(x, w, adapted)
        reach = rates.eta * weighted
        q = phi_implicit(sign * s, reach) * sign
        for i in range(x.shape[0]):
            adapted[i] = (w[i] - rates.eta * q * x[i]) * shrink[i]
        return s - reach * q, q

    def inner_loops(
        sign: float, s: float, w: Array, penalty: Array, x: Array, rates: Rates, adapted: Array
    ) -> tuple[float, float]:
        copy(w, adapted)
        score = s
        for _ in range(rates.inner_loops):
            q = phi_slope(sign * score) * sign
            for i in range(x.shape[0]):
                descent = rates.eta * (q * x[i] + 2.0 * penalty[i] * adapted[i]) + adapted[i] - w[i]
                adapted[i] -= rates.inner_rate * descent
            score = padded_sums(adapted, w, x)[0]
        return score, phi_slope(sign * score) * sign

    def adapt_by_row(
        h: float,
        s: float,
        theta: Array,
        w: Array,
        penalty: Array,
        shrink: Array,
        x: Array,
        rates: Rates,
        adapted: Array,
    ) -> tuple[float, float]:
        """The same with inner loops or an L2 term, or if w_t is kept: on padded vectors, with w_t in `adapted`.

        `shrink` holds the r_i. The L2 coefficients are passed as `penalty`, separately from `rates`.
        """
        if rates.teacher_decides:
            copy(theta, adapted)
            return h, 0.0
        if not rates.self_training:
            copy(w, adapted)
            return s, 0.0
        sign = 1.0 if h >= 0.0 else -1.0
        if rates.inner_loops > 0:
            return inner_loops(sign, s, w, penalty, x, rates, adapted)
        return exact_step(sign, w, shrink, x, rates, adapted)

    def observe(h: float, score: float, slope: float, square: float, u: float, rates: Rates) -> TwoClassSeen:
        """The decision, the pseudolabel and the query."""
        confidence = abs(h)
        probability = query_probability(confidence, rates.sigma, rates.floor)
        label, pseudolabel = 1 if score >= 0.0 else 0, 1 if h >= 0.0 else 0
        return TwoClassSeen(label, pseudolabel, confidence, probability, u < probability, score, slope, h, square)

    def correct(y: int, seen: TwoClassSeen, rates: Rates) -> tuple[float, float]:
        """With a label: how far the teacher moves along x, and the slope with which the student moves."""
        sign = 1.0 if y == 1 else -1.0
        shortfall = max(0.0, rates.target - sign * seen.teacher_score)
        tau = rates.scale * shortfall if rates.scale > 0.0 else shortfall / max(seen.square, 1e-300)
        tau = min(rates.cap, tau) * sign
        if rates.self_training and y == seen.pseudolabel:
            return tau, seen.slope
        return tau, float(phi_slope(sign * seen.score) * sign)

    return TwoClassRound(adapt, adapt_by_row, observe, correct)
