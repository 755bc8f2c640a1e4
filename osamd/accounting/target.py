"""A target accuracy: as few labels as keep the lower end of its interval above the target, within the budget.

The width of the window's interval is proportional to one over the square root of the probability of drawing labels. So
the window tells which probability, the same in all rounds, would put the lower end at the target, and the book is
steered to that rate (`osamd.accounting.steering.spend`). The rate rises at once and falls little by little, so that a
lucky stretch does not deprive the next one of its evidence. The rule uses only the past, so the probability of every
query is still known before it is drawn, and above 0: the estimate stays unbiased.

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
"""The number of rounds between two calls."""
EASING = 0.25
"""Over the calls of one window, the rate steered to falls at most to this share of itself."""
AIM = 0.6
"""The part of the distance between estimate and target that the interval may take up, since both vary."""
LEAST_LABELS = 60.0
"""The least number of labels per window: with 40, two errors in a window were enough to give up all saving."""


def share_needed(meter: Array, target: float) -> float:
    """The share of rounds whose labels, drawn evenly, would put the lower end of the window's interval at the target.

    It is inf if the estimate is unknown or not above the target. Evenly drawn labels are worth as much as those of the
    window if their probability is the harmonic mean of the window's probabilities.
    """
    found, window = accuracy(meter, window=True), window_of(meter)
    if not found.known or found.value <= target:
        return math.inf
    seen = window.probability[window.probability > 0.0]
    even = len(seen) / float(np.sum(1.0 / seen))
    return even * ((found.value - found.low) / (found.value - target)) ** 2


def steer_to_target(book: Array, meter: Array) -> None:
    """Steer the book to the rate that its target needs, judged by the meter's window; without a target, do nothing."""
    if book[TARGET] == 0.0:
        return
    wanted, window = share_needed(meter, float(book[TARGET])) / AIM**2, float(meter[WINDOW])
    eased = EASING ** (CHECK_EVERY / window) * float(book[SHARE])
    spend(book, max(wanted, LEAST_LABELS / window, eased))
