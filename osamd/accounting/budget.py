"""Budgets of labels: the rules that a user sets.

A budget is a share of rounds (`rate`) over the whole stream or over any `window` consecutive rounds, a count
(`max_labels`), or both. Asking is what counts, so a label that has not arrived yet has been paid for.
`osamd.accounting.book` holds the numbers of a budget, and `osamd.accounting.steering` spends it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from osamd.errors import reject, require_number, require_whole

AUDIT, AUDITED, MOST_AUDIT = 0.5, 0.008, 0.8
"""The floor of the default learner is AUDIT times the rate. In small budgets it is at least AUDITED, which gives 40
labels in 5,000 rounds, but no more than MOST_AUDIT times the rate. The 90 % interval of an accuracy of 0.8 is then 0.12
wide after 5,000 rounds at 5 %, and 0.24 to 0.30 at 1 %."""

LAST_AUDIT = 0.5
"""The largest floor, as a part of the rate, while fewer than two labels are in hand. It saves the last label, since the
rounds after it are blind. At 1 % it makes a fifth fewer rounds blind."""

LEAST_EAGERNESS = 0.25
"""The least part of its share that a round asks for; by default it is the floor, over the rate."""


class Budget(NamedTuple):
    """A valid budget; make one with `budget`."""

    rate: float | None
    window: int | None
    max_labels: int | None
    floor: float
    target: float | None = None


def budget(
    rate: float | None = None,
    window: int | None = None,
    max_labels: int | None = None,
    floor: float | None = None,
    target: float | None = None,
) -> Budget:
    """A budget of labels; without a rate and a count there is no limit, and nothing is withheld or steered.

    It is never exceeded: after every round t, asked <= `rate` * t and asked / t <= `rate`, as Python computes them.
    With a `window` the limit holds for every `window` consecutive rounds instead (asked <= `rate` * `window`), and the
    first round may ask. asked <= `max_labels` always holds.

    It is spent: from t = 10,000 on, or from `rate` * t = 150 on if that comes first, at most 4.8 % of `rate` * t are
    left, or 2 labels where that is more. A window is filled except for 4 % of its places, or 4 where that is less.
    Where `rate` * `window` is below 50, it is often full, and rounds are withheld.

    While the budget allows a query, its probability is at least `floor`: by default `rate` / 4 (the default learner
    takes AUDIT * `rate`), or 0 without a rate.

    With a `target` no more labels are spent than it takes to keep the accuracy above it (`osamd.accounting.target`).
    Floor and spending then follow the lower rate that is steered to.

    >>> budget(rate=0.05)
    Budget(rate=0.05, window=None, max_labels=None, floor=0.0125, target=None)
    >>> budget(rate=0.02, window=10)
    Traceback (most recent call last):
    osamd.errors.InputError: `budget(window=10)`: rate * window is 0.2, so no window may hold a label; take 50 or more.
    """
    most = 1.0
    if rate is not None:
        rule = "rate is the share of rounds whose label may be asked for: a number above 0, and at most 1."
        most = rate = require_number("budget", "rate", rate, lambda v: 0.0 < v <= 1.0, rule)
    if window is not None:
        window = require_whole("budget", "window", window)
        if rate is None:
            raise reject("budget", "window", window, "a window limits a rate; give rate=... too.")
        if earned(rate, window) < 1.0:
            enough = math.ceil(1.0 / rate)
            enough += earned(rate, enough) < 1.0  # 49 * (1 / 49) is less than 1
            shown = f"rate * window is {rate * window:.6g}, so no window may hold a label;"
            raise reject("budget", "window", window, f"{shown} take {enough} or more.")
    if max_labels is not None:
        max_labels = require_whole("budget", "max_labels", max_labels)
    if floor is None:
        floor = 0.0 if rate is None else LEAST_EAGERNESS * rate
    limit = "1" if rate is None else f"the rate, {rate:.6g}: it alone would spend more"
    rule = f"floor is the least probability of a query, a number between 0 and {limit}."
    floor = require_number("budget", "floor", floor, lambda v: 0.0 <= v <= most, rule)
    if target is not None:
        rule = "target is the accuracy to keep: a number between 0 and 1."
        target = require_number("budget", "target", target, lambda v: 0.0 < v < 1.0, rule)
        if rate is None:
            raise reject("budget", "target", target, "it is kept within a rate; give rate=... too.")
    return Budget(rate, window, max_labels, floor, target)


def audit(rate: float) -> float:
    """The floor of the default learner: the part of its budget that it draws evenly.

    >>> audit(0.05), audit(0.01), audit(0.005)
    (0.025, 0.008, 0.004)
    """
    return max(AUDIT * rate, min(AUDITED, MOST_AUDIT * rate))


def least(budget: Budget) -> float:
    """The least probability of a query that the budget allows: the floor, which is lower for the last label in hand.

    With a target it may be lower still, while the steering aims below the rate.

    >>> least(budget(rate=0.05, floor=0.01)), least(budget(rate=0.01, floor=0.008)), least(budget(max_labels=5))
    (0.01, 0.005, 0.0)
    """
    return budget.floor if budget.rate is None else min(budget.floor, LAST_AUDIT * budget.rate)


def earned(rate: float, rounds: float) -> float:
    """The largest whole number k with k <= rate * rounds and k / rounds <= rate, both as floats compute them.

    Rounding errs on the strict side, so the promise holds whichever way it is checked.

    >>> earned(0.1, 30), earned(0.29, 100), 0.29 * 100
    (3.0, 28.0, 28.999999999999996)
    """
    labels = float(math.floor(rate * rounds))
    return labels - 1.0 if labels / rounds > rate else labels
