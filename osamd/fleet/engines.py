"""How the rounds of a fleet are run: by torch's kernels, by a CUDA graph of them, or by one fused kernel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from shutil import which
from typing import Any

import torch
from torch import Tensor

from osamd.fleet.conv import ConvNet
from osamd.fleet.dense import DenseNet
from osamd.fleet.devices import aside, threads_for
from osamd.fleet.fleet import Advance, Fleet, Playing, Samples
from osamd.fleet.kernels import dense_cpu, dense_cuda, on_gpu, pairs
from osamd.fleet.pair import compiled
from osamd.fleet.preset_fleet import PresetFleet

FEW_PAIRS = 3
"""So many pairs of small networks are faster by a kernel for each, even on one core; torch is faster on more of them
together. The number of cores does not count, since results would then depend on it."""
C_COMPILERS = ("cc", "gcc", "clang")
_capturing = threading.Lock()  # one graph at a time is captured in a process
PARTS = 2
"""How many parts of a fleet play beside each other on a GPU; three were slower than one."""
ROUNDS_A_GRAPH = 8
"""Rounds that are captured together, so that launching a graph costs little compared with them."""


def engine(fleet: Playing, samples: Samples, record: Tensor) -> tuple[str, Advance]:
    """The fastest engine that can play this fleet, and its name."""
    if isinstance(fleet, PresetFleet):
        if fleet.device.type == "cuda" and on_gpu.cuda() is not None:
            return pairs_on_gpu(fleet, samples, record)
        if fleet.device.type == "cpu" and len(fleet) <= FEW_PAIRS and pairs.supports(fleet):
            return "numba", pairs.by_lane(fleet, samples, *per_member(fleet, samples), record)
        return by_halves(fleet, samples, record)
    assert isinstance(fleet, Fleet)
    if dense_cpu.supports(fleet):
        return "numba", dense_cpu.by_numba(fleet, samples, record)
    if dense_cuda.supports(fleet):
        return "triton", dense_cuda.by_triton(fleet, samples, record)
    if fleet.device.type == "cuda":
        return "cuda graph", by_graph(fleet, samples, record)
    return "torch", by_steps(fleet, samples, record)


def per_member(fleet: PresetFleet, samples: Samples) -> tuple[Tensor, Tensor]:
    """The uniforms and labels of every round, (rounds x members)."""
    seeds = torch.tensor([member.seed for member in fleet.members])
    stream = fleet.stream.to(samples.y.device)
    return samples.u[seeds.to(samples.u.device)].T.contiguous(), samples.y[stream].T.contiguous()


def by_halves(fleet: PresetFleet, samples: Samples, record: Tensor) -> tuple[str, Advance]:
    """The preset's rounds: the CPU decides and asks, between the two halves that the networks play.

    On a GPU each half is a CUDA graph, and the round waits once, for the networks' probabilities.
    """
    t = torch.zeros(1, dtype=torch.long, device=fleet.device)

    def see() -> None:
        fleet.see(samples.x[fleet.stream, t])

    def descend() -> None:
        fleet.descend(samples.x[fleet.stream, t])

    halves: list[Callable[[], None]] = [see, descend]
    if fleet.device.type == "cuda":
        halves = [captured(fleet.device, (*fleet.state, fleet.seen), half) for half in halves]
    decide, numbers, work = compiled().decide, [tensor.numpy() for tensor in fleet.numbers], fleet.work().numpy()
    u, y = (tensor.cpu().numpy() for tensor in per_member(fleet, samples))
    orders, row = torch.zeros_like(fleet.orders, device="cpu"), torch.zeros(record.shape[1:], dtype=record.dtype)
    if fleet.device.type == "cuda":
        orders = orders.pin_memory()

    def advance(first: int, last: int) -> None:
        with torch.no_grad(), threads_for(len(fleet) * fleet.net.size):
            for i in range(first, last):
                t.fill_(i)
                halves[0]()
                shares, sizes = fleet.parts_of(fleet.seen.cpu().numpy())
                decide(shares, sizes, u[i], y[i], *numbers, work, orders.numpy(), row.numpy())
                record[i] = row
                fleet.orders.copy_(orders, non_blocking=True)  # they are read before the next round writes them
                halves[1]()

    return "torch" if fleet.device.type == "cpu" else "cuda graph", advance


def pairs_on_gpu(fleet: PresetFleet, samples: Samples, record: Tensor) -> tuple[str, Advance]:
    """The preset's rounds on a GPU, decisions and queries included: nothing waits for the CPU."""
    t = torch.zeros(1, dtype=torch.long, device=fleet.device)
    fleet.numbers = type(fleet.numbers)(*(tensor.to(fleet.device) for tensor in fleet.numbers))
    u, y = per_member(fleet, samples)
    if pairs.supports(fleet):
        return "numba kernel", pairs.by_pairs(fleet, samples, u, y, record)
    work, decide = fleet.work(), on_gpu.decide()
    see, descend = fused(fleet)

    def step() -> None:
        x = samples.x[fleet.stream, t]
        see(x)
        decide(t, fleet.shares, fleet.sizes, u, y, *fleet.numbers, work, fleet.orders, record)
        descend(x)
        t.add_(1)

    with quick_kernels():
        return "cuda graph", by_graphs(step, t, (*fleet.state, *fleet.numbers, record[: ROUNDS_A_GRAPH + 1]))


def halves(fleet: PresetFleet) -> tuple[pairs.Half, pairs.Half]:
    """`fleet.see` and `fleet.descend` for one batch after another, as one kernel each where that is faster.

    On a GPU they are CUDA graphs. A round of few models is many small operations, and launching them takes longer than
    playing them. Modules of users play as they are, since a graph would skip what theirs do on the CPU.
    """
    if fleet.device.type == "cpu" and pairs.supports(fleet):
        return pairs.halves(fleet)
    if fleet.device.type != "cuda" or not isinstance(fleet.net, ConvNet | DenseNet):
        return fleet.see, fleet.descend
    batch = fleet.state.samples.new_zeros(len(fleet), *fleet.sample)
    touched = (*fleet.state, fleet.seen)

    def replayed(half: pairs.Half) -> pairs.Half:
        replay = captured(fleet.device, touched, partial(half, batch))

        def play(x: Tensor) -> None:
            batch.copy_(x)
            replay()

        return play

    return replayed(fleet.see), replayed(fleet.descend)


def fused(fleet: PresetFleet) -> tuple[pairs.Half, pairs.Half]:
    """Both halves of the round, in fewer kernels where torch can compile them for a GPU: chains of small ones become
    one.

    Modules of users are not compiled: what they do may not be known to the compiler. Torch needs Triton and a compiler
    for C.
    """
    able = find_spec("triton") is not None and (os.environ.get("CC") or any(map(which, C_COMPILERS)))
    if not able or not isinstance(fleet.net, ConvNet | DenseNet):
        return fleet.see, fleet.descend
    torch.compiler.reset()  # torch compiles one function for a few fleets only, and then refuses
    quick: Any = partial(torch.compile, fullgraph=True, dynamic=False)
    see, lessons, gradient, move = map(quick, (fleet.see, fleet.lessons, fleet.net.loss_gradient, fleet.move))

    def descend(x: Tensor) -> None:
        student, teacher = lessons(x)
        with aside(fleet.device) as done:  # kernels for so few samples wait more than they work
            taught = gradient(*teacher)
        learned = gradient(*student)
        done()
        move(learned, taught)

    return see, descend


@contextmanager
def quick_kernels() -> Iterator[None]:
    """Let torch multiply in tf32, exact enough for gradients that are divided by their own size, and try kernels."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.benchmark
    products.allow_tf32 = convolutions.benchmark = True
    try:
        yield
    finally:
        products.allow_tf32, convolutions.benchmark = before


def by_steps(fleet: Fleet, samples: Samples, record: Tensor) -> Advance:
    """One round after another, with one torch call per operation: the reference for the other engines."""

    def advance(first: int, last: int) -> None:
        with torch.no_grad():
            for t in range(first, last):
                fleet.step(samples, torch.tensor([t], device=fleet.device), record)

    return advance


def by_graph(fleet: Fleet, samples: Samples, record: Tensor) -> Advance:
    """Capture the round once as a CUDA graph and replay it; the number of the round is kept on the device.

    Models with inner loops are dealt into parts that play beside each other: their kernels wait more than they work.
    """
    t = torch.zeros(1, dtype=torch.long, device=fleet.device)
    count = min(PARTS, len(fleet)) if fleet.plan.loops else 1
    parts = [(fleet.part(i, count), record[:, i::count]) for i in range(count)]

    def step() -> None:
        waits = []
        for i, (part, own) in enumerate(parts):
            with aside(fleet.device, i) as done:
                part.step(samples, t, own)
            waits.append(done)
        for done in waits:
            done()
        t.add_(1)

    return by_graphs(step, t, (*fleet.state, record[: ROUNDS_A_GRAPH + 1]))


def by_graphs(step: Callable[[], None], t: Tensor, touched: Sequence[Tensor]) -> Advance:
    """Capture one round, and several, as CUDA graphs; `step` plays round t and changes only t and `touched`."""

    def rounds(count: int) -> Callable[[], None]:
        def several() -> None:
            for _ in range(count):
                step()

        return captured(t.device, (*touched, t), several)

    replay = {count: rounds(count) for count in (ROUNDS_A_GRAPH, 1)}

    def advance(first: int, last: int) -> None:
        t.fill_(first)
        while first < last:
            count = ROUNDS_A_GRAPH if last - first >= ROUNDS_A_GRAPH else 1
            replay[count]()
            first += count
        torch.cuda.synchronize(t.device)

    return advance


def captured(device: torch.device, touched: Sequence[Tensor], work: Callable[[], None]) -> Callable[[], None]:
    """Capture the work as a CUDA graph, and return the replay; the tensors that it changes, `touched`, are restored."""
    with _capturing, torch.cuda.device(device), torch.no_grad():
        before = [tensor.clone() for tensor in touched]
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            work()  # creates handles and workspaces outside the capture
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):  # other threads use the GPU
            work()
    for tensor, old in zip(touched, before, strict=True):
        tensor.copy_(old)
    replay: Callable[[], None] = graph.replay
    return replay
