"""Checks that saved books and meters can belong to a learner: sizes, counts, and what follows from them."""

from __future__ import annotations

import math

import numpy as np

from osamd.accounting import book as books
from osamd.accounting import budget, meter, steering
from osamd.accounting.meter import BINS
from osamd.checks import ROUNDING, require_finite_in, require_that, require_within, unsound
from osamd.numerics import Array

_GIVEN = {
    "steering": books.STEERING,
    "rate": books.RATE,
    "window": books.WINDOW,
    "places": books.PLACES,
    "max_labels": books.MAX_LABELS,
    "earned": books.EARNED,
    "full": books.FULL,
    "full_floor": books.FULL_FLOOR,
    "target": books.TARGET,
}
"""The numbers of a book that follow from the budget, and never change."""


def settle_book(book: Array, opened: Array) -> None:
    """Check a saved book against one just opened for the same budget, and compute the terms of its next round again."""
    for name, place in _GIVEN.items():
        if book[place] != opened[place]:
            raise unsound(f"book.{name} is {book[place]}, but by the budget it is {opened[place]}")
    rounds, most = book[books.ROUNDS], book[books.MAX_LABELS]
    require_within("book.rounds", rounds, 0, 2.0**53, whole=True)
    if book[books.RATE] > 0.0 and book[books.WINDOW] == 0.0:
        most = min(most, budget.earned(book[books.RATE], rounds) if rounds else 0.0)
    require_within("book.asked", book[books.ASKED], 0, min(most, rounds), whole=True)
    require_within("book.scale", book[books.SCALE], 0.0, 1e300)
    require_within("book.base", book[books.BASE], 0.0, 1e306)
    if book[books.STEERING] != books.MARGIN:
        require_that(book[books.BASE] == opened[books.BASE], "book.base moved where nothing is steered")
    require_within("book.spared", book[books.SPARED], -1.0, book[books.FULL] * (rounds + 1.0))
    require_that(book[books.HASTE] in (0.0, steering.HASTY), f"book.haste is {book[books.HASTE]}")
    _settle_share(book, opened)
    if book[books.WINDOW] > 0.0:
        _check_ring(book)
    book[books.EAGERNESS] = 1.0
    steering.announce(book)


def _settle_share(book: Array, opened: Array) -> None:
    """Check the share that is steered to, and set the floor that follows from it."""
    if book[books.TARGET] == 0.0:
        require_that(book[books.SHARE] == opened[books.SHARE], f"book.share is {book[books.SHARE]}")
        book[books.FLOOR] = opened[books.FLOOR]
        return
    require_within("book.share", book[books.SHARE], 1e-12, book[books.FULL])
    steering.spend(book, book[books.SHARE])


def _check_ring(book: Array) -> None:
    """Check the last rounds of a budget with a window."""
    ring, window, asked = book[books.RING :], book[books.WINDOW], book[books.ASKED]
    require_that((ring == 0.0) | (ring == 1.0), "book.ring holds other numbers than 0 and 1")
    require_that(book[books.NEXT] == book[books.ROUNDS] % window, f"book.next is {book[books.NEXT]}")
    recent = ring.sum() - ring[int(book[books.NEXT])]
    require_that(book[books.RECENT] == recent, f"book.recent is {book[books.RECENT]}, but the ring says {recent}")
    require_within("the labels of book.ring", ring.sum(), 0, min(book[books.PLACES], asked))
    most = steering.WINDOW_OVERDUE * steering.reserve(book[books.EARNED]) + 1.0
    require_within("book.backlog", book[books.BACKLOG], -book[books.PLACES] - 1.0, most)


def check_meter(found: Array) -> None:
    """Check the numbers of a saved meter, whose size, classes and window are known to match the learner."""
    require_finite_in("meter", found)
    rounds, asked = found[meter.ROUNDS], found[meter.ASKED]
    require_within("meter.rounds", rounds, 0, 2.0**53, whole=True)
    require_within("meter.asked", asked, 0, rounds, whole=True)
    require_within("meter.told", found[meter.TOLD], 0, asked, whole=True)
    require_within("meter.expired", found[meter.EXPIRED], 0, asked - found[meter.TOLD], whole=True)
    require_within("meter.blind", found[meter.BLIND], 0, rounds, whole=True)
    require_within("meter.margins", found[meter.MARGINS], 0.0, math.inf)
    require_within("meter.disagreed", found[meter.DISAGREED], 0.0, (1.0 + ROUNDING) * rounds)
    require_within("meter.unanswered", found[meter.UNANSWERED], 0, asked, whole=True)
    _check_sums(found)
    _check_gains(found)
    _check_rings(found)


def _check_sums(found: Array) -> None:
    """Check the blocks of the bins, and the labels remembered for the mix of the classes."""
    blocks = found[meter.SEEN : meter.RINGS]
    require_within("the sums of meter", blocks, 0.0, math.inf)
    seen, inverse, inverse_2, labels, wrong = blocks[: 5 * BINS].reshape(5, BINS)
    require_within("the rounds of meter's bins", seen.sum(), 0.0, found[meter.ROUNDS] - found[meter.BLIND])
    require_that(
        (inverse >= seen * (1.0 - ROUNDING)) & (inverse_2 >= inverse * (1.0 - ROUNDING)),
        "the sums of 1 / p in meter are below those of 1",
    )
    told = found[meter.TOLD]
    require_within("the labels of meter's bins", labels.sum(), 0.0, told * (1.0 + ROUNDING))
    require_that(wrong <= labels * (1.0 + ROUNDING), "meter counts more errors than labels")
    require_within("meter.recent", found[meter.RECENT], 0.0, min(told * (1.0 + ROUNDING), meter.MEMORY + 1.0))
    require_within("meter.recent_weight", found[meter.RECENT_WEIGHT], 0.0, math.inf)
    require_within("meter.recent_weight_2", found[meter.RECENT_WEIGHT_2], 0.0, math.inf)
    mix = found[len(found) - int(found[meter.CLASSES]) :]
    require_within("the mix of meter", mix, 0.0, found[meter.RECENT_WEIGHT] * (1.0 + ROUNDING))


def _check_gains(found: Array) -> None:
    """Check the sums about the source model."""
    sourced, asked, told, apart, inverse, inverse_2, apart_told = found[meter.SOURCED : meter.GAINS]
    require_within("meter.sourced", sourced, 0, found[meter.ROUNDS], whole=True)
    require_within("meter.sourced_asked", asked, 0, min(sourced, found[meter.ASKED]), whole=True)
    require_within("meter.sourced_told", told, 0, min(asked, found[meter.TOLD]), whole=True)
    require_within("meter.apart", apart, 0, sourced, whole=True)
    require_within("meter.apart_told", apart_told, 0, min(told, apart), whole=True)
    least = (1.0 - ROUNDING) * apart
    require_that(least <= inverse <= (1.0 + ROUNDING) * inverse_2, "the sums of 1 / p over rounds apart are too small")
    for name, place in (("gains", meter.GAINS), ("gains_2", meter.GAINS_2)):
        sums = found[place : place + 3]
        require_within(f"meter.{name}", sums[0], (1.0 - ROUNDING) * apart_told, math.inf)
        most = (1.0 + ROUNDING) * sums[0]
        require_within(f"meter.{name}", sums[1], -most, most)
        require_within(f"meter.{name}", sums[2], 0.0, most)


def _check_rings(found: Array) -> None:
    """Check the last rounds: their numbers follow from the count, and they hold valid classes, bins and shares."""
    classes, window = int(found[meter.CLASSES]), int(found[meter.WINDOW])
    rings = found[meter.RINGS : meter.RINGS + meter.RING_COUNT * window].reshape(meter.RING_COUNT, window)
    places, rounds = np.arange(window, dtype=np.float64), found[meter.ROUNDS]
    newest = places + window * np.floor((rounds - 1.0 - places) / window)
    require_that(rings[meter.ROUND] == np.where(newest >= 0.0, newest, -1.0), "the rounds of meter's rings are others")
    entered = rings[:, newest >= 0.0]
    require_within("the margins of meter's rings", entered[meter.MARGIN], 0.0, math.inf)
    require_within("the probabilities of meter's rings", entered[meter.PROBABILITY], 0.0, 1.0)
    require_within("the decisions of meter's rings", entered[meter.DECISION], 0, classes - 1, whole=True)
    require_within("the bins of meter's rings", entered[meter.BIN], 0, BINS - 1, whole=True)
    require_within("the labels of meter's rings", entered[meter.LABEL], meter.LOST, classes - 1, whole=True)
    require_within("the mistaught of meter's rings", entered[meter.MISTAUGHT], 0, 1, whole=True)
    require_within("the sources of meter's rings", entered[meter.SOURCE], meter.NO_SOURCE, classes - 1, whole=True)
    require_within("the disagreement of meter's rings", entered[meter.DISAGREEMENT], 0.0, 1.0 + ROUNDING)
    asked = entered[meter.LABEL] != meter.NOT_ASKED
    require_that(entered[meter.PROBABILITY, asked] > 0.0, "meter's rings hold queries of probability 0")
    require_within("the queries of meter's rings", asked.sum(), 0, found[meter.ASKED])
    told = entered[meter.LABEL] >= 0.0
    require_within("the labels of meter's rings", told.sum(), 0, found[meter.TOLD])
