"""The meter: what is kept of the rounds to estimate the accuracy from, one float64 vector that is saved as it is.

A round is written into it twice, by plain functions that numba compiles: by `expect` when its sample is decided on, and
by `confirm` or `lost` when its label is told or will never come. The meter holds sums over all rounds, rings with the
last `window` rounds, and the weights of the classes among the labels. `osamd.honest` reads from it how often the
learner was right, and `osamd.health` how it fares.
"""

from __future__ import annotations

import numpy as np

from osamd.errors import reject, require_whole
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
# Then blocks with one number per bin: rounds with p > 0, their sums of 1 / p and 1 / p^2, and of remembered labels
# how many, how many of wrong decisions, and the sum of r^2.
TABLE = 18
SEEN, INVERSE, INVERSE_2, LABELS, WRONG, SQUARES = range(TABLE, TABLE + 6 * BINS, BINS)
EXPIRED = TABLE + 6 * BINS
"""Queries whose label will never come."""
RECENT_WEIGHT_2 = EXPIRED + 1
"""The sum of 1 / p^2 of the labels remembered."""
DISAGREED = EXPIRED + 2
"""The sum of the experts' disagreement."""
UNANSWERED = EXPIRED + 3
"""Queries since a label came last."""
# About the source model, left as it was: rounds with p > 0 in which its decision is known, queries and told labels
# among them; those in which it decides otherwise (apart), and their sums of 1 / p, 1 / p^2 and of the guesses of the
# gain; sums over the told labels of r / p, r^2 / p and r^2 / p^2, with r the gain less its guess; the labels remembered
# of rounds apart, and the sum of their gains.
SOURCED, SOURCED_ASKED, SOURCED_TOLD, APART, APART_INVERSE, APART_INVERSE_2 = range(EXPIRED + 4, EXPIRED + 10)
GAIN_GUESSED, GAIN_CORRECTED, GAIN_SQUARE_1, GAIN_SQUARE_2 = range(EXPIRED + 10, EXPIRED + 14)
RECENT_APART, RECENT_GAIN = range(EXPIRED + 14, EXPIRED + 16)
# Then rings of `window` numbers; round t lies at t % window of each.
RINGS = EXPIRED + 16
ROUND, MARGIN, PROBABILITY, EXPECTED, DECISION, BIN, LABEL, MISTAUGHT = range(8)
SOURCE, GAIN_GUESS, DISAGREEMENT = range(8, 11)
RING_COUNT = 11
NOT_ASKED, PENDING, LOST = -1.0, -2.0, -3.0
"""What the ring LABEL holds instead of a class index."""
NO_SOURCE = -1
"""The source's decision where there is none."""
NOT_GIVEN = -1.0
"""The disagreement where the learner gives none: it is then 1 where decision and pseudolabel differ, else 0."""
# At the end, one number per class: the sum of 1 / p of the labels remembered.

FORMER_RINGS, FORMER_RING_COUNT = EXPIRED, 8
"""What a meter had before it knew of sources, disagreement and the classes of the labels."""


def open_meter(classes: int, window: int) -> Array:
    """A meter that has seen nothing; its rings hold the last `window` rounds.

    >>> meter = open_meter(2, 1000)
    >>> guess = expect(meter, 0.7, 0.25, True, 1, 1)
    >>> confirm(meter, 0, 0.25, guess, 1, 1, 1)
    >>> round(guess, 2), int(meter[TOLD])
    (0.98, 1)
    """
    classes = require_whole("open_meter", "classes", classes, 2)
    window = require_whole("open_meter", "window", window)
    meter = np.zeros(RINGS + RING_COUNT * window + classes)
    meter[CLASSES], meter[WINDOW] = classes, window
    meter[RINGS : RINGS + window] = -1.0  # ROUND: none
    return meter


def take_up(meter: Array, saved: Array) -> None:
    """Let a meter just opened go on from a saved one, of this layout or of the former one."""
    window = int(meter[WINDOW])
    former = len(saved) == FORMER_RINGS + FORMER_RING_COUNT * window
    if (len(saved) != len(meter) and not former) or not np.array_equal(saved[:ROUNDS], meter[:ROUNDS]):
        rule = f"it is no meter of {int(meter[CLASSES])} classes and {window} rounds; the file is damaged."
        raise reject("load", "meter", f"{len(saved)} numbers", rule)
    if not former:
        meter[:] = saved
        return
    meter[:FORMER_RINGS] = saved[:FORMER_RINGS]
    rings = meter[RINGS : RINGS + RING_COUNT * window].reshape(RING_COUNT, window)
    rings[:FORMER_RING_COUNT] = saved[FORMER_RINGS:].reshape(FORMER_RING_COUNT, window)
    rings[SOURCE] = NO_SOURCE
    rings[DISAGREEMENT] = rings[BIN] >= STEPS
    entered = rings[ROUND] >= 0.0
    if entered.any():
        meter[DISAGREED] = meter[ROUNDS] * rings[DISAGREEMENT, entered].mean()  # what was before the rings is gone


def widened(meter: Array, classes: int) -> Array:
    """The meter for more classes, of which no label was told yet."""
    wider = np.append(meter, np.zeros(classes - int(meter[CLASSES])))
    wider[CLASSES] = classes
    return wider


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


def expect(
    meter: Array,
    margin: float,
    probability: float,
    query: bool,
    decision: int,
    pseudolabel: int,
    source: int = NO_SOURCE,
    disagreement: float = NOT_GIVEN,
) -> float:
    """Enter a round when it is asked: m_t, the guess of P(decision right), to be given back to `confirm`.

    `source` is what the source model, left as it was, decides, where there is one; `disagreement` the weight of the
    experts, from 0 to 1, that hold another class than the decision.
    """
    t = int(meter[ROUNDS])
    where = step_of(margin, meter[MARGINS] / t if t > 0 else margin)
    if decision != pseudolabel:
        where += STEPS
    dissent = 1.0 if decision != pseudolabel else 0.0
    if disagreement >= 0.0:
        dissent = disagreement
    expected = 1.0 - error_guess(meter, where)
    meter[ROUNDS] += 1.0
    meter[MARGINS] += margin
    meter[GUESSED] += expected
    meter[DISAGREED] += dissent
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
        meter[UNANSWERED] += 1.0
    at, window = place(meter, t), int(meter[WINDOW])
    meter[at + ROUND * window] = t
    meter[at + MARGIN * window] = margin
    meter[at + PROBABILITY * window] = probability
    meter[at + EXPECTED * window] = expected
    meter[at + DECISION * window] = decision
    meter[at + BIN * window] = where
    meter[at + LABEL * window] = PENDING if query else NOT_ASKED
    meter[at + SOURCE * window] = source
    meter[at + GAIN_GUESS * window] = expect_gain(meter, probability, query, decision, source)
    meter[at + DISAGREEMENT * window] = dissent
    return expected


def expect_gain(meter: Array, probability: float, query: bool, decision: int, source: int) -> float:
    """Enter what the source decides in a round: a guess of the gain, 1 where the decision alone is right, -1 where the
    source alone is; 0 where they decide alike. It is the mean gain of the labels remembered, shrunk as a bin is."""
    if source == NO_SOURCE or probability == 0.0:
        return 0.0
    meter[SOURCED] += 1.0
    meter[SOURCED_ASKED] += 1.0 if query else 0.0
    if source == decision:
        return 0.0
    guess = float(meter[RECENT_GAIN] / (meter[RECENT_APART] + SHRINK))
    meter[APART] += 1.0
    meter[APART_INVERSE] += 1.0 / probability
    meter[APART_INVERSE_2] += 1.0 / (probability * probability)
    meter[GAIN_GUESSED] += guess
    return guess


def kept(meter: Array, count: int) -> float:
    """Hold a count of labels at MEMORY; returns the share that the sums over those labels must keep to follow it."""
    if meter[count] <= MEMORY:
        return 1.0
    keep = float(MEMORY / meter[count])
    meter[count] = MEMORY
    return keep


def confirm(meter: Array, t: int, probability: float, expected: float, decision: int, pseudolabel: int, y: int) -> None:
    """The label of queried round t is told, at once or late; the other numbers are those of its ask.

    A label that comes later than `window` rounds counts for the accuracy of the whole stream, but no longer for the
    window, the bins and the gain. Call it once per query, and not for labels that nobody asked for: they are no random
    sample.
    """
    wrong = 0.0 if decision == y else 1.0
    weight, r = 1.0 / probability, expected - (1.0 - wrong)
    meter[TOLD] += 1.0
    meter[UNANSWERED] = 0.0
    meter[CORRECTED] -= weight * r
    meter[SQUARE_1] += weight * r * r
    meter[SQUARE_2] += weight * weight * r * r
    meter[CUBE_1] += weight * r * r * r
    meter[CUBE_2] += weight * weight * r * r * r
    meter[CUBE_3] += weight * weight * weight * r * r * r
    remember(meter, weight, wrong, y)
    at, window = place(meter, t), int(meter[WINDOW])
    if meter[at + ROUND * window] == t:
        meter[at + LABEL * window] = y
        meter[at + MISTAUGHT * window] = 0.0 if pseudolabel == y else 1.0
        where = int(meter[at + BIN * window])
        meter[LABELS + where] += 1.0
        keep = kept(meter, LABELS + where)
        meter[WRONG + where] = keep * (meter[WRONG + where] + wrong)
        meter[SQUARES + where] = keep * (meter[SQUARES + where] + r * r)
        source = int(meter[at + SOURCE * window])
        if source != NO_SOURCE:
            confirm_gain(meter, weight, meter[at + GAIN_GUESS * window], decision, source, y)


def remember(meter: Array, weight: float, wrong: float, y: int) -> None:
    """The labels remembered, of all bins, take in one more."""
    mix = RINGS + RING_COUNT * int(meter[WINDOW])
    meter[mix + y] += weight
    meter[RECENT] += 1.0
    keep = kept(meter, RECENT)
    meter[RECENT_WEIGHT] = keep * (meter[RECENT_WEIGHT] + weight)
    meter[RECENT_WEIGHT_2] = keep * (meter[RECENT_WEIGHT_2] + weight * weight)
    meter[RECENT_WRONG] = keep * (meter[RECENT_WRONG] + weight * wrong)
    if keep < 1.0:
        for k in range(int(meter[CLASSES])):
            meter[mix + k] *= keep


def confirm_gain(meter: Array, weight: float, guess: float, decision: int, source: int, y: int) -> None:
    """The label of a round in which the source's decision is known."""
    meter[SOURCED_TOLD] += 1.0
    if source == decision:
        return
    gained = (1.0 if decision == y else 0.0) - (1.0 if source == y else 0.0)
    r = gained - guess
    meter[GAIN_CORRECTED] += weight * r
    meter[GAIN_SQUARE_1] += weight * r * r
    meter[GAIN_SQUARE_2] += weight * weight * r * r
    meter[RECENT_APART] += 1.0
    meter[RECENT_GAIN] = kept(meter, RECENT_APART) * (meter[RECENT_GAIN] + gained)


def lost(meter: Array, t: int) -> None:
    """The label of queried round t will never come; that it does not must have nothing to do with what it is."""
    meter[EXPIRED] += 1.0
    at, window = place(meter, t), int(meter[WINDOW])
    if meter[at + ROUND * window] == t:
        meter[at + LABEL * window] = LOST
