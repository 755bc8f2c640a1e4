"""Pairs of dense networks: the kernel of `osamd.fleet.kernels.pair_rounds` on the CPU and on a GPU.

On a GPU a lane is a thread, and one launch plays all rounds of all pairs (`by_pairs`). On the CPU there is one lane,
which is still faster than torch for small networks: torch spends its time between operations rather than in them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from osamd.compiled.lowering import jit, lower
from osamd.fleet.dense import DenseNet
from osamd.fleet.devices import cores
from osamd.fleet.fleet import Advance, Samples
from osamd.fleet.kernels import on_gpu
from osamd.fleet.kernels.pair_memory import networks_in, numbers_in, room_for
from osamd.fleet.kernels.pair_rounds import descend, play_pair, see, size_of
from osamd.fleet.preset_fleet import PresetFleet

LANES, RANKS = 32, 11
"""How many there are on a GPU, where one more rank decides; there is one of each on the CPU. The registers of a GPU are
in four parts, and this many ranks with all that they need (168 registers a thread) were faster than 15 to 31 with
fewer."""
MOST_RANKS = 32
"""More threads than 32 x 32 do not fit into a block."""
MOST = 6_000
"""The most parameters of a network: a CPU plays larger ones faster by torch, and on a GPU they would not fit."""

Half = Callable[[Tensor], None]
"""A half of a round, for a batch that holds the sample."""


def supports(fleet: PresetFleet) -> bool:
    """Whether this can play the fleet: small dense networks in float32 without a frozen part or augmentation."""
    net = fleet.net
    if type(net) is not DenseNet or fleet.dtype != torch.float32 or fleet.augmented is not None:
        return False
    if net.trained > MOST:
        return False
    return fleet.device.type != "cuda" or 8 * sum(lengths_for(fleet)) <= on_gpu.most_shared(fleet.device)


def numbers_of(fleet: PresetFleet) -> tuple[int, int, int]:
    """What `numbers_in` asks for: the lengths of an arbiter and of a book, and the number of classes."""
    return fleet.numbers.arbiters.shape[1], fleet.numbers.books.shape[1], fleet.classes


def lengths_for(fleet: PresetFleet) -> tuple[int, int]:
    """The lengths of the vectors that a pair works in: for its numbers, and for its networks."""
    assert isinstance(fleet.net, DenseNet)
    numbers: int = numbers_in(np.zeros(0), *numbers_of(fleet))[1]
    networks: int = networks_in(np.zeros(0), fleet.networks.shape[1], room_for(fleet.net.widths))[1]
    return numbers, networks


def tensors_of(fleet: PresetFleet, u: Tensor, y: Tensor, record: Tensor) -> list[Tensor]:
    """The arguments of `play_pair` from `u` to `rates`."""
    return [u, y, *fleet.numbers, record, *networks_of(fleet)]


def networks_of(fleet: PresetFleet) -> list[Tensor]:
    """The arguments of `play_pair` from `networks` to `rates`."""
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

    def play(i: Any, first: Any, last: Any, x: Any, tensors: Any, widths: Any, numbers: Any, vector: Any) -> None:
        u, y, arbiters, counts, books, record, networks, squares, samples, labels, rates = tensors
        play_pair(
            i, first, last, x, u, y, arbiters, counts, books, record, networks, squares, samples, labels, rates, widths,
            numbers, vector, 1, 1,
        )  # fmt: skip

    def see_one(x: Any, shares: Any, networks: Any, widths: Any, room: Any) -> float:
        see(x, shares, networks, widths, room, 1, 1)
        return size_of(x)

    def descend_one(
        x: Any, order: Any, networks: Any, squares: Any, samples: Any, labels: Any, rates: Any, widths: Any, room: Any
    ) -> None:
        descend(x, order, networks, squares, samples, labels, rates, widths, room, widths[-1], 1, 1)

    return OnCPU(jit(play, nogil=True), jit(see_one), jit(descend_one))


def by_lane(fleet: PresetFleet, samples: Samples, u: Tensor, y: Tensor, record: Tensor) -> Advance:
    """Play on the CPU, one lane per pair, and the pairs on all cores; the results do not depend on their number."""
    assert isinstance(fleet.net, DenseNet)
    tensors = tuple(tensor.numpy() for tensor in tensors_of(fleet, u, y, record))
    x, play, widths = samples.x.flatten(2).contiguous().numpy(), compiled().play, np.array(fleet.net.widths)

    def one(i: int, first: int, last: int) -> None:
        own, vector = (np.zeros(length) for length in lengths_for(fleet))
        numbers, _ = numbers_in(own, *numbers_of(fleet))
        play(i, first, last, x[fleet.members[i].stream], tensors, widths, numbers, vector)

    def advance(first: int, last: int) -> None:
        with ThreadPoolExecutor(cores()) as pool:
            list(pool.map(lambda i: one(i, first, last), range(len(fleet))))

    one(0, 0, 0)  # compiles
    return advance


def halves(fleet: PresetFleet) -> tuple[Half, Half]:
    """`fleet.see` and `fleet.descend` for a fleet of one pair on the CPU."""
    assert isinstance(fleet.net, DenseNet)
    kernel, widths = compiled(), np.array(fleet.net.widths)
    room = np.zeros(room_for(widths), np.float32)
    shares, sizes, orders = fleet.shares.flatten().numpy(), fleet.sizes.numpy(), fleet.orders.numpy()
    rows, squares, samples, labels, rates = (tensor.numpy() for tensor in networks_of(fleet))
    networks = rows.reshape(-1)
    pair = networks, squares.reshape(-1), samples[0], labels[0], rates[:, 0]

    def first_half(x: Tensor) -> None:
        sizes[0] = kernel.see(x[0].flatten().numpy(), shares, networks, widths, room)

    def second_half(x: Tensor) -> None:
        kernel.descend(x[0].flatten().numpy(), orders[0], *pair, widths, room)

    return first_half, second_half


@lru_cache
def kernel(arbiter: int, book: int, classes: int) -> Any:
    """All pairs on a GPU, one block of threads each, for arbiters and books of these lengths."""
    cuda, length = on_gpu.cuda(), numbers_in(np.zeros(0), arbiter, book, classes)[1]  # constants make quicker code

    @cuda.jit(device=True)  # type: ignore[untyped-decorator]
    def thread() -> Any:
        return cuda.threadIdx.x & (LANES - 1)  # as it is, but now the compiler knows how large it can be

    @cuda.jit(device=True)  # type: ignore[untyped-decorator]
    def row() -> Any:
        return cuda.threadIdx.y & (MOST_RANKS - 1)

    @cuda.jit(device=True)  # type: ignore[untyped-decorator]
    def worker() -> Any:
        return cuda.threadIdx.y < RANKS

    @cuda.jit(device=True)  # type: ignore[untyped-decorator]
    def decider() -> Any:
        return cuda.threadIdx.y == RANKS and cuda.threadIdx.x == 0

    @cuda.jit(device=True)  # type: ignore[untyped-decorator]
    def unsigned(number: Any) -> Any:
        return np.uint64(number)

    waits = {"sync": on_gpu.barrier(1, LANES * RANKS), "meet": cuda.syncthreads}
    roles = {"lane": thread, "rank": row, "works": worker, "decides": decider}
    play, parts = on_gpu.on_device(play_pair, {"index": unsigned} | roles | waits), on_gpu.on_device(numbers_in)
    shared_by = LANES * (RANKS // 4 + 1) * 4  # the threads, as many in each of the four parts of the registers

    @cuda.jit(max_registers=65_536 // shared_by // 8 * 8)  # type: ignore[untyped-decorator]
    def play_all(
        first: Any, last: Any, x: Any, stream: Any, u: Any, y: Any, arbiters: Any, counts: Any, books: Any, record: Any,
        networks: Any, squares: Any, samples: Any, labels: Any, rates: Any, widths: Any,
    ) -> None:  # fmt: skip
        i, numbers = cuda.blockIdx.x, cuda.shared.array(length, np.float64)
        play(
            i, first, last, x[stream[i]], u, y, arbiters, counts, books, record, networks, squares, samples, labels,
            rates, widths, parts(numbers, arbiter, book, classes)[0], cuda.shared.array(0, np.float64), LANES, RANKS,
        )  # fmt: skip

    return play_all


def by_pairs(fleet: PresetFleet, samples: Samples, u: Tensor, y: Tensor, record: Tensor) -> Advance:
    """Play on a GPU, with one launch for all rounds."""
    assert isinstance(fleet.net, DenseNet)
    tensors = tensors_of(fleet, u, y, record)
    x, widths = samples.x.flatten(2).contiguous(), torch.tensor(fleet.net.widths, device=record.device)
    play_all, shared, threads = kernel(*numbers_of(fleet)), 8 * lengths_for(fleet)[1], (LANES, RANKS + 1)

    def advance(first: int, last: int) -> None:
        with torch.cuda.device_of(record):
            on_gpu.launched_on(
                play_all, len(fleet), threads, first, last, x, fleet.stream, *tensors, widths, shared=shared
            )
            torch.cuda.synchronize(record.device)

    advance(0, 0)  # compiles
    return advance
