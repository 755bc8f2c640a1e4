"""The fast path for networks of linear layers with ReLU between them, like the paper's for Cover-Type."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from osamd.fleet.net import Net


class DenseTape(NamedTuple):
    """What the forward pass keeps for the backward pass."""

    inputs: list[Tensor]
    """The inputs of every layer; after the first layer they are outputs of ReLU."""
    scores: Tensor


def layers_of(module: nn.Module) -> tuple[list[str], bool] | None:
    """The names of the linear layers, first to last, and whether a softmax follows; None for any other network.

    >>> layers_of(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2), nn.Softmax(1)))
    (['0', '3'], True)
    """
    kinds = plain_layers(module)
    if kinds is None:
        return None
    if kinds and type(kinds[0][1]) is nn.Flatten:
        kinds.pop(0)
    softmax = ends_in_softmax(kinds)
    linear, between = kinds[::2], kinds[1::2]
    fits = (
        len(kinds) % 2 == 1
        and all(type(part) is nn.Linear and part.bias is not None for _, part in linear)
        and all(type(part) is nn.ReLU for _, part in between)
    )
    return ([name for name, _ in linear], softmax) if fits else None


def plain_layers(module: nn.Module) -> list[tuple[str, nn.Module]] | None:
    """The layers of a Sequential without its dropout; None if it does more than call each of them once in turn."""
    if type(module) is not nn.Sequential:
        return None
    parts = list(module._modules.items())
    hooks = [part for part in (module, *module) if part._forward_hooks or part._forward_pre_hooks]
    shared = len({id(part) for _, part in parts}) < len(parts)
    tied = len(list(module.named_parameters())) < len(list(module.named_parameters(remove_duplicate=False)))
    if hooks or shared or tied or not all(parameter.requires_grad for parameter in module.parameters()):
        return None
    return [(name, part) for name, part in parts if part is not None and type(part) not in (nn.Dropout, nn.Dropout2d)]


def ends_in_softmax(layers: list[tuple[str, nn.Module]]) -> bool:
    """Whether the last layer is a softmax over the classes; if it is, remove it from the list."""
    if not layers or type(layers[-1][1]) is not nn.Softmax or layers[-1][1].dim not in (1, -1):
        return False
    layers.pop()
    return True


class DenseNet(Net):
    """Linear layers with ReLU between them, and a softmax at the end if the module has one; dropout is off."""

    def __init__(self, module: nn.Module, layers: list[str], softmax: bool) -> None:
        super().__init__(module, probabilities=softmax)
        self.layers = layers
        self.widths = [getattr(module, layers[0]).in_features] + [getattr(module, n).out_features for n in layers]

    def forward(self, w: Tensor, x: Tensor) -> tuple[Tensor, DenseTape]:
        inputs = [x.flatten(1)]
        for n, name in enumerate(self.layers):
            weight, bias = self.parameter(w, f"{name}.weight"), self.parameter(w, f"{name}.bias")
            z = torch.baddbmm(bias[:, :, None], weight, inputs[-1][:, :, None])[:, :, 0]
            if n + 1 < len(self.layers):
                inputs.append(torch.relu(z))
        scores = probabilities_of(z) if self.probabilities else z
        return scores, DenseTape(inputs, scores)

    def many(self, w: Tensor, x: Tensor) -> Tensor:
        z = x.flatten(2)
        for n, name in enumerate(self.layers):
            z = self._layer(w, name, torch.relu(z) if n else z)
        return z

    def loss_gradient(self, w: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        inputs = [x.flatten(2)]
        for name in self.layers[:-1]:
            inputs.append(torch.relu(self._layer(w, name, inputs[-1])))
        slope = loss_slope(self._layer(w, self.layers[-1], inputs[-1]), y, weights)
        flat = torch.empty(len(w), self.trained, dtype=w.dtype, device=w.device)
        for n in range(len(self.layers) - 1, -1, -1):
            name = self.layers[n]
            self.parameter(flat, f"{name}.weight").copy_(torch.bmm(slope.transpose(1, 2), inputs[n]))
            self.parameter(flat, f"{name}.bias").copy_(slope.sum(1))
            if n > 0:
                slope = torch.bmm(slope, self.parameter(w, f"{name}.weight")) * (inputs[n] > 0.0)
        return flat

    def _layer(self, w: Tensor, name: str, inputs: Tensor) -> Tensor:
        """The outputs of a layer for several samples per model."""
        weight, bias = self.parameter(w, f"{name}.weight"), self.parameter(w, f"{name}.bias")
        return torch.baddbmm(bias[:, None, :], inputs, weight.transpose(1, 2))

    def backward(self, w: Tensor, tape: DenseTape, q: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The slope on the outputs and the inputs of every layer, last to first; their product is the gradient."""
        slope = through_softmax(tape.scores, q) if self.probabilities else q
        factors = []
        for n in range(len(self.layers) - 1, -1, -1):
            factors.append((slope, tape.inputs[n]))
            if n > 0:
                weight = self.parameter(w, f"{self.layers[n]}.weight")
                slope = torch.bmm(slope[:, None, :], weight)[:, 0] * (tape.inputs[n] > 0.0)
        return factors

    def subtract(self, w: Tensor, gradient: Any) -> None:
        for name, (slope, inputs) in zip(reversed(self.layers), gradient, strict=True):
            self.parameter(w, f"{name}.weight").addcmul_(slope[:, :, None], inputs[:, None, :], value=-1.0)
            self.parameter(w, f"{name}.bias").sub_(slope)


def through_softmax(p: Tensor, q: Tensor) -> Tensor:
    """The slope q on probabilities p as a slope on the logits: p (q - <p, q>)."""
    return p * (q - (p * q).sum(1, keepdim=True))


def loss_slope(logits: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """The slope of sum_j weights_j -log p(y_j) on the logits (models, samples, classes)."""
    return (torch.softmax(logits, 2) - functional.one_hot(y, logits.shape[2])) * weights[:, :, None]


def probabilities_of(logits: Tensor) -> Tensor:
    """softmax, never below the smallest normal number, so that the slope of -log p on the logits is always p - e_y."""
    return torch.softmax(logits, -1).clamp(min=torch.finfo(logits.dtype).tiny)
