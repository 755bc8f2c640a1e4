"""Health: how a learner does in its last rounds, in one of three words, with the reason and what to do about it.

- *alarm*: something is almost certainly wrong. With enough labels: a constant decision or the source model would do
  better, one class takes all decisions, the target accuracy is missed, or the accuracy has fallen far below that of
  all rounds. With nobody answering: the mix of decisions is far from the mix of known labels, or the experts disagree
  far more than before.
- *unknown*: there is too little evidence: too few labels, or nobody answers.
- *fine*: there are enough labels, and no alarm is raised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from osamd.accounting.accuracy import Window, accuracy, window_of
from osamd.accounting.alarms import (
    SILENT,
    Finding,
    below_target,
    disagreement_grew,
    fell,
    mix_left,
    one_class,
    percent,
    share,
    silent,
    target_unclear,
    too_few_labels,
    worse_than_constant,
    worse_than_source,
)
from osamd.accounting.meter import ASKED, CLASSES, EXPIRED, MARGINS, PENDING, ROUNDS, TOLD, UNANSWERED
from osamd.errors import InputError, require_kind
from osamd.numerics import Array

HealthState = Literal["fine", "unknown", "alarm"]


class Health(NamedTuple):
    """The state of a learner over its last `window` rounds; nan where nothing is known yet."""

    state: HealthState
    why: str
    """The reason for the state, in a sentence."""
    remedy: str
    """What to do, in a sentence; empty where it is fine."""
    labels: int
    """The labels that arrived for rounds of the window."""
    pending: int
    """The pending queries of all rounds."""
    oldest_pending: int
    """How many rounds ago the oldest pending query was asked."""
    disagreement: float
    """The mean weight of the experts that prefer another class than the decision; for the paper's methods, the share
    of rounds in which pseudolabel and decision differ."""
    pseudolabel_error: float
    """The share of wrong pseudolabels: labels weighted by 1 / p_t, divided by the sum of the weights."""
    margin: float
    """The mean margin."""
    margin_change: float
    """The mean margin divided by that of all rounds before the window; far from 1, the margins drift."""
    label_spend: float
    """The labels asked for per round, in all rounds."""
    window_spend: float
    """The labels asked for per round, in the window."""

    @property
    def collapsed(self) -> bool:
        """Whether the alarm is raised."""
        return self.state == "alarm"


def health(
    meter: Array,
    classes: Sequence[Any] | None = None,
    *,
    reference_mix: Sequence[float] | None = None,
    target: float | None = None,
) -> Health:
    """The health of the learner whose rounds this meter holds.

    `classes` are their names, 0, 1, ... by default. `reference_mix` is the number of labelled rows that the source had
    of each class; it is used until enough labels have arrived. `target` is the accuracy to keep.

    In one window, a healthy learner raises each alarm with a nominal probability of at most FALSE_ALARM; in thousands
    of simulated windows it raised none. A learner that always decides on a class with a share of DESERVED or more of
    the labels raises none.

    >>> from osamd.accounting.meter import confirm, expect, open_meter
    >>> meter = open_meter(2, 100)
    >>> health(meter).state
    'unknown'
    >>> for t in range(100):  # class 0 is decided in every round; all labels are known, and half of them are 1
    ...     confirm(meter, t, 1.0, expect(meter, 2.0, 1.0, True, 0, 0), 0, 0, t % 2)
    >>> health(meter).why
    'Class 0 takes 100 % of the last 100 decisions, but at most 50 % of the labels.'
    """
    require_kind("health", "meter", meter, np.ndarray, "open one with open_meter(classes, window)")
    names = classes or range(int(meter[CLASSES]))
    if reference_mix is not None and len(reference_mix) != len(names):
        raise InputError(
            f"`health(reference_mix=...)`: it has {len(reference_mix)} numbers; give one for each of the {len(names)}"
            " classes."
        )
    window = window_of(meter)
    rounds = len(window.label)
    if rounds == 0:
        none = (math.nan,) * 6
        return Health("unknown", "There has been no round yet.", "Ask about some samples.", 0, 0, 0, *none)
    state, found = _judged(meter, window, names, reference_mix, target)
    told, margin, before = window.told, float(window.margin.mean()), meter[ROUNDS] - rounds
    earlier = (meter[MARGINS] - window.margin.sum()) / before if before > 0 else 0.0
    waiting = window.round[window.label == PENDING]
    return Health(
        state,
        *found,
        labels=len(told.label),
        pending=int(meter[ASKED] - meter[TOLD] - meter[EXPIRED]),
        oldest_pending=int(meter[ROUNDS] - 1 - waiting.min()) if len(waiting) else 0,
        disagreement=float(window.disagreement.mean()),
        pseudolabel_error=share(told.mistaught, told.probability),
        margin=margin,
        margin_change=float(margin / earlier) if earlier > 0.0 else math.nan,
        label_spend=float(meter[ASKED] / meter[ROUNDS]),
        window_spend=window.asked / rounds,
    )


def _judged(
    meter: Array, window: Window, names: Sequence[Any], reference: Sequence[float] | None, target: float | None
) -> tuple[HealthState, Finding]:
    """The state, with its reason and remedy."""
    rounds, found = len(window.label), accuracy(meter, window=True)
    if found.known:
        alarm = (
            worse_than_constant(window, names)
            or one_class(meter, window, names)
            or worse_than_source(meter)
            or below_target(found, target)
            or fell(meter)
        )
        if alarm:
            return "alarm", alarm
    if meter[UNANSWERED] >= SILENT:
        alarm = mix_left(meter, window, names, reference) or disagreement_grew(meter, window)
        return ("alarm", alarm) if alarm else ("unknown", silent(meter))
    if not found.known:
        return "unknown", too_few_labels(meter, window)
    unclear = target_unclear(meter, found, target)
    if unclear:
        return "unknown", unclear
    return "fine", Finding(
        f"Between {percent(found.low)} and {percent(found.high)} of the last {rounds} decisions are right.", ""
    )
