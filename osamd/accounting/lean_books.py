"""Book and meter as few bytes.

The book is packed exactly. The rings of the meter are for reports alone, so each round is packed into some 21 bits:
what is counted exactly (decision, bin, label, source), and numbers in the `PRECISION` below. Packing what was unpacked
gives the same bytes. Where a target for the accuracy steers by the probabilities, these are packed exactly too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osamd.accounting import meter as at_meter
from osamd.accounting.book import NEXT, RING, TARGET, WINDOW
from osamd.accounting.few_bytes import BAD, put_numbers, put_whole, take_numbers
from osamd.accounting.meter import BINS, LOST, NO_SOURCE, NOT_ASKED, PENDING, RING_COUNT, RINGS, STEPS
from osamd.numerics import Array

ASKED_BITS, BIN_BITS, PROBABILITY_BITS, FINE_BITS, MARGIN_BITS, DISAGREEMENT_BITS = 1, 4, 6, 4, 8, 8
COARSE, FINE = 2, 6
"""How many bits of the mantissa of a probability are kept: of rounds that did not ask, and of those that asked."""
WIDE, NARROW = 2, 4
"""The same for margins: of any size, or of the default learner, whose margins are at most 1."""
WIDEST = 32
"""Wide margins lie below 2^WIDEST."""
CERTAIN = 2**PROBABILITY_BITS - 1
"""The code of probability 1; the codes below it are steps that reach down to 2^-15."""
MOST_MARGIN = 2**MARGIN_BITS - 1
PRECISION = {
    "asked": 2.0**-7,
    "not asked": 2.0**-3,
    "margin": 2.0**-3,
    "narrow margin": 2.0**-5,
    "disagreement": 1.0 / 510.0,
}
"""The largest relative error of probabilities (from 2^-15 on) and margins in the window; absolute for disagreement."""
_MANTISSA, _BIAS, _ONE = 52, 1023, 1023 << 52


def code_of(bits: Any, mantissa: int, top: int, most: int) -> Any:
    """A positive float, given by its bits, as one of the `most` steps that end at 2^top; 0 stays 0."""
    if bits <= 0:
        return 0
    code = (bits >> (_MANTISSA - mantissa)) - (((_BIAS + top) << mantissa) - 1 - most)
    return min(max(code, 1), most)


def bits_of(code: Any, mantissa: int, top: int, most: int) -> Any:
    """The bits of the float in the middle of a step."""
    if code == 0:
        return 0
    step = code + ((_BIAS + top) << mantissa) - 1 - most
    return (step << (_MANTISSA - mantissa)) + (1 << (_MANTISSA - 1 - mantissa))


def dissent_code(rings: Any, t: int) -> int:
    """The experts' disagreement in a round, in steps of 1 / 255."""
    return int(rings[at_meter.DISAGREEMENT, t] * 255.0 + 0.5)


def width_of(states: int) -> int:
    """How many bits tell so many states apart."""
    width = 1
    while (1 << width) < states:
        width += 1
    return width


def put_meter(out: Any, at: int, meter: Array, reference: Array, narrow: bool, exact: bool) -> int:
    """Pack a meter; `exact` keeps all digits of the probabilities in the window."""
    after = RINGS + RING_COUNT * int(meter[at_meter.WINDOW])
    at = put_numbers(out, at, meter[:RINGS], reference[:RINGS])
    at = put_numbers(out, at, meter[after:], reference[after:])
    return put_rings(out, at, meter, narrow, exact)


def put_rings(out: Any, at: int, meter: Array, narrow: bool, exact: bool) -> int:
    """Pack the last rounds, as a stream of bits, the lowest first. All of a round is in one place, so it is long."""
    classes, window = int(meter[at_meter.CLASSES]), int(meter[at_meter.WINDOW])
    after = RINGS + RING_COUNT * window
    rings = meter[RINGS:after].reshape((RING_COUNT, window))
    bits = meter[RINGS:after].view(np.int64).reshape((RING_COUNT, window))
    count = int(min(meter[at_meter.ROUNDS], window))
    sourced = dissenting = False
    for t in range(count):
        sourced = sourced or rings[at_meter.SOURCE, t] != NO_SOURCE
        dissenting = dissenting or dissent_code(rings, t) != (255 if rings[at_meter.BIN, t] >= STEPS else 0)
    at = put_whole(out, at, (1 if sourced else 0) + (2 if dissenting else 0), 1)
    mantissa, top = (NARROW, 0) if narrow else (WIDE, WIDEST)
    for_class, for_label, for_source = width_of(classes), width_of(classes + 2), width_of(classes + 1)
    held, filled = np.uint64(0), 0
    for t in range(count):
        label = rings[at_meter.LABEL, t]
        asked = label != NOT_ASKED
        where, p = int(rings[at_meter.BIN, t]), bits[at_meter.PROBABILITY, t]
        record, width = (1 if asked else 0) | (where << ASKED_BITS), ASKED_BITS + BIN_BITS
        record |= int(rings[at_meter.DECISION, t]) << width
        width += for_class
        if sourced:
            record |= int(rings[at_meter.SOURCE, t] - NO_SOURCE) << width
            width += for_source
        held |= np.uint64(record) << np.uint64(filled)
        filled += width
        while filled >= 8:
            out[at] = np.uint8(held & np.uint64(255))
            held, filled, at = held >> np.uint64(8), filled - 8, at + 1
        record, width = CERTAIN, PROBABILITY_BITS
        if p < _ONE:
            record = code_of(p, COARSE, 0, CERTAIN - 1)
        record |= code_of(bits[at_meter.MARGIN, t], mantissa, top, MOST_MARGIN) << width
        width += MARGIN_BITS
        if dissenting:
            dissent = dissent_code(rings, t)
            given = dissent != (255 if where >= STEPS else 0)
            record |= (1 | (dissent << 1) if given else 0) << width
            width += 1 + DISAGREEMENT_BITS if given else 1
        if asked:
            told = label >= 0.0
            state = int(label) + 2 if told else 1 if label == PENDING else 0
            fine = (p >> (_MANTISSA - FINE)) & ((1 << FINE_BITS) - 1)
            record |= (fine | (state << FINE_BITS)) << width
            width += FINE_BITS + for_label
            if classes > 2:  # of two classes, one was wrong if the other was right
                record |= (1 if told and rings[at_meter.MISTAUGHT, t] != 0.0 else 0) << width
                width += 1
        held |= np.uint64(record) << np.uint64(filled)
        filled += width
        while filled >= 8:
            out[at] = np.uint8(held & np.uint64(255))
            held, filled, at = held >> np.uint64(8), filled - 8, at + 1
    if filled > 0:
        out[at] = np.uint8(held & np.uint64(255))
        at += 1
    if exact:
        at = put_numbers(out, at, rings[at_meter.PROBABILITY, :count], np.zeros(count))
    return at


def take_meter(data: Any, at: int, meter: Array, reference: Array, narrow: bool, exact: bool) -> int:
    """Unpack a meter into one of the same classes and window that has seen nothing."""
    classes, window = int(reference[at_meter.CLASSES]), int(reference[at_meter.WINDOW])
    after = RINGS + RING_COUNT * window
    at = take_numbers(data, at, meter[:RINGS], reference[:RINGS])
    at = take_numbers(data, at, meter[after:], reference[after:])
    rounds = meter[at_meter.ROUNDS]
    sized = meter[at_meter.CLASSES] == classes and meter[at_meter.WINDOW] == window
    if at < 0 or at >= data.shape[0] or not sized or not (0.0 <= rounds <= 2.0**53) or rounds != np.floor(rounds):
        return BAD
    return take_rings(data, at, meter, narrow, exact)


def take_rings(data: Any, at: int, meter: Array, narrow: bool, exact: bool) -> int:
    """Unpack the last rounds. It is long because it reads what `put_rings` writes, in the same order."""
    classes, window, rounds = int(meter[at_meter.CLASSES]), int(meter[at_meter.WINDOW]), meter[at_meter.ROUNDS]
    after = RINGS + RING_COUNT * window
    rings = meter[RINGS:after].reshape((RING_COUNT, window))
    bits = meter[RINGS:after].view(np.int64).reshape((RING_COUNT, window))
    count, sourced, dissenting = int(min(rounds, window)), (data[at] & 1) != 0, (data[at] & 2) != 0
    at += 1
    mantissa, top = (NARROW, 0) if narrow else (WIDE, WIDEST)
    for_class, for_label, for_source = width_of(classes), width_of(classes + 2), width_of(classes + 1)
    first = ASKED_BITS + BIN_BITS + for_class + (for_source if sourced else 0)
    held, filled = np.uint64(0), 0
    for t in range(count):
        while filled < first:
            if at >= data.shape[0]:
                return BAD
            held |= np.uint64(data[at]) << np.uint64(filled)
            at, filled = at + 1, filled + 8
        record = np.int64(held & np.uint64((1 << first) - 1))
        held, filled = held >> np.uint64(first), filled - first
        asked, where = record & 1, (record >> ASKED_BITS) & (BINS - 1)
        record >>= ASKED_BITS + BIN_BITS
        decision, source = record & ((1 << for_class) - 1), (record >> for_class) + NO_SOURCE if sourced else NO_SOURCE
        second = PROBABILITY_BITS + MARGIN_BITS + (1 if dissenting else 0)
        answer = FINE_BITS + for_label + (1 if classes > 2 else 0)
        most = second + DISAGREEMENT_BITS + answer
        while filled < most and at < data.shape[0]:
            held |= np.uint64(data[at]) << np.uint64(filled)
            at, filled = at + 1, filled + 8
        record = np.int64(held & np.uint64((1 << most) - 1))
        given = dissenting and ((record >> (second - 1)) & 1) != 0
        dissent = (record >> second) & 255 if given else 255 if where >= STEPS else 0
        shift = second + (DISAGREEMENT_BITS if given else 0)
        told = record >> shift
        shift += answer if asked else 0
        if shift > filled or decision >= classes or source >= classes:
            return BAD
        held, filled = held >> np.uint64(shift), filled - shift
        p = record & ((1 << PROBABILITY_BITS) - 1)
        margin = (record >> PROBABILITY_BITS) & ((1 << MARGIN_BITS) - 1)
        rings[at_meter.ROUND, t] = t + window * np.floor((rounds - 1.0 - t) / window)
        bits[at_meter.MARGIN, t] = bits_of(margin, mantissa, top, MOST_MARGIN)
        bits[at_meter.PROBABILITY, t] = bits_of(p, COARSE, 0, CERTAIN - 1)
        rings[at_meter.DECISION, t], rings[at_meter.BIN, t], rings[at_meter.SOURCE, t] = decision, where, source
        rings[at_meter.DISAGREEMENT, t] = dissent / 255.0
        rings[at_meter.LABEL, t], rings[at_meter.MISTAUGHT, t] = NOT_ASKED, 0.0
        if asked:
            fine, state = told & ((1 << FINE_BITS) - 1), (told >> FINE_BITS) & ((1 << for_label) - 1)
            if p == 0 or state >= classes + 2:
                return BAD
            step = (bits[at_meter.PROBABILITY, t] >> (_MANTISSA - COARSE) << FINE_BITS) + fine
            bits[at_meter.PROBABILITY, t] = (step << (_MANTISSA - FINE)) + (1 << (_MANTISSA - 1 - FINE))
            rings[at_meter.LABEL, t] = state - 2.0 if state >= 2 else PENDING if state == 1 else LOST
            pseudolabel = decision if where < STEPS else 1 - decision
            wrong = (told >> (FINE_BITS + for_label)) & 1 if classes > 2 else 1 if state - 2 != pseudolabel else 0
            rings[at_meter.MISTAUGHT, t] = wrong if state >= 2 else 0
        if p == CERTAIN:
            rings[at_meter.PROBABILITY, t] = 1.0
    at -= filled // 8  # bytes that were read ahead
    if exact:
        at = take_numbers(data, at, rings[at_meter.PROBABILITY, :count], np.zeros(count))
    return at


def put_book(out: Any, at: int, book: Array, reference: Array) -> int:
    """Pack a book: its numbers, then one bit for each round of its window."""
    at = put_numbers(out, at, book[:RING], reference[:RING])
    for first in range(RING, book.shape[0], 8):
        asked = 0
        for place in range(first, min(first + 8, book.shape[0])):
            asked |= (1 if book[place] != 0.0 else 0) << (place - first)
        at = put_whole(out, at, asked, 1)
    return at


def take_book(data: Any, at: int, book: Array, reference: Array) -> int:
    """Unpack a book into one of the same budget."""
    at = take_numbers(data, at, book[:RING], reference[:RING])
    window = int(book.shape[0]) - RING
    if at < 0 or at + (window + 7) // 8 > data.shape[0] or book[WINDOW] != window:
        return BAD
    if not (book[NEXT] == 0.0 or 0.0 < book[NEXT] < window):
        return BAD
    for k in range(window):
        book[RING + k] = float((np.int64(data[at + k // 8]) >> (k % 8)) & 1)
    return at + (window + 7) // 8


def put_accounts(out: Any, at: int, book: Array, opened: Array, meter: Array, empty: Array, narrow: bool) -> int:
    """Pack book and meter; where a target steers, the probabilities of the window exactly."""
    at = put_book(out, at, book, opened)
    return put_meter(out, at, meter, empty, narrow, opened[TARGET] > 0.0)


def take_accounts(data: Any, at: int, book: Array, opened: Array, meter: Array, empty: Array, narrow: bool) -> int:
    """Unpack book and meter."""
    at = take_book(data, at, book, opened)
    return BAD if at < 0 else take_meter(data, at, meter, empty, narrow, opened[TARGET] > 0.0)
