"""The meter: what is recorded of the rounds to estimate the accuracy, one float64 vector that is saved as it is.

A round is written into it twice, by plain functions that numba compiles: by `expect` when its sample is decided on, and
by `confirm` or `lost` when its label arrives or will never come. The meter holds sums over all rounds, most of them per
bin of the margin; rings with the last `window` rounds; and the weights of the classes among the labels.
`osamd.accounting.accuracy` and `osamd.accounting.health` read it.
"""

from __future__ import annotations

import numpy as np

from osamd.errors import require_whole
from osamd.numerics import Array

STEPS = 8
"""Steps of the margin: each doubles it, from below 1/16 of the mean margin to above 4 times the mean."""
BINS = 2 * STEPS
"""The steps where decision and pseudolabel agree, then the same steps where they do not."""
MEMORY = 400.0
"""The number of labels over which the mix of the classes is averaged."""

# Places in the meter. Then the numbers of rounds: all, asked for, with a label, with a lost label, and blind (p = 0).
CLASSES, WINDOW, ROUNDS, ASKED, TOLD, EXPIRED, BLIND = range(7)
MARGINS, DISAGREED = 7, 8
"""The sums of the margins, and of the experts' disagreement."""
UNANSWERED = 9
"""The queries since the last label arrived."""
RECENT, RECENT_WEIGHT, RECENT_WEIGHT_2 = range(10, 13)
"""The number of labels remembered for the mix of the classes, and the sums of their 1 / p and 1 / p^2."""
# About the unchanged source model: the rounds with p > 0 in which its decision is known, and the queries and labels
# among them; the rounds in which it decides differently (apart), and their sums of 1 / p and 1 / p^2; the number of
# labels of those rounds, and the sums of g^j / p and g^j / p^2 for j = 0, 1, 2, where g is the gain.
SOURCED, SOURCED_ASKED, SOURCED_TOLD, APART, APART_INVERSE, APART_INVERSE_2, APART_TOLD = range(13, 20)
GAINS, GAINS_2 = 20, 23
# Then blocks with one number per bin: rounds with p > 0, and their sums of 1 / p and 1 / p^2; labels, and labels of
# wrong decisions; the sums of 1 / p, 1 / p^2 and 1 / p^3 over labels of right decisions, and over those of wrong ones.
SEEN, INVERSE, INVERSE_2, LABELS, WRONG = range(26, 26 + 5 * BINS, BINS)
RIGHT_WEIGHTS, WRONG_WEIGHTS = 26 + 5 * BINS, 26 + 8 * BINS
# Then rings of `window` numbers; round t lies at t % window of each.
RINGS = 26 + 11 * BINS
ROUND, MARGIN, PROBABILITY, DECISION, BIN, LABEL, MISTAUGHT, SOURCE, DISAGREEMENT = range(9)
RING_COUNT = 9
NOT_ASKED, PENDING, LOST = -1.0, -2.0, -3.0
"""What the ring LABEL holds instead of a class index."""
NO_SOURCE = -1
"""Stands for the source's decision where there is no source."""
NOT_GIVEN = -1.0
"""Stands for a disagreement that the learner does not give: it is then 1 if decision and pseudolabel differ, else 0."""
# At the end, one number per class: the sum of 1 / p over the labels remembered.


def open_meter(classes: int, window: int) -> Array:
    """A meter without any round; its rings hold the last `window` rounds.

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
    """The meter with room for more classes, which have no labels yet."""
    wider = np.append(meter, np.zeros(classes - int(meter[CLASSES])))
    wider[CLASSES] = classes
    return wider


def place(meter: Array, t: int) -> int:
    """Where the first ring holds round t; each next ring is one window further on."""
    return RINGS + t % int(meter[WINDOW])


def step_of(margin: float, mean: float) -> int:
    """The step of a margin. Doubling the edges, unlike a logarithm, is exact on every machine; no branches, so fast."""
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
    """Enter a round when its sample is decided on; returns its bin, for `confirm`.

    `source` is the decision of the unchanged source model, where there is one. `disagreement` is the weight, from 0 to
    1, of the experts that prefer another class than the decision.
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
    """Enter the label of queried round t, at once or late; the other arguments are those of its `expect`.

    A label that is more than `window` rounds late counts for the accuracy of the whole stream, but not for the window
    and the gain. Call it once per query, and not for labels that nobody asked for: they are not a random sample.
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
    """Add a label to the mix of the classes; after MEMORY labels, each new one makes the earlier ones count less."""
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
    """Enter the label of a round in which the source's decision is known."""
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
    """The label of queried round t will never come; whether a label is lost must not depend on its class."""
    meter[EXPIRED] += 1.0
    at, window = place(meter, t), int(meter[WINDOW])
    if meter[at + ROUND * window] == t:
        meter[at + LABEL * window] = LOST
