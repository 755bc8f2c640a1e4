"""Honest accuracy: how often the learner was right in all rounds, from the labels it asked for alone.

Labels are asked for where the learner is unsure, so the accuracy on them is far too low; but the probability p_t of
asking is known. With c_t = 1 where the decision was right, Z_t = 1 where the label was asked for, and a guess m_t of
P(c_t = 1) made before that was drawn,

    mean over t of  m_t + (Z_t / p_t) (c_t - m_t)

has the expectation of the true accuracy, under any drift, whatever m_t is: (Z_t / p_t - 1)(c_t - m_t) are martingale
differences. It is the difference estimator of survey sampling (Särndal, Swensson & Wretman 1992, section 6.3); a good
m_t only makes it steadier. Everything lies in one float64 vector, the meter, and the functions that a round calls are
plain ones that numba compiles. The meter holds sums over all rounds, and rings with the last `window` rounds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osamd.errors import require_kind, require_number, require_whole
from osamd.numerics import Array

SHRINK = 4.0
"""A bin is shrunk to the mean of all bins as by this many labels. Guesses are alike from 4 to 16; more widen the
interval where errors come with small margins alone, fewer let it miss where some are confident."""
PRIOR_ERROR = 0.02
"""The share of errors before any label, worth one label. A guess too high costs good learners more (twice the width
at 20 % on a stream of accuracy 99 %) than one too low costs bad ones (nothing that can be measured)."""
MEMORY = 400.0
"""Labels that a bin remembers, so that guesses follow a drift; from 50 on, the number hardly matters."""
STEPS = 8
"""Steps of the margin: each doubles it, from below 1/16 of the mean margin to above 4 times that."""
BINS = 2 * STEPS
"""The steps, where decision and pseudolabel agree; then the same, where they do not."""

# Places in the meter: numbers about all rounds, and sums over the told labels of r^k / p^j with r = m_t - c_t.
CLASSES, WINDOW, ROUNDS, ASKED, TOLD, BLIND, GUESSED, BLIND_GUESSED, CORRECTED, MARGINS = range(10)
SQUARE_1, SQUARE_2, CUBE_1, CUBE_2, CUBE_3 = range(10, 15)
RECENT, RECENT_WEIGHT, RECENT_WRONG = range(15, 18)
"""Labels remembered, the sum of their 1 / p, and that of the wrong decisions among them."""
# Then blocks with one number a bin: rounds with p > 0, their sums of 1 / p and 1 / p^2, and of remembered labels
# how many, how many of wrong decisions, and the sum of r^2.
TABLE = 18
SEEN, INVERSE, INVERSE_2, LABELS, WRONG, SQUARES = range(TABLE, TABLE + 6 * BINS, BINS)
# Then rings of `window` numbers; round t lies at t % window of each.
RINGS = TABLE + 6 * BINS
ROUND, MARGIN, PROBABILITY, EXPECTED, DECISION, BIN, LABEL, MISTAUGHT = range(8)
NOT_ASKED, PENDING, LOST = -1.0, -2.0, -3.0
"""What the ring LABEL holds instead of a class index."""


class Accuracy(NamedTuple):
    """The share of rounds decided rightly, estimated from queried labels, with an interval of nominal `level`.

    `value` is unbiased, so not clipped: it may pass 1. Without any label it is nan and the interval [0, 1].
    `labels` told count, of `rounds`; in `blind` rounds the label could not have been asked for (p_t = 0), and the
    interval allows for any outcome of those.
    """

    value: float
    low: float
    high: float
    level: float
    rounds: int
    labels: int
    blind: int


def open_meter(classes: int, window: int) -> Array:
    """A meter that has seen nothing; its rings hold the last `window` rounds.

    >>> meter = open_meter(2, 1000)
    >>> guess = expect(meter, 0.7, 0.25, True, 1, 1)
    >>> confirm(meter, 0, 0.25, guess, 1, 1, 1)
    >>> round(guess, 2), round(accuracy(meter).value, 2)
    (0.98, 1.06)
    """
    classes = require_whole("open_meter", "classes", classes, 2)
    window = require_whole("open_meter", "window", window)
    meter = np.zeros(RINGS + 8 * window)
    meter[CLASSES], meter[WINDOW] = classes, window
    meter[RINGS : RINGS + window] = -1.0  # ROUND: none
    return meter


def place(meter: Array, t: int) -> int:
    """Where the first ring holds round t; the next rings are one window further each."""
    return RINGS + t % int(meter[WINDOW])


def step_of(margin: float, mean: float) -> int:
    """The bin of a margin. Doubled edges, unlike a logarithm, are exact on every machine; no branch, so fast."""
    step, edge = 0, mean / 16.0
    for _ in range(STEPS - 1):
        step += 1 if margin >= edge else 0
        edge *= 2.0
    return step


def error_guess(meter: Array, where: int) -> float:
    """The share of errors among the remembered labels of a bin, shrunk to that of all, weighted by 1 / p."""
    overall = PRIOR_ERROR
    if meter[RECENT] > 0.0:
        overall = (meter[RECENT] * meter[RECENT_WRONG] / meter[RECENT_WEIGHT] + PRIOR_ERROR) / (meter[RECENT] + 1.0)
    return float((meter[WRONG + where] + SHRINK * overall) / (meter[LABELS + where] + SHRINK))


def expect(meter: Array, margin: float, probability: float, query: bool, decision: int, pseudolabel: int) -> float:
    """Enter a round when it is asked: m_t, the guess of P(decision right), to be given back to `confirm`."""
    t = int(meter[ROUNDS])
    where = step_of(margin, meter[MARGINS] / t if t > 0 else margin)
    if decision != pseudolabel:
        where += STEPS
    expected = 1.0 - error_guess(meter, where)
    meter[ROUNDS] += 1.0
    meter[MARGINS] += margin
    meter[GUESSED] += expected
    if probability > 0.0:
        weight = 1.0 / probability
        meter[SEEN + where] += 1.0
        meter[INVERSE + where] += weight
        meter[INVERSE_2 + where] += weight * weight
    else:
        meter[BLIND] += 1.0
        meter[BLIND_GUESSED] += expected
    if query:
        meter[ASKED] += 1.0
    at, window = place(meter, t), int(meter[WINDOW])
    meter[at + ROUND * window] = t
    meter[at + MARGIN * window] = margin
    meter[at + PROBABILITY * window] = probability
    meter[at + EXPECTED * window] = expected
    meter[at + DECISION * window] = decision
    meter[at + BIN * window] = where
    meter[at + LABEL * window] = PENDING if query else NOT_ASKED
    return expected


def remember(meter: Array, count: int, first: int, second: int) -> None:
    """Forget in proportion, once a count of labels passes MEMORY, so that it stays there."""
    if meter[count] > MEMORY:
        keep = MEMORY / meter[count]
        meter[count] *= keep
        meter[first] *= keep
        meter[second] *= keep


def confirm(meter: Array, t: int, probability: float, expected: float, decision: int, pseudolabel: int, y: int) -> None:
    """The label of queried round t is told, at once or late; the other numbers are those of its ask.

    A label that comes later than `window` rounds counts for the whole stream, but no longer for the window and the
    bins. Call it once a query, and not for labels that nobody asked for: they are no random sample.
    """
    wrong = 0.0 if decision == y else 1.0
    weight, r = 1.0 / probability, expected - (1.0 - wrong)
    meter[TOLD] += 1.0
    meter[CORRECTED] -= weight * r
    meter[SQUARE_1] += weight * r * r
    meter[SQUARE_2] += weight * weight * r * r
    meter[CUBE_1] += weight * r * r * r
    meter[CUBE_2] += weight * weight * r * r * r
    meter[CUBE_3] += weight * weight * weight * r * r * r
    meter[RECENT] += 1.0
    meter[RECENT_WEIGHT] += weight
    meter[RECENT_WRONG] += weight * wrong
    remember(meter, RECENT, RECENT_WEIGHT, RECENT_WRONG)
    at, window = place(meter, t), int(meter[WINDOW])
    if meter[at + ROUND * window] == t:
        meter[at + LABEL * window] = y
        meter[at + MISTAUGHT * window] = 0.0 if pseudolabel == y else 1.0
        where = int(meter[at + BIN * window])
        meter[LABELS + where] += 1.0
        meter[WRONG + where] += wrong
        meter[SQUARES + where] += r * r
        remember(meter, LABELS + where, WRONG + where, SQUARES + where)


def lost(meter: Array, t: int) -> None:
    """The label of queried round t will never come; that it does not must have nothing to do with what it is."""
    at, window = place(meter, t), int(meter[WINDOW])
    if meter[at + ROUND * window] == t:
        meter[at + LABEL * window] = LOST


class Window(NamedTuple):
    """The rounds of the rings, one number a round, in no order."""

    margin: Array
    probability: Array
    expected: Array
    decision: Array
    bin: Array
    label: Array
    mistaught: Array

    @property
    def asked(self) -> int:
        return int(np.sum(self.label != NOT_ASKED))

    @property
    def told(self) -> Window:
        """The rounds whose label is known."""
        known = self.label >= 0.0
        return Window(*(column[known] for column in self))


def window_of(meter: Array) -> Window:
    """What the rings hold."""
    rings = meter[RINGS:].reshape(8, -1)
    return Window(*rings[1:, rings[ROUND] >= 0.0])


def window_sums(meter: Array) -> Array:
    """The sums before the rings, at the same places, over the rounds of the window alone."""
    window = window_of(meter)
    told, seen = window.told, window.probability > 0.0
    sums = meter[:RINGS].copy()
    sums[[ROUNDS, ASKED, TOLD, BLIND]] = len(window.label), window.asked, len(told.label), np.sum(~seen)
    sums[[GUESSED, BLIND_GUESSED]] = window.expected.sum(), window.expected[~seen].sum()
    r, weight = told.expected - (told.label == told.decision), 1.0 / told.probability
    sums[CORRECTED] = -np.sum(weight * r)
    sums[[SQUARE_1, SQUARE_2]] = [np.sum(r**2 * weight**j) for j in (1, 2)]
    sums[[CUBE_1, CUBE_2, CUBE_3]] = [np.sum(r**3 * weight**j) for j in (1, 2, 3)]
    where = window.bin[seen].astype(np.int64)
    for j, block in enumerate((SEEN, INVERSE, INVERSE_2)):
        sums[block : block + BINS] = np.bincount(where, window.probability[seen] ** -j, BINS)
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
    share = sums[TOLD] / sums[ASKED]
    square = sums[SQUARE_1:CUBE_1] / share ** np.arange(1, 3)
    cube = sums[CUBE_1:RECENT] / share ** np.arange(1, 4)
    count, inverse, inverse_2 = sums[SEEN:LABELS].reshape(3, BINS) / share ** np.arange(3)[:, None]
    return Moments(
        variance=max(0.0, float(square[1] - square[0])),
        skew=float(cube[2] - 3.0 * cube[1] + 2.0 * cube[0]),
        by_bin=inverse - count,
        skew_by_bin=inverse_2 - 3.0 * inverse + 2.0 * count,
    )


def fewer_errors(z: float, variance: float, weight: float) -> float:
    """How many errors fewer may be supposed, negative: Wilson's score limit for a count of this weight a unit.

    The root d < 0 of d^2 = z^2 (variance + weight d): the variance is less by weight d where d errors are taken away.
    """
    half = 0.5 * z * weight
    return z * (half - math.sqrt(variance + half * half))


def more_errors(z: float, variance: float, weight: float) -> float:
    """How many errors more: the same limit upward, with its tail corrected to second order (Cai 2005, for counts)."""
    return (2.0 * z * z + 1.0) / 6.0 * weight + z * math.sqrt(variance + (z * z / 18.0 + 7.0 / 36.0) * weight * weight)


def accuracy(meter: Array, window: bool = False, level: float = 0.9) -> Accuracy:
    """The accuracy of all rounds so far, or of those in the window, from queried labels, with its interval.

    Only the draws of the queries are random here: the truth is that of this very stream. The limits are those of a
    count of errors in which each stands for a weight of about 1 / p. Above the value, the weight is that of the errors
    met, skew / variance; below it, the same ratio for errors wherever the bins have room for unseen ones: each bin has
    the mean r^2 of its labels, shrunk to the mean over all rounds. Pending and lost labels count as lost at random.

    At level 0.9, 87 to 93 % of simulated streams were covered, and up to 95 % with few labels; but 80 to 87 % where the
    learner is right in 97 % or more, and of its mistakes many are confident ones, of which no label was asked for yet.
    """
    require_kind("accuracy", "meter", meter, np.ndarray, "open one with open_meter(classes, window)")
    level = require_number("accuracy", "level", level, lambda v: 0.0 < v < 1.0, "level must lie between 0 and 1.")
    from scipy.special import ndtri

    sums = window_sums(meter) if window else meter
    rounds, blind = sums[ROUNDS], sums[BLIND]
    counts = (level, int(rounds), int(sums[TOLD]), int(blind))
    if sums[TOLD] == 0.0:
        return Accuracy(math.nan, 0.0, 1.0, *counts)
    value = (sums[GUESSED] + sums[CORRECTED] * sums[ASKED] / sums[TOLD]) / rounds
    here, history = moments(sums), moments(meter)
    met = here.skew / here.variance if here.variance > 0.0 else 0.0
    mean = history.variance / max(float(history.by_bin.sum()), 1e-300)
    squares = (meter[SQUARES:RINGS] + SHRINK * mean) / (meter[LABELS:WRONG] + SHRINK)
    spread = float(here.by_bin @ squares)
    unseen = max(0.0, float(here.skew_by_bin @ squares)) / spread if spread > 0.0 else 0.0
    z = float(ndtri(0.5 + 0.5 * level))
    low = value - (more_errors(z, here.variance, unseen) + sums[BLIND_GUESSED]) / rounds
    high = value - (fewer_errors(z, here.variance, met) - (blind - sums[BLIND_GUESSED])) / rounds
    return Accuracy(float(value), min(max(float(low), 0.0), 1.0), min(max(float(high), 0.0), 1.0), *counts)
