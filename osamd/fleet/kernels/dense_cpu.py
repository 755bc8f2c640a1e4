"""A fleet of dense networks on a CPU: the rounds of a model in one compiled call, and the models on all cores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from osamd.errors import InputError
from osamd.fleet.dense import DenseNet
from osamd.fleet.devices import cores
from osamd.fleet.fleet import Fleet, Samples
from osamd.fleet.kernels.dense_rounds import Numbers, Shape, compiled

LANES = 8
"""Vectors are padded with zeros to a multiple of this."""


def supports(fleet: Fleet) -> bool:
    """Whether `by_numba` can play this fleet: a dense network on the CPU, softmax loss, no L2 term."""
    return (
        type(fleet.net) is DenseNet
        and fleet.device.type == "cpu"
        and fleet.dtype in (torch.float32, torch.float64)
        and fleet.loss.name == "softmax"
        and not fleet.loss.l2
    )


def by_numba(fleet: Fleet, samples: Samples, record: Tensor, threads: int | None = None) -> Callable[[int, int], None]:
    """Play as `by_steps` does, with one compiled call per model; `threads` defaults to the cores this process may use.

    The results do not depend on the number of threads or on how a stream is divided into calls.
    """
    if not supports(fleet):
        raise InputError("`by_numba(fleet=...)`: it takes dense networks on a CPU with the softmax loss without l2.")
    assert isinstance(fleet.net, DenseNet)
    check_labels(samples, fleet.net.widths[-1])
    x = samples.x.flatten(2).to(fleet.dtype).contiguous().numpy()
    y, u = samples.y.long().contiguous().numpy(), samples.u.double().contiguous().numpy()
    state = [rows.numpy() for rows in fleet.state]
    kept, stream, seed = record.numpy(), fleet.stream.tolist(), fleet.seed.tolist()
    shape = shape_of(fleet.net.widths)
    numbers = [numbers_of(fleet, i, x.dtype.type) for i in range(len(fleet))]
    order = sorted(
        range(len(fleet)), key=lambda i: _cost(numbers[i]), reverse=True
    )  # longest first, so that all cores end together
    workers = threads or cores()
    rounds = compiled()

    def one(i: int, first: int, last: int) -> None:
        seen = x[stream[i]], y[stream[i]], u[seed[i]]
        rows = [rows[i] for rows in state]
        rounds(first, last, *seen, shape, numbers[i], fleet.net.probabilities, *rows, kept, i)

    def advance(first: int, last: int) -> None:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda i: one(i, first, last), order))

    one(0, 0, 0)  # compiles
    return advance


def check_labels(samples: Samples, classes: int) -> None:
    """Refuse labels that are not classes: compiled code reads scores by label, without a check."""
    low, high = int(samples.y.min()), int(samples.y.max())
    if low < 0 or high >= classes:
        raise InputError(f"`Samples(y=...)`: labels from {low} to {high}; the network has classes 0 to {classes - 1}.")


def shape_of(widths: list[int]) -> Shape:
    """The places of a network with layers of these widths.

    >>> shape_of([54, 30, 2]).room.tolist()
    [56, 32, 8]
    """
    room = [-(-(width + 1) // LANES) * LANES for width in widths]
    forward, back, size = [], [], 0
    for n, (here, above) in enumerate(pairwise(room)):
        forward.append(size)
        back.append(size + here * above)
        size += here * above * (2 if n else 1)
    start = np.cumsum([0, *room[:-1]])
    return Shape(np.array(widths), np.array(room), start, np.array(forward), np.array(back), size)


def numbers_of(fleet: Fleet, row: int, number: Callable[[float], Any]) -> Numbers:
    """The rates of the model in that row of the state."""
    one = fleet.numbers[fleet.order[row]]
    rates = [number(getattr(fleet.rates, name)[row].item()) for name in Numbers._fields[:7]]
    loops = one.inner_loops if one.self_training and not one.teacher_decides else 0
    constants = [number(value) for value in (0.0, 1.0, torch.finfo(fleet.dtype).tiny, 1e-30)]
    return Numbers._make([*rates, loops, one.self_training, one.teacher_decides, *constants])


def _cost(numbers: Numbers) -> int:
    return numbers.loops + 1 - numbers.teacher_decides
