"""The layers of a pair's dense networks: the scores of some samples, and the steps of all weights.

Lanes and ranks (`osamd.fleet.kernels.pair_roles`) share the two axes of every matrix.
"""

from __future__ import annotations

from typing import Any

from osamd.fleet.kernels.pair_roles import index, lane, rank, sync
from osamd.fleet.kernels.stepping import NOTHING, follow, step
from osamd.fleet.pair import BATCH, FEW, SOME

STUDENTS, TEACHERS = 1 + BATCH + SOME, 1 + FEW
"""The samples that student and teacher learn from in a round: the present one, and those that they replay."""
COLUMNS = STUDENTS + TEACHERS
"""The student's come first."""
STUDENT, TEACHER, SOURCE, AVERAGE = range(4)
NETWORKS, LEARNING = 4, 2
"""A pair has so many networks, one after the other in one vector, of which the first learn."""


def inner_two(a: Any, at: int, a_step: int, b: Any, start: int, b_step: int, apart: int, count: int) -> Any:
    """sum_k a[at + a_step k] b[start + b_step k], and the same for another part of b, which is so far `apart`.

    The two share what is read of a. Each is in four sums: a single one would wait for every addition.
    """
    s0, s1, s2, s3 = NOTHING, NOTHING, NOTHING, NOTHING
    r0, r1, r2, r3 = NOTHING, NOTHING, NOTHING, NOTHING
    i, j = at, start
    for _ in range(count // 4):
        a0, a1, a2, a3 = a[index(i)], a[index(i + a_step)], a[index(i + 2 * a_step)], a[index(i + 3 * a_step)]
        s0 += a0 * b[index(j)]
        s1 += a1 * b[index(j + b_step)]
        s2 += a2 * b[index(j + 2 * b_step)]
        s3 += a3 * b[index(j + 3 * b_step)]
        r0 += a0 * b[index(j + apart)]
        r1 += a1 * b[index(j + apart + b_step)]
        r2 += a2 * b[index(j + apart + 2 * b_step)]
        r3 += a3 * b[index(j + apart + 3 * b_step)]
        i, j = i + 4 * a_step, j + 4 * b_step
    s0, r0 = (s0 + s2) + (s1 + s3), (r0 + r2) + (r1 + r3)
    for _ in range(count % 4):
        s0 += a[index(i)] * b[index(j)]
        r0 += a[index(i)] * b[index(j + apart)]
        i, j = i + a_step, j + b_step
    return s0, r0


def two_columns(two: int, columns: int, per: int) -> tuple[int, int, int]:
    """The network of a pair of columns, the first of them, and how many there are: `forward` says whose they are."""
    twos = (per + 1) // 2
    network, within = two // twos, two % twos * 2
    column = network * per + within
    return network, column, min(per - within, min(columns - column, 2))


def twos_of(columns: int, per: int) -> int:
    """How many such pairs there are."""
    return columns // per * ((per + 1) // 2) + (columns % per + 1) // 2


def forward(networks: Any, first: int, columns: int, per: int, widths: Any, room: Any, lanes: int, ranks: int) -> int:
    """Fill the layers in `room`, whose first holds the inputs; returns where the last begins.

    A layer holds one column after another. The first `per` columns are for the network `first`, those after them for
    the next; the last network may have fewer.
    """
    size = networks.shape[0] // NETWORKS
    at, inputs = first * size, 0
    for layer in range(widths.shape[0] - 1):
        wide, out = widths[layer], widths[layer + 1]
        outputs, last = inputs + columns * wide, layer == widths.shape[0] - 2
        for two in range(rank(), twos_of(columns, per), ranks):
            network, column, held = two_columns(two, columns, per)
            weights, start = at + network * size, inputs + column * wide
            for unit in range(lane(), out, lanes):
                given, place = networks[index(weights + out * wide + unit)], outputs + column * out + unit
                one, other = inner_two(networks, weights + unit * wide, 1, room, start, 1, (held - 1) * wide, wide)
                room[index(place)] = one + given if last else max(one + given, NOTHING)
                if held > 1:
                    room[index(place + out)] = other + given if last else max(other + given, NOTHING)
        sync()
        at, inputs = at + out * wide + out, outputs
    return inputs


def pull_back(
    networks: Any,
    squares: Any,
    rates: Any,
    widths: Any,
    room: Any,
    last: int,
    slopes: int,
    grown: Any,
    lanes: int,
    ranks: int,
) -> None:
    """Step every layer, from the last to the first: the slopes on its inputs are taken before it moves."""
    size = networks.shape[0] // NETWORKS
    outputs, at = last, size
    for layer in range(widths.shape[0] - 2, -1, -1):
        wide, out = widths[layer], widths[layer + 1]
        at -= out * wide + out
        inputs, below = outputs - COLUMNS * wide, slopes + COLUMNS * out
        if layer > 0:
            for two in range(rank(), twos_of(COLUMNS, STUDENTS), ranks):
                network, column, held = two_columns(two, COLUMNS, STUDENTS)
                weights, start = at + network * size, slopes + column * out
                for unit in range(lane(), wide, lanes):
                    place = column * wide + unit
                    one, other = inner_two(networks, weights + unit, wide, room, start, 1, (held - 1) * out, out)
                    room[index(below + place)] = one if room[index(inputs + place)] > NOTHING else NOTHING
                    if held > 1:
                        place += wide
                        room[index(below + place)] = other if room[index(inputs + place)] > NOTHING else NOTHING
            sync()
        step_layer(networks, squares, rates, at, wide, out, room, inputs, slopes, grown, lanes, ranks)
        sync()
        outputs, slopes = inputs, below


def step_layer(
    networks: Any,
    squares: Any,
    rates: Any,
    at: int,
    wide: int,
    out: int,
    room: Any,
    inputs: int,
    slopes: int,
    grown: Any,
    lanes: int,
    ranks: int,
) -> None:
    """Step the layer whose weights begin at `at` in each network; a rank takes two rows of weights at a time."""
    twos = (out + 1) // 2
    for row in range(rank(), LEARNING * (twos + 1), ranks):
        which = 1 if row > twos else 0
        j, given, own = 2 * (row - which * (twos + 1)), slopes + which * STUDENTS * out, TEACHERS if which else STUDENTS
        rate, size = rates[which], grown[which]
        if j < out:
            held, taken = min(2, out - j), inputs + which * STUDENTS * wide
            for k in range(lane(), wide, lanes):
                place = at + j * wide + k
                one, other = inner_two(room, taken + k, wide, room, given + j, out, held - 1, own)
                move(networks, squares, which, place, one, rate, size)
                if held > 1:
                    move(networks, squares, which, place + wide, other, rate, size)
        else:
            for k in range(lane(), out, lanes):
                gradient = NOTHING
                for column in range(own):
                    gradient += room[index(given + column * out + k)]
                move(networks, squares, which, at + out * wide + k, gradient, rate, size)


def move(networks: Any, squares: Any, which: int, place: int, gradient: Any, rate: Any, grown: Any) -> None:
    """Step one parameter of student or teacher, and let the average follow the student's."""
    size = networks.shape[0] // NETWORKS
    step(networks, squares, index(which * size + place), gradient, rate, grown)
    if which == STUDENT:
        follow(networks[AVERAGE * size :], networks, index(place))
