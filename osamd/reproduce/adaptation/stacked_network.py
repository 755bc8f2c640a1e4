"""A network whose parameters are stacked for many models, as the adaptation methods need it.

It differs from `osamd.fleet.net` in what a caller may choose: the statistics by which BatchNorm normalises, and a look
at the features before the last layer. Rows and names of parameters are those of `osamd.fleet.net.Net`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from osamd.errors import InputError
from osamd.fleet.net import named_tensors, places_of


class Scored(NamedTuple):
    """Logits (models x samples x classes) and the features before the last layer (models x samples x features)."""

    logits: Tensor
    features: Tensor


class StackedNetwork:
    """A sequence of convolutions, ReLU, BatchNorm and linear layers, for rows of parameters (models x size)."""

    def __init__(self, module: nn.Module) -> None:
        self.layers = [(name, part) for name, part in module.named_children() if not _does_nothing(part)]
        known = (nn.Conv2d, nn.ReLU, nn.BatchNorm2d, nn.Flatten, nn.Linear)
        strange = [type(part).__name__ for _, part in self.layers if not isinstance(part, known)]
        if type(module) is not nn.Sequential or strange or not isinstance(self.layers[-1][1], nn.Linear):
            raise InputError(
                f"`StackedNetwork(module=...)`: it has {', '.join(strange) or 'no Sequential order'}; give a Sequential"
                " of convolutions, ReLU, BatchNorm and linear layers that ends in a linear one."
            )
        self.places, self.trained = places_of(module)
        self.size = self.places[-1].last
        self.classes = int(self.layers[-1][1].out_features)
        self._by_name = {place.name: place for place in self.places}

    @property
    def has_norms(self) -> bool:
        return any(isinstance(part, nn.BatchNorm2d) for _, part in self.layers)

    def stack(self, modules: Sequence[nn.Module]) -> Tensor:
        """The rows of modules of this kind."""
        tensors = [named_tensors(module) for module in modules]
        return torch.stack([torch.cat([of[p.name].detach().reshape(-1) for p in self.places]) for of in tensors])

    def columns(self, norms_only: bool) -> Tensor:
        """Which of the trained columns a method changes (trained), as 0 and 1.

        With `norms_only` they are the factor and shift of every BatchNorm; in a network without one, the biases.
        """
        norms = {name for name, part in self.layers if isinstance(part, nn.BatchNorm2d)}
        chosen = torch.zeros(self.trained)
        for place in self.places:
            layer, _, kind = place.name.rpartition(".")
            taken = not norms_only or (layer in norms if norms else kind == "bias")
            if place.first < self.trained and taken:
                chosen[place.first : place.last] = 1.0
        return chosen

    def parameter(self, rows: Tensor, name: str) -> Tensor:
        place = self._by_name[name]
        return rows[:, place.first : place.last].reshape(len(rows), *place.shape)

    def score(self, rows: Tensor, x: Tensor, own: Tensor | None = None, noise: Tensor | None = None) -> Scored:
        """Logits and features of samples (models x samples x shape), differentiable in the rows.

        BatchNorm normalises by the statistics it was trained with, and by those of the batch x in the models where
        `own` (models x 1) is 1. `noise` (models x samples x features) is added to the features, in units of their
        deviation over the batch and the features.
        """
        models, samples = x.shape[:2]
        for name, part in self.layers[:-1]:
            if isinstance(part, nn.Conv2d):
                x = self._convolved(rows, name, part, x)
            elif isinstance(part, nn.ReLU):
                x = x.relu()
            elif isinstance(part, nn.BatchNorm2d):
                x = self._normalised(rows, name, part, x, own)
            elif isinstance(part, nn.Linear):
                x = self._linear(rows, name, x.reshape(models, samples, -1))
        features = x.reshape(models, samples, -1)
        if noise is not None:
            features = features + noise * features.std((1, 2), keepdim=True)
        return Scored(self._linear(rows, self.layers[-1][0], features), features)

    def logits(self, rows: Tensor, x: Tensor, own: Tensor | None = None) -> Tensor:
        return self.score(rows, x, own).logits

    def _linear(self, rows: Tensor, name: str, x: Tensor) -> Tensor:
        weight, bias = self.parameter(rows, f"{name}.weight"), self.parameter(rows, f"{name}.bias")
        return torch.baddbmm(bias[:, None, :], x, weight.transpose(1, 2))

    def _convolved(self, rows: Tensor, name: str, part: nn.Conv2d, x: Tensor) -> Tensor:
        weight, bias = self.parameter(rows, f"{name}.weight"), self.parameter(rows, f"{name}.bias")
        models, samples = x.shape[:2]
        kernel, stride, padding = part.kernel_size[0], part.stride[0], int(part.padding[0])
        cut = functional.pad(x, (padding,) * 4).unfold(3, kernel, stride).unfold(4, kernel, stride)
        height, width = cut.shape[3:5]
        taken = cut.permute(0, 1, 3, 4, 2, 5, 6).reshape(models, samples * height * width, -1)
        made = torch.baddbmm(bias[:, None, :], taken, weight.flatten(2).transpose(1, 2))
        return made.view(models, samples, height, width, -1).permute(0, 1, 4, 2, 3)

    def _normalised(self, rows: Tensor, name: str, part: nn.BatchNorm2d, x: Tensor, own: Tensor | None) -> Tensor:
        """(x - mean) / deviation times the factor plus the shift, channel by channel."""
        mean, variance = (self.parameter(rows, f"{name}.running_{kind}") for kind in ("mean", "var"))
        if own is not None:
            mean = torch.lerp(mean, x.mean((1, 3, 4)), own)
            variance = torch.lerp(variance, x.var((1, 3, 4), correction=0), own)
        factor = self.parameter(rows, f"{name}.weight") * torch.rsqrt(variance + part.eps)
        shift = self.parameter(rows, f"{name}.bias") - mean * factor
        return torch.addcmul(shift[:, None, :, None, None], x, factor[:, None, :, None, None])


def _does_nothing(part: nn.Module) -> bool:
    """Dropout, which is off; and a softmax at the end, because the methods read logits."""
    return isinstance(part, nn.Dropout | nn.Dropout2d | nn.Softmax)
