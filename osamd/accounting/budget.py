"""Budgets of labels: never exceeded at any moment, and spent, by steering sigma from round to round.

A budget is a share of rounds (`rate`) over the whole stream or over any `window` rounds on end, a count (`max_labels`),
or both. Its book is one vector of numbers, to be saved and compiled. A round reads it once and writes it once:

    sigma, floor, reason = terms(book)           before the sample is seen: what `query_probability` takes
    enter(book, margin, probability, query)      after the query is drawn: counts it, and steers sigma

Asking is what counts, so labels still under way have been paid for. The terms of a round do not depend on its sample,
so the probability of every query is known. They depend on the *backlog* of labels earned and not spent: rate * t -
asked over the whole stream; in a window what comes in at its rate less a slack, places that are left free (4 %, or 4).

- The *floor* is the audit: while the budget allows a query, its probability is at least that, whatever the margin.
- A *reserve* is aimed at, so that rounds are seldom withheld: 4 % of the labels earned, at least 1 and at most 10.
- *eagerness* = (backlog / reserve)^4, from 1/4 to 50, is how much of its share a round should ask.
- sigma = base * eagerness falls smoothly as labels run out. After every round, asked or not, log base moves by
  0.3 * (rate * eagerness - p), where p is what the margin was worth, max(floor, sigma / (sigma + margin)).
- Where the backlog is low (below 3/4 of the reserve and 2 labels) queries are uniform, with probability
  rate * eagerness or the floor: even if sigma is far too large it cannot use up what keeps rounds from being blind.
- Past 4.8 % of the labels earned (or 2 labels) the next query is certain. So the budget is spent, on every stream.
- With a *target* of the accuracy, less than the rate may be steered to (`osamd.accounting.target`); what is spared is
  not owed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osamd.errors import (
    InputError,
    lookup,
    reject,
    require_kind,
    require_number,
    require_positive,
    require_rate,
    require_whole,
)
from osamd.numerics import Array

WITHHELD = ("", "rate", "window", "max_labels")
"""Why a query is withheld: the names of the reasons that `terms` gives; the first is that it is not."""
ALLOWED, BY_RATE, BY_WINDOW, BY_COUNT = range(4)

STEERING = 0
"""The first place in the book: FIXED, MARGIN or UNIFORM."""
RATE = 1
"""As the user gave it; 0 for none."""
SHARE = 2
"""The rate that is steered to: FULL, or less where a target of the accuracy needs less."""
WINDOW = 3
"""Rounds of the window; 0 for the whole stream."""
PLACES = 4
"""The most labels of a window."""
MAX_LABELS = 5
FLOOR = 6
"""The least probability of a query that is allowed; it falls with SHARE."""
EARNED = 7
"""The labels that the reserve is a part of: those of a window; over the whole stream the least, `SETTLED`."""
BASE = 8
"""sigma where eagerness is 1."""
SCALE = 9
"""The running mean of the margins."""
ROUNDS = 10
ASKED = 11
RECENT = 12
"""Asked in the last WINDOW - 1 rounds."""
BACKLOG = 13
"""In a window."""
NEXT = 14
"""Where in the ring the round to come is written."""
EAGERNESS, SIGMA, LEAST, REASON = 15, 16, 17, 18
"""Of the round to come; the last three are its terms."""
FULL, FULL_FLOOR = 19, 20
"""The rate that the budget is steered to where nothing is spared, and its floor."""
SPARED = 21
"""Over the whole stream, the labels earned that were not wanted, and are not owed."""
TARGET = 22
"""The accuracy that is to be kept with as few labels as possible; 0 for none."""
HASTE = 23
"""How many of the first labels are spent as they are earned."""
RING = 24
"""From here on, whether each of the last WINDOW rounds asked."""

FIXED, MARGIN, UNIFORM = 0.0, 1.0, 2.0
QUERIES = {"margin": MARGIN, "uniform": UNIFORM, "always": FIXED}

AUDIT, AUDITED, MOST_AUDIT = 0.5, 0.008, 0.8
"""The floor of the default learner: over the budget's rate; in small budgets at least AUDITED, which is 40 labels in
5,000 rounds, but no more than MOST_AUDIT of the rate. Then the 90 % interval of an accuracy of 0.8 is 0.12 wide after
5,000 rounds at 5 %, and 0.24 to 0.30 at 1 %."""

LAST_AUDIT = 0.5
"""The most of the floor, over the rate, while fewer than two labels are in hand: the last one is saved, since the
rounds after it are blind. At 1 % a fifth fewer rounds are blind for it."""

RESERVE, LEAST_RESERVE, MOST_RESERVE = 0.04, 1.0, 10.0
"""4 % of 100 labels is within the promise of 5 %. The audit goes on below it, so labels are drawn at random at half the
rate at which they are earned: from 3 labels the backlog falls below 1 with a probability of some 7 %, from 2 with 20 %
(ruin under unit claims at half the premium). With 3 % instead, twice as many rounds were blind at a rate of 1 %."""

LOW, MOST_LOW = 0.75, 2.0
"""The backlog below which queries are uniform: a part of the reserve, and no more than so many labels. With 0.9 and 3
half as many rounds are blind, and intervals at 1 % are a tenth narrower, but fewer labels go to small margins: that
costs 0.6 points over tables at 5 % and 0.8 at 1 %."""

HASTY, HASTY_RESERVE, HASTY_OVERDUE = 20.0, 1.5, 2.5
"""The first labels of a model that starts from nothing, the reserve until then, and when a query is certain. On sixteen
tables at 5 % this costs 0.3 points beside a reserve that grows with the labels from 1 on, which withholds a fifth of
3,000 rounds; this withholds 6 %. With 10 labels it would be 4 % and another 0.3 points."""

OVERDUE, LEAST_OVERDUE = 0.048, 2.0
"""The backlog past which a query is certain, as a part of the labels earned: so less than 5 % is ever left unspent."""

WINDOW_OVERDUE = 2.5
"""The same in a window, times the reserve; its backlog is not lost, so this only ends droughts."""

SETTLED_ROUNDS, SETTLED = 10_000.0, 150.0
"""The promise to spend is for so many rounds, or labels earned if they come first. Before, the reserve is that of then,
since a smaller one would withhold many of the first rounds."""

SLACK, MOST_SLACK = 0.04, 4.0
"""The part of a window's places left free. A window gives back its places as unevenly as they were taken, so one that
is filled to the last stays full for most rounds; counts that stray by one from a steady rate need some two places."""

LEAST_EAGERNESS, MOST_EAGERNESS = 0.25, 50.0

GAIN = 0.3
"""Of the steps of log base: it follows within some three labels. Half of it needs nearly twice as many certain queries
after margins rise; twice of it follows the swings of correlated margins, and then asks less in the hard stretches."""

MEMORY = 5.0
"""Labels over which SCALE reaches."""

LEAST_BASE, MOST_BASE = 1e-9, 1e6
"""Times SCALE: the base stays between, to come back soon from margins that no sigma can do anything about. Of margins
to the power 8, as the default learner has them, those below 0.075 are then all alike; with 1e-24 it asked for the
closest ties alone, and was right less often on tables of ten classes, by 2 to 4 points."""


class Budget(NamedTuple):
    """A budget that can be used; `budget` makes one."""

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
    """A budget of labels; with no rate and no count it is none, and nothing is withheld or steered.

    Never exceeded: after every round t, asked <= `rate` * t and asked / t <= `rate`, as Python computes them. With a
    `window` that holds for every `window` rounds on end instead (asked <= `rate` * `window`), and the first round may
    ask. Never is asked > `max_labels`.

    Spent: from t = 10,000 on, or sooner from `rate` * t = 150 on, at most 4.8 % of `rate` * t are left, or 2 labels
    where that is more. A window is filled but for 4 % of its places, or 4 where that is less; where `rate` * `window`
    is below 50 it is often full, and rounds are withheld.

    While the budget allows a query, its probability is at least `floor`: by default `rate` / 4 (that of the default
    learner is AUDIT * `rate`), or 0 without a rate.

    With a `target` no more is spent than keeps the accuracy above it (`osamd.accounting.target`); floor and spending
    are then those of the part of the rate that is steered to.

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
            raise reject("budget", "window", window, "a window is that of a rate; give rate=... too.")
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
        rule = "target is the accuracy to be kept: a number between 0 and 1."
        target = require_number("budget", "target", target, lambda v: 0.0 < v < 1.0, rule)
        if rate is None:
            raise reject("budget", "target", target, "it is kept within a rate; give rate=... too.")
    return Budget(rate, window, max_labels, floor, target)


def open_book(budget: Budget, sigma: float, query: str, label_rate: float | None = None) -> Array:
    """The book of a budget before the first round, for one kind of query.

    "margin": sigma is where the steering starts; without a rate it stays. "uniform": the probability is steered;
    without a rate it is `label_rate`. "always": with probability 1 whenever the budget allows it.

    >>> book = open_book(budget(max_labels=1), sigma=0.35, query="margin")
    >>> terms(book)
    (0.35, 0.0, 0)
    >>> enter(book, margin=0.2, probability=0.64, query=True)
    >>> terms(book), WITHHELD[3]
    ((0.0, 0.0, 3), 'max_labels')
    """
    require_kind("open_book", "budget", budget, Budget, "make one with budget(rate=0.05)")
    steering = lookup("open_book", "query", query, QUERIES)
    rate, window, max_labels, floor, target = budget
    base = require_positive("open_book", "sigma", sigma) if query == "margin" else 0.0
    if query == "always":
        floor = 1.0
    elif query == "uniform" and rate is None:
        if label_rate is None:
            raise InputError(
                "`open_book(query='uniform')`: without a rate in the budget, give label_rate=... to ask at."
            )
        floor = max(floor, require_rate("open_book", "label_rate", label_rate))
    book = np.zeros(RING + (window or 0))
    book[FLOOR], book[BASE], book[EAGERNESS] = floor, base, 1.0
    book[MAX_LABELS] = math.inf if max_labels is None else max_labels
    if rate is not None:
        book[STEERING], book[RATE], book[SHARE] = steering, rate, rate
        book[EARNED] = settled(rate)
        if window is not None:
            places = earned(rate, window)
            book[WINDOW], book[PLACES], book[EARNED] = window, places, places
            book[SHARE] = (places - slack(places)) / window
            book[BACKLOG] = reserve(places)
        book[FULL], book[FULL_FLOOR], book[TARGET] = book[SHARE], floor, target or 0.0
    announce(book)
    return book


class Counted(NamedTuple):
    """What a book counts."""

    rounds: int
    asked: int


def allow(book: Array, labels: float) -> None:
    """Let the book ask for at most so many labels, where some of a larger number were asked for before it was opened.

    >>> book = open_book(budget(max_labels=9), sigma=1.0, query="margin")
    >>> allow(book, 0)
    >>> WITHHELD[terms(book)[2]]
    'max_labels'
    """
    book[MAX_LABELS] = max(0.0, labels)
    announce(book)


def hasten(book: Array, *, on: bool) -> None:
    """Spend the first HASTY labels as they are earned, for a model that starts from nothing; `on` is false: save as
    usual. Over a whole stream alone. More of the first rounds are withheld for it.

    >>> book = open_book(budget(rate=0.05), sigma=1.0, query="margin")
    >>> hasten(book, on=True)
    >>> for _ in range(50):
    ...     enter(book, margin=0.5, probability=0.0, query=False)
    >>> terms(book)  # two labels and a half have been earned, so the next is certain
    (0.0, 1.0, 0)
    """
    book[HASTE] = HASTY if on else 0.0
    announce(book)


def spend(book: Array, share: float) -> None:
    """Steer to this rate from now on, at most to that of the budget.

    Where that is less, nearly all of it is audit: what is spared are the labels of small margins, so that the accuracy
    is known from as few labels as possible.

    >>> book = open_book(budget(rate=0.1, floor=0.05), sigma=1.0, query="margin")
    >>> for share in (0.1, 0.02):
    ...     spend(book, share)
    ...     print(book[SHARE], round(book[FLOOR], 3))
    0.1 0.05
    0.02 0.016
    """
    book[SHARE] = min(share, book[FULL])
    book[FLOOR] = MOST_AUDIT * book[SHARE] if book[SHARE] < book[FULL] else book[FULL_FLOOR]
    announce(book)


def audit(rate: float) -> float:
    """The floor of the default learner: what it draws evenly of its budget.

    >>> audit(0.05), audit(0.01), audit(0.005)
    (0.025, 0.008, 0.004)
    """
    return max(AUDIT * rate, min(AUDITED, MOST_AUDIT * rate))


def least(budget: Budget) -> float:
    """The least probability of a query that the budget allows: the floor, or what it is with the last label in hand.

    With a target it may be less, where less than the rate is steered to.

    >>> least(budget(rate=0.05, floor=0.01)), least(budget(rate=0.01, floor=0.008)), least(budget(max_labels=5))
    (0.01, 0.005, 0.0)
    """
    return budget.floor if budget.rate is None else min(budget.floor, LAST_AUDIT * budget.rate)


def settled(rate: float) -> float:
    """The least number of labels that the reserve is a part of."""
    return min(rate * SETTLED_ROUNDS, SETTLED)


def earned(rate: float, rounds: float) -> float:
    """The largest whole number k with k <= rate * rounds and k / rounds <= rate, both as floats compute them.

    Where rounding errs it is to the strict side, so that either way of checking the promise holds.

    >>> earned(0.1, 30), earned(0.29, 100), 0.29 * 100
    (3.0, 28.0, 28.999999999999996)
    """
    labels = float(math.floor(rate * rounds))
    return labels - 1.0 if labels / rounds > rate else labels


def reserve(labels: float) -> float:
    """The backlog that is aimed at where so many labels are earned."""
    return min(max(RESERVE * labels, LEAST_RESERVE), MOST_RESERVE)


def slack(places: float) -> float:
    """The places of a window that are left free."""
    return min(SLACK * places, MOST_SLACK)


def withheld(book: Array) -> int:
    """Why no label may be asked for in the round to come: an index of `WITHHELD`, 0 where one may."""
    if book[ASKED] >= book[MAX_LABELS]:
        return BY_COUNT
    if book[WINDOW] > 0.0:
        return BY_WINDOW if book[RECENT] >= book[PLACES] else ALLOWED
    if book[RATE] > 0.0 and book[ASKED] >= earned(book[RATE], book[ROUNDS] + 1.0):
        return BY_RATE
    return ALLOWED


def pace(book: Array) -> tuple[float, bool, bool, bool]:
    """The eagerness of the round to come; whether its backlog is so low that it saves, or that the audit does too; and
    whether it is so high that it must ask."""
    if book[WINDOW] > 0.0:
        backlog, aim, free = book[BACKLOG], reserve(book[EARNED]), book[PLACES] - book[RECENT]
        low = free < min(2.0, 0.5 + 0.5 * slack(book[PLACES]))
        due = backlog > WINDOW_OVERDUE * aim
    else:
        labels = book[FULL] * (book[ROUNDS] + 1.0) - book[SPARED]
        backlog = free = labels - book[ASKED]
        labels = max(book[EARNED], labels)
        aim, low = reserve(labels), False
        due = backlog > max(LEAST_OVERDUE, OVERDUE * labels)
        if book[ASKED] < book[HASTE]:
            aim, due = HASTY_RESERVE, backlog > HASTY_OVERDUE
    ratio = max(0.0, backlog / aim)
    eagerness = min(max(ratio * ratio * ratio * ratio, LEAST_EAGERNESS), MOST_EAGERNESS)
    return eagerness, low or backlog < min(LOW * aim, MOST_LOW), free < 2.0, due


def announce(book: Array) -> None:
    """Write the terms of the round to come."""
    reason = withheld(book)
    sigma = book[BASE]
    floor = book[FLOOR]
    if book[STEERING] != FIXED:
        eagerness, low, last, due = pace(book)
        book[EAGERNESS] = eagerness
        sigma *= eagerness
        if last:
            floor = min(floor, LAST_AUDIT * book[RATE])
        if due:
            sigma, floor = 0.0, 1.0
        elif book[STEERING] == UNIFORM or low or book[SCALE] == 0.0:  # zeros are alike, and would all be asked for
            sigma, floor = 0.0, max(floor, min(1.0, book[SHARE] * eagerness))
    book[SIGMA] = sigma if reason == ALLOWED else 0.0
    book[LEAST] = floor if reason == ALLOWED else 0.0
    book[REASON] = reason


def terms(book: Array) -> tuple[float, float, int]:
    """sigma and floor of the next query, and why it is withheld: then both are 0, and the reason is not.

    >>> book = open_book(budget(rate=0.5), sigma=1.0, query="margin")
    >>> WITHHELD[terms(book)[2]]
    'rate'
    >>> enter(book, margin=1.0, probability=0.0, query=False)
    >>> terms(book)
    (0.0, 0.125, 0)
    """
    return float(book[SIGMA]), float(book[LEAST]), int(book[REASON])


def enter(book: Array, margin: float, probability: float, query: bool) -> None:
    """Write a round into the book: its margin, and whether its label was asked for, with this probability.

    The steering does not use the probability but what the margin is worth, which withheld rounds know too.
    """
    if book[STEERING] == MARGIN and margin < math.inf:
        steer(book, margin)
    asked = 1.0 if query else 0.0
    book[ROUNDS] += 1.0
    book[ASKED] += asked
    book[SPARED] += book[FULL] - book[SHARE]
    if book[WINDOW] > 0.0:
        most = WINDOW_OVERDUE * reserve(book[EARNED]) + 1.0  # what a full window withholds is not owed for ever
        book[BACKLOG] = min(book[BACKLOG] + book[SHARE], most) - asked
        place = int(book[NEXT])
        following = place + 1 if place + 1.0 < book[WINDOW] else 0
        book[RING + place] = asked
        book[RECENT] += asked - book[RING + following]  # the oldest round leaves before the next one comes
        book[NEXT] = following
    announce(book)


def steer(book: Array, margin: float) -> None:
    """Move log base by GAIN * (the share wanted of this round - what its margin was worth)."""
    share = book[SHARE]
    book[SCALE] += max(share / MEMORY, 1.0 / (book[ROUNDS] + 1.0)) * (margin - book[SCALE])
    scale = book[SCALE]
    if scale == 0.0:
        return  # zeros alone say nothing about sigma
    eagerness = book[EAGERNESS]
    sigma = book[BASE] * eagerness
    worth = max(book[FLOOR], sigma / (sigma + margin)) if margin > 0.0 else 1.0
    half = 0.5 * GAIN * (min(1.0, share * eagerness) - worth)
    moved = book[BASE] * (1.0 + half) / (1.0 - half)  # exp(2 half) to 0.3 %, and the same on every machine
    book[BASE] = min(max(moved, LEAST_BASE * scale), MOST_BASE * scale)


def asked(book: Array) -> int:
    """The labels asked for so far."""
    return int(book[ASKED])


def left(book: Array) -> float:
    """The labels that may be asked for by now: inf without a budget, 0 where the next query is withheld.

    >>> left(open_book(budget(rate=0.1, window=100, max_labels=25), sigma=1.0, query="margin"))
    10.0
    """
    free = math.inf
    if book[WINDOW] > 0.0:
        free = book[PLACES] - book[RECENT]
    elif book[RATE] > 0.0:
        free = earned(book[RATE], book[ROUNDS] + 1.0) - book[ASKED]
    return float(min(free, book[MAX_LABELS] - book[ASKED]))


def sigma(book: Array) -> float:
    """The sigma that the next query is steered to, 0 where queries are not by the margin.

    >>> sigma(open_book(budget(), sigma=0.35, query="margin"))
    0.35
    """
    return float(book[BASE] * book[EAGERNESS])
