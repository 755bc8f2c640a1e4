"""Small factors added to the weights of linear layers: W + s B A, of rank RANK; the weights themselves stay.

B starts at zero, so the network starts as it was. A starts with entries of size 1, and s is the size of W (root mean
square) divided by the root of the rank, so a step of B moves the weights as a step of the weights themselves would: in
the network's own scale. Low-rank adaptation is by Hu et al. (ICLR 2022).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from osamd.fleet.net import named_tensors

RANK = 4
_FACTORS = 11  # seeds the factors


def adaptable(module: nn.Module) -> list[str]:
    """The names of the weights that get factors: those of linear layers, and the projections of attention."""
    found: dict[int, str] = {}
    for place, part in module.named_modules():
        own = "weight" if isinstance(part, nn.Linear) else "in_proj_weight"
        weight = getattr(part, own, None) if isinstance(part, nn.Linear | nn.MultiheadAttention) else None
        if isinstance(weight, nn.Parameter) and weight.ndim == 2:
            found.setdefault(id(weight), f"{place}.{own}" if place else own)
    return list(found.values())


class LowRank(nn.Module):
    """A frozen module with factors, which alone learn; A and the transpose of B are one tensor, (rank x (in + out))."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.factors = nn.ParameterList()
        self.module = module.requires_grad_(False)
        self._names = adaptable(module)
        tensors = named_tensors(module)
        draw = torch.Generator().manual_seed(_FACTORS)
        self._sizes: list[float] = []
        for name in self._names:
            weight = tensors[name]
            out, into = weight.shape
            rank = min(RANK, out, into)
            start = torch.cat([torch.randn(rank, into, generator=draw), torch.zeros(rank, out)], 1)
            self.factors.append(nn.Parameter(start.to(weight)))
            self._sizes.append(float(weight.square().mean().sqrt()) / math.sqrt(rank))

    def weights(self, factors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The adapted weights, from the factors by their names in this module."""
        tensors, adapted = named_tensors(self.module), {}
        for i, name in enumerate(self._names):
            both = factors[f"factors.{i}"]
            weight = tensors[name].to(both.device)
            a, b = both[:, : weight.shape[1]], both[:, weight.shape[1] :]
            adapted[name] = weight + self._sizes[i] * (b.T @ a)
        return adapted

    def forward(self, *args: Any, **named: Any) -> Any:
        factors = {f"factors.{i}": both for i, both in enumerate(self.factors)}
        return torch.func.functional_call(self.module, self.weights(factors), args, named)
