"""The paper's convolutional networks on a GPU: `ConvNet` with five kernels per step, for two convolutions.

A fleet of small networks spends its time between kernels rather than in them, so each kernel does as much as it can
without waiting for another program: the first convolution is computed where the second uses it, gradients are folded
where they are computed, and the last kernel steps every parameter. `osamd.fleet.kernels.conv_triton` has the kernels.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from osamd.fleet.conv import ConvLayers, ConvNet, ConvTape, parts_of
from osamd.fleet.kernels.conv_triton import kernels

HAS_TRITON = find_spec("triton") is not None

WIDTHS = (16, 32, 64, 128)
"""The numbers of channels that the kernels support."""


class Tuning(NamedTuple):
    """How the work is divided; every number is a power of two. Results differ only by rounding."""

    split: int = 4
    """Channels of conv1 per program of `convolve`; conv2's sum is split accordingly."""
    depth: int = 16
    """The depth of each product in it."""
    convolve: tuple[int, int] = (4, 4)
    """Warps and stages, as in the other pairs below."""
    features: int = 256
    score: tuple[int, int] = (4, 1)
    channels: int = 4
    pull_head: tuple[int, int] = (4, 1)
    patches: int = 64
    """Rows of patches (channels x taps, padded) per program of `pull_patches`."""
    pull_patches: tuple[int, int] = (4, 1)
    stepped: int = 32
    """Columns of conv2's weights per program of `step`."""
    linear: int = 1024
    first_pixels: int = 32
    step: tuple[int, int] = (4, 2)


class TritonTape(NamedTuple):
    """What the forward pass keeps for the backward pass."""

    x: Tensor
    a1: Tensor
    """The first convolution after ReLU, with the zero padding of the second."""
    a2: Tensor
    features: Tensor


class Gradient(NamedTuple):
    """What the backward pass gives to the step."""

    tape: TritonTape
    q: Tensor
    slope1: Tensor
    """slope1 and slope2 are the slopes on the outputs of the convolutions, before ReLU."""
    slope2: Tensor
    sums: Tensor
    """The gradients of the second convolution's bias and of BatchNorm's weight and bias."""


def supports(module: nn.Module, sample: tuple[int, ...]) -> bool:
    """Whether the module is one that `TritonConvNet` has kernels for; `sample` is the shape of one x.

    It must have two convolutions with 16, 32, 64 or 128 channels, small images, and no softmax.
    """
    parts = parts_of(module)
    if parts is None or parts.softmax or len(parts.convolutions) != 2 or len(sample) != 3:
        return False
    first, second = (getattr(module, name) for name in parts.convolutions)
    sizes = _sizes(module, parts, sample)
    return bool(
        first.in_channels == sample[0]
        and getattr(module, parts.linear).in_features == second.out_channels * sizes["H2"] * sizes["L2"]
        and first.out_channels in WIDTHS
        and second.out_channels in WIDTHS
        and min(sizes["H1"], sizes["L1"], sizes["H2"], sizes["L2"]) > 0
        and sizes["H1"] * sizes["L1"] <= 1024
        and sizes["H2"] * sizes["L2"] <= 128
        and sizes["HP"] * sizes["LP"] <= 2048
        and sizes["K2"] ** 2 <= 64
        and sizes["C0"] * sizes["K1"] ** 2 < 128
    )


def _sizes(module: nn.Module, parts: ConvLayers, sample: tuple[int, ...]) -> dict[str, Any]:
    """The shapes the kernels are compiled for."""
    first, second = (getattr(module, name) for name in parts.convolutions)
    sizes: dict[str, Any] = {"C0": sample[0], "H0": sample[1], "L0": sample[2]}
    for n, layer in ((1, first), (2, second)):
        kernel, stride, padding = layer.kernel_size[0], layer.stride[0], int(layer.padding[0])
        height, width = ((sizes[f"{axis}{n - 1}"] + 2 * padding - kernel) // stride + 1 for axis in "HL")
        sizes |= {f"K{n}": kernel, f"S{n}": stride, f"P{n}": padding}
        sizes |= {f"C{n}": layer.out_channels, f"H{n}": height, f"L{n}": width}
    sizes["HP"] = (sizes["H2"] - 1) * sizes["S2"] + sizes["K2"]
    sizes["LP"] = (sizes["L2"] - 1) * sizes["S2"] + sizes["K2"]
    sizes["REACH"] = -(-sizes["K2"] // sizes["S2"])
    sizes["CLASSES"] = getattr(module, parts.linear).out_features
    sizes["NORM"] = parts.norm is not None
    sizes["EPS"] = getattr(module, parts.norm).eps if parts.norm else 0.0
    return sizes


def _power(number: int, least: int = 1) -> int:
    """The smallest power of two that is at least `number` and `least`.

    >>> _power(49), _power(2, least=16)
    (64, 16)
    """
    return max(least, 1 << (number - 1).bit_length())


def _cut(sizes: dict[str, Any], tuning: Tuning) -> dict[str, Any]:
    """The shapes, and how the work on them is divided."""
    s, taps = sizes, _power(sizes["K2"] ** 2)
    return sizes | {
        "PIXELS": _power(s["H1"] * s["L1"], least=16),
        "CELLS": _power(s["HP"] * s["LP"], least=16),
        "PLACES": _power(s["H2"] * s["L2"], least=16),
        "SPLIT": min(tuning.split, s["C1"]),
        "DEPTH": tuning.depth,
        "FEATURES": tuning.features,
        "SOME_CLASSES": min(_power(s["CLASSES"]), 16),
        "CHANNELS": min(tuning.channels, s["C2"]),
        "TAPS": taps,
        "FOLDED": min(max(tuning.patches // taps, 1), s["C1"]),
        "OUT": min(s["C2"], 64),
        "FIRST_TAPS": _power(s["C0"] * s["K1"] ** 2 + 1, least=16),
        "FIRST_PIXELS": tuning.first_pixels,
        "STEPPED": tuning.stepped,
        "LINEAR": tuning.linear,
        "ALL_CLASSES": _power(s["CLASSES"]),
    }


class TritonConvNet(ConvNet):
    """`ConvNet` with kernels of its own for CUDA float32, and plain `ConvNet` for anything else.

    `precision` is that of the products: "ieee" is float32, "tf32x3" is nearly that on the tensor cores, "tf32" is
    theirs.
    """

    def __init__(
        self,
        module: nn.Module,
        parts: ConvLayers,
        sample: tuple[int, ...],
        *,
        precision: str = "tf32x3",
        tuning: Tuning | None = None,
    ) -> None:
        super().__init__(module, parts, sample)
        self.tuning = tuning or Tuning()
        self._cut = self._offsets() | _cut(_sizes(module, parts, sample), self.tuning) | {"PRECISION": precision}

    def _offsets(self) -> dict[str, int]:
        """Where the layers' tensors begin in a row."""
        names = dict(zip(("1", "2"), self.parts.convolutions, strict=True)) | {"3": self.parts.linear}
        wanted = {f"AT_W{n}": f"{name}.weight" for n, name in names.items()}
        wanted |= {f"AT_B{n}": f"{name}.bias" for n, name in names.items()}
        norm = {"FACTOR": "weight", "SHIFT": "bias", "MEAN": "running_mean", "VARIANCE": "running_var"}
        wanted |= {f"AT_{n}": f"{self.parts.norm}.{name}" for n, name in norm.items()}
        first = {place.name: place.first for place in self.places}
        return {key: first.get(name, 0) for key, name in wanted.items()}

    def _takes(self, w: Tensor) -> bool:
        interpreted = os.environ.get("TRITON_INTERPRET") == "1"
        return HAS_TRITON and w.dtype == torch.float32 and w.stride(1) == 1 and (w.is_cuda or interpreted)

    def _launch(self, name: str, programs: int, models: int, *given: Any, **more: Any) -> None:
        kernel = kernels()[name]
        warps, stages = getattr(self.tuning, name)
        fixed = {name: self._cut[name] for name in kernel.arg_names if name in self._cut}
        kernel[(programs, models)](*given, **fixed, **more, num_warps=warps, num_stages=stages)

    def convolve(self, w: Tensor, x: Tensor, a1: Tensor, partial: Tensor) -> None:
        splits = self._cut["C1"] // self._cut["SPLIT"]
        self._launch("convolve", splits, len(w), w, w.stride(0), x, a1, partial)

    def score(self, w: Tensor, partial: Tensor, tape: TritonTape, scores: Tensor) -> None:
        some = (w, w.stride(0), partial, tape.a2, tape.features, scores)
        self._launch("score", scores.shape[1], len(w), *some)

    def forward(self, w: Tensor, x: Tensor) -> tuple[Tensor, Any]:
        if not self._takes(w) or x.dtype != w.dtype:
            return super().forward(w, x)
        s, models = self._cut, len(w)
        features = s["C2"] * s["H2"] * s["L2"]
        a1 = w.new_empty(models, s["C1"], s["HP"] * s["LP"])
        partial = w.new_empty(models, s["C1"] // s["SPLIT"], features)
        tape = TritonTape(x.contiguous(), a1, w.new_empty(models, features), w.new_empty(models, features))
        scores = w.new_empty(models, -(-features // s["FEATURES"]), s["CLASSES"])
        self.convolve(w, tape.x, a1, partial)
        self.score(w, partial, tape, scores)
        return scores.sum(1), tape

    def pull_head(self, w: Tensor, to: Gradient) -> None:
        s = self._cut
        some = (w, w.stride(0), to.q, to.tape.a2, to.slope2, to.sums)
        self._launch("pull_head", s["C2"] // s["CHANNELS"], len(w), *some)

    def pull_patches(self, w: Tensor, to: Gradient, patches: Tensor) -> None:
        s = self._cut
        some = (w, w.stride(0), to.tape.a1, to.slope2, patches, to.slope1)
        self._launch("pull_patches", s["C1"] // s["FOLDED"], len(w), *some)

    def backward(self, w: Tensor, tape: Any, q: Tensor) -> Any:
        if isinstance(tape, ConvTape):
            return super().backward(w, tape, q)
        s, models = self._cut, len(w)
        slope1 = w.new_empty(models, s["C1"] * s["H1"] * s["L1"])
        gradient = Gradient(tape, q.contiguous(), slope1, torch.empty_like(tape.a2), w.new_empty(models, 3, s["C2"]))
        self.pull_head(w, gradient)
        self.pull_patches(w, gradient, w.new_empty(models, s["C1"] * s["K2"] ** 2 * s["H2"] * s["L2"]))
        return gradient

    def step(self, w: Tensor, gradient: Gradient, anchor: Tensor, rate: Tensor, anchored: bool) -> None:
        s, tape = self._cut, gradient.tape
        second = -(-s["C1"] * s["K2"] ** 2 // s["STEPPED"])
        linear = -(-s["CLASSES"] * s["C2"] * s["H2"] * s["L2"] // s["LINEAR"])
        some = (w, w.stride(0), anchor, anchor.stride(0), rate, rate.stride(0))
        rest = (tape.x, tape.a1, tape.features, gradient.q, gradient.slope1, gradient.slope2, gradient.sums)
        programs = s["C1"] // 16 + second + linear + 1
        self._launch("step", programs, len(w), *some, *rest, ANCHORED=anchored)

    def subtract(self, w: Tensor, gradient: Any) -> None:
        if isinstance(gradient, Gradient):
            self.step(w, gradient, w, w, anchored=False)
        else:
            super().subtract(w, gradient)

    def descend(self, w: Tensor, gradient: Any, anchor: Tensor, rate: Tensor) -> None:
        if isinstance(gradient, Gradient):
            self.step(w, gradient, anchor, rate, anchored=True)
        else:
            super().descend(w, gradient, anchor, rate)
