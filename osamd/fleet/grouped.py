"""The gradient of a loss over several samples per model, for convolutional networks.

On a GPU the convolutions of all models are one convolution with a group per model, whose channels come last in memory:
torch's kernels are then several times faster than a matrix product over patches, which must be written first. On a CPU
the models come one after another, since torch is slower there for groups. Two parts of the backward pass are slow, and
are computed otherwise: the gradient in the weights of the first convolution, which has few channels, is a product over
patches; and on a GPU the gradient in the input of a convolution with a stride is made of one convolution without a
stride for each residue of the pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from osamd.fleet.dense import loss_slope

if TYPE_CHECKING:
    from osamd.fleet.conv import ConvNet, Patches


class GroupedTape(NamedTuple):
    """What the forward pass keeps for the backward pass. Images are (samples, models, channels, height, width)."""

    patches: Tensor
    """The input of the first convolution, (models, samples x places, channels x taps)."""
    outputs: list[Tensor]
    """The outputs of the convolutions after ReLU, (samples, models x channels, height, width)."""
    normed: tuple[Tensor, Tensor] | None
    """The last output by the sample's own statistics, and 1 / deviation, where the network has them."""
    features: Tensor
    """The input of the linear layer, (models, samples, features)."""


def loss_gradient(net: ConvNet, w: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """As `Net.loss_gradient`."""
    if w.is_cuda:
        return of_all(net, w, x, y, weights)
    parts = zip(*(tensor.split(1) for tensor in (w, x, y, weights)), strict=True)
    return torch.cat([of_all(net, *part) for part in parts])


def of_all(net: ConvNet, w: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """The gradients of all models together."""
    tape = forward(net, w, x)
    weight, bias = net.parameter(w, f"{net.parts.linear}.weight"), net.parameter(w, f"{net.parts.linear}.bias")
    logits = torch.baddbmm(bias[:, None, :], tape.features, weight.transpose(1, 2))
    return backward(net, w, tape, loss_slope(logits, y, weights))


def forward(net: ConvNet, w: Tensor, x: Tensor) -> GroupedTape:
    """Everything but the linear layer, for samples (models, samples, channels, height, width)."""
    models, samples = x.shape[:2]
    first = net.patches[0]
    padded = functional.pad(x.flatten(0, 1), (first.padding,) * 4)
    cut = padded.unfold(2, first.kernel, first.stride).unfold(3, first.kernel, first.stride)
    patches = cut.permute(0, 2, 3, 1, 4, 5).reshape(models, samples * first.out_height * first.out_width, -1)
    name = net.parts.convolutions[0]
    weight, bias = net.parameter(w, f"{name}.weight").flatten(2), net.parameter(w, f"{name}.bias")
    made = torch.baddbmm(bias[:, None, :], patches, weight.transpose(1, 2)).relu_()
    outputs = [_grouped(made, samples, first)]
    for name, one in zip(net.parts.convolutions[1:], net.patches[1:], strict=True):
        weight, bias = net.parameter(w, f"{name}.weight").flatten(0, 1), net.parameter(w, f"{name}.bias").flatten()
        made = functional.conv2d(outputs[-1], _last(weight), bias, one.stride, one.padding, groups=models)
        outputs.append(made.relu_())
    images, normed = outputs[-1].unflatten(1, (models, -1)), None
    if net.own_statistics:
        factor, shift = (part[None, :, :, None, None] for part in net.gain(w))
        normed = net.normalised(images, (3, 4))
        images = torch.addcmul(shift, normed[0], factor)
    elif net.parts.norm:
        factor, shift, _ = (part[None, ..., None] for part in net.norm(w))
        images = torch.addcmul(shift, images, factor)
    return GroupedTape(patches, outputs, normed, images.transpose(0, 1).flatten(2))


def backward(net: ConvNet, w: Tensor, tape: GroupedTape, slope: Tensor) -> Tensor:
    """The gradient in what learns, from the slope on the logits (models, samples, classes)."""
    models, samples = slope.shape[:2]
    parts, patches, outputs = net.parts, tape.patches, tape.outputs
    flat = torch.empty(models, net.trained, dtype=w.dtype, device=w.device)

    def write(name: str, weight: Tensor, bias: Tensor) -> None:
        place = net.parameter(flat, f"{name}.weight")
        place.copy_(weight.view_as(place))
        net.parameter(flat, f"{name}.bias").copy_(bias)

    write(parts.linear, torch.bmm(slope.transpose(1, 2), tape.features), slope.sum(1))
    back = torch.bmm(slope, net.parameter(w, f"{parts.linear}.weight"))
    back = back.view(models, samples, -1, *outputs[-1].shape[2:]).transpose(0, 1)
    if parts.norm:
        back, along, total = through_norm(net, w, tape, back)
        write(parts.norm, along, total)
    slope = through_relu(_last(back.flatten(1, 2)), outputs[-1])
    for n in range(len(net.patches) - 1, 0, -1):
        name, one, given = parts.convolutions[n], net.patches[n], outputs[n - 1]
        kernel = net.parameter(w, f"{name}.weight")
        in_input, in_weight, _ = torch.ops.aten.convolution_backward(
            slope, given, _last(kernel.flatten(0, 1)), None, [one.stride] * 2, [one.padding] * 2, [1, 1], False,
            [0, 0], models, [not slope.is_cuda, True, False],
        )  # fmt: skip
        write(name, in_weight.view_as(kernel), slope.sum((0, 2, 3)).view(models, -1))
        slope = through_relu(input_slope(slope, kernel, one) if slope.is_cuda else in_input, given)
    slope = slope.unflatten(1, (models, -1)).permute(1, 0, 3, 4, 2).reshape(models, patches.shape[1], -1)
    write(parts.convolutions[0], torch.bmm(slope.transpose(1, 2), patches), slope.sum(1))
    return flat


def through_relu(slope: Tensor, outputs: Tensor) -> Tensor:
    """The slope before ReLU, from that on its outputs."""
    before: Tensor = torch.ops.aten.threshold_backward(slope, outputs, 0.0)
    return before


def through_norm(net: ConvNet, w: Tensor, tape: GroupedTape, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The slope on the images before BatchNorm, and the gradients in its weight and bias."""
    total = slope.sum((0, 3, 4))
    if tape.normed is not None:
        normed, inverse = tape.normed
        along, factor = (slope * normed).sum((0, 3, 4)), net.gain(w)[0][None, :, :, None, None]
        return through_normalisation(slope * factor, normed, inverse, (3, 4)), along, total
    factor, _, deviation = net.norm(w)
    mean = net.parameter(w, f"{net.parts.norm}.running_mean")
    images = tape.outputs[-1].unflatten(1, (len(w), -1))
    along = ((slope * images).sum((0, 3, 4)) - total * mean) * deviation[:, :, 0]
    return slope * factor[None, ..., None], along, total


def through_normalisation(slope: Tensor, normed: Tensor, inverse: Tensor, places: int | tuple[int, ...]) -> Tensor:
    """The slope on images, from that on the images as `ConvNet.normalised` gives them."""
    along = (slope * normed).mean(places, keepdim=True)
    return inverse * (slope - slope.mean(places, keepdim=True) - normed * along)


def input_slope(slope: Tensor, kernel: Tensor, one: Patches) -> Tensor:
    """The slope on the input of a convolution, from that on its output (samples, models x channels, height, width).

    The kernel is (models, outputs, inputs, taps, taps). A pixel s a + r of the input, with the stride s and r < s,
    meets only the taps k0 + s j, at the place a + c - j of the output.
    """
    models, stride = len(kernel), one.stride
    made = torch.empty(
        len(slope), models * kernel.shape[2], one.height, one.width, dtype=slope.dtype, device=slope.device
    ).to(memory_format=torch.channels_last)
    for i in range(stride):
        for j in range(stride):
            pads, taps = [], []
            for r, size, places in ((j, one.width, one.out_width), (i, one.height, one.out_height)):
                k0, c = (r + one.padding) % stride, (r + one.padding) // stride
                count, wide = len(range(k0, one.kernel, stride)), len(range(r, size, stride))
                pads += [count - 1 - c, wide - 1 + c - (places - 1)]
                taps.append(slice(k0, None, stride))
            part = kernel[..., taps[1], taps[0]]
            if not part.numel():
                made[:, :, i::stride, j::stride] = 0.0
                continue
            turned = part.flip(3, 4).transpose(1, 2).flatten(0, 1)
            padded = functional.pad(slope, pads)
            made[:, :, i::stride, j::stride] = functional.conv2d(_last(padded), _last(turned), groups=models)
    return made


def _last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=torch.channels_last)


def _grouped(made: Tensor, samples: int, one: Patches) -> Tensor:
    """(models, samples x places, channels) as (samples, models x channels, height, width), channels last in memory."""
    apart = made.unflatten(1, (samples, one.out_height, one.out_width))
    grouped: Tensor = apart.permute(1, 2, 3, 0, 4).flatten(3).permute(0, 3, 1, 2)
    return grouped
