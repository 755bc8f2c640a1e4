"""How the rounds of a fleet are carried out: by torch's kernels, by a CUDA graph of them, or by one fused kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from osamd.fleet import dense_cpu, dense_cuda
from osamd.fleet.fleet import Advance, Fleet, Samples

ROUNDS_A_GRAPH = 8
"""Rounds captured together, so that launching a graph costs little beside them."""


def engine(fleet: Fleet, samples: Samples, record: Tensor) -> tuple[str, Advance]:
    """The fastest that plays this fleet, and its name."""
    if dense_cpu.supports(fleet):
        return "numba", dense_cpu.by_numba(fleet, samples, record)
    if dense_cuda.supports(fleet):
        return "triton", dense_cuda.by_triton(fleet, samples, record)
    if fleet.device.type == "cuda":
        return "cuda graph", by_graph(fleet, samples, record)
    return "torch", by_steps(fleet, samples, record)


def by_steps(fleet: Fleet, samples: Samples, record: Tensor) -> Advance:
    """Round after round, each operation a call of torch: the reference meaning of the others."""

    def advance(first: int, last: int) -> None:
        with torch.no_grad():
            for t in range(first, last):
                fleet.step(samples, torch.tensor([t], device=fleet.device), record)

    return advance


def by_graph(fleet: Fleet, samples: Samples, record: Tensor) -> Advance:
    """The round captured once as a CUDA graph and replayed, with the number of the round kept on the device."""
    t = torch.zeros(1, dtype=torch.long, device=fleet.device)
    touched = (*fleet.state, record[: ROUNDS_A_GRAPH + 1])
    before = [tensor.clone() for tensor in touched]

    def rounds(count: int) -> None:
        for _ in range(count):
            fleet.step(samples, t, record)
            t.add_(1)

    side = torch.cuda.Stream(fleet.device)
    side.wait_stream(torch.cuda.current_stream(fleet.device))
    with torch.no_grad(), torch.cuda.stream(side):
        rounds(1)  # handles and workspaces are made outside the capture
    torch.cuda.current_stream(fleet.device).wait_stream(side)
    graphs = {}
    for count in (ROUNDS_A_GRAPH, 1):
        graphs[count] = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graphs[count]):
            rounds(count)
    for tensor, old in zip(touched, before, strict=True):
        tensor.copy_(old)

    def advance(first: int, last: int) -> None:
        t.fill_(first)
        while first < last:
            count = ROUNDS_A_GRAPH if last - first >= ROUNDS_A_GRAPH else 1
            graphs[count].replay()
            first += count
        torch.cuda.synchronize(fleet.device)

    return advance
