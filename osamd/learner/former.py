"""Books and meters as they are saved: taken up as they are, or translated from how they were laid out formerly."""

from __future__ import annotations

import math

import numpy as np

from osamd.accounting import book as books
from osamd.accounting import meter, steering
from osamd.accounting.meter import BINS
from osamd.accounting.sound import check_meter, settle_book
from osamd.checks import require_finite_in, require_that, require_within
from osamd.errors import reject
from osamd.numerics import Array

BOOK_RING = 19
"""Where the ring of a book began, before books knew of targets and haste."""
METER_RINGS, METER_RING_COUNT = 18 + 6 * BINS, 8
"""The same of a meter, before it knew of sources, disagreement and weights by bins; then how many rings it had."""
PLAIN = {meter.ROUNDS: 2, meter.ASKED: 3, meter.TOLD: 4, meter.BLIND: 5, meter.MARGINS: 9}
"""Where a former meter held the same number."""
SEEN, INVERSE, INVERSE_2, LABELS, WRONG = range(18, 18 + 5 * BINS, BINS)
"""Its blocks."""
RINGS = {meter.ROUND: 0, meter.MARGIN: 1, meter.PROBABILITY: 2, meter.DECISION: 4, meter.BIN: 5, meter.LABEL: 6}
"""Its rings, but for the last."""
MISTAUGHT = 7


def take_up_book(book: Array, saved: Array) -> None:
    """Let a book just opened go on from a saved one."""
    former = len(saved) == BOOK_RING + int(book[books.WINDOW])
    if (len(saved) != len(book) and not former) or saved[books.WINDOW] != book[books.WINDOW]:
        raise reject("load", "book", f"{len(saved)} numbers", "it is no book of this budget; the file is damaged.")
    opened = book.copy()
    if not former:
        book[:] = saved
        settle_book(book, opened)
        return
    book[:BOOK_RING], book[books.RING :] = saved[:BOOK_RING], saved[BOOK_RING:]
    book[books.FULL], book[books.FULL_FLOOR] = book[books.SHARE], book[books.FLOOR]
    if book[books.RATE] > 0.0 and book[books.WINDOW] == 0.0:
        hasty = book[books.EARNED] == 0.0  # as it was written then
        book[books.EARNED] = steering.settled(book[books.RATE])
        steering.hasten(book, on=hasty)
    settle_book(book, opened)


def take_up_meter(fresh: Array, saved: Array) -> None:
    """Let a meter just opened go on from a saved one.

    Formerly the labels of a bin were counted without their weights. The sums of 1 / p, 1 / p^2 and 1 / p^3 over the
    labels told are then taken to be what they are in the mean: the sums over its rounds of 1, 1 / p and 1 / p^2, times
    the share of queries that were answered.
    """
    window = int(fresh[meter.WINDOW])
    former = len(saved) == METER_RINGS + METER_RING_COUNT * window
    if (len(saved) != len(fresh) and not former) or not np.array_equal(saved[: meter.ROUNDS], fresh[: meter.ROUNDS]):
        rule = f"it is no meter of {int(fresh[meter.CLASSES])} classes and {window} rounds; the file is damaged."
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
    counted = told * fresh[meter.TOLD] / max(float(told.sum()), 1.0)  # each bin remembered so many labels alone
    fresh[meter.LABELS : meter.WRONG], fresh[meter.WRONG : meter.RIGHT_WEIGHTS] = counted, errors * counted
    for j in range(3):
        sums = answered * np.where(told > 0.0, fresh[meter.SEEN + j * BINS : meter.SEEN + (j + 1) * BINS], 0.0)
        for block, share in ((meter.RIGHT_WEIGHTS, 1.0 - errors), (meter.WRONG_WEIGHTS, errors)):
            fresh[block + j * BINS : block + (j + 1) * BINS] = share * sums
    _take_up_rings(fresh, saved[METER_RINGS:].reshape(METER_RING_COUNT, window))
    check_meter(fresh)


def _check_former_rings(rings: Array, classes: int) -> None:
    """What is used as an index or divisor while a former meter is translated."""
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
    if entered.any():  # what was before the rings is gone
        fresh[meter.DISAGREED] = fresh[meter.ROUNDS] * rings[meter.DISAGREEMENT, entered].mean()
    for i in np.flatnonzero(entered & (rings[meter.LABEL] >= 0.0)):
        meter.remember(fresh, 1.0 / rings[meter.PROBABILITY, i], int(rings[meter.LABEL, i]))
    fresh[meter.EXPIRED] = np.sum(entered & (rings[meter.LABEL] == meter.LOST))
