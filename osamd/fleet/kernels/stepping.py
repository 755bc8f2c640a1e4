"""How the preset's networks step: gradients divided by their own size, coordinate by coordinate, and an average.

    v <- KEEP v + (1 - KEEP) g^2,   w <- w - rate g / (sqrt(v / grown) + TINY),  average <- average + NEWS (w - average)

`grown` is 1 - KEEP^t after t steps, and a gradient that is not finite counts as 0. `step` does this for one parameter.
On a CPU, `step_all` plays it in one pass over the parameters, and elsewhere in a few of torch's operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from osamd.compiled.lowering import jit, lower

KEEP = 0.999
NEWS = 0.02
"""The share of the student that enters its average in a round; the average looks back about fifty rounds."""
KEPT, ADDED, TINY, NEW = np.float32(KEEP), np.float32(1.0 - KEEP), np.float32(1e-8), np.float32(NEWS)
NOTHING = np.float32(0.0)


def step(network: Any, squares: Any, place: int, gradient: Any, rate: Any, grown: Any) -> None:
    """Move one parameter, and the mean square of its gradient."""
    if not math.isfinite(gradient * gradient):
        gradient = NOTHING
    square = KEPT * squares[place] + ADDED * (gradient * gradient)
    squares[place] = square
    network[place] -= rate * gradient / (math.sqrt(square / grown) + TINY)


def follow(average: Any, network: Any, place: int) -> None:
    """Move one parameter of an average towards that of its network."""
    average[place] += NEW * (network[place] - average[place])


def grown_after(steps: Tensor, dtype: torch.dtype) -> Tensor:
    """1 - KEEP^t of every row, as a column."""
    return -torch.expm1(math.log(KEEP) * steps[:, None].to(dtype))


def step_all(rows: Tensor, squares: Tensor, averages: Tensor, gradient: Tensor, rates: Tensor, grown: Tensor) -> None:
    """Step all rows, of which the first have averages; only the columns of the gradient learn."""
    trained = gradient.shape[1]
    if rows.device.type == "cpu" and rows.dtype == torch.float32:
        compiled()(*(tensor.numpy() for tensor in (rows, squares, averages, gradient, rates, grown)))
        return
    gradient = torch.where(torch.isfinite(gradient.square()), gradient, 0.0)
    squares.mul_(KEEP).addcmul_(gradient, gradient, value=1.0 - KEEP)
    rows[:, :trained] -= rates * gradient / ((squares / grown).sqrt() + float(TINY))
    averages[:, :trained].lerp_(rows[: len(averages), :trained], NEWS)


@lru_cache
def compiled() -> Callable[..., None]:
    lower(step)
    lower(follow)

    def each(rows: Any, squares: Any, averages: Any, gradient: Any, rates: Any, grown: Any) -> None:
        for i in range(gradient.shape[0]):
            row, square, slope, rate, size = rows[i], squares[i], gradient[i], rates[i, 0], grown[i, 0]
            for place in range(gradient.shape[1]):
                step(row, square, place, slope[place], rate, size)
            if i < averages.shape[0]:
                for place in range(gradient.shape[1]):
                    follow(averages[i], row, place)

    return jit(each)
