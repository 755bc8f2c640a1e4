"""A target of the accuracy: as few labels as keep the lower end of its interval above the target, within the budget.

The interval of the window narrows as one over the square root of its labels. So the labels asked for in the window, the
estimated accuracy and the lower end of its interval say how many labels would put the lower end at the target. That
share of the rounds is then steered to (`osamd.budget.spend`), the audit in the same proportion: more at once, less by a
tenth per check, so that a lucky stretch does not cost the next one its evidence. The rule uses the past alone, so the
probability of every query is still known before it is drawn, and above 0: the estimate stays unbiased.

`steer_to_target` is called every `CHECK_EVERY` rounds; a call takes as long as some dozens of short rounds.
"""

from __future__ import annotations

import math

from osamd.budget import FULL, SHARE, TARGET, spend
from osamd.honest import LABELS_NEEDED, Accuracy, accuracy, window_of
from osamd.numerics import Array

CHECK_EVERY = 50
"""Rounds between two calls."""
EASING = 0.9
"""The least that a call leaves of the rate steered to: from 5 % to 1 % takes 16 calls, or 800 rounds."""
LEAST_LABELS = 1.5 * LABELS_NEEDED
"""Labels of a window that are asked for at least. Counts stray by their square root, and with fewer than LABELS_NEEDED
there would be no number to steer by."""


def labels_needed(found: Accuracy, target: float) -> float:
    """The labels with which the lower end of this interval would be at the target; inf where the value is not above it.

    >>> round(labels_needed(Accuracy(0.95, 0.90, 0.98, 0.9, 1000, 50, 0), target=0.85), 3)
    12.5
    """
    if not found.known or found.value <= target:
        return math.inf
    return found.labels * ((found.value - found.low) / (found.value - target)) ** 2


def steer_to_target(book: Array, meter: Array) -> None:
    """Let the book steer to no more than its target needs, by the window of the meter; without a target it stays."""
    target = float(book[TARGET])
    if target == 0.0:
        return
    found = accuracy(meter, window=True)
    wanted = labels_needed(found, target)
    if wanted == math.inf:
        spend(book, math.inf)
        return
    asked_per_label = window_of(meter).asked / found.labels  # some are under way or lost
    share = max(wanted, LEAST_LABELS) * asked_per_label / found.rounds
    spend(book, max(share, EASING * float(book[SHARE])))


def spared(book: Array) -> bool:
    """Whether less than the budget's rate is steered to."""
    return bool(book[SHARE] < book[FULL])
