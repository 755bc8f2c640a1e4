"""A target of the accuracy: as few labels as keep the lower end of its interval above the target, within the budget.

The interval of the window narrows as one over the square root of the probability with which labels are drawn. So the
window says with what probability, the same in all rounds, the lower end would be at the target; that share of the
rounds is then steered to (`osamd.accounting.steering.spend`). More is spent at once, less little by little, so that a
lucky stretch does not cost the next one its evidence. The rule uses the past alone, so the probability of every query
is still known before it is drawn, and above 0: the estimate stays unbiased.

`steer_to_target` is called every `CHECK_EVERY` rounds; a call takes as long as some dozens of short rounds.
"""

from __future__ import annotations

import math

import numpy as np

from osamd.accounting.accuracy import accuracy, window_of
from osamd.accounting.book import SHARE, TARGET
from osamd.accounting.meter import WINDOW
from osamd.accounting.steering import spend
from osamd.numerics import Array

CHECK_EVERY = 50
"""Rounds between two calls."""
EASING = 0.25
"""The least that is left, after a window of calls, of the rate steered to."""
AIM = 0.6
"""The part of the distance from the estimate to the target that the lower end may use, since both stray."""
LEAST_LABELS = 60.0
"""Labels of a window that are asked for at least: with 40, two errors in a window were enough to give up all saving."""


def share_needed(meter: Array, target: float) -> float:
    """The share of rounds whose labels, drawn evenly, would put the lower end of the window's interval at the target.

    It is inf where the estimate is not above the target, or not known. Evenly drawn labels are worth as much as those
    of the window where their probability is the harmonic mean of the window's.
    """
    found, window = accuracy(meter, window=True), window_of(meter)
    if not found.known or found.value <= target:
        return math.inf
    seen = window.probability[window.probability > 0.0]
    even = len(seen) / float(np.sum(1.0 / seen))
    return even * ((found.value - found.low) / (found.value - target)) ** 2


def steer_to_target(book: Array, meter: Array) -> None:
    """Let the book steer to no more than its target needs, by the window of the meter; without a target it stays."""
    if book[TARGET] == 0.0:
        return
    wanted, window = share_needed(meter, float(book[TARGET])) / AIM**2, float(meter[WINDOW])
    eased = EASING ** (CHECK_EVERY / window) * float(book[SHARE])
    spend(book, max(wanted, LEAST_LABELS / window, eased))
