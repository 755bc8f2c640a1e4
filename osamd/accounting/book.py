"""The book of a budget: one vector of numbers, saved as it is and compiled.

A round reads it once and writes it once:

    sigma, floor, reason = terms(book)           before the sample is seen: what `query_probability` takes
    enter(book, margin, probability, query)      after the query is drawn (`osamd.accounting.steering`)
"""

from __future__ import annotations

import math
from typing import NamedTuple

from osamd.accounting.budget import earned
from osamd.numerics import Array

WITHHELD = ("", "rate", "window", "max_labels")
"""The names of the reasons that `terms` gives for withholding a query; the first says that it is not withheld."""
ALLOWED, BY_RATE, BY_WINDOW, BY_COUNT = range(4)

STEERING = 0
"""The first place in the book, for the kind of steering: FIXED, MARGIN or UNIFORM."""
RATE = 1
"""The rate as the user gave it; 0 for none."""
SHARE = 2
"""The rate that is steered to: FULL, or less where a target for the accuracy needs less."""
WINDOW = 3
"""The number of rounds in the window; 0 for the whole stream."""
PLACES = 4
"""The largest number of labels in a window."""
MAX_LABELS = 5
FLOOR = 6
"""The least probability of a query that the budget allows; it falls with SHARE."""
EARNED = 7
"""The number of labels that the reserve is a part of: those of a window, or over the whole stream at least this many
(`osamd.accounting.steering.settled`)."""
BASE = 8
"""sigma where eagerness is 1."""
SCALE = 9
"""The running mean of the margins."""
ROUNDS = 10
ASKED = 11
RECENT = 12
"""The labels asked for in the last WINDOW - 1 rounds."""
BACKLOG = 13
"""The backlog of a window."""
NEXT = 14
"""Where in the ring the next round is written."""
EAGERNESS, SIGMA, LEAST, REASON = 15, 16, 17, 18
"""For the next round; the last three are its terms."""
FULL, FULL_FLOOR = 19, 20
"""The rate that is steered to when nothing is spared, and its floor."""
SPARED = 21
"""Over the whole stream, the labels earned that were not needed, and are not owed."""
TARGET = 22
"""The accuracy to keep with as few labels as possible; 0 for none."""
HASTE = 23
"""How many of the first labels are spent as they are earned."""
RING = 24
"""From here on, whether each of the last WINDOW rounds asked."""

FIXED, MARGIN, UNIFORM = 0.0, 1.0, 2.0
QUERIES = {"margin": MARGIN, "uniform": UNIFORM, "always": FIXED}


class Counted(NamedTuple):
    """The rounds and labels that a book counts."""

    rounds: int
    asked: int


def terms(book: Array) -> tuple[float, float, int]:
    """sigma and floor of the next query, and an index of `WITHHELD`; if the query is withheld, both numbers are 0.

    >>> from osamd.accounting.budget import budget
    >>> from osamd.accounting.steering import enter, open_book
    >>> book = open_book(budget(rate=0.5), sigma=1.0, query="margin")
    >>> WITHHELD[terms(book)[2]]
    'rate'
    >>> enter(book, margin=1.0, probability=0.0, query=False)
    >>> terms(book)
    (0.0, 0.125, 0)
    """
    return float(book[SIGMA]), float(book[LEAST]), int(book[REASON])


def withheld(book: Array) -> int:
    """Why no label may be asked for in the next round: an index of `WITHHELD`, 0 where one may."""
    if book[ASKED] >= book[MAX_LABELS]:
        return BY_COUNT
    if book[WINDOW] > 0.0:
        return BY_WINDOW if book[RECENT] >= book[PLACES] else ALLOWED
    if book[RATE] > 0.0 and book[ASKED] >= earned(book[RATE], book[ROUNDS] + 1.0):
        return BY_RATE
    return ALLOWED


def asked(book: Array) -> int:
    """The labels asked for so far."""
    return int(book[ASKED])


def left(book: Array) -> float:
    """How many labels may be asked for now: inf without a budget, 0 where the next query is withheld.

    >>> from osamd.accounting.budget import budget
    >>> from osamd.accounting.steering import open_book
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
    """The sigma that the next query is steered to; 0 where queries do not depend on the margin.

    >>> from osamd.accounting.budget import budget
    >>> from osamd.accounting.steering import open_book
    >>> sigma(open_book(budget(), sigma=0.35, query="margin"))
    0.35
    """
    return float(book[BASE] * book[EAGERNESS])
