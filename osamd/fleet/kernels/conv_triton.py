"""The kernels of `osamd.fleet.kernels.conv_cuda`, in Triton: five per step of a network with two convolutions.

`convolve` splits the second convolution's sum over input channels and writes one partial sum per split; `score` adds
them and writes partial scores; `pull_head` carries the slope on the scores to the second convolution's output, and
`pull_patches` from there to the first's; `step` computes the gradients of the weights and takes the step. No sum
depends on the order of programs.

The first convolution's output is kept as the second takes it: with its zero padding, so that an entry of a patch lies
at the sum of an offset for its place and an offset for its channel and tap.

Sizes are those of `osamd.fleet.kernels.conv_cuda`. C, H, L are channels, height and width, of the sample (0) and after
each convolution; K, S, P are a convolution's kernel, stride and padding; HP, LP are the height and width of the second
one's padded input; AT is where a tensor begins in a row of parameters; the other capitals say how the work is divided.
The kernels are long because a launch costs more than what most of them do.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

tl: Any = None
constexpr = Any
tensor = Any
"""Triton's own, once `kernels` has imported it: Triton looks up the names in a kernel among its module's globals."""


@lru_cache(maxsize=1)
def kernels() -> dict[str, Any]:
    """The functions below as Triton compiles them, by name."""
    triton, language = import_module("triton"), import_module("triton.language")
    made = {f.__name__: triton.jit(f) for f in (convolve, score, pull_head, pull_patches, move, step)}
    words = {"tl": language, "constexpr": language.constexpr, "tensor": language.tensor, "move": made["move"]}
    globals().update(words)
    return made


def convolve(
    w: tensor, w_stride: tensor, x: tensor, a1: tensor, partial: tensor,
    C0: constexpr, H0: constexpr, L0: constexpr, K1: constexpr, S1: constexpr, P1: constexpr,
    C1: constexpr, H1: constexpr, L1: constexpr, K2: constexpr, S2: constexpr, P2: constexpr,
    C2: constexpr, H2: constexpr, L2: constexpr, HP: constexpr, LP: constexpr,
    AT_W1: constexpr, AT_B1: constexpr, AT_W2: constexpr,
    PIXELS: constexpr, CELLS: constexpr, PLACES: constexpr, SPLIT: constexpr, DEPTH: constexpr, PRECISION: constexpr,
) -> None:  # fmt: skip
    """a1 = relu(conv1(x)) for SPLIT channels, padded, and their contribution to conv2(a1), without its bias."""
    split, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    w += model * w_stride
    x += model * (C0 * H0 * L0)
    a1 += model * (C1 * HP * LP)
    partial += (model * (C1 // SPLIT) + split) * (C2 * H2 * L2)

    channel = split * SPLIT + tl.arange(0, SPLIT)
    pixel = tl.arange(0, PIXELS)
    row, column = pixel // L1, pixel % L1
    value = tl.zeros((SPLIT, PIXELS), tl.float32) + tl.load(w + AT_B1 + channel)[:, None]
    for line in range(C0 * K1):
        top = row * S1 - P1 + line % K1
        seen_row = (pixel < H1 * L1) & (top >= 0) & (top < H0)
        for kx in tl.static_range(K1):
            left = column * S1 - P1 + kx
            seen = seen_row & (left >= 0) & (left < L0)
            taken = tl.load(x + (line // K1 * H0 + top) * L0 + left, mask=seen, other=0.0)
            weight = tl.load(w + AT_W1 + channel * (C0 * K1 * K1) + line * K1 + kx)
            value += weight[:, None] * taken[None, :]
    value = tl.where(value < 0.0, 0.0, value)  # keeps NaN
    kept = (pixel < H1 * L1) & (row + P2 < HP) & (column + P2 < LP)
    inner = a1 + channel[:, None] * (HP * LP) + ((row + P2) * LP + column + P2)[None, :]
    tl.store(inner, value, mask=kept[None, :] & (channel < C1)[:, None])
    cell = tl.arange(0, CELLS)
    cell_row, cell_column = cell // LP, cell % LP
    within = (cell_row >= P2) & (cell_row < H1 + P2) & (cell_column >= P2) & (cell_column < L1 + P2)
    border = (cell < HP * LP) & (within == 0)
    zeros = tl.zeros((SPLIT, CELLS), tl.float32)
    tl.store(a1 + channel[:, None] * (HP * LP) + cell[None, :], zeros, mask=border[None, :] & (channel < C1)[:, None])
    tl.debug_barrier()

    out, place = tl.arange(0, C2), tl.arange(0, PLACES)
    corner = place // L2 * (S2 * LP) + place % L2 * S2
    total = tl.zeros((C2, PLACES), tl.float32)
    for first in range(0, SPLIT * K2 * K2, DEPTH):
        own = first + tl.arange(0, DEPTH)
        k = split * (SPLIT * K2 * K2) + own
        tap = k % (K2 * K2)
        offset = k // (K2 * K2) * (HP * LP) + tap // K2 * LP + tap % K2
        real = own < SPLIT * K2 * K2
        weight = tl.load(w + AT_W2 + out[:, None] * (C1 * K2 * K2) + k[None, :], mask=real[None, :], other=0.0)
        taken = real[:, None] & (place < H2 * L2)[None, :]
        patches = tl.load(a1 + offset[:, None] + corner[None, :], mask=taken, other=0.0)
        total = tl.dot(weight, patches, total, input_precision=PRECISION)
    tl.store(partial + out[:, None] * (H2 * L2) + place[None, :], total, mask=(place < H2 * L2)[None, :])


def score(
    w: tensor, w_stride: tensor, partial: tensor, a2: tensor, features: tensor, scores: tensor,
    C1: constexpr, C2: constexpr, H2: constexpr, L2: constexpr, CLASSES: constexpr, NORM: constexpr, EPS: constexpr,
    AT_B2: constexpr, AT_FACTOR: constexpr, AT_SHIFT: constexpr, AT_MEAN: constexpr, AT_VARIANCE: constexpr,
    AT_W3: constexpr, AT_B3: constexpr, SPLIT: constexpr, FEATURES: constexpr, SOME_CLASSES: constexpr,
) -> None:  # fmt: skip
    """a2 = relu(conv2 + bias), BatchNorm's output for it, and the contribution of FEATURES features to the scores."""
    block, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    w += model * w_stride
    feature = block * FEATURES + tl.arange(0, FEATURES)
    real = feature < C2 * H2 * L2
    channel = feature // (H2 * L2)
    at = model * (C2 * H2 * L2) + feature
    value = tl.load(w + AT_B2 + channel, mask=real, other=0.0)
    for split in tl.static_range(C1 // SPLIT):
        part = partial + (model * (C1 // SPLIT) + split) * (C2 * H2 * L2) + feature
        value += tl.load(part, mask=real, other=0.0)
    value = tl.where(value < 0.0, 0.0, value)
    tl.store(a2 + at, value, mask=real)
    if NORM:
        deviation = 1.0 / tl.sqrt(tl.load(w + AT_VARIANCE + channel, mask=real, other=1.0) + EPS)
        factor = tl.load(w + AT_FACTOR + channel, mask=real, other=0.0) * deviation
        mean = tl.load(w + AT_MEAN + channel, mask=real, other=0.0)
        value = value * factor + (tl.load(w + AT_SHIFT + channel, mask=real, other=0.0) - mean * factor)
    tl.store(features + at, value, mask=real)
    for first in range(0, CLASSES, SOME_CLASSES):
        c = first + tl.arange(0, SOME_CLASSES)
        known = c < CLASSES
        wanted = known[:, None] & real[None, :]
        weight = tl.load(w + AT_W3 + c[:, None] * (C2 * H2 * L2) + feature[None, :], mask=wanted, other=0.0)
        bias = tl.load(w + AT_B3 + c, mask=known & (block == 0), other=0.0)
        score = tl.sum(weight * value[None, :], axis=1) + bias
        tl.store(scores + (model * tl.num_programs(0) + block) * CLASSES + c, score, mask=known)


def pull_head(
    w: tensor, w_stride: tensor, q: tensor, a2: tensor, slope2: tensor, sums: tensor,
    C2: constexpr, H2: constexpr, L2: constexpr, CLASSES: constexpr, NORM: constexpr, EPS: constexpr,
    AT_FACTOR: constexpr, AT_MEAN: constexpr, AT_VARIANCE: constexpr, AT_W3: constexpr,
    PLACES: constexpr, CHANNELS: constexpr, SOME_CLASSES: constexpr,
) -> None:  # fmt: skip
    """The slope on conv2's output for CHANNELS channels, and the gradients of its bias and of BatchNorm's weight and
    bias."""
    block, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    w += model * w_stride
    channel, place = block * CHANNELS + tl.arange(0, CHANNELS), tl.arange(0, PLACES)
    inside = (place < H2 * L2)[None, :] & (channel < C2)[:, None]
    feature = channel[:, None] * (H2 * L2) + place[None, :]
    slope = tl.zeros((CHANNELS, PLACES), tl.float32)
    for first in range(0, CLASSES, SOME_CLASSES):
        c = first + tl.arange(0, SOME_CLASSES)
        known = c < CLASSES
        on_score = tl.load(q + model * CLASSES + c, mask=known, other=0.0)
        at = AT_W3 + c[:, None, None] * (C2 * H2 * L2) + feature[None, :, :]
        weight = tl.load(w + at, mask=known[:, None, None] & inside[None, :, :], other=0.0)
        slope += tl.sum(weight * on_score[:, None, None], axis=0)
    value = tl.load(a2 + model * (C2 * H2 * L2) + feature, mask=inside, other=0.0)
    sums += model * (3 * C2) + channel
    if NORM:
        deviation = 1.0 / tl.sqrt(tl.load(w + AT_VARIANCE + channel) + EPS)
        whole = tl.sum(slope, axis=1)
        along = (tl.sum(slope * value, axis=1) - whole * tl.load(w + AT_MEAN + channel)) * deviation
        tl.store(sums + C2, along)
        tl.store(sums + 2 * C2, whole)
        slope = slope * (tl.load(w + AT_FACTOR + channel) * deviation)[:, None]
    slope = tl.where(value > 0.0, slope, 0.0)
    tl.store(slope2 + model * (C2 * H2 * L2) + feature, slope, mask=inside)
    tl.store(sums, tl.sum(slope, axis=1))


def pull_patches(
    w: tensor, w_stride: tensor, a1: tensor, slope2: tensor, patches: tensor, slope1: tensor,
    C1: constexpr, H1: constexpr, L1: constexpr, K2: constexpr, S2: constexpr, P2: constexpr,
    C2: constexpr, H2: constexpr, L2: constexpr, HP: constexpr, LP: constexpr, AT_W2: constexpr,
    PIXELS: constexpr, PLACES: constexpr, TAPS: constexpr, FOLDED: constexpr, REACH: constexpr, OUT: constexpr,
    PRECISION: constexpr,
) -> None:  # fmt: skip
    """The slope on conv1's output for FOLDED of its channels: first on the patches, then folded."""
    block, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    w += model * w_stride
    a1 += model * (C1 * HP * LP)
    slope2 += model * (C2 * H2 * L2)
    patches += model * (C1 * K2 * K2 * H2 * L2)
    k, place = tl.arange(0, FOLDED * TAPS), tl.arange(0, PLACES)
    real = (k % TAPS < K2 * K2)[:, None]
    k = (block * FOLDED + k // TAPS) * (K2 * K2) + k % TAPS
    inside = (place < H2 * L2)[None, :]
    total = tl.zeros((FOLDED * TAPS, PLACES), tl.float32)
    for first in range(0, C2, OUT):
        out = first + tl.arange(0, OUT)
        weight = tl.load(w + AT_W2 + k[:, None] + out[None, :] * (C1 * K2 * K2), mask=real, other=0.0)
        slope = tl.load(slope2 + out[:, None] * (H2 * L2) + place[None, :], mask=inside, other=0.0)
        total = tl.dot(weight, slope, total, input_precision=PRECISION)
    tl.store(patches + k[:, None] * (H2 * L2) + place[None, :], total, mask=real & inside)
    tl.debug_barrier()

    channel, pixel = block * FOLDED + tl.arange(0, FOLDED), tl.arange(0, PIXELS)
    row, column = pixel // L1 + P2, pixel % L1 + P2
    value = tl.zeros((FOLDED, PIXELS), tl.float32)
    for j in tl.static_range(REACH):
        y, ky = row // S2 - j, row % S2 + j * S2
        given_row = (pixel < H1 * L1) & (y >= 0) & (y < H2) & (ky < K2)
        for i in tl.static_range(REACH):
            u, kx = column // S2 - i, column % S2 + i * S2
            given = given_row & (u >= 0) & (u < L2) & (kx < K2)
            at = (ky * K2 + kx) * (H2 * L2) + y * L2 + u
            value += tl.load(
                patches + channel[:, None] * (K2 * K2 * H2 * L2) + at[None, :],
                mask=given[None, :] & (channel < C1)[:, None],
                other=0.0,
            )
    kept = (pixel < H1 * L1) & (row < HP) & (column < LP)
    at_a1 = a1 + channel[:, None] * (HP * LP) + (row * LP + column)[None, :]
    output = tl.load(at_a1, mask=kept[None, :] & (channel < C1)[:, None], other=0.0)
    value = tl.where(output > 0.0, value, 0.0)
    at_slope = slope1 + model * (C1 * H1 * L1) + channel[:, None] * (H1 * L1) + pixel[None, :]
    tl.store(at_slope, value, mask=(pixel < H1 * L1)[None, :] & (channel < C1)[:, None])


def move(at: tensor, anchor: tensor, rate: tensor, gradient: tensor, mask: tensor, ANCHORED: constexpr) -> None:
    """w += rate (anchor - w) - gradient, at these addresses."""
    old = tl.load(at, mask=mask, other=0.0)
    new = old - gradient
    if ANCHORED:
        new += rate * (tl.load(anchor, mask=mask, other=0.0) - old)
    tl.store(at, new, mask=mask)


def step(
    w: tensor, w_stride: tensor, anchor: tensor, anchor_stride: tensor, rates: tensor, rates_stride: tensor,
    x: tensor, a1: tensor, features: tensor, q: tensor, slope1: tensor, slope2: tensor, sums: tensor,
    C0: constexpr, H0: constexpr, L0: constexpr, K1: constexpr, S1: constexpr, P1: constexpr,
    C1: constexpr, H1: constexpr, L1: constexpr, K2: constexpr, S2: constexpr,
    C2: constexpr, H2: constexpr, L2: constexpr, HP: constexpr, LP: constexpr, CLASSES: constexpr, NORM: constexpr,
    AT_W1: constexpr, AT_B1: constexpr, AT_W2: constexpr, AT_B2: constexpr, AT_FACTOR: constexpr, AT_SHIFT: constexpr,
    AT_W3: constexpr, AT_B3: constexpr, PLACES: constexpr, FIRST_TAPS: constexpr, FIRST_PIXELS: constexpr,
    STEPPED: constexpr, LINEAR: constexpr, ALL_CLASSES: constexpr, ANCHORED: constexpr, PRECISION: constexpr,
) -> None:  # fmt: skip
    """Step every parameter; a model's programs take conv1, then conv2, then the linear layer, then the vectors."""
    task, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    w += model * w_stride
    anchor += model * anchor_stride
    slope2 += model * (C2 * H2 * L2)
    q += model * CLASSES
    rate = 0.0
    if ANCHORED:
        rate = tl.load(rates + model * rates_stride)
    if task < C1 // 16:
        ones: constexpr = C0 * K1 * K1  # this column of the patches is 1, which gives the bias's gradient
        channel, tap = task * 16 + tl.arange(0, 16), tl.arange(0, FIRST_TAPS)
        down, right = tap // K1 % K1 - P1, tap % K1 - P1
        total = tl.zeros((16, FIRST_TAPS), tl.float32)
        for first in range(0, H1 * L1, FIRST_PIXELS):
            pixel = first + tl.arange(0, FIRST_PIXELS)
            known = pixel < H1 * L1
            at = slope1 + (model * C1 + channel[:, None]) * (H1 * L1) + pixel[None, :]
            slope = tl.load(at, mask=known[None, :], other=0.0)
            top = (pixel // L1 * S1)[:, None] + down[None, :]
            left = (pixel % L1 * S1)[:, None] + right[None, :]
            seen = known[:, None] & (tap < ones)[None, :] & (top >= 0) & (top < H0) & (left >= 0) & (left < L0)
            taken = x + model * (C0 * H0 * L0) + (tap // (K1 * K1) * H0)[None, :] * L0 + top * L0 + left
            patches = tl.where((tap == ones)[None, :], 1.0, tl.load(taken, mask=seen, other=0.0))
            total = tl.dot(slope, patches, total, input_precision=PRECISION)
        at_weight = AT_W1 + channel[:, None] * ones + tap[None, :]
        to = tl.where((tap < ones)[None, :], at_weight, AT_B1 + channel[:, None])
        move(w + to, anchor + to, rate, total, (tap <= ones)[None, :] & (channel < C1)[:, None], ANCHORED)
    elif task < C1 // 16 + (C1 * K2 * K2 + STEPPED - 1) // STEPPED:
        out, place = tl.arange(0, C2), tl.arange(0, PLACES)
        k = (task - C1 // 16) * STEPPED + tl.arange(0, STEPPED)
        real = (k < C1 * K2 * K2)[None, :]
        inside = place < H2 * L2
        slope = tl.load(slope2 + out[:, None] * (H2 * L2) + place[None, :], mask=inside[None, :], other=0.0)
        tap = k % (K2 * K2)
        offset = k // (K2 * K2) * (HP * LP) + tap // K2 * LP + tap % K2
        corner = place // L2 * (S2 * LP) + place % L2 * S2
        taken = a1 + model * (C1 * HP * LP) + corner[:, None] + offset[None, :]
        patches = tl.load(taken, mask=inside[:, None] & real, other=0.0)
        gradient = tl.dot(slope, patches, input_precision=PRECISION)
        to = AT_W2 + out[:, None] * (C1 * K2 * K2) + k[None, :]
        move(w + to, anchor + to, rate, gradient, real & (out < C2)[:, None], ANCHORED)
    elif task < tl.num_programs(0) - 1:
        task -= C1 // 16 + (C1 * K2 * K2 + STEPPED - 1) // STEPPED
        at = task * LINEAR + tl.arange(0, LINEAR)
        real = at < CLASSES * C2 * H2 * L2
        feature = model * (C2 * H2 * L2) + at % (C2 * H2 * L2)
        value = tl.load(features + feature, mask=real, other=0.0)
        gradient = tl.load(q + at // (C2 * H2 * L2), mask=real, other=0.0) * value
        move(w + AT_W3 + at, anchor + AT_W3 + at, rate, gradient, real, ANCHORED)
    else:
        out, c = tl.arange(0, C2), tl.arange(0, ALL_CLASSES)
        sums += model * (3 * C2)
        move(w + AT_B2 + out, anchor + AT_B2 + out, rate, tl.load(sums + out), out < C2, ANCHORED)
        if NORM:
            along, whole = tl.load(sums + C2 + out), tl.load(sums + 2 * C2 + out)
            move(w + AT_FACTOR + out, anchor + AT_FACTOR + out, rate, along, out < C2, ANCHORED)
            move(w + AT_SHIFT + out, anchor + AT_SHIFT + out, rate, whole, out < C2, ANCHORED)
        on_score = tl.load(q + c, mask=c < CLASSES, other=0.0)
        move(w + AT_B3 + c, anchor + AT_B3 + c, rate, on_score, c < CLASSES, ANCHORED)
