"""A fleet of dense networks on a GPU: one launch of `osamd.fleet.kernels.dense_triton` plays all rounds of all
models."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

from osamd.errors import InputError
from osamd.fleet.dense import DenseNet
from osamd.fleet.fleet import Fleet, Samples
from osamd.fleet.kernels.dense_cpu import check_labels
from osamd.fleet.kernels.dense_triton import kernel

MOST = (128, 64, 64, 16)
"""The most inputs, hidden units in either layer, and classes that fit."""
LEAST = (32, 2, 32)
"""The least padded size of all but the classes: with a warp along the first axis, all matrices have one layout."""
RATES = ("sigma", "floor", "eta", "cap", "target", "scale", "inner_rate", "self_training")
"""The columns of the kernel's `rates_ptr`."""


def supports(fleet: Fleet) -> bool:
    """Whether `by_triton` can play this fleet: it `fits`, is on a CUDA device, and Triton is installed."""
    return fits(fleet) and fleet.device.type == "cuda" and find_spec("triton") is not None


def fits(fleet: Fleet) -> bool:
    """Whether the kernel supports it: a dense network with two hidden layers in float32, softmax loss, no L2 term."""
    net = fleet.net
    return (
        type(net) is DenseNet
        and len(net.widths) == len(MOST)
        and all(width <= most for width, most in zip(net.widths, MOST, strict=True))
        and fleet.dtype == torch.float32
        and fleet.loss.name == "softmax"
        and not fleet.loss.l2
    )


def by_triton(fleet: Fleet, samples: Samples, record: Tensor, num_warps: int = 8) -> Callable[[int, int], None]:
    """Play as `by_steps` does, with one kernel for all rounds; the results do not depend on how they are divided."""
    if not fits(fleet):
        raise InputError(
            "`by_triton(fleet=...)`: it takes dense networks of two hidden layers in float32 with the softmax loss"
            f" without l2, of widths up to {MOST}."
        )
    assert isinstance(fleet.net, DenseNet)
    widths = fleet.net.widths
    check_labels(samples, widths[-1])
    x, y = samples.x.flatten(2).to(fleet.dtype).contiguous(), samples.y.contiguous()
    u = samples.u.double().contiguous()
    numbers = [fleet.numbers[i] for i in fleet.order]
    rates = torch.stack([getattr(fleet.rates, name) for name in RATES], 1).contiguous()
    passes = [0 if one.teacher_decides else 1 + one.inner_loops * one.self_training for one in numbers]
    padded = [max(least, 1 << width.bit_length()) for width, least in zip(widths[:-1], LEAST, strict=False)]
    padded.append(1 << (widths[-1] - 1).bit_length())
    counts = torch.tensor(passes, dtype=torch.int32, device=fleet.device)
    tensors = (x, y, u, *fleet.state, record, fleet.stream, fleet.seed, rates, counts)
    sizes = (x.shape[1], u.shape[1], len(fleet), fleet.net.size, 1)
    shapes = (*widths, *padded, fleet.net.probabilities, not fleet.plan.fixed_scale)
    play = kernel()

    def launch(first: int, last: int) -> None:
        with torch.cuda.device_of(record):
            play[(len(fleet),)](*tensors, first, last, *sizes, *shapes, num_warps=num_warps, num_stages=1)
            if record.is_cuda:
                torch.cuda.synchronize()

    def advance(first: int, last: int) -> None:
        if first < last:
            launch(first, last)

    launch(0, 0)  # compiles
    return advance
