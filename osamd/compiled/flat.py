"""The round on the whole Euclidean space with two classes, fused: three sums, a few scalars, and one pass to update.

There the exact implicit step is closed, so w_t is never stored: with r_i = 1 / (1 + ridge_i) and the slope q it is
r_i (w_hat_i - eta q x_i), and its score is a scalar. Vectors are padded with zeros to whole lanes, so that the sums of
`osamd.numerics.lane_sum` become plain vector instructions. Everything here is held equal to `osamd.algorithm` by
differential tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from osamd.algorithm import Rates
from osamd.losses import Loss
from osamd.numerics import LANES, Array
from osamd.queries import query_probability


class Flat(NamedTuple):
    """The round, to be compiled. The student's last step is written where it is used: a call would double its cost.

    That step is w -= eta (q x + 2 penalty w_t), where the student moves at all: labelled, or trained by itself.
    """

    observe: Callable[..., Any]
    correct: Callable[..., Any]


def padded(length: int) -> int:
    """The next whole number of lanes."""
    return -(-length // LANES) * LANES


def tree(a: float, b: float, c: float, d: float, e: float, f: float, g: float, h: float) -> float:
    """The eight lanes added as `lane_sum` does."""
    return ((a + e) + (c + g)) + ((b + f) + (d + h))


def sums(theta: Array, w: Array, x: Array) -> tuple[float, float, float]:
    """theta . x, w . x and x . x in the stated order, in one pass; written out so that it compiles to vectors."""
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = 0.0
    c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = 0.0
    for block in range(x.shape[0] // LANES):
        i = LANES * block
        a0 += theta[i] * x[i]
        a1 += theta[i + 1] * x[i + 1]
        a2 += theta[i + 2] * x[i + 2]
        a3 += theta[i + 3] * x[i + 3]
        a4 += theta[i + 4] * x[i + 4]
        a5 += theta[i + 5] * x[i + 5]
        a6 += theta[i + 6] * x[i + 6]
        a7 += theta[i + 7] * x[i + 7]
        b0 += w[i] * x[i]
        b1 += w[i + 1] * x[i + 1]
        b2 += w[i + 2] * x[i + 2]
        b3 += w[i + 3] * x[i + 3]
        b4 += w[i + 4] * x[i + 4]
        b5 += w[i + 5] * x[i + 5]
        b6 += w[i + 6] * x[i + 6]
        b7 += w[i + 7] * x[i + 7]
        c0 += x[i] * x[i]
        c1 += x[i + 1] * x[i + 1]
        c2 += x[i + 2] * x[i + 2]
        c3 += x[i + 3] * x[i + 3]
        c4 += x[i + 4] * x[i + 4]
        c5 += x[i + 5] * x[i + 5]
        c6 += x[i + 6] * x[i + 6]
        c7 += x[i + 7] * x[i + 7]
    return (
        tree(a0, a1, a2, a3, a4, a5, a6, a7),
        tree(b0, b1, b2, b3, b4, b5, b6, b7),
        tree(c0, c1, c2, c3, c4, c5, c6, c7),
    )


def add(scale: float, x: Array, w: Array) -> None:
    """w += scale x, a whole lane at a time: all loads before all stores, so that it compiles to vectors."""
    for block in range(x.shape[0] // LANES):
        i = LANES * block
        a0 = w[i] + scale * x[i]
        a1 = w[i + 1] + scale * x[i + 1]
        a2 = w[i + 2] + scale * x[i + 2]
        a3 = w[i + 3] + scale * x[i + 3]
        a4 = w[i + 4] + scale * x[i + 4]
        a5 = w[i + 5] + scale * x[i + 5]
        a6 = w[i + 6] + scale * x[i + 6]
        a7 = w[i + 7] + scale * x[i + 7]
        w[i] = a0
        w[i + 1] = a1
        w[i + 2] = a2
        w[i + 3] = a3
        w[i + 4] = a4
        w[i + 5] = a5
        w[i + 6] = a6
        w[i + 7] = a7


def copy(source: Array, target: Array) -> None:
    """target = source, element by element: a slice would be an object, and counted."""
    for i in range(target.shape[0]):
        target[i] = source[i]


class Seen(NamedTuple):
    """What `observe` found; learning needs the scores again."""

    label: int
    pseudolabel: int
    confidence: float
    probability: float
    query: bool
    score: float
    """Of the parameters that decide."""
    slope: float
    teacher_score: float
    square: float
    """x . x"""


def fused(loss: Loss) -> Flat:
    """`observe` and `correct` for one loss, on padded vectors.

    `shrink` holds the r_i; `adapted` receives w_t where it is needed: with inner loops, with an L2 term, or for the
    ledger (`keep`). The L2 coefficients come as `penalty`, apart from `rates`: a record that holds an array counts
    references whenever it is passed on, which costs more than the round itself.
    """
    phi_slope, phi_implicit = loss.slope, loss.implicit

    def inner_loops(w: Array, x: Array, penalty: Array, sign: float, rates: Rates, adapted: Array) -> float:
        """The paper's inner gradient loops, in `adapted`; gives its score."""
        copy(w, adapted)
        score = sums(w, w, x)[0]
        for _ in range(rates.inner_loops):
            q = phi_slope(sign * score) * sign
            for i in range(x.shape[0]):
                descent = rates.eta * (q * x[i] + 2.0 * penalty[i] * adapted[i]) + adapted[i] - w[i]
                adapted[i] -= rates.inner_rate * descent
            score = sums(adapted, w, x)[0]
        return score

    def observe(
        theta: Array,
        w: Array,
        penalty: Array,
        shrink: Array,
        x: Array,
        u: float,
        rates: Rates,
        ridged: bool,
        keep: bool,
        adapted: Array,
    ) -> Seen:
        h, s, square = sums(theta, w, x)
        sign = 1.0 if h >= 0.0 else -1.0
        score, q = s, 0.0
        if rates.teacher_decides:
            score = h
            if keep:
                copy(theta, adapted)
        elif not rates.self_training:
            if keep or ridged:
                copy(w, adapted)
        elif rates.inner_loops > 0:
            score = inner_loops(w, x, penalty, sign, rates, adapted)
            q = phi_slope(sign * score) * sign
        else:
            reach = rates.eta * square
            if ridged:
                for i in range(x.shape[0]):
                    adapted[i] = shrink[i] * x[i]
                weighted, s, _ = sums(x, w, adapted)
                reach = rates.eta * weighted
            q = phi_implicit(sign * s, reach) * sign
            score = s - reach * q
            if keep or ridged:
                for i in range(x.shape[0]):
                    adapted[i] = (w[i] - rates.eta * q * x[i]) * shrink[i]
        confidence = abs(h)
        probability = query_probability(confidence, rates.sigma, rates.floor)
        label, pseudolabel = 1 if score >= 0.0 else 0, 1 if h >= 0.0 else 0
        return Seen(label, pseudolabel, confidence, probability, u < probability, score, q, h, square)

    def correct(theta: Array, x: Array, y: int, seen: Seen, rates: Rates) -> float:
        """The teacher's step for a label, and the slope with which the student then moves."""
        sign = 1.0 if y == 1 else -1.0
        shortfall = max(0.0, rates.target - sign * seen.teacher_score)
        tau = rates.scale * shortfall if rates.scale > 0.0 else shortfall / max(seen.square, 1e-300)
        tau = min(rates.cap, tau) * sign
        if tau != 0.0:
            add(tau, x, theta)
        if rates.self_training and y == seen.pseudolabel:
            return seen.slope
        return float(phi_slope(sign * seen.score) * sign)

    return Flat(observe, correct)
