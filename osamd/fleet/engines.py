"""How the rounds of a fleet are run: by torch's kernels, by a CUDA graph of them, or by one fused kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from osamd.fleet.devices import threads_for
from osamd.fleet.fleet import Advance, Fleet, Playing, Samples
from osamd.fleet.kernels import dense_cpu, dense_cuda
from osamd.fleet.preset_fleet import PresetFleet, compiled

ROUNDS_A_GRAPH = 8
"""Rounds that are captured together, so that launching a graph costs little compared with them."""


def engine(fleet: Playing, samples: Samples, record: Tensor) -> tuple[str, Advance]:
    """The fastest engine that can play this fleet, and its name."""
    if isinstance(fleet, PresetFleet):
        return by_halves(fleet, samples, record)
    assert isinstance(fleet, Fleet)
    if dense_cpu.supports(fleet):
        return "numba", dense_cpu.by_numba(fleet, samples, record)
    if dense_cuda.supports(fleet):
        return "triton", dense_cuda.by_triton(fleet, samples, record)
    if fleet.device.type == "cuda":
        return "cuda graph", by_graph(fleet, samples, record)
    return "torch", by_steps(fleet, samples, record)


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
        halves = [captured(fleet.device, (*fleet.state, fleet.shares), half) for half in halves]
    decide, stream, seed = compiled(), fleet.stream.cpu(), [member.seed for member in fleet.members]
    y, u = samples.y.cpu()[stream].T.contiguous().numpy(), samples.u.cpu()[seed].T.contiguous().numpy()
    rows = record.numpy()
    orders = torch.zeros_like(fleet.orders, device="cpu")
    if fleet.device.type == "cuda":
        orders = orders.pin_memory()
    numbers = fleet.losses, fleet.counts, fleet.books, orders.numpy()

    def advance(first: int, last: int) -> None:
        with torch.no_grad(), threads_for(len(fleet) * fleet.net.size):
            for i in range(first, last):
                t.fill_(i)
                halves[0]()
                decide(fleet.shares.cpu().numpy(), u[i], y[i], *numbers, rows[i])
                fleet.orders.copy_(orders, non_blocking=True)  # they are read before the next round writes them
                halves[1]()

    return "torch" if fleet.device.type == "cpu" else "cuda graph", advance


def by_steps(fleet: Fleet, samples: Samples, record: Tensor) -> Advance:
    """One round after another, with one torch call per operation: the reference for the other engines."""

    def advance(first: int, last: int) -> None:
        with torch.no_grad():
            for t in range(first, last):
                fleet.step(samples, torch.tensor([t], device=fleet.device), record)

    return advance


def by_graph(fleet: Fleet, samples: Samples, record: Tensor) -> Advance:
    """Capture the round once as a CUDA graph and replay it; the number of the round is kept on the device."""
    t = torch.zeros(1, dtype=torch.long, device=fleet.device)
    touched = (*fleet.state, record[: ROUNDS_A_GRAPH + 1], t)

    def rounds(count: int) -> Callable[[], None]:
        def several() -> None:
            for _ in range(count):
                fleet.step(samples, t, record)
                t.add_(1)

        return captured(fleet.device, touched, several)

    replay = {count: rounds(count) for count in (ROUNDS_A_GRAPH, 1)}

    def advance(first: int, last: int) -> None:
        t.fill_(first)
        while first < last:
            count = ROUNDS_A_GRAPH if last - first >= ROUNDS_A_GRAPH else 1
            replay[count]()
            first += count
        torch.cuda.synchronize(fleet.device)

    return advance


def captured(device: torch.device, touched: Sequence[Tensor], work: Callable[[], None]) -> Callable[[], None]:
    """Capture the work as a CUDA graph, and return the replay; the tensors that it changes, `touched`, are restored."""
    before = [tensor.clone() for tensor in touched]
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.no_grad(), torch.cuda.stream(side):
        work()  # creates handles and workspaces outside the capture
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        work()
    for tensor, old in zip(touched, before, strict=True):
        tensor.copy_(old)
    replay: Callable[[], None] = graph.replay
    return replay
