"""The fast path for the paper's convolutional networks: convolutions with ReLU, BatchNorm, and a linear layer.

A convolution is a matrix product of its weights with the patches of its input, with one product per model. On a GPU the
patches are gathered by an index that is computed once, since torch's own unfold launches one kernel per sample there.
On a CPU torch's unfold is faster.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from osamd.fleet import grouped
from osamd.fleet.dense import ends_in_softmax, plain_layers, probabilities_of, through_softmax
from osamd.fleet.net import Net


class ConvLayers(NamedTuple):
    """The names of a convolutional network's layers."""

    convolutions: list[str]
    norm: str | None
    linear: str
    softmax: bool


def parts_of(module: nn.Module) -> ConvLayers | None:
    """The layers of a network (Conv2d, ReLU)+, BatchNorm2d?, Flatten, Linear, Softmax?; None for any other network."""
    rest = plain_layers(module)
    if rest is None:
        return None
    convolutions: list[str] = []
    while len(rest) > 1 and type(rest[0][1]) is nn.Conv2d and type(rest[1][1]) is nn.ReLU:
        if not _plain(rest[0][1]):
            return None
        convolutions.append(rest[0][0])
        rest = rest[2:]
    norm = None
    if rest and type(rest[0][1]) is nn.BatchNorm2d and rest[0][1].affine and rest[0][1].track_running_stats:
        norm = rest.pop(0)[0]
    softmax = ends_in_softmax(rest)
    if not convolutions or len(rest) != 2 or type(rest[0][1]) is not nn.Flatten:
        return None
    name, last = rest[1]
    fits = type(last) is nn.Linear and last.bias is not None
    return ConvLayers(convolutions, norm, name, softmax) if fits else None


def _plain(layer: nn.Conv2d) -> bool:
    """Whether it is a square convolution with a bias and numeric zero padding, without dilation or groups."""
    return (
        layer.bias is not None
        and layer.groups == 1
        and layer.dilation == (1, 1)
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
        and layer.kernel_size[0] == layer.kernel_size[1]
        and layer.stride[0] == layer.stride[1]
        and layer.padding[0] == layer.padding[1]
    )


class Patches:
    """The patches of a convolution: image (models, channels, pixels) to (models, channels x taps, places), and back."""

    def __init__(self, layer: nn.Conv2d, height: int, width: int) -> None:
        self.kernel, self.stride, self.padding = layer.kernel_size[0], layer.stride[0], int(layer.padding[0])
        self.height, self.width = height, width
        self.out_height = (height + 2 * self.padding - self.kernel) // self.stride + 1
        self.out_width = (width + 2 * self.padding - self.kernel) // self.stride + 1
        self._tables: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def tables(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The pixel of every (tap, place), and the (tap, place)s of every pixel, filled up with one beyond the last.

        A (tap, place) in the padding has the number of pixels as its pixel.
        """
        if device not in self._tables:
            pixels = self.height * self.width
            numbers = torch.arange(pixels, dtype=torch.float64).add(1.0).reshape(1, 1, self.height, self.width)
            unfolded = functional.unfold(numbers, self.kernel, padding=self.padding, stride=self.stride)[0].long() - 1
            taken = torch.where(unfolded < 0, pixels, unfolded).flatten()
            counts = torch.bincount(taken, minlength=pixels + 1)[:pixels]
            given = torch.full((pixels, int(counts.max())), len(taken))
            given[torch.arange(given.shape[1]) < counts[:, None]] = taken.argsort(stable=True)[: int(counts.sum())]
            self._tables[device] = taken.to(device), given.flatten().to(device)
        return self._tables[device]

    def take(self, image: Tensor) -> Tensor:
        """The patches of an image."""
        models, channels, _ = image.shape
        if image.is_cuda:
            padded = functional.pad(image, (0, 1))
            return padded.index_select(2, self.tables(image.device)[0]).view(models, channels * self.kernel**2, -1)
        shaped = image.view(models, channels, self.height, self.width)
        return functional.unfold(shaped, self.kernel, padding=self.padding, stride=self.stride)

    def give(self, patches: Tensor) -> Tensor:
        """The transpose of `take`."""
        models, rows, _ = patches.shape
        channels = rows // self.kernel**2
        if patches.is_cuda:
            padded = functional.pad(patches.view(models, channels, -1), (0, 1))
            given = self.tables(patches.device)[1]
            return padded.index_select(2, given).view(models, channels, self.height * self.width, -1).sum(3)
        size = (self.height, self.width)
        return functional.fold(patches, size, self.kernel, padding=self.padding, stride=self.stride).flatten(2)


class ConvTape(NamedTuple):
    """What the forward pass keeps for the backward pass."""

    patches: list[Tensor]
    """The input of every convolution."""
    outputs: list[Tensor]
    """The outputs after ReLU, (models, channels, places)."""
    features: Tensor
    """The input of the linear layer."""
    scores: Tensor


class ConvNet(Net):
    """Convolutions with ReLU, BatchNorm with the statistics of the training or of the sample, and a linear layer.

    Dropout is off.
    """

    def __init__(
        self, module: nn.Module, parts: ConvLayers, sample: tuple[int, ...], statistics: str = "training"
    ) -> None:
        super().__init__(module, probabilities=parts.softmax)
        self.parts = parts
        self.own_statistics = parts.norm is not None and statistics == "sample"
        """Whether BatchNorm normalises a sample by its own statistics."""
        self.patches: list[Patches] = []
        _, height, width = sample
        for name in parts.convolutions:
            self.patches.append(Patches(getattr(module, name), height, width))
            height, width = self.patches[-1].out_height, self.patches[-1].out_width
        self.eps = getattr(module, parts.norm).eps if parts.norm else 0.0

    def norm(self, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """BatchNorm as a factor and a shift, and its 1 / deviation, each (models, channels, 1)."""
        name = self.parts.norm
        deviation = torch.rsqrt(self.parameter(w, f"{name}.running_var") + self.eps)
        factor = self.parameter(w, f"{name}.weight") * deviation
        shift = self.parameter(w, f"{name}.bias") - self.parameter(w, f"{name}.running_mean") * factor
        return factor[:, :, None], shift[:, :, None], deviation[:, :, None]

    def gain(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """The weight and the bias of BatchNorm, (models, channels)."""
        return self.parameter(w, f"{self.parts.norm}.weight"), self.parameter(w, f"{self.parts.norm}.bias")

    def normalised(self, images: Tensor, places: int | tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Every channel of every sample with mean 0 and deviation 1 over its places, and 1 / deviation."""
        centred = images - images.mean(places, keepdim=True)  # torch.var_mean is slow where channels come last
        inverse = torch.rsqrt(centred.square().mean(places, keepdim=True) + self.eps)
        return centred * inverse, inverse

    def forward(self, w: Tensor, x: Tensor) -> tuple[Tensor, ConvTape]:
        image = x.flatten(2)
        taken, outputs = [], []
        for name, patches in zip(self.parts.convolutions, self.patches, strict=True):
            taken.append(patches.take(image))
            weight, bias = self.parameter(w, f"{name}.weight").flatten(2), self.parameter(w, f"{name}.bias")
            image = torch.baddbmm(bias[:, :, None], weight, taken[-1]).relu_()
            outputs.append(image)
        if self.own_statistics:
            factor, shift = self.gain(w)
            image = torch.addcmul(shift[:, :, None], self.normalised(image, 2)[0], factor[:, :, None])
        elif self.parts.norm:
            factor, shift, _ = self.norm(w)
            image = torch.addcmul(shift, image, factor)
        features = image.flatten(1)
        weight, bias = self.parameter(w, f"{self.parts.linear}.weight"), self.parameter(w, f"{self.parts.linear}.bias")
        scores = torch.baddbmm(bias[:, :, None], weight, features[:, :, None])[:, :, 0]
        if self.probabilities:
            scores = probabilities_of(scores)
        return scores, ConvTape(taken, outputs, features, scores)

    def many(self, w: Tensor, x: Tensor) -> Tensor:
        models, samples = x.shape[:2]
        for name, patches in zip(self.parts.convolutions, self.patches, strict=True):
            weight, bias = self.parameter(w, f"{name}.weight").flatten(2), self.parameter(w, f"{name}.bias")
            padded = functional.pad(x, (patches.padding,) * 4)
            cut = padded.unfold(3, patches.kernel, patches.stride).unfold(4, patches.kernel, patches.stride)
            taken = cut.permute(0, 1, 3, 4, 2, 5, 6).reshape(models, -1, weight.shape[2])
            made = torch.baddbmm(bias[:, None, :], taken, weight.transpose(1, 2)).relu()
            x = made.view(models, samples, patches.out_height, patches.out_width, -1).permute(0, 1, 4, 2, 3)
        if self.own_statistics:
            factor, shift = (part[:, None, :, None, None] for part in self.gain(w))
            x = torch.addcmul(shift, self.normalised(x, (3, 4))[0], factor)
        elif self.parts.norm:
            factor, shift, _ = (part[:, None, :, :, None] for part in self.norm(w))
            x = torch.addcmul(shift, x, factor)
        weight, bias = self.parameter(w, f"{self.parts.linear}.weight"), self.parameter(w, f"{self.parts.linear}.bias")
        return torch.baddbmm(bias[:, None, :], x.flatten(2), weight.transpose(1, 2))

    def loss_gradient(self, w: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        return grouped.loss_gradient(self, w, x, y, weights)

    def backward(self, w: Tensor, tape: ConvTape, q: Tensor) -> list[tuple[str, Tensor, Tensor]]:
        """A list of (layer, left, right): the layer's weights have the gradient left @ right, its bias the sum of left.

        For BatchNorm, left and right are the gradients themselves.
        """
        slope = through_softmax(tape.scores, q) if self.probabilities else q
        parts = self.parts
        gradient = [(parts.linear, slope[:, :, None], tape.features[:, None, :])]
        back = torch.bmm(slope[:, None, :], self.parameter(w, f"{parts.linear}.weight"))[:, 0]
        last = tape.outputs[-1]
        slope = back.view_as(last)
        if self.own_statistics:
            normed, inverse = self.normalised(last, 2)
            gradient.append((str(parts.norm), (slope * normed).sum(2), slope.sum(2)))
            slope = grouped.through_normalisation(slope * self.gain(w)[0][:, :, None], normed, inverse, 2)
        elif parts.norm:
            factor, _, deviation = self.norm(w)
            mean = self.parameter(w, f"{parts.norm}.running_mean")
            along = ((slope * last).sum(2) - slope.sum(2) * mean) * deviation[:, :, 0]
            gradient.append((parts.norm, along, slope.sum(2)))
            slope = slope * factor
        for n in range(len(parts.convolutions) - 1, -1, -1):
            name = parts.convolutions[n]
            slope = slope * (tape.outputs[n] > 0.0)
            gradient.append((name, slope, tape.patches[n].transpose(1, 2)))
            if n > 0:
                weight = self.parameter(w, f"{name}.weight").flatten(2)
                slope = self.patches[n].give(torch.bmm(weight.transpose(1, 2), slope))
        return gradient

    def subtract(self, w: Tensor, gradient: Any) -> None:
        for name, left, right in gradient:
            weight, bias = self.parameter(w, f"{name}.weight"), self.parameter(w, f"{name}.bias")
            if name == self.parts.norm:
                weight.sub_(left)
                bias.sub_(right)
            else:
                weight = weight if weight.ndim == 3 else weight.flatten(2)
                weight.baddbmm_(left, right, alpha=-1.0)
                bias.sub_(left.sum(2))


def by_sample(net: Net, sample: tuple[int, ...]) -> Net:
    """The same network by the sample's own statistics, if it is a convolutional one with one BatchNorm; else as it is.

    What the world changes in all of an image (light, contrast, noise) then reaches the learning networks less. In deep
    networks such statistics would go astray from layer to layer, so those keep the statistics of their training.
    """
    if isinstance(net, ConvNet) and net.parts.norm is not None:
        return ConvNet(net.module, net.parts, sample, "sample")
    return net
