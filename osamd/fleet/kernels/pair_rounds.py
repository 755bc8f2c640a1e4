"""Whole rounds of one pair of dense networks of the preset, without torch: `play_pair`.

It is written for several lanes, in ranks (`osamd.fleet.kernels.pair_roles`). One more thread decides, and writes its
books while the others go on. What every round reads and changes, but for the remembered samples, lies next to the
threads, and the code is kept short: it must fit there too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from osamd.accounting.book import terms
from osamd.fleet.kernels.pair_layers import (
    COLUMNS,
    LEARNING,
    STUDENT,
    STUDENTS,
    TEACHER,
    forward,
    pull_back,
)
from osamd.fleet.kernels.pair_memory import OwnNetworks, OwnNumbers, carry, networks_in, room_for
from osamd.fleet.kernels.pair_roles import decides, index, lane, meet, rank, sync, works
from osamd.fleet.kernels.stepping import KEEP, NOTHING
from osamd.fleet.pair import (
    BATCH,
    FEW,
    FITS,
    HEAD,
    LABELLED,
    LAST,
    PLACE,
    REPLAYS,
    ROUND,
    SELF,
    SOME,
    TARGET,
    account,
    direct,
    opine,
    replay,
)
from osamd.paper.scores import UNLABELLED
from osamd.preset.round import Opinion


def shares_into(shares: Any, room: Any, logits: int, ranks: int) -> None:
    """The probabilities of the student's average, teacher and source; the networks come in the order of `see`."""
    if lane() > 0:
        return
    classes = shares.shape[0] // 3
    for e in range(rank(), 3, ranks):
        row, at = (e + 1) % 3 * classes, logits + e * classes
        most = room[index(at)]
        for c in range(1, classes):
            most = max(most, room[index(at + c)])
        total = 0.0
        for c in range(classes):
            share = math.exp(float(room[index(at + c)]) - float(most))
            shares[index(row + c)] = share
            total += share
        for c in range(classes):
            shares[index(row + c)] /= total


def size_of(x: Any) -> float:
    """The root mean square of a sample."""
    total = 0.0
    for k in range(x.shape[0]):
        total += float(x[k]) * float(x[k])
    return math.sqrt(total / x.shape[0])


def store(x: Any, order: Any, samples: Any, labels: Any, room: Any, lanes: int, ranks: int) -> None:
    """Remember the sample as the orders say, and write the samples to learn from into `room`."""
    wide, fits = x.shape[0], order[FITS] > 0
    if rank() == 0:
        for k in range(lane(), wide, lanes):
            value = x[k] if fits else NOTHING
            if order[LABELLED] > 0:
                samples[order[PLACE], k] = value
            samples[order[LAST], k] = value
        if lane() == 0:
            if order[LABELLED] > 0:
                labels[order[PLACE]] = order[TARGET]
            labels[order[LAST]] = order[TARGET]
    sync()
    for column in range(rank(), COLUMNS, ranks):
        present = column % STUDENTS == 0
        taken = samples[0 if present else order[replayed_at(column)]]
        for k in range(lane(), wide, lanes):
            if not present:
                room[index(column * wide + k)] = taken[k]
            else:
                room[index(column * wide + k)] = x[k] if fits else NOTHING
    sync()


def replayed_at(column: int) -> int:
    """Where the orders hold the place of the sample in this column, which is not the present one."""
    return HEAD + column - (1 if column < STUDENTS else 2)


def lesson_of(order: Any, labels: Any, column: int) -> tuple[int, float]:
    """The class of the sample in a column, and the weight of its loss."""
    if column % STUDENTS == 0:
        y, weight = order[TARGET], 1.0 * order[LABELLED]
    else:
        y = labels[order[replayed_at(column)]]
        if BATCH < column < STUDENTS:
            weight = SELF / SOME
        else:
            weight = (1.0 / BATCH if column < STUDENTS else 1.0 / FEW) * order[REPLAYS]
    return y, weight if y >= 0 else 0.0


def slopes_into(
    order: Any, labels: Any, classes: int, room: Any, logits: int, slopes: int, lanes: int, ranks: int
) -> None:
    """The slopes of the weighted losses on the logits."""
    for column in range(lane() + rank() * lanes, COLUMNS, lanes * ranks):
        y, weight = lesson_of(order, labels, column)
        at, to = logits + column * classes, slopes + column * classes
        most, total = room[index(at)], NOTHING
        for c in range(1, classes):
            most = max(most, room[index(at + c)])
        for c in range(classes):
            share = math.exp(room[index(at + c)] - most)
            room[index(to + c)] = share
            total += share
        for c in range(classes):
            share = room[index(to + c)] / total
            room[index(to + c)] = np.float32(weight) * (share - np.float32(c == y))
    sync()


def grow(order: Any, grown: Any, lanes: int, ranks: int) -> None:
    """1 - KEEP^t after the steps t of student and teacher."""
    for e in range(lane() if rank() == ranks // 2 else LEARNING, LEARNING, lanes):
        grown[e] = -math.expm1(math.log(KEEP) * order[ROUND + e])


def see(x: Any, shares: Any, networks: Any, widths: Any, room: Any, lanes: int, ranks: int) -> None:
    """The first half of a round: what student's average, teacher and source say about the sample x."""
    wide = widths[0]
    for e in range(rank(), 3, ranks):
        for k in range(lane(), wide, lanes):
            room[index(e * wide + k)] = x[k]
    sync()
    logits = forward(networks, TEACHER, 3, 1, widths, room, lanes, ranks)
    shares_into(shares, room, logits, ranks)


def descend(
    x: Any,
    order: Any,
    networks: Any,
    squares: Any,
    samples: Any,
    labels: Any,
    rates: Any,
    widths: Any,
    room: Any,
    classes: int,
    lanes: int,
    ranks: int,
) -> None:
    """The second half, as the orders say: remember the sample if it has a label, and take a step."""
    grown, layers = room[:LEARNING], room[LEARNING:]
    grow(order, grown, lanes, ranks)
    store(x, order, samples, labels, layers, lanes, ranks)
    logits = forward(networks, STUDENT, COLUMNS, STUDENTS, widths, layers, lanes, ranks)
    slopes = logits + COLUMNS * classes
    slopes_into(order, labels, classes, layers, logits, slopes, lanes, ranks)
    pull_back(networks, squares, rates, widths, layers, logits, slopes, grown, lanes, ranks)


def play_round(
    x: Any,
    u: float,
    y: int,
    numbers: OwnNumbers,
    own: OwnNetworks,
    record: Any,
    samples: Any,
    labels: Any,
    widths: Any,
    lanes: int,
    ranks: int,
) -> None:
    """One round: between the halves all wait for the decision, but not for the books that follow from it."""
    arbiter, counts, book, work, shares, orders = numbers
    said, size = Opinion(0, 0, 0.0, False, 0.0), 0.0
    if decides():
        size = size_of(x)
    if works():
        see(x, shares, own.rows, widths, own.room, lanes, ranks)
    meet()
    if decides():
        for place in range(shares.shape[0]):
            work[place] = shares[place]  # which the next round may write before this one's books are done
        sigma, floor, _ = terms(book)
        said = opine(arbiter, counts, work, u, sigma, floor)
        direct(counts, (said.label, said.pseudolabel), y if said.query else UNLABELLED, size, orders)
    meet()
    if works():
        if rank() == ranks - 1:
            replay(counts, orders, lane(), lanes)  # `store` waits before it reads them
        descend(x, orders, own.rows, own.squares, samples, labels, own.rates, widths, own.room, shares.shape[0] // 3,
                lanes, ranks)  # fmt: skip
    if decides():
        account(arbiter, counts, book, work, said, y, record)


def play_pair(
    i: int,
    first: int,
    last: int,
    x: Any,
    u: Any,
    y: Any,
    arbiters: Any,
    counts: Any,
    books: Any,
    record: Any,
    networks: Any,
    squares: Any,
    samples: Any,
    labels: Any,
    rates: Any,
    widths: Any,
    numbers: Any,
    vector: Any,
    lanes: int,
    ranks: int,
) -> None:
    """The rounds first, ..., last - 1 of pair i, whose samples are x.

    It works in `numbers` and in the `vector`, which are its own: on a GPU the memory next to its threads.
    """
    pairs = counts.shape[0]
    own, _ = networks_in(vector, networks.shape[1], room_for(widths))
    for e in range(LEARNING):
        own.rates[e] = rates[i + e * pairs, 0]
    carry(i, arbiters, counts, books, networks, squares, numbers, own, False, lanes, ranks)
    for t in range(first, last):
        play_round(x[t], u[t, i], y[t, i], numbers, own, record[t, i], samples[i], labels[i], widths, lanes, ranks)
    meet()
    carry(i, arbiters, counts, books, networks, squares, numbers, own, True, lanes, ranks)
