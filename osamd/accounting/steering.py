"""Steering: moves sigma from round to round, so that a budget is spent and never exceeded.

`enter` writes a round into the book and sets the terms of the next one. These terms do not depend on the next sample,
so the probability of every query is known. They depend on the *backlog*: the labels earned and not yet spent. Over the
whole stream the backlog is rate * t - asked. In a window, labels come in at the rate of the window less a slack: some
places are left free (4 %, or 4).

- The *floor* is the audit: while the budget allows a query, its probability is at least the floor, whatever the margin.
- The steering aims at a *reserve*, so that rounds are seldom withheld: 4 % of the labels earned, between 1 and 10.
- *eagerness* = (backlog / reserve)^4, from 1/4 to 50, says how much of its share a round should ask for.
- sigma = base * eagerness falls smoothly as labels run out. After every round, asked or not, log base moves by
  0.3 * (rate * eagerness - p), where p is the probability that the margin deserves,
  max(floor, sigma / (sigma + margin)).
- Where the backlog is low (below 3/4 of the reserve and 2 labels) queries are uniform, with probability
  rate * eagerness or the floor. So a sigma that is far too large cannot use up the labels that keep rounds from being
  blind.
- Above 4.8 % of the labels earned (or 2 labels) the next query is certain. So the budget is spent, on every stream.
- With a *target* for the accuracy the steering may aim below the rate (`osamd.accounting.target`). Labels that are
  spared are not owed.

The file is long because each constant carries its derivation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osamd.accounting.book import (
    ALLOWED,
    ASKED,
    BACKLOG,
    BASE,
    EAGERNESS,
    EARNED,
    FIXED,
    FLOOR,
    FULL,
    FULL_FLOOR,
    HASTE,
    LEAST,
    MARGIN,
    MAX_LABELS,
    NEXT,
    PLACES,
    QUERIES,
    RATE,
    REASON,
    RECENT,
    RING,
    ROUNDS,
    SCALE,
    SHARE,
    SIGMA,
    SPARED,
    STEERING,
    TARGET,
    UNIFORM,
    WINDOW,
    withheld,
)
from osamd.accounting.budget import LAST_AUDIT, LEAST_EAGERNESS, MOST_AUDIT, Budget, earned
from osamd.errors import InputError, lookup, require_kind, require_positive, require_rate
from osamd.numerics import Array

RESERVE, LEAST_RESERVE, MOST_RESERVE = 0.04, 1.0, 10.0
"""4 % of 100 labels is within the promise of 5 %. The audit goes on below the reserve, so labels are drawn at random at
half the rate at which they are earned. From 3 labels the backlog falls below 1 with a probability of about 7 %, from 2
labels with 20 % (ruin under unit claims at half the premium). With 3 % instead of 4 %, twice as many rounds were blind
at a rate of 1 %."""

LOW, MOST_LOW = 0.75, 2.0
"""The backlog below which queries are uniform: this part of the reserve, and at most this many labels. With 0.9 and 3,
half as many rounds are blind and intervals at 1 % are a tenth narrower. But fewer labels go to small margins, which
costs 0.6 points over tables at 5 % and 0.8 at 1 %."""

HASTY, HASTY_RESERVE, HASTY_OVERDUE = 20.0, 1.5, 2.5
"""For a model that starts from nothing: the number of first labels, the reserve until they are spent, and the backlog
at which a query is certain. On sixteen tables at 5 % this costs 0.3 points beside a reserve that grows with the labels
from 1 on, which withholds a fifth of 3,000 rounds; this one withholds 6 %. With 10 labels it would withhold 4 % and
cost another 0.3 points."""

OVERDUE, LEAST_OVERDUE = 0.048, 2.0
"""The backlog above which a query is certain, as a part of the labels earned: less than 5 % is ever left unspent."""

WINDOW_OVERDUE = 2.5
"""The same for a window, as a multiple of the reserve. A window's backlog is not lost, so this only ends droughts."""

SETTLED_ROUNDS, SETTLED = 10_000.0, 150.0
"""The promise to spend the budget starts at this many rounds, or at this many labels earned if that comes first. Until
then the reserve has the size of that point, since a smaller one would withhold many of the first rounds."""

SLACK, MOST_SLACK = 0.04, 4.0
"""The part of a window's places that is left free. A window gives back its places as unevenly as they were taken, so a
window filled to the last place stays full for most rounds. Counts that stray by one from a steady rate need about two
places."""

MOST_EAGERNESS = 50.0

GAIN = 0.3
"""The gain of the steps of log base, which follows the margins within about three labels. Half this gain needs nearly
twice as many certain queries after margins rise. Twice this gain follows the swings of correlated margins, and then
asks less in the hard stretches."""

MEMORY = 5.0
"""The number of labels over which SCALE averages."""

LEAST_BASE, MOST_BASE = 1e-9, 1e6
"""The base stays between these multiples of SCALE, so that it soon recovers from margins that no sigma can handle. The
default learner takes margins to the power 8, and all margins below 0.075 then count alike. With 1e-24 it asked only for
the closest ties, and its accuracy on tables of ten classes was 2 to 4 points lower."""


def open_book(budget: Budget, sigma: float, query: str, label_rate: float | None = None) -> Array:
    """The book of a budget before the first round, for one kind of query.

    "margin": the steering starts at sigma; without a rate, sigma stays as it is. "uniform": the probability is steered;
    without a rate it is `label_rate`. "always": the probability is 1 whenever the budget allows a query.

    >>> from osamd.accounting.book import WITHHELD, terms
    >>> from osamd.accounting.budget import budget
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


def allow(book: Array, labels: float) -> None:
    """Let the book ask for at most this many labels: what is left of `max_labels` when an earlier book has spent some.

    >>> from osamd.accounting.book import WITHHELD, terms
    >>> from osamd.accounting.budget import budget
    >>> book = open_book(budget(max_labels=9), sigma=1.0, query="margin")
    >>> allow(book, 0)
    >>> WITHHELD[terms(book)[2]]
    'max_labels'
    """
    book[MAX_LABELS] = max(0.0, labels)
    announce(book)


def hasten(book: Array, *, on: bool) -> None:
    """Spend the first HASTY labels as they are earned, for a model that starts from nothing; on=False saves as usual.

    It applies to budgets over the whole stream only. In return, more of the first rounds are withheld.

    >>> from osamd.accounting.book import terms
    >>> from osamd.accounting.budget import budget
    >>> book = open_book(budget(rate=0.05), sigma=1.0, query="margin")
    >>> hasten(book, on=True)
    >>> for _ in range(50):
    ...     enter(book, margin=0.5, probability=0.0, query=False)
    >>> terms(book)  # two and a half labels have been earned, so the next query is certain
    (0.0, 1.0, 0)
    """
    book[HASTE] = HASTY if on else 0.0
    announce(book)


def spend(book: Array, share: float) -> None:
    """Steer to this rate from now on, or to the rate of the budget if that is lower.

    Below the rate of the budget, nearly all queries are audit. The labels of small margins are the ones spared, so the
    accuracy is known from as few labels as possible.

    >>> from osamd.accounting.budget import budget
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


def settled(rate: float) -> float:
    """The least number of labels that the reserve is a part of."""
    return min(rate * SETTLED_ROUNDS, SETTLED)


def reserve(labels: float) -> float:
    """The backlog to aim at when this many labels have been earned."""
    return min(max(RESERVE * labels, LEAST_RESERVE), MOST_RESERVE)


def slack(places: float) -> float:
    """The places of a window that are left free."""
    return min(SLACK * places, MOST_SLACK)


class Pace(NamedTuple):
    """How readily the next round asks."""

    eagerness: float
    low: bool
    """Whether the backlog is so low that queries are uniform."""
    last: bool
    """Whether fewer than two labels are in hand, so that the audit saves too."""
    due: bool
    """Whether the backlog is so high that the query is certain."""


def pace(book: Array) -> Pace:
    """The pace of the next round, from the backlog."""
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
    return Pace(eagerness, low or backlog < min(LOW * aim, MOST_LOW), free < 2.0, due)


def announce(book: Array) -> None:
    """Write the terms of the next round."""
    reason = withheld(book)
    sigma = book[BASE]
    floor = book[FLOOR]
    if book[STEERING] != FIXED:
        found = pace(book)
        book[EAGERNESS] = found.eagerness
        sigma *= found.eagerness
        if found.last:
            floor = min(floor, LAST_AUDIT * book[RATE])
        if found.due:
            sigma, floor = 0.0, 1.0
        elif book[STEERING] == UNIFORM or found.low or book[SCALE] == 0.0:  # zeros are all alike: it would ask for each
            sigma, floor = 0.0, max(floor, min(1.0, book[SHARE] * found.eagerness))
    book[SIGMA] = sigma if reason == ALLOWED else 0.0
    book[LEAST] = floor if reason == ALLOWED else 0.0
    book[REASON] = reason


def enter(book: Array, margin: float, probability: float, query: bool) -> None:
    """Write a round into the book: its margin, and whether its label was asked for, with this probability.

    The steering does not use the probability itself. It uses the one that the margin deserves, which is known for
    withheld rounds too.
    """
    if book[STEERING] == MARGIN and margin < math.inf:
        steer(book, margin)
    asked = 1.0 if query else 0.0
    book[ROUNDS] += 1.0
    book[ASKED] += asked
    book[SPARED] += book[FULL] - book[SHARE]
    if book[WINDOW] > 0.0:
        most = WINDOW_OVERDUE * reserve(book[EARNED]) + 1.0  # what a full window withheld is not owed forever
        book[BACKLOG] = min(book[BACKLOG] + book[SHARE], most) - asked
        place = int(book[NEXT])
        following = place + 1 if place + 1.0 < book[WINDOW] else 0
        book[RING + place] = asked
        book[RECENT] += asked - book[RING + following]  # the oldest round leaves before the next one comes
        book[NEXT] = following
    announce(book)


def steer(book: Array, margin: float) -> None:
    """Move log base by GAIN * (the share wanted in this round - the probability that its margin deserves)."""
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
