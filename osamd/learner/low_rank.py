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
        tensors = named_tensors(module)
        self._weights = [tensors[name] for name in adaptable(module)]
        """The weights that get factors, as they were given."""
        self._names = [[name for name, tensor in tensors.items() if tensor is weight] for weight in self._weights]
        """All their names: layers may share a weight, and a layer may have several names."""
        self._layers = {name for name, _ in module.named_modules()}
        draw = torch.Generator("cpu").manual_seed(_FACTORS)
        plain: dict[str, Any] = {"device": "cpu", "dtype": torch.float32}
        self._sizes: list[float] = []
        for weight in self._weights:
            out, into = weight.shape
            rank = min(RANK, out, into)
            start = torch.cat([torch.randn(rank, into, generator=draw, **plain), torch.zeros(rank, out, **plain)], 1)
            self.factors.append(nn.Parameter(start.to(weight)))
            self._sizes.append(float(weight.square().mean().sqrt()) / math.sqrt(rank))

    def weights(self, factors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The adapted weights under all their names, from the factors by their names in this module."""
        adapted: dict[str, Tensor] = {}
        for i, (weight, names) in enumerate(zip(self._weights, self._names, strict=True)):
            both = factors[f"factors.{i}"]
            a, b = both[:, : weight.shape[1]], both[:, weight.shape[1] :]
            moved = weight.to(both.device) + self._sizes[i] * (b.T @ a)
            adapted |= dict.fromkeys(names, moved)
        return adapted

    def forward(self, *args: Any, **named: Any) -> Any:
        weights = self.weights({f"factors.{i}": both for i, both in enumerate(self.factors)})
        # One name per layer: torch puts the weights of a layer with two names back wrongly, and leaves it changed.
        once = {name: weight for name, weight in weights.items() if name.rpartition(".")[0] in self._layers}
        return torch.func.functional_call(self.module, once, args, named, tie_weights=False)
