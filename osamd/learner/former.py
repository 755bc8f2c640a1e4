"""Restores saved books and meters: as they are, or translated from an earlier layout."""

from __future__ import annotations

import math

import numpy as np

from osamd.accounting import book as books
from osamd.accounting import meter, steering
from osamd.accounting.meter import BINS
from osamd.accounting.sound_books import check_meter, settle_book
from osamd.checks import require_finite_in, require_that, require_within
from osamd.errors import reject
from osamd.numerics import Array

BOOK_RING = 19
"""Where the ring of a book began, before books held targets and haste."""
METER_RINGS, METER_RING_COUNT = 18 + 6 * BINS, 8
"""Where the rings of a meter began, before it held sources, disagreement and weights per bin, and how many it had."""
PLAIN = {meter.ROUNDS: 2, meter.ASKED: 3, meter.TOLD: 4, meter.BLIND: 5, meter.MARGINS: 9}
"""Where an earlier meter held the same number."""
SEEN, INVERSE, INVERSE_2, LABELS, WRONG = range(18, 18 + 5 * BINS, BINS)
"""The blocks of an earlier meter."""
RINGS = {meter.ROUND: 0, meter.MARGIN: 1, meter.PROBABILITY: 2, meter.DECISION: 4, meter.BIN: 5, meter.LABEL: 6}
"""The rings of an earlier meter, except the last."""
MISTAUGHT = 7


def take_up_book(book: Array, saved: Array) -> None:
    """Continue a saved book in one that was just opened."""
    former = len(saved) == BOOK_RING + int(book[books.WINDOW])
    if (len(saved) != len(book) and not former) or saved[books.WINDOW] != book[books.WINDOW]:
        raise reject("load", "book", f"{len(saved)} numbers", "it is not a book of this budget; the file is damaged.")
    opened = book.copy()
    if not former:
        book[:] = saved
        settle_book(book, opened)
        return
    book[:BOOK_RING], book[books.RING :] = saved[:BOOK_RING], saved[BOOK_RING:]
    book[books.FULL], book[books.FULL_FLOOR] = book[books.SHARE], book[books.FLOOR]
    if book[books.RATE] > 0.0 and book[books.WINDOW] == 0.0:
        hasty = book[books.EARNED] == 0.0  # how earlier books marked it
        book[books.EARNED] = steering.settled(book[books.RATE])
        steering.hasten(book, on=hasty)
    settle_book(book, opened)


def take_up_meter(fresh: Array, saved: Array) -> None:
    """Continue a saved meter in one that was just opened.

    Earlier meters counted the labels of a bin without their weights. For those, the sums of 1 / p, 1 / p^2 and 1 / p^3
    over the labels are set to their expectations: the sums of 1, 1 / p and 1 / p^2 over the rounds of the bin, times
    the share of queries that were answered.
    """
    window = int(fresh[meter.WINDOW])
    former = len(saved) == METER_RINGS + METER_RING_COUNT * window
    if (len(saved) != len(fresh) and not former) or not np.array_equal(saved[: meter.ROUNDS], fresh[: meter.ROUNDS]):
        rule = f"it is not a meter of {int(fresh[meter.CLASSES])} classes and {window} rounds; the file is damaged."
        raise reject("load", "meter", f"{len(saved)} numbers", rule)
    if not former:
        check_meter(saved)
        fresh[:] = saved
        return
    require_finite_in("meter", saved)
    require_within("the sums of meter", saved[:METER_RINGS], 0.0, math.inf)
    _check_former_rings(saved[METER_RINGS:].reshape(METER_RING_COUNT, window), int(fresh[meter.CLASSES]))
    for new, old in PLAIN.items():
        fresh[new] = saved[old]
    fresh[meter.SEEN : meter.LABELS] = saved[SEEN:LABELS]
    told, wrong = saved[LABELS:WRONG], saved[WRONG : WRONG + BINS]
    errors, answered = wrong / np.maximum(told, 1.0), fresh[meter.TOLD] / max(fresh[meter.ASKED], 1.0)
    counted = told * fresh[meter.TOLD] / max(float(told.sum()), 1.0)  # each bin remembered only so many labels
    fresh[meter.LABELS : meter.WRONG], fresh[meter.WRONG : meter.RIGHT_WEIGHTS] = counted, errors * counted
    for j in range(3):
        sums = answered * np.where(told > 0.0, fresh[meter.SEEN + j * BINS : meter.SEEN + (j + 1) * BINS], 0.0)
        for block, share in ((meter.RIGHT_WEIGHTS, 1.0 - errors), (meter.WRONG_WEIGHTS, errors)):
            fresh[block + j * BINS : block + (j + 1) * BINS] = share * sums
    _take_up_rings(fresh, saved[METER_RINGS:].reshape(METER_RING_COUNT, window))
    check_meter(fresh)


def _check_former_rings(rings: Array, classes: int) -> None:
    """Check the numbers that serve as an index or divisor while an earlier meter is translated."""
    entered = rings[:, rings[RINGS[meter.ROUND]] >= 0.0]
    labels = entered[RINGS[meter.LABEL]]
    require_within("the labels of meter's rings", labels, meter.LOST, classes - 1, whole=True)
    told = entered[RINGS[meter.PROBABILITY], labels >= 0.0]
    require_that(told > 0.0, "meter's rings hold queries of probability 0")


def _take_up_rings(fresh: Array, former: Array) -> None:
    window = int(fresh[meter.WINDOW])
    rings = fresh[meter.RINGS : meter.RINGS + meter.RING_COUNT * window].reshape(meter.RING_COUNT, window)
    for new, old in RINGS.items():
        rings[new] = former[old]
    rings[meter.MISTAUGHT], rings[meter.SOURCE] = former[MISTAUGHT], meter.NO_SOURCE
    rings[meter.DISAGREEMENT] = rings[meter.BIN] >= meter.STEPS
    entered = rings[meter.ROUND] >= 0.0
    if entered.any():  # the rounds before the rings are lost
        fresh[meter.DISAGREED] = fresh[meter.ROUNDS] * rings[meter.DISAGREEMENT, entered].mean()
    for i in np.flatnonzero(entered & (rings[meter.LABEL] >= 0.0)):
        meter.remember(fresh, 1.0 / rings[meter.PROBABILITY, i], int(rings[meter.LABEL, i]))
    fresh[meter.EXPIRED] = np.sum(entered & (rings[meter.LABEL] == meter.LOST))
