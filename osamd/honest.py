"""Honest accuracy: how often the learner was right in all rounds, from the labels it asked for alone.

Labels are asked for where the learner is unsure, so the accuracy on them is far too low; but the probability p_t of
asking is known. With c_t = 1 where the decision was right, Z_t = 1 where the label was asked for, and a guess m_t of
P(c_t = 1) made before that was drawn,

    mean over t of  m_t + (Z_t / p_t) (c_t - m_t)

has the expectation of the true accuracy, under any drift, whatever m_t is: (Z_t / p_t - 1)(c_t - m_t) are martingale
differences. It is the difference estimator of survey sampling (Särndal, Swensson & Wretman 1992, section 6.3); a good
m_t only makes it steadier. *Blind* rounds, in which the budget withheld the query, are taken to be like the others, and
the interval is widened for them.

With the gain, c_t less whether the source model would have been right, in the place of c_t, the same estimator says
what is gained over leaving that model alone.

The rounds are written into a meter, by `expect` and `confirm` of `osamd.meter`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd import meter as at
from osamd.errors import require_kind, require_number
from osamd.meter import BINS, NO_SOURCE, NOT_ASKED, RING_COUNT, RINGS, SHRINK, confirm, expect, lost, open_meter
from osamd.numerics import Array

__all__ = ["Accuracy", "Gain", "accuracy", "confirm", "expect", "gain", "lost", "open_meter"]

LABELS_NEEDED = 20
"""With fewer labels told no number is given: the interval of 19 labels would be 0.2 to 0.4 wide at best."""


class Accuracy(NamedTuple):
    """The share of rounds decided rightly, estimated from queried labels, with an interval of nominal `level`.

    `value` is unbiased, so not clipped: it may pass 1. With fewer than `LABELS_NEEDED` labels it is not `known`: nan,
    and the interval is [0, 1]. `labels` told count, of `rounds`; in `blind` rounds the label could not have been asked
    for (p_t = 0).

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
        """Whether there are labels enough to give a number."""
        return self.labels >= LABELS_NEEDED

    def __str__(self) -> str:
        if not self.known:
            return f"too few labels ({self.labels} of {LABELS_NEEDED})"
        return f"{100.0 * self.value:.1f} % ({100.0 * self.low:.1f} to {100.0 * self.high:.1f} %)"


class Gain(NamedTuple):
    """The accuracy less that of the source model, had it been left alone, over rounds in which its decision is known.

    Positive where it was worth learning. Its size is at most `apart`, the share of rounds in which the two decide
    differently. With fewer than `LABELS_NEEDED` labels told in those `rounds` it is not `known`: nan, in
    [-apart, apart].
    """

    value: float
    low: float
    high: float
    level: float
    rounds: int
    labels: int
    apart: float

    @property
    def known(self) -> bool:
        """Whether there are labels enough to give a number."""
        return self.labels >= LABELS_NEEDED

    def __str__(self) -> str:
        if not self.known:
            return f"too few labels ({self.labels} of {LABELS_NEEDED})"
        return f"{100.0 * self.value:+.1f} points ({100.0 * self.low:+.1f} to {100.0 * self.high:+.1f})"


class Window(NamedTuple):
    """The last rounds, one number per round, in no order."""

    round: Array
    margin: Array
    probability: Array
    expected: Array
    decision: Array
    bin: Array
    label: Array
    mistaught: Array
    source: Array
    gain_guess: Array
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


def window_of(meter: Array) -> Window:
    """What the rings hold."""
    rings = meter[RINGS : RINGS + RING_COUNT * int(meter[at.WINDOW])].reshape(RING_COUNT, -1)
    return Window(*rings[:, rings[at.ROUND] >= 0.0])


def label_mix(meter: Array) -> Array:
    """The shares of the classes among the labels remembered, each label standing for 1 / p rounds; 0 before any."""
    weights = meter[RINGS + RING_COUNT * int(meter[at.WINDOW]) :]
    mix: Array = weights / max(float(weights.sum()), 1e-300)
    return mix


def window_sums(meter: Array) -> Array:
    """The sums of the meter, at the same places, over the rounds of the window alone."""
    window = window_of(meter)
    told, seen = window.told, window.where(window.probability > 0.0)
    sums = meter[:RINGS].copy()
    sums[[at.ROUNDS, at.ASKED, at.TOLD]] = len(window.label), window.asked, len(told.label)
    sums[at.BLIND] = len(window.label) - len(seen.label)
    sums[at.GUESSED], sums[at.BLIND_GUESSED] = seen.expected.sum(), 0.0
    r, weight = told.expected - (told.label == told.decision), 1.0 / told.probability
    sums[at.CORRECTED] = -np.sum(weight * r)
    sums[at.SQUARE_1 : at.CUBE_1] = [np.sum(r**2 * weight**j) for j in (1, 2)]
    sums[at.CUBE_1 : at.RECENT] = [np.sum(r**3 * weight**j) for j in (1, 2, 3)]
    where = seen.bin.astype(np.int64)
    for j, block in enumerate((at.SEEN, at.INVERSE, at.INVERSE_2)):
        sums[block : block + BINS] = np.bincount(where, seen.probability ** -float(j), BINS)
    return sums


def window_gain_sums(meter: Array) -> Array:
    """The same for the sums about the source model."""
    window = window_of(meter)
    sourced = window.where((window.probability > 0.0) & (window.source != NO_SOURCE))
    apart = sourced.where(sourced.source != sourced.decision)
    told = apart.told
    sums = meter[:RINGS].copy()
    sums[[at.SOURCED, at.SOURCED_ASKED, at.SOURCED_TOLD]] = len(sourced.label), sourced.asked, len(sourced.told.label)
    sums[at.APART : at.GAIN_GUESSED] = [np.sum(apart.probability ** -float(j)) for j in (0, 1, 2)]
    sums[at.GAIN_GUESSED] = apart.gain_guess.sum()
    r = (told.label == told.decision).astype(np.float64) - (told.label == told.source) - told.gain_guess
    sums[at.GAIN_CORRECTED] = np.sum(r / told.probability)
    sums[at.GAIN_SQUARE_1 : at.RECENT_APART] = [np.sum(r**2 / told.probability**j) for j in (1, 2)]
    return sums


class Moments(NamedTuple):
    """Of the sum of (Z_t / p_t - 1)(c_t - m_t): what the told labels and the bins say of its variance."""

    variance: float
    """sum Z (1 - p) / p^2 r^2, unbiased."""
    skew: float
    """The third central moment, estimated likewise, of errors counted upward."""
    by_bin: Array
    """sum (1 - p) / p in every bin: its variance, were r^2 = 1 in all rounds."""
    skew_by_bin: Array
    """sum (1 - p)(1 - 2 p) / p^2, likewise."""


def moments(sums: Array) -> Moments:
    """With p_t times the share of asked labels that were told in the place of p_t."""
    share = sums[at.TOLD] / sums[at.ASKED]
    square = sums[at.SQUARE_1 : at.CUBE_1] / share ** np.arange(1, 3)
    cube = sums[at.CUBE_1 : at.RECENT] / share ** np.arange(1, 4)
    count, inverse, inverse_2 = sums[at.SEEN : at.LABELS].reshape(3, BINS) / share ** np.arange(3)[:, None]
    return Moments(
        variance=max(0.0, float(square[1] - square[0])),
        skew=float(cube[2] - 3.0 * cube[1] + 2.0 * cube[0]),
        by_bin=inverse - count,
        skew_by_bin=inverse_2 - 3.0 * inverse + 2.0 * count,
    )


def fewer_errors(z: float, variance: float, weight: float) -> float:
    """How many errors fewer may be supposed: Wilson's score limit for a count of this weight per unit.

    The root d of d^2 = z^2 (variance - weight d): the variance is less by weight d where d errors are taken away.
    """
    half = 0.5 * z * weight
    return z * (math.sqrt(variance + half * half) - half)


def more_errors(z: float, variance: float, weight: float) -> float:
    """How many errors more: the same limit upward, with its tail corrected to second order (Cai 2005, for counts)."""
    return (2.0 * z * z + 1.0) / 6.0 * weight + z * math.sqrt(variance + (z * z / 18.0 + 7.0 / 36.0) * weight * weight)


def accuracy(meter: Array, window: bool = False, level: float = 0.9) -> Accuracy:
    """The accuracy of all rounds so far, or of those in the window, from queried labels, with its interval.

    Only the draws of the queries are random here: the truth is that of this very stream. The limits are those of a
    count of errors in which each stands for a weight of about 1 / p. Above the value, the weight is that of the errors
    met, skew / variance; below it, the same ratio for errors wherever the bins have room for unseen ones: each bin has
    the mean r^2 of its labels, shrunk to the mean over all rounds. Pending and lost labels count as lost at random.

    Of the blind rounds nothing is known. They count like the others, and the distance to all of them being wrong, or
    right, is added to the limits as independent errors are: by squares. So a few blind rounds hardly matter, and where
    nearly all are blind the interval is nearly [0, 1].
    """
    z = _quantile("accuracy", meter, level)
    sums = window_sums(meter) if window else meter
    rounds, blind = sums[at.ROUNDS], sums[at.BLIND]
    counts = (level, int(rounds), int(sums[at.TOLD]), int(blind))
    if sums[at.TOLD] < LABELS_NEEDED:
        return Accuracy(math.nan, 0.0, 1.0, *counts)
    seen = rounds - blind
    corrected = sums[at.CORRECTED] * sums[at.ASKED] / sums[at.TOLD]
    value = float((sums[at.GUESSED] - sums[at.BLIND_GUESSED] + corrected) / seen)
    here, history = moments(sums), moments(meter)
    met = here.skew / here.variance if here.variance > 0.0 else 0.0
    mean = history.variance / max(float(history.by_bin.sum()), 1e-300)
    squares = (meter[at.SQUARES : at.EXPIRED] + SHRINK * mean) / (meter[at.LABELS : at.WRONG] + SHRINK)
    spread = float(here.by_bin @ squares)
    unseen = max(0.0, float(here.skew_by_bin @ squares)) / spread if spread > 0.0 else 0.0
    right = min(max(value, 0.0), 1.0) * blind / rounds
    low = value - math.hypot(more_errors(z, here.variance, unseen) / seen, right)
    high = value + math.hypot(fewer_errors(z, here.variance, met) / seen, blind / rounds - right)
    return Accuracy(value, min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0), *counts)


def gain(meter: Array, window: bool = False, level: float = 0.9) -> Gain:
    """What has been gained over leaving the source model alone, in all rounds so far or in those of the window.

    Where the two decide alike the gain of a round is known to be 0, so only labels of rounds apart matter. Both limits
    allow for gains or losses that no label has met yet, each with the weight of a round apart drawn at random.
    """
    z = _quantile("gain", meter, level)
    sums = window_gain_sums(meter) if window else meter
    rounds, told = sums[at.SOURCED], sums[at.SOURCED_TOLD]
    apart = float(sums[at.APART] / rounds) if rounds > 0.0 else 0.0
    counts = (level, int(rounds), int(told), apart)
    if told < LABELS_NEEDED:
        return Gain(math.nan, -apart, apart, *counts)
    share = told / sums[at.SOURCED_ASKED]
    value = float((sums[at.GAIN_GUESSED] + sums[at.GAIN_CORRECTED] / share) / rounds)
    variance = max(0.0, float(sums[at.GAIN_SQUARE_2] / share**2 - sums[at.GAIN_SQUARE_1] / share))
    hidden = float(sums[at.APART_INVERSE_2] / sums[at.APART_INVERSE] / share) if apart > 0.0 else 0.0
    reach = more_errors(z, variance, hidden) / rounds
    return Gain(value, min(max(value - reach, -apart), apart), min(max(value + reach, -apart), apart), *counts)


def _quantile(call: str, meter: Array, level: float) -> float:
    """How many deviations a two-sided interval of this level reaches; checks what the user gave."""
    from scipy.special import ndtri

    require_kind(call, "meter", meter, np.ndarray, "open one with open_meter(classes, window)")
    level = require_number(call, "level", level, lambda v: 0.0 < v < 1.0, "level must lie between 0 and 1.")
    return float(ndtri(0.5 + 0.5 * level))
