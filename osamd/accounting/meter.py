"""The meter: what is kept of the rounds to estimate the accuracy from, one float64 vector that is saved as it is.

A round is written into it twice, by plain functions that numba compiles: by `expect` when its sample is decided on, and
by `confirm` or `lost` when its label is told or will never come. The meter holds sums over all rounds, most of them by
bins of the margin; rings with the last `window` rounds; and the weights of the classes among the labels.
`osamd.accounting.accuracy` reads from it how often the learner was right, and `osamd.accounting.health` how it fares.
"""

from __future__ import annotations

import numpy as np

from osamd.errors import require_whole
from osamd.numerics import Array

STEPS = 8
"""Steps of the margin: each doubles it, from below 1/16 of the mean margin to above 4 times that."""
BINS = 2 * STEPS
"""The steps, where decision and pseudolabel agree; then the same, where they do not."""
MEMORY = 400.0
"""Labels over which the mix of the classes reaches."""

# Places in the meter. Of all rounds: how many, of them asked for, told, never to be told, and blind (p = 0).
CLASSES, WINDOW, ROUNDS, ASKED, TOLD, EXPIRED, BLIND = range(7)
MARGINS, DISAGREED = 7, 8
"""The sums of the margins, and of the experts' disagreement."""
UNANSWERED = 9
"""Queries since a label came last."""
RECENT, RECENT_WEIGHT, RECENT_WEIGHT_2 = range(10, 13)
"""The labels remembered for the mix of the classes, and the sums of their 1 / p and 1 / p^2."""
# About the source model, left as it was: rounds with p > 0 in which its decision is known, queries and told labels
# among them; those in which it decides otherwise (apart), and their sums of 1 / p and 1 / p^2; of the labels told of
# those how many, and the sums of g^j / p and g^j / p^2 for j = 0, 1, 2, where g is the gain.
SOURCED, SOURCED_ASKED, SOURCED_TOLD, APART, APART_INVERSE, APART_INVERSE_2, APART_TOLD = range(13, 20)
GAINS, GAINS_2 = 20, 23
# Then blocks with one number per bin: rounds with p > 0, and their sums of 1 / p and 1 / p^2; labels told, and those of
# wrong decisions; of the right and of the wrong decisions among them the sums of 1 / p, 1 / p^2 and 1 / p^3.
SEEN, INVERSE, INVERSE_2, LABELS, WRONG = range(26, 26 + 5 * BINS, BINS)
RIGHT_WEIGHTS, WRONG_WEIGHTS = 26 + 5 * BINS, 26 + 8 * BINS
# Then rings of `window` numbers; round t lies at t % window of each.
RINGS = 26 + 11 * BINS
ROUND, MARGIN, PROBABILITY, DECISION, BIN, LABEL, MISTAUGHT, SOURCE, DISAGREEMENT = range(9)
RING_COUNT = 9
NOT_ASKED, PENDING, LOST = -1.0, -2.0, -3.0
"""What the ring LABEL holds instead of a class index."""
NO_SOURCE = -1
"""The source's decision where there is none."""
NOT_GIVEN = -1.0
"""The disagreement where the learner gives none: it is then 1 where decision and pseudolabel differ, else 0."""
# At the end, one number per class: the sum of 1 / p of the labels remembered.


def open_meter(classes: int, window: int) -> Array:
    """A meter that has seen nothing; its rings hold the last `window` rounds.

    >>> meter = open_meter(2, 1000)
    >>> where = expect(meter, 0.7, 0.25, True, 1, 1)
    >>> confirm(meter, 0, 0.25, where, 1, 1, 1)
    >>> int(meter[ROUNDS]), int(meter[TOLD])
    (1, 1)
    """
    classes = require_whole("open_meter", "classes", classes, 2)
    window = require_whole("open_meter", "window", window)
    meter = np.zeros(RINGS + RING_COUNT * window + classes)
    meter[CLASSES], meter[WINDOW] = classes, window
    meter[RINGS : RINGS + window] = -1.0  # ROUND: none
    return meter


def widened(meter: Array, classes: int) -> Array:
    """The meter for more classes, of which no label was told yet."""
    wider = np.append(meter, np.zeros(classes - int(meter[CLASSES])))
    wider[CLASSES] = classes
    return wider


def place(meter: Array, t: int) -> int:
    """Where the first ring holds round t; the next rings are one window further each."""
    return RINGS + t % int(meter[WINDOW])


def step_of(margin: float, mean: float) -> int:
    """The step of a margin. Doubled edges, unlike a logarithm, are exact on every machine; no branch, so fast."""
    step, edge = 0, mean / 16.0
    for _ in range(STEPS - 1):
        step += 1 if margin >= edge else 0
        edge *= 2.0
    return step


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
    """Enter a round when it is asked; returns its bin, to be given back to `confirm`.

    `source` is what the source model, left as it was, decides, where there is one; `disagreement` the weight of the
    experts, from 0 to 1, that hold another class than the decision.
    """
    t = int(meter[ROUNDS])
    where = step_of(margin, meter[MARGINS] / t if t > 0 else margin)
    dissent = 0.0
    if decision != pseudolabel:
        where += STEPS
        dissent = 1.0
    if disagreement >= 0.0:
        dissent = disagreement
    meter[ROUNDS] += 1.0
    meter[MARGINS] += margin
    meter[DISAGREED] += dissent
    if query:
        meter[ASKED] += 1.0
        meter[UNANSWERED] += 1.0
    if probability > 0.0:
        weight = 1.0 / probability
        meter[SEEN + where] += 1.0
        meter[INVERSE + where] += weight
        meter[INVERSE_2 + where] += weight * weight
        if source != NO_SOURCE:
            expect_gain(meter, weight, query, decision != source)
    else:
        meter[BLIND] += 1.0
    at, window = place(meter, t), int(meter[WINDOW])
    meter[at + ROUND * window] = t
    meter[at + MARGIN * window] = margin
    meter[at + PROBABILITY * window] = probability
    meter[at + DECISION * window] = decision
    meter[at + BIN * window] = where
    meter[at + LABEL * window] = PENDING if query else NOT_ASKED
    meter[at + SOURCE * window] = source
    meter[at + DISAGREEMENT * window] = dissent
    return float(where)


def expect_gain(meter: Array, weight: float, query: bool, apart: bool) -> None:
    """Enter a round with p > 0 in which the source's decision is known, and whether it is apart from the learner's."""
    meter[SOURCED] += 1.0
    meter[SOURCED_ASKED] += 1.0 if query else 0.0
    if apart:
        meter[APART] += 1.0
        meter[APART_INVERSE] += weight
        meter[APART_INVERSE_2] += weight * weight


def confirm(meter: Array, t: int, probability: float, where: float, decision: int, pseudolabel: int, y: int) -> None:
    """The label of queried round t is told, at once or late; the other numbers are those of its ask.

    A label that comes later than `window` rounds counts for the accuracy of the whole stream, but no longer for the
    window and the gain. Call it once per query, and not for labels that nobody asked for: they are no random sample.
    """
    weight, wrong, b = 1.0 / probability, decision != y, int(where)
    meter[TOLD] += 1.0
    meter[UNANSWERED] = 0.0
    meter[LABELS + b] += 1.0
    meter[WRONG + b] += 1.0 if wrong else 0.0
    sums = b + (WRONG_WEIGHTS if wrong else RIGHT_WEIGHTS)
    meter[sums] += weight
    meter[sums + BINS] += weight * weight
    meter[sums + 2 * BINS] += weight * weight * weight
    remember(meter, weight, y)
    at, window = place(meter, t), int(meter[WINDOW])
    if meter[at + ROUND * window] == t:
        meter[at + LABEL * window] = y
        meter[at + MISTAUGHT * window] = 0.0 if pseudolabel == y else 1.0
        source = int(meter[at + SOURCE * window])
        if source != NO_SOURCE:
            confirm_gain(meter, weight, decision, source, y)


def remember(meter: Array, weight: float, y: int) -> None:
    """The mix of the classes takes in a label; past MEMORY labels, all that were before count less."""
    mix = RINGS + RING_COUNT * int(meter[WINDOW])
    if meter[RECENT] >= MEMORY:
        keep = 1.0 - 1.0 / MEMORY
        meter[RECENT] *= keep
        meter[RECENT_WEIGHT] *= keep
        meter[RECENT_WEIGHT_2] *= keep
        for k in range(int(meter[CLASSES])):
            meter[mix + k] *= keep
    meter[RECENT] += 1.0
    meter[RECENT_WEIGHT] += weight
    meter[RECENT_WEIGHT_2] += weight * weight
    meter[mix + y] += weight


def confirm_gain(meter: Array, weight: float, decision: int, source: int, y: int) -> None:
    """The label of a round in which the source's decision is known."""
    meter[SOURCED_TOLD] += 1.0
    if source == decision:
        return
    gain = (1.0 if decision == y else 0.0) - (1.0 if source == y else 0.0)
    meter[APART_TOLD] += 1.0
    power = 1.0
    for j in range(3):
        meter[GAINS + j] += power * weight
        meter[GAINS_2 + j] += power * weight * weight
        power *= gain


def lost(meter: Array, t: int) -> None:
    """The label of queried round t will never come; that it does not must have nothing to do with what it is."""
    meter[EXPIRED] += 1.0
    at, window = place(meter, t), int(meter[WINDOW])
    if meter[at + ROUND * window] == t:
        meter[at + LABEL * window] = LOST
