"""Health: how a learner fares in its last rounds, and the alarm for self-training gone wrong, from `osamd.honest`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import require_kind
from osamd.honest import (
    ASKED,
    CLASSES,
    MARGINS,
    ROUNDS,
    STEPS,
    Window,
    accuracy,
    more_errors,
    window_of,
)
from osamd.numerics import Array

LABELS_NEEDED = 20
"""Fewer labels told in the window never raise the alarm."""
ONE_CLASS = 0.99
"""The share of decisions from which on a learner is taken to decide one class alone."""
DESERVED = 0.8
"""Deciding one class alone is no collapse where that class may have this share of the labels: with classes of 4 : 1 and
more, it can be the best there is."""
FALSE_ALARM = 0.01
"""The nominal chance of an alarm in one window for a learner on the edge: just as good as the commonest class, or with
one class that has just DESERVED of the labels. Simulated, it is at most 1 % for the first and 2 % for the second."""


class Health(NamedTuple):
    """The last `window` rounds of a learner; nan where nothing is known yet."""

    disagreement: float
    """The share of rounds in which decision and pseudolabel differ."""
    pseudolabel_error: float
    """The share of wrong pseudolabels: told labels weighted by 1 / p_t, over the sum of the weights."""
    margin: float
    """The mean margin."""
    margin_change: float
    """The mean margin over that of all rounds before the window: far from 1, the margins drift."""
    label_spend: float
    """Labels asked for a round, in all rounds."""
    window_spend: float
    """Labels asked for a round, in the window."""
    collapsed: bool
    """Whether the alarm is raised."""
    why: str
    """What raised it, in a sentence, or nothing."""


def health(meter: Array, classes: Sequence[Any] | None = None) -> Health:
    """The health of the learner whose rounds this meter holds; `classes` are their names, 0, 1, ... by default.

    Self-training has collapsed where, in the window and with at least LABELS_NEEDED labels told, either

    - always deciding the commonest class would surely be better than the decisions; or
    - one class takes ONE_CLASS of the decisions, and surely less than DESERVED of the labels.

    "Surely" is meant one-sided, with a nominal chance of FALSE_ALARM on the edge; healthy learners raised no alarm in
    thousands of simulated windows. A learner that always decides a class with DESERVED or more of the labels is not
    reported.

    >>> from osamd.honest import confirm, expect, open_meter
    >>> meter = open_meter(2, 100)
    >>> for t in range(100):  # it decides class 0 in every round, all labels are known, and half of them are 1
    ...     confirm(meter, t, 1.0, expect(meter, 2.0, 1.0, True, 0, 0), 0, 0, t % 2)
    >>> health(meter).why
    'Class 0 takes 100 % of the last 100 decisions, but at most 50 % of the labels.'
    """
    require_kind("health", "meter", meter, np.ndarray, "open one with open_meter(classes, window)")
    window = window_of(meter)
    rounds = len(window.label)
    if rounds == 0:
        return Health(*(math.nan,) * 6, collapsed=False, why="")
    told, margin, before = window.told, float(window.margin.mean()), meter[ROUNDS] - rounds
    earlier = (meter[MARGINS] - window.margin.sum()) / before if before > 0 else 0.0
    names, why = classes or range(int(meter[CLASSES])), ""
    if len(told.label) >= LABELS_NEEDED:
        why = _worse_than_constant(window, names) or _one_class(meter, window, names)
    return Health(
        disagreement=float(np.mean(window.bin >= STEPS)),
        pseudolabel_error=_share(told.mistaught, told.probability),
        margin=margin,
        margin_change=float(margin / earlier) if earlier > 0.0 else math.nan,
        label_spend=float(meter[ASKED] / meter[ROUNDS]),
        window_spend=window.asked / rounds,
        collapsed=why != "",
        why=why,
    )


def _share(holds: Array, probability: Array) -> float:
    """The share of rounds for which something holds, from those told: weighted by 1 / p (Hájek's estimator)."""
    return float(np.sum(holds / probability) / np.sum(1.0 / probability)) if len(holds) else math.nan


def _worse_than_constant(window: Window, names: Sequence[Any]) -> str:
    """Compares decisions and the commonest class on the same labels, so that what both get right cancels out."""
    from scipy.special import ndtri

    told, rounds = window.told, len(window.label)
    shares = [_share((told.label == k).astype(np.float64), told.probability) for k in range(len(names))]
    commonest = int(np.argmax(shares))
    lead = (told.label == told.decision).astype(np.float64) - (told.label == commonest)
    weight = window.asked / len(told.label) / told.probability
    inverse = 1.0 / window.probability[window.probability > 0.0]
    # Rounds in which the decision alone was right may hide anywhere, so with the weight of a round drawn at random.
    hidden = float(np.sum(inverse**2) / np.sum(inverse))
    variance = float(np.sum(weight * (weight - 1.0) * lead**2))
    most = float(np.sum(weight * lead)) + more_errors(float(ndtri(1.0 - FALSE_ALARM)), variance, hidden)
    if most >= 0.0:
        return ""
    return (
        f"Deciding class {names[commonest]!r}, which has {100.0 * shares[commonest]:.0f} % of the labels, in all of the"
        f" last {rounds} rounds would have been right more often, in at least {math.floor(-most)} rounds."
    )


def _one_class(meter: Array, window: Window, names: Sequence[Any]) -> str:
    decided = np.bincount(window.decision.astype(np.int64), minlength=len(names)) / len(window.label)
    favourite = int(np.argmax(decided))
    # Of a learner that always decides one class, the accuracy is the share of that class.
    most = accuracy(meter, window=True, level=1.0 - 2.0 * FALSE_ALARM).high
    if decided[favourite] < ONE_CLASS or most >= DESERVED:
        return ""
    return (
        f"Class {names[favourite]!r} takes {100.0 * decided[favourite]:.0f} % of the last {len(window.label)}"
        f" decisions, but at most {100.0 * most:.0f} % of the labels."
    )
