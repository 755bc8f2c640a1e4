"""The arbiter of the preset: it weighs experts by what the labels that were asked for say of them.

An expert's loss is its discounted log loss on those labels, and its weight in the mixture exp(-loss). What the mixture
holds most likely is decided, and its margin, to a power, says how little a label is needed.

Plain enough to be compiled; `shares` holds the experts' probabilities, one expert after the other.
"""

from __future__ import annotations

import math
from typing import Any

DISCOUNT = 0.95
"""Of the experts' losses, a label: the arbiter looks back some twenty labels."""
DOUBT = 0.05
"""No expert's loss on one label is above -log of this."""
POWER = 8.0
"""The query's confidence is the margin to this power: labels go to where the mixture is truly undecided."""
FLOOR = 0.1
"""The least probability of a query, over the budget's rate."""
RATE = 0.05
"""The budget where none is given."""


def limits(budget: float | None, floor: float | None) -> tuple[float, float]:
    """The preset's budget and floor, where they are not given. It has a rate always, to steer by."""
    rate = RATE if budget is None else budget
    return rate, FLOOR * rate if floor is None else floor


def mix(losses: Any, shares: Any, handicap: float, mixture: Any) -> tuple[int, float]:
    """Fill in the mixture; its most likely class, and by how much it is ahead of the second (nan if any share is).

    By `handicap` nats an expert must be ahead of the first to weigh as much.
    """
    classes = mixture.shape[0]
    least = losses[0]
    for e in range(1, losses.shape[0]):
        least = min(least, losses[e] + handicap)
    for c in range(classes):
        mixture[c] = 0.0
    total = 0.0
    for e in range(losses.shape[0]):
        trust = math.exp(least - losses[e] - (handicap if e > 0 else 0.0))
        total += trust
        for c in range(classes):
            mixture[c] += trust * shares[e * classes + c]
    best = 0
    for c in range(classes):
        mixture[c] /= total
        if mixture[c] > mixture[best]:
            best = c
    second = -1.0
    for c in range(classes):
        if c != best:
            second = max(second, mixture[c])
    return best, mixture[best] - second


def weigh(losses: Any, shares: Any, y: int) -> None:
    """Each expert's loss takes in the label."""
    classes = shares.shape[0] // losses.shape[0]
    for e in range(losses.shape[0]):
        share = shares[e * classes + y]
        losses[e] = DISCOUNT * losses[e] - math.log(DOUBT + (1.0 - DOUBT) * share)
