"""The accuracy estimate: how often the learner was right in all rounds, estimated only from the labels it asked for.

Labels are asked for where the learner is unsure, so the accuracy on them is far too low; but the probability p_t of
asking is known. With e_t = 1 where the decision was wrong, Z_t = 1 where the label was asked for, and guesses g_t, the
estimator

    mean over t of  g_t + (Z_t / p_t) (e_t - g_t)

has the true share of errors as its expectation, under any drift, as long as the guess g_t does not use the label of
round t: only the draws are random. It is the difference estimator of survey sampling (Särndal, Swensson & Wretman 1992,
chapter 6); good guesses only reduce its variance. Here g_t is the share of errors among the other labels of the same
bin of the margin, shrunk towards that of all bins, and the weights Z_t / p_t are divided by their mean, as in Hájek's
estimator. *Blind* rounds, in which the budget withheld the query, are assumed to be like the others, and the interval
is widened for them.

`expect` and `confirm` of `osamd.accounting.meter` write the rounds into a meter.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.accounting import meter as at
from osamd.accounting.meter import BINS, NOT_ASKED, RING_COUNT, RINGS, confirm, expect, lost, open_meter
from osamd.errors import require_kind, require_number
from osamd.numerics import Array

__all__ = ["Accuracy", "accuracy", "confirm", "expect", "lost", "open_meter"]

SHRINK = 4.0
"""A bin is shrunk towards the mean of all bins with the weight of this many labels. Intervals are alike from 4 to 16;
with more they widen where errors come only with small margins."""
PRIOR_ERROR = 0.02
"""The share of errors assumed before any label, with the weight of one label."""
LABELS_NEEDED = 20
"""With fewer labels no estimate is given: the interval from 19 labels would be 0.2 to 0.4 wide at best."""


class Accuracy(NamedTuple):
    """The share of rounds decided correctly, estimated from queried labels, with an interval of nominal `level`.

    `value` is unbiased, so it is not clipped and may exceed 1. With fewer than `LABELS_NEEDED` labels it is not
    `known`: it is nan, and the interval is [0, 1]. The estimate uses `labels` labels of `rounds` rounds; in `blind`
    rounds the label could not have been asked for (p_t = 0).

    >>> print(Accuracy(0.912, 0.874, 0.943, 0.9, 5000, 243, 31))
    91.2 % (87.4 to 94.3 %)
    >>> print(Accuracy(math.nan, 0.0, 1.0, 0.9, 150, 7, 20))
    too few labels (7 of 20)
    """

    value: float
    low: float
    high: float
    level: float
    rounds: int
    labels: int
    blind: int

    @property
    def known(self) -> bool:
        """Whether there are enough labels for an estimate."""
        return self.labels >= LABELS_NEEDED

    def __str__(self) -> str:
        if not self.known:
            return f"too few labels ({self.labels} of {LABELS_NEEDED})"
        shown = 100.0 * min(max(self.value, 0.0), 1.0)
        return f"{shown:.1f} % ({100.0 * self.low:.1f} to {100.0 * self.high:.1f} %)"


class Window(NamedTuple):
    """The last rounds, one number per round, in no particular order."""

    round: Array
    margin: Array
    probability: Array
    decision: Array
    bin: Array
    label: Array
    mistaught: Array
    source: Array
    disagreement: Array

    @property
    def asked(self) -> int:
        return int(np.sum(self.label != NOT_ASKED))

    @property
    def told(self) -> Window:
        """The rounds whose label is known."""
        return self.where(self.label >= 0.0)

    def where(self, chosen: NDArray[np.bool_]) -> Window:
        """The chosen rounds."""
        return Window(*(column[chosen] for column in self))


class Tally(NamedTuple):
    """Rounds and labels, most of them counted per bin of the margin."""

    rounds: float
    asked: float
    inverse: Array
    """Over the rounds with p > 0, the sums of 1, 1 / p and 1 / p^2."""
    labels: Array
    wrong: Array
    """The labels of wrong decisions."""
    right_weights: Array
    """Over the labels of right decisions, the sums of 1 / p, 1 / p^2 and 1 / p^3."""
    wrong_weights: Array


def window_of(meter: Array) -> Window:
    """The rounds that the rings hold."""
    rings = meter[RINGS : RINGS + RING_COUNT * int(meter[at.WINDOW])].reshape(RING_COUNT, -1)
    return Window(*rings[:, rings[at.ROUND] >= 0.0])


def label_mix(meter: Array) -> Array:
    """The shares of the classes among the labels remembered, each standing for 1 / p rounds; 0 without labels."""
    weights = meter[RINGS + RING_COUNT * int(meter[at.WINDOW]) :]
    mix: Array = weights / max(float(weights.sum()), 1e-300)
    return mix


def tally(meter: Array, window: bool) -> Tally:
    """The tally of all rounds, or of those in the window."""
    if not window:
        blocks = meter[at.SEEN : RINGS].reshape(-1, BINS)
        return Tally(meter[at.ROUNDS], meter[at.ASKED], blocks[:3], blocks[3], blocks[4], blocks[5:8], blocks[8:])
    rounds = window_of(meter)
    told, right = rounds.label >= 0.0, rounds.label == rounds.decision
    return Tally(
        len(rounds.label),
        rounds.asked,
        _by_bin(rounds, rounds.probability > 0.0, (0.0, 1.0, 2.0)),
        _by_bin(rounds, told, (0.0,))[0],
        _by_bin(rounds, told & ~right, (0.0,))[0],
        _by_bin(rounds, told & right, (1.0, 2.0, 3.0)),
        _by_bin(rounds, told & ~right, (1.0, 2.0, 3.0)),
    )


def _by_bin(rounds: Window, chosen: NDArray[np.bool_], powers: tuple[float, ...]) -> Array:
    """The sums of 1 / p^j over the chosen rounds of every bin, for these j."""
    where, probability = rounds.bin[chosen].astype(np.int64), rounds.probability[chosen]
    return np.array([np.bincount(where, probability**-j, BINS) for j in powers])


class Errors(NamedTuple):
    """The share of errors, and what its limits need; all in units of the rounds with p > 0."""

    value: float
    variance: float
    met: float
    """The weight of an observed error: third over second central moment of the estimate, both estimated from labels."""
    unseen: float
    """The weight of an unobserved error: the same ratio for errors wherever the bins leave room for them."""


def guesses(found: Tally) -> Array:
    """The share of errors in every bin, shrunk towards the overall share, in which each label is weighted by 1 / p."""
    labels, wrong = found.labels.sum(), found.wrong_weights[0].sum()
    overall = (labels * wrong / (wrong + found.right_weights[0].sum()) + PRIOR_ERROR) / (labels + 1.0)
    guess: Array = (found.wrong + SHRINK * overall) / (found.labels + SHRINK)
    return guess


def errors(found: Tally, history: Tally) -> Errors:
    """The estimator of the module; p is multiplied by the share of queries that were answered.

    All labels, those of the `history`, say where unobserved errors may be.
    """
    powers = (found.labels.sum() / found.asked) ** np.arange(4.0)[:, None]
    right, wrong = found.right_weights / powers[1:], found.wrong_weights / powers[1:]
    seen, inverse, inverse_2 = found.inverse / powers[:3]
    rounds, weight, labels = seen.sum(), right[0].sum() + wrong[0].sum(), found.labels.sum()
    guess = guesses(found)
    # The same for the rounds with a label, each without its own label.
    others = np.maximum(found.labels - 1.0, 0.0) + SHRINK
    if_right = guess * (found.labels + SHRINK) / others
    if_wrong = np.where(found.wrong > 0.0, if_right - 1.0 / others, 0.0)
    guessed = (seen - found.labels) @ guess + (found.labels - found.wrong) @ if_right + found.wrong @ if_wrong
    value = guessed / rounds + (wrong[0] @ (1.0 - if_wrong) - right[0] @ if_right) / weight
    mean = (wrong[0] @ (1.0 - guess) - right[0] @ guess) / weight
    r_wrong, r_right, scale = 1.0 - guess - mean, -guess - mean, rounds / weight
    variance = (wrong[1] - wrong[0]) @ r_wrong**2 + (right[1] - right[0]) @ r_right**2
    third = [w[2] - 3.0 * w[1] + 2.0 * w[0] for w in (wrong, right)]
    skew = third[0] @ r_wrong**3 + third[1] @ r_right**3
    room = guesses(history) * (1.0 - guesses(history))
    spread, spread_skew = (inverse - seen) @ room, (inverse_2 - 3.0 * inverse + 2.0 * seen) @ room
    fitted = float(
        np.sum(found.labels / (found.labels + SHRINK))
    )  # the effective number of fitted parameters, by which residuals are too small
    return Errors(
        value=float(value),
        variance=max(0.0, float(variance)) * scale**2 * labels / (labels - fitted),
        met=float(skew / variance) * scale if variance > 0.0 else 0.0,
        unseen=max(0.0, float(spread_skew / spread)) if spread > 0.0 else 0.0,
    )


def fewer_errors(z: float, variance: float, weight: float) -> float:
    """How many fewer errors are plausible: Wilson's score limit for a count with this weight per error.

    The root d of d^2 = z^2 (variance - weight d): without d of the errors the variance is smaller by weight d.
    """
    half = 0.5 * z * weight
    return z * (math.sqrt(variance + half * half) - half)


def more_errors(z: float, variance: float, weight: float) -> float:
    """How many more errors are plausible: the upper limit, with its tail corrected to second order (Cai 2005)."""
    return (2.0 * z * z + 1.0) / 6.0 * weight + z * math.sqrt(variance + (z * z / 18.0 + 7.0 / 36.0) * weight * weight)


def accuracy(meter: Array, window: bool = False, level: float = 0.9) -> Accuracy:
    """The accuracy of all rounds so far, or of those in the window, from queried labels, with its interval.

    Only the draws of the queries are random: the estimate is about this very stream. The limits are those of a count of
    errors in which each error has a weight of about 1 / p (`Errors`). Pending and lost labels are assumed to be missing
    at random.

    Nothing is known about the blind rounds. They count like the others, and the limits are widened by the distance to
    all of them being wrong, or right, times the square root of their share. The two are added in quadrature, as
    independent errors are. So a few blind rounds scattered among the others hardly matter; where nearly all rounds are
    blind, the interval is nearly [0, 1].
    """
    z = quantile("accuracy", meter, level)
    counted = tally(meter, window)
    rounds, told, seen = counted.rounds, counted.labels.sum(), counted.inverse[0].sum()
    counts = (level, int(rounds), round(float(told)), int(rounds - seen))
    if told < LABELS_NEEDED:
        return Accuracy(math.nan, 0.0, 1.0, *counts)
    found = errors(counted, tally(meter, window=False))
    value, blind = 1.0 - found.value, 1.0 - seen / rounds
    doubt = blind * math.sqrt(blind)
    right = min(max(value, 0.0), 1.0)
    low = value - math.hypot(more_errors(z, found.variance, found.unseen) / seen, doubt * right)
    high = value + math.hypot(fewer_errors(z, found.variance, found.met) / seen, doubt * (1.0 - right))
    return Accuracy(value, min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0), *counts)


def quantile(call: str, meter: Array, level: float) -> float:
    """The number of standard deviations of a two-sided interval of this level; checks what the user gave."""
    from scipy.special import ndtri

    require_kind(call, "meter", meter, np.ndarray, "open one with open_meter(classes, window)")
    level = require_number(call, "level", level, lambda v: 0.0 < v < 1.0, "level must lie between 0 and 1.")
    return float(ndtri(0.5 + 0.5 * level))
