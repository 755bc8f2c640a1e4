"""The paper's convolutional networks on a GPU: `ConvNet` with four kernels per step, for two convolutions.

A fleet of small networks spends its time between kernels rather than in them, so each kernel does as much as it can
without waiting for another program: the first convolution is computed where the second uses it, and the last kernel
folds the slopes, computes the gradients and steps every parameter. `osamd.fleet.kernels.conv_triton` has the kernels.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from osamd.fleet.conv import ConvLayers, ConvNet, ConvTape, parts_of
from osamd.fleet.kernels.conv_triton import kernels
from osamd.paper.losses import Loss

HAS_TRITON = find_spec("triton") is not None

WIDTHS = (16, 32, 64, 128)
"""The numbers of channels that the kernels support."""


class Tuning(NamedTuple):
    """How the work is divided; every number is a power of two. Results differ only by rounding."""

    split: int = 4
    """Channels of conv1 per program of `convolve`; conv2's sum is split accordingly."""
    convolve: tuple[int, int, int | None] = (4, 1, None)
    """Warps, stages and the most registers per thread, as in the others below."""
    features: int = 512
    """Features (channels x places, padded) per program of `score`."""
    score: tuple[int, int, int | None] = (4, 1, None)
    channels: int = 4
    pull_head: tuple[int, int, int | None] = (2, 1, None)
    patches: int = 64
    """Rows of patches (channels x taps, padded) per program of `step`."""
    depth: int = 32
    """The depth of each product in it."""
    pairs: int = 16
    """How many entries of the patches are added to a pixel at once."""
    linear: int = 1024
    step: tuple[int, int, int | None] = (4, 1, None)


class TritonTape(NamedTuple):
    """What the forward pass keeps for the backward pass."""

    a0: Tensor
    """The patches of x, with a last column of ones."""
    a1: Tensor
    """a1 and a2 are the convolutions after ReLU."""
    a2: Tensor
    features: Tensor
    scores: Tensor
    """The contributions to the scores, (models x parts x classes)."""


class Gradient(NamedTuple):
    """What the backward pass gives to the step, which does the rest: w must not change until then."""

    w: Tensor
    tape: TritonTape
    q: Tensor
    slope2: Tensor
    """The slope on the second convolution's output, before ReLU."""
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
        and sizes["K2"] ** 2 <= 64
        and sizes["C0"] * sizes["K1"] ** 2 < 128
    )


def _sizes(
    module: nn.Module, parts: ConvLayers, sample: tuple[int, ...], statistics: str = "training"
) -> dict[str, Any]:
    """The shapes the kernels are compiled for."""
    first, second = (getattr(module, name) for name in parts.convolutions)
    sizes: dict[str, Any] = {"C0": sample[0], "H0": sample[1], "L0": sample[2]}
    for n, layer in ((1, first), (2, second)):
        kernel, stride, padding = layer.kernel_size[0], layer.stride[0], int(layer.padding[0])
        height, width = ((sizes[f"{axis}{n - 1}"] + 2 * padding - kernel) // stride + 1 for axis in "HL")
        sizes |= {f"K{n}": kernel, f"S{n}": stride, f"P{n}": padding}
        sizes |= {f"C{n}": layer.out_channels, f"H{n}": height, f"L{n}": width}
    sizes["REACH"] = -(-sizes["K2"] // sizes["S2"])
    sizes["CLASSES"] = getattr(module, parts.linear).out_features
    sizes["NORM"] = statistics if parts.norm else "none"
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
    s, taps = sizes, _power(sizes["K2"] ** 2, least=16)
    pixels, split = _power(s["H1"] * s["L1"], least=16), min(tuning.split, s["C1"])
    places = _power(s["H2"] * s["L2"], least=16)
    scored = min(max(tuning.features // places, 1), s["C2"])
    parts = s["C2"] // scored
    return sizes | {
        "PIXELS": pixels,
        "PLACES": places,
        "TAPS": taps,
        "SPLIT": split,
        "SHARE": max(pixels * split // s["C1"], 1),
        "DEPTH": min(tuning.depth, s["C2"], places),
        "SCORED": scored,
        "SOME_CLASSES": min(_power(s["CLASSES"]), 16),
        "PARTS": parts,
        "ALL_PARTS": _power(parts),
        "CHANNELS": min(tuning.channels, s["C2"]),
        "FOLDED": min(max(tuning.patches // taps, 1), s["C1"]),
        "PAIRS": min(tuning.pairs, _power(s["REACH"] ** 2)),
        "FIRST_TAPS": _power(s["C0"] * s["K1"] ** 2 + 1, least=16),
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
        statistics: str = "training",
        *,
        precision: str = "tf32x3",
        tuning: Tuning | None = None,
    ) -> None:
        super().__init__(module, parts, sample, statistics)
        self.tuning = tuning or Tuning()
        sizes = _sizes(module, parts, sample, statistics)
        self._cut = self._offsets() | _cut(sizes, self.tuning) | {"PRECISION": precision}

    def _offsets(self) -> dict[str, int]:
        """Where the layers' tensors begin in a row."""
        names = dict(zip(("1", "2"), self.parts.convolutions, strict=True)) | {"3": self.parts.linear}
        wanted = {f"AT_W{n}": f"{name}.weight" for n, name in names.items()}
        wanted |= {f"AT_B{n}": f"{name}.bias" for n, name in names.items()}
        norm = {"FACTOR": "weight", "SHIFT": "bias", "MEAN": "running_mean", "VARIANCE": "running_var"}
        wanted |= {f"AT_{n}": f"{self.parts.norm}.{name}" for n, name in norm.items()}
        first = {place.name: place.first for place in self.places}
        return {key: first.get(name, 0) for key, name in wanted.items()}

    def _takes(self, w: Tensor, x: Tensor) -> bool:
        """Whether the kernels can work on these rows and samples."""
        single = w.dtype == x.dtype == torch.float32
        interpreted = os.environ.get("TRITON_INTERPRET") == "1"
        return HAS_TRITON and single and w.stride(1) == 1 and (w.is_cuda or interpreted)

    def _launch(self, name: str, programs: int, w: Tensor, *given: Any, **more: Any) -> None:
        kernel = kernels()[name]
        warps, stages, registers = getattr(self.tuning, name)
        fixed = {name: self._cut[name] for name in kernel.arg_names if name in self._cut}
        options = {"num_warps": warps, "num_stages": stages, "maxnreg": registers}
        kernel[(programs, len(w))](w, w.stride(0), *given, **fixed, **more, **options)

    def _pass(self, w: Tensor, x: Tensor) -> TritonTape:
        """The forward pass, but for the sum of the contributions to the scores."""
        s, models = self._cut, len(w)
        splits, features = s["C1"] // s["SPLIT"], s["C2"] * s["H2"] * s["L2"]
        a0 = w.new_empty(models, s["PIXELS"], s["FIRST_TAPS"])
        a1 = w.new_empty(models, s["C1"], s["H1"] * s["L1"])
        partial = w.new_empty(models, splits, features)
        scores = w.new_empty(models, s["PARTS"], s["CLASSES"])
        tape = TritonTape(a0, a1, w.new_empty(models, features), w.new_empty(models, features), scores)
        self._launch("convolve", splits, w, x.contiguous(), a0, a1, partial)
        self._launch("score", s["PARTS"], w, partial, tape.a2, tape.features, scores)
        return tape

    def _pull(self, w: Tensor, tape: TritonTape, q: Tensor, own: Tensor, lengths: Tensor, softmax: bool) -> Gradient:
        s = self._cut
        gradient = Gradient(w, tape, q, torch.empty_like(tape.a2), w.new_empty(len(w), 3, s["C2"]))
        some = (tape.scores, own, lengths, q, tape.a2, gradient.slope2, gradient.sums)
        self._launch("pull_head", s["C2"] // s["CHANNELS"], w, *some, SOFTMAX=softmax)
        return gradient

    def forward(self, w: Tensor, x: Tensor) -> tuple[Tensor, Any]:
        if not self._takes(w, x):
            return super().forward(w, x)
        tape = self._pass(w, x)
        return tape.scores.sum(1), tape

    def backward(self, w: Tensor, tape: Any, q: Tensor) -> Any:
        if isinstance(tape, ConvTape):
            return super().backward(w, tape, q)
        q = q.contiguous()
        return self._pull(w, tape, q, q, q, softmax=False)

    def _fuses(self, loss: Loss, w: Tensor, x: Tensor) -> bool:
        """Whether the kernels compute this loss."""
        return loss.name == "softmax" and self._cut["CLASSES"] <= self._cut["SOME_CLASSES"] and self._takes(w, x)

    def gradient_at(self, w: Tensor, x: Tensor, own: Tensor, lengths: Tensor, loss: Loss) -> Any:
        """As `Net.gradient_at`; for the softmax loss nothing is launched between the two passes."""
        if not self._fuses(loss, w, x):
            return super().gradient_at(w, x, own, lengths, loss)
        return self._pull(w, self._pass(w, x), torch.empty_like(own), own, lengths, softmax=True)

    def step(self, w: Tensor, gradient: Gradient, anchor: Tensor, rate: Tensor, anchored: bool) -> None:
        s, tape = self._cut, gradient.tape
        linear = -(-s["CLASSES"] * s["C2"] * s["H2"] * s["L2"] // s["LINEAR"])
        some = (w, w.stride(0), anchor, anchor.stride(0), rate, rate.stride(0))
        rest = (tape.a0, tape.a1, tape.features, gradient.q, gradient.slope2, gradient.sums)
        programs = s["C1"] // s["FOLDED"] + linear + 1
        self._launch("step", programs, gradient.w, *some, *rest, ANCHORED=anchored)

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
