"""Pairs of dense networks: `play_pair` plays whole rounds of one pair of the preset, without torch.

It is written for several lanes, in ranks, that work together and wait for each other by `sync`. On a GPU a lane is a
thread, and one launch plays all rounds of all pairs (`by_pairs`). On the CPU there is one lane, which is still faster
than torch for small networks: torch spends its time between operations rather than in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from osamd.compiled.lowering import jit, lower
from osamd.fleet.dense import DenseNet
from osamd.fleet.fleet import Advance, Samples
from osamd.fleet.kernels import on_gpu
from osamd.fleet.kernels.stepping import KEEP, NOTHING, follow, step
from osamd.fleet.pair import (
    BATCH,
    FEW,
    FITS,
    HEAD,
    LABELLED,
    LAST,
    LESSON,
    PLACE,
    REPLAYS,
    ROUND,
    SOME,
    TARGET,
    decide_pair,
)
from osamd.fleet.preset_fleet import SELF, PresetFleet

STUDENTS, TEACHERS = 1 + BATCH + SOME, 1 + FEW
"""The samples that student and teacher learn from in a round: the present one, and those that they replay."""
COLUMNS = STUDENTS + TEACHERS
"""The student's come first."""
LANES, RANKS = 64, 8
"""How many there are on a GPU; there is one of each on the CPU."""
ROOM = 11_000
"""The most numbers that fit into the memory that the threads of a GPU share: its usual 48 kB, less some."""

Half = Callable[[Tensor], None]
"""A half of a round, for a batch that holds the sample."""


def lane() -> int:
    """Which of the lanes of its rank this is."""
    return 0


def rank() -> int:
    """Which of the ranks of lanes this is in; lanes and ranks share the two axes of a matrix."""
    return 0


def sync() -> None:
    """Wait for the other lanes."""


def inner(a: Any, at: int, a_step: int, b: Any, start: int, b_step: int, count: int) -> Any:
    """sum_k a[at + a_step k] b[start + b_step k], in four sums: a single one would wait for every addition."""
    s0, s1, s2, s3 = NOTHING, NOTHING, NOTHING, NOTHING
    whole = count // 4 * 4
    for k in range(0, whole, 4):
        i, j = at + a_step * k, start + b_step * k
        s0 += a[i] * b[j]
        s1 += a[i + a_step] * b[j + b_step]
        s2 += a[i + 2 * a_step] * b[j + 2 * b_step]
        s3 += a[i + 3 * a_step] * b[j + 3 * b_step]
    total = (s0 + s2) + (s1 + s3)
    for k in range(whole, count):
        total += a[at + a_step * k] * b[start + b_step * k]
    return total


def forward(
    networks: Any, first: int, apart: int, columns: int, per: int, widths: Any, room: Any, lanes: int, ranks: int
) -> int:
    """Fill the layers in `room`, whose first holds the inputs; returns where the last begins.

    A layer holds one column after another. The first `per` columns are for the network `first`, the next for first +
    apart, and so on; the last network may have fewer.
    """
    at, inputs = 0, 0
    for layer in range(widths.shape[0] - 1):
        wide, out = widths[layer], widths[layer + 1]
        outputs, biases = inputs + columns * wide, at + out * wide
        last = layer == widths.shape[0] - 2
        for column in range(lane(), columns, lanes):
            network, start = networks[first + column // per * apart], inputs + column * wide
            for unit in range(rank(), out, ranks):
                total = network[biases + unit] + inner(network, at + unit * wide, 1, room, start, 1, wide)
                room[outputs + column * out + unit] = total if last else max(total, NOTHING)
        sync()
        at, inputs = biases + out, outputs
    return inputs


def shares_into(shares: Any, pairs: int, i: int, room: Any, logits: int, ranks: int) -> None:
    """The probabilities of the student's average, teacher and source; the networks come in the order of `see`."""
    classes = shares.shape[1]
    for e in range(rank() if lane() == 0 else 3, 3, ranks):
        row, at = (e + 1) % 3 * pairs + i, logits + e * classes
        most = room[at]
        for c in range(1, classes):
            most = max(most, room[at + c])
        total = 0.0
        for c in range(classes):
            shares[row, c] = math.exp(float(room[at + c]) - float(most))
            total += shares[row, c]
        for c in range(classes):
            shares[row, c] /= total


def size_of(x: Any) -> float:
    """The root mean square of a sample."""
    total = 0.0
    for k in range(x.shape[0]):
        total += float(x[k]) * float(x[k])
    return math.sqrt(total / x.shape[0])


def store(i: int, x: Any, order: Any, samples: Any, labels: Any, room: Any, lanes: int, ranks: int) -> None:
    """Remember the sample as the orders say, and write the samples to learn from into `room`."""
    wide, fits = x.shape[0], order[FITS] > 0
    if rank() == 0:
        for k in range(lane(), wide, lanes):
            value = x[k] if fits else NOTHING
            if order[LABELLED] > 0:
                samples[i, order[PLACE], k] = value
            samples[i, order[LAST], k] = value
        if lane() == 0:
            if order[LABELLED] > 0:
                labels[i, order[PLACE]] = order[TARGET]
            labels[i, order[LAST]] = order[TARGET]
    sync()
    for column in range(rank(), COLUMNS, ranks):
        network, j = column // STUDENTS, column % STUDENTS
        taken = samples[i, 0 if j == 0 else order[HEAD + network * (BATCH + SOME) + j - 1]]
        for k in range(lane(), wide, lanes):
            if j > 0:
                room[column * wide + k] = taken[k]
            else:
                room[column * wide + k] = x[k] if fits else NOTHING
    sync()


def slopes_into(i: int, order: Any, labels: Any, classes: int, room: Any, logits: int, slopes: int, lanes: int) -> None:
    """The slopes of the weighted losses on the logits."""
    for column in range(lane() if rank() == 0 else COLUMNS, COLUMNS, lanes):
        network, j = column // STUDENTS, column % STUDENTS
        if j == 0:
            y, weight = order[TARGET], 1.0 * order[LABELLED]
        else:
            y = labels[i, order[HEAD + network * (BATCH + SOME) + j - 1]]
            if network == 1:
                weight = 1.0 / FEW * order[REPLAYS]
            elif j <= BATCH:
                weight = 1.0 / BATCH * order[REPLAYS]
            else:
                weight = SELF / SOME
        if y < 0:
            weight = 0.0
        at = logits + column * classes
        most = room[at]
        for c in range(1, classes):
            most = max(most, room[at + c])
        total = NOTHING
        for c in range(classes):
            total += math.exp(room[at + c] - most)
        for c in range(classes):
            share = math.exp(room[at + c] - most) / total
            room[slopes + column * classes + c] = np.float32(weight) * (share - np.float32(c == y))
    sync()


def pull_back(
    networks: Any,
    squares: Any,
    rates: Any,
    i: int,
    pairs: int,
    widths: Any,
    room: Any,
    last: int,
    slopes: int,
    order: Any,
    lanes: int,
    ranks: int,
) -> None:
    """Step every layer, from the last to the first: the slopes on its inputs are taken before it moves."""
    columns, outputs, at = COLUMNS, last, networks.shape[1]
    for layer in range(widths.shape[0] - 2, -1, -1):
        wide, out = widths[layer], widths[layer + 1]
        at -= out * wide + out
        inputs, below = outputs - columns * wide, slopes + columns * out
        if layer > 0:
            for column in range(lane(), columns, lanes):
                network, start = networks[i + column // STUDENTS * pairs], slopes + column * out
                for unit in range(rank(), wide, ranks):
                    value, place = NOTHING, column * wide + unit
                    if room[inputs + place] > NOTHING:
                        value = inner(network, at + unit, wide, room, start, 1, out)
                    room[below + place] = value
            sync()
        for which in range(2):
            row, start, own = i + which * pairs, which * STUDENTS, TEACHERS if which else STUDENTS
            grown = np.float32(-math.expm1(math.log(KEEP) * order[ROUND if which == 0 else LESSON]))
            for j in range(rank(), out, ranks):
                for k in range(lane(), wide + 1, lanes):
                    given = slopes + start * out + j
                    if k < wide:
                        gradient = inner(room, given, out, room, inputs + start * wide + k, wide, own)
                        place = at + j * wide + k
                    else:
                        gradient = NOTHING
                        for column in range(own):
                            gradient += room[given + column * out]
                        place = at + out * wide + j
                    step(networks[row], squares[row], place, gradient, rates[row, 0], grown)
                    if which == 0:
                        follow(networks[i + 3 * pairs], networks[row], place)
        sync()
        outputs, slopes = inputs, below


def see(i: int, pairs: int, x: Any, shares: Any, networks: Any, widths: Any, room: Any, lanes: int, ranks: int) -> None:
    """The first half of a round: what teacher, source and the student's average say about the sample x of pair i."""
    wide = widths[0]
    for e in range(rank(), 3, ranks):
        for k in range(lane(), wide, lanes):
            room[e * wide + k] = x[k]
    sync()
    logits = forward(networks, i + pairs, pairs, 3, 1, widths, room, lanes, ranks)
    shares_into(shares, pairs, i, room, logits, ranks)
    sync()


def descend(
    i: int,
    pairs: int,
    x: Any,
    order: Any,
    networks: Any,
    squares: Any,
    samples: Any,
    labels: Any,
    rates: Any,
    widths: Any,
    room: Any,
    lanes: int,
    ranks: int,
) -> None:
    """The second half, as the orders say: remember the sample if it has a label, and take a step."""
    classes = widths[widths.shape[0] - 1]
    store(i, x, order, samples, labels, room, lanes, ranks)
    logits = forward(networks, i, pairs, COLUMNS, STUDENTS, widths, room, lanes, ranks)
    slopes = logits + COLUMNS * classes
    slopes_into(i, order, labels, classes, room, logits, slopes, lanes)
    pull_back(networks, squares, rates, i, pairs, widths, room, logits, slopes, order, lanes, ranks)


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
    work: Any,
    orders: Any,
    record: Any,
    shares: Any,
    sizes: Any,
    networks: Any,
    squares: Any,
    samples: Any,
    labels: Any,
    rates: Any,
    widths: Any,
    room: Any,
    lanes: int,
    ranks: int,
) -> None:
    """The rounds first, ..., last - 1 of pair i, whose samples are x; `room` is its working space."""
    pairs = u.shape[1]
    for t in range(first, last):
        see(i, pairs, x[t], shares, networks, widths, room, lanes, ranks)
        if lane() == 0 and rank() == 0:
            sizes[i] = size_of(x[t])
            decide_pair(i, shares, sizes, u[t], y[t], arbiters, counts, books, work, orders, record[t])
        sync()
        descend(i, pairs, x[t], orders[i], networks, squares, samples, labels, rates, widths, room, lanes, ranks)


def room_for(widths: list[int]) -> int:
    """The numbers that a pair works in: the inputs and outputs of every layer, and the slopes on all but the inputs."""
    return COLUMNS * (sum(widths) + sum(widths[1:]))


def supports(fleet: PresetFleet) -> bool:
    """Whether `by_pairs` can play this fleet: small dense networks in float32 without a frozen part or augmentation."""
    net = fleet.net
    if type(net) is not DenseNet or fleet.dtype != torch.float32 or fleet.augmented is not None:
        return False
    return room_for(net.widths) <= ROOM


def tensors_of(fleet: PresetFleet, u: Tensor, y: Tensor, record: Tensor) -> list[Tensor]:
    """The arguments of `play_pair` from `u` to `rates`."""
    return [u, y, *fleet.numbers, fleet.work(), fleet.orders, record, fleet.shares, fleet.sizes, *networks_of(fleet)]


def networks_of(fleet: PresetFleet) -> list[Tensor]:
    """The arguments of `descend` from `networks` to `rates`."""
    state = fleet.state
    return [fleet.networks, state.squares, state.samples.flatten(2), state.labels, fleet.rates]


class OnCPU(NamedTuple):
    """The kernel for the CPU, where one lane plays."""

    play: Any
    see: Any
    descend: Any


@lru_cache
def compiled() -> OnCPU:
    lower(play_pair)

    def play(i: Any, first: Any, last: Any, x: Any, tensors: Any, widths: Any, room: Any) -> None:
        (u, y, arbiters, counts, books, work, orders, record, shares, sizes, networks, squares, samples, labels,
         rates) = tensors  # fmt: skip
        play_pair(
            i, first, last, x, u, y, arbiters, counts, books, work, orders, record, shares, sizes, networks, squares,
            samples, labels, rates, widths, room, 1, 1,
        )  # fmt: skip

    def see_one(x: Any, shares: Any, networks: Any, widths: Any, room: Any) -> float:
        see(0, 1, x, shares, networks, widths, room, 1, 1)
        return size_of(x)

    def descend_one(
        x: Any, order: Any, networks: Any, squares: Any, samples: Any, labels: Any, rates: Any, widths: Any, room: Any
    ) -> None:
        descend(0, 1, x, order, networks, squares, samples, labels, rates, widths, room, 1, 1)

    return OnCPU(jit(play), jit(see_one), jit(descend_one))


def by_lane(fleet: PresetFleet, samples: Samples, u: Tensor, y: Tensor, record: Tensor) -> Advance:
    """Play on the CPU, with one lane."""
    tensors = tuple(tensor.numpy() for tensor in tensors_of(fleet, u, y, record))
    x, play = samples.x.flatten(2).contiguous().numpy(), compiled().play
    widths, room = _room(fleet)

    def advance(first: int, last: int) -> None:
        for i, member in enumerate(fleet.members):
            play(i, first, last, x[member.stream], tensors, widths, room)

    return advance


def halves(fleet: PresetFleet) -> tuple[Half, Half]:
    """`fleet.see` and `fleet.descend` for a fleet of one pair on the CPU."""
    kernel, (widths, room) = compiled(), _room(fleet)
    shares, sizes, orders = fleet.shares.numpy(), fleet.sizes.numpy(), fleet.orders.numpy()
    networks = [tensor.numpy() for tensor in networks_of(fleet)]

    def first_half(x: Tensor) -> None:
        sizes[0] = kernel.see(x[0].flatten().numpy(), shares, networks[0], widths, room)

    def second_half(x: Tensor) -> None:
        kernel.descend(x[0].flatten().numpy(), orders[0], *networks, widths, room)

    return first_half, second_half


def _room(fleet: PresetFleet) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    assert isinstance(fleet.net, DenseNet)
    return np.array(fleet.net.widths), np.zeros(room_for(fleet.net.widths), np.float32)


@lru_cache
def kernel() -> Any:
    """All pairs on a GPU, one block of threads each."""
    cuda = on_gpu.cuda()

    @cuda.jit(device=True)  # type: ignore[untyped-decorator]
    def thread() -> Any:
        return cuda.threadIdx.x

    @cuda.jit(device=True)  # type: ignore[untyped-decorator]
    def row() -> Any:
        return cuda.threadIdx.y

    play = on_gpu.on_device(play_pair, {"lane": thread, "rank": row, "sync": cuda.syncthreads})

    @cuda.jit(max_registers=65_536 // (LANES * RANKS))  # type: ignore[untyped-decorator]
    def play_all(
        first: Any, last: Any, x: Any, stream: Any, u: Any, y: Any, arbiters: Any, counts: Any, books: Any, work: Any,
        orders: Any, record: Any, shares: Any, sizes: Any, networks: Any, squares: Any, samples: Any, labels: Any,
        rates: Any, widths: Any,
    ) -> None:  # fmt: skip
        i = cuda.blockIdx.x
        room = cuda.shared.array(0, np.float32)
        play(
            i, first, last, x[stream[i]], u, y, arbiters, counts, books, work, orders, record, shares, sizes, networks,
            squares, samples, labels, rates, widths, room, LANES, RANKS,
        )  # fmt: skip

    return play_all


def by_pairs(fleet: PresetFleet, samples: Samples, u: Tensor, y: Tensor, record: Tensor) -> Advance:
    """Play on a GPU, with one launch for all rounds."""
    assert isinstance(fleet.net, DenseNet)
    tensors = tensors_of(fleet, u, y, record)
    x, widths = samples.x.flatten(2).contiguous(), torch.tensor(fleet.net.widths, device=record.device)
    shared = 4 * room_for(fleet.net.widths)

    def advance(first: int, last: int) -> None:
        with torch.cuda.device_of(record):
            on_gpu.launched_on(
                kernel(), len(fleet), (LANES, RANKS), first, last, x, fleet.stream, *tensors, widths, shared=shared
            )
            torch.cuda.synchronize(record.device)

    return advance
