"""The kernels of `osamd.fleet.kernels.conv_cuda`, in Triton: four per step of a network with two convolutions.

`convolve` splits the second convolution's sum over input channels and writes one partial sum per split; `score` adds
them and writes partial scores; `pull_head` carries the slope on the scores to the second convolution's output; `step`
carries it on to the first one's, computes the gradients of the weights and takes the step. No sum depends on the order
of programs.

A launch and a wait for memory cost more than what most kernels compute. So a kernel does as much as it can, and keeps
patches on the chip: `windows` takes them from an image and `folded` is its transpose. Registers and waits decide the
speed of `convolve` and `step`: few of both let more programs share a multiprocessor.

Sizes are those of `osamd.fleet.kernels.conv_cuda`. C, H, L are channels, height and width, of the sample (0) and after
each convolution; K, S, P are a convolution's kernel, stride and padding; AT is where a tensor begins in a row of
parameters; NORM says what BatchNorm normalises by; the other capitals say how the work is divided. The file is long
because a launch costs more than what most kernels do, so each does much, and because they share the functions at the
top.
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
    helpers = (rounded, product, gathered, windows, folded, normalised, approached, move)
    parts = {f.__name__: triton.jit(f) for f in helpers}
    globals().update(parts, tl=language, constexpr=language.constexpr, tensor=language.tensor)
    return {f.__name__: triton.jit(f) for f in (convolve, score, pull_head, step)}


def rounded(value: tensor) -> tensor:
    """The value in tf32."""
    return ((value.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


def product(left: tensor, right: tensor, total: tensor, PRECISION: constexpr) -> tensor:
    """total + left @ right.T; Triton's own "tf32x3" splits the right side in a layout that repeats it eight times."""
    if PRECISION == "tf32x3":
        much_left, much_right = rounded(left), rounded(right)
        total = tl.dot(much_left, tl.trans(right - much_right), total, input_precision="tf32")
        total = tl.dot(left - much_left, tl.trans(much_right), total, input_precision="tf32")
        total = tl.dot(much_left, tl.trans(much_right), total, input_precision="tf32")
    else:
        total = tl.dot(left, tl.trans(right), total, input_precision=PRECISION)
    return total


def gathered(values: tensor, entry: tensor, SIZE: constexpr, ROWS: constexpr, COLUMNS: constexpr) -> tensor:
    """The SIZE values at the entries [ROWS, COLUMNS]; along one axis Triton gathers in shared memory."""
    taken = tl.gather(tl.reshape(values, (SIZE,)), tl.reshape(entry, (ROWS * COLUMNS,)), 0)
    return tl.reshape(taken, (ROWS, COLUMNS))


def windows(
    image: tensor, channel: tensor, tap: tensor, place: tensor, H1: constexpr, L1: constexpr,
    K2: constexpr, S2: constexpr, P2: constexpr, H2: constexpr, L2: constexpr, PIXELS: constexpr,
    N: constexpr, ROWS: constexpr, COLUMNS: constexpr,
) -> tensor:  # fmt: skip
    """The patches that conv2 takes from N channels [N, PIXELS], with zeros in the padding: [ROWS, COLUMNS], the shape
    of channel, tap and place together."""
    row, column = place // L2 * S2 + (tap // K2 - P2), place % L2 * S2 + (tap % K2 - P2)
    seen = (tap < K2 * K2) & (place < H2 * L2) & (row >= 0) & (row < H1) & (column >= 0) & (column < L1)
    entry = tl.where(seen, channel * PIXELS + row * L1 + column, 0)
    return tl.where(seen, gathered(image, entry, N * PIXELS, ROWS, COLUMNS), 0.0)


def folded(
    patches: tensor, N: constexpr, H1: constexpr, L1: constexpr, K2: constexpr, S2: constexpr, P2: constexpr,
    H2: constexpr, L2: constexpr, PLACES: constexpr, TAPS: constexpr, PIXELS: constexpr, REACH: constexpr,
    PAIRS: constexpr,
) -> tensor:  # fmt: skip
    """The transpose of `windows` for all taps of N channels, [N * TAPS, PLACES] to [N, PIXELS]: a pixel gets the sum
    of its entries in the patches, at most REACH x REACH of them."""
    line, pixel = tl.arange(0, PAIRS * N)[:, None], tl.arange(0, PIXELS)[None, :]
    row, column = pixel // L1 + P2, pixel % L1 + P2
    total = tl.zeros((N, PIXELS), tl.float32)
    for first in range(0, REACH * REACH, PAIRS):
        pair = first + line // N
        down, right = pair // REACH, pair % REACH
        y, ky = row // S2 - down, row % S2 + down * S2
        u, kx = column // S2 - right, column % S2 + right * S2
        given = (pair < REACH * REACH) & (pixel < H1 * L1) & (y >= 0) & (y < H2) & (ky < K2)
        given = given & (u >= 0) & (u < L2) & (kx < K2)
        entry = tl.where(given, (line % N * TAPS + ky * K2 + kx) * PLACES + y * L2 + u, 0)
        taken = tl.where(given, gathered(patches, entry, N * TAPS * PLACES, PAIRS * N, PIXELS), 0.0)
        total += tl.sum(tl.reshape(taken, (PAIRS, N, PIXELS)), axis=0)
    return total


def normalised(values: tensor, inside: tensor, COUNT: constexpr, EPS: constexpr) -> tensor:
    """The rows of `values` with mean 0 and deviation 1 over the COUNT places inside, and every row's 1 / deviation."""
    mean = tl.sum(tl.where(inside, values, 0.0), axis=1) / COUNT
    centred = tl.where(inside, values - mean[:, None], 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / COUNT + EPS)
    return centred * inverse[:, None], inverse


def convolve(
    w: tensor, w_stride: tensor, x: tensor, a0: tensor, a1: tensor, partial: tensor,
    C0: constexpr, H0: constexpr, L0: constexpr, K1: constexpr, S1: constexpr, P1: constexpr,
    C1: constexpr, H1: constexpr, L1: constexpr, K2: constexpr, S2: constexpr, P2: constexpr,
    C2: constexpr, H2: constexpr, L2: constexpr, AT_W1: constexpr, AT_B1: constexpr, AT_W2: constexpr,
    PIXELS: constexpr, PLACES: constexpr, TAPS: constexpr, FIRST_TAPS: constexpr, SPLIT: constexpr, SHARE: constexpr,
    PRECISION: constexpr,
) -> None:  # fmt: skip
    """a1 = relu(conv1(x)) for SPLIT channels, and their contribution to conv2(a1), without its bias.

    A program also writes its share of a0, the patches of x with a last column of ones, for the gradients of conv1.
    """
    split, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    w += model * w_stride
    x += model * (C0 * H0 * L0)
    a0 += model * (PIXELS * FIRST_TAPS)
    w1 = w + AT_W1 + split * SPLIT * (C0 * K1 * K1)
    w2 = w + AT_W2 + split * SPLIT * (K2 * K2)
    out, tap, place = tl.arange(0, C2), tl.arange(0, TAPS), tl.arange(0, PLACES)
    weights = ()  # type: tuple[Any, ...]
    for one in tl.static_range(SPLIT):
        at = out[:, None] * (C1 * K2 * K2) + (one * K2 * K2 + tap)[None, :]
        weights += (tl.load(w2 + at, mask=(tap < K2 * K2)[None, :], other=0.0),)

    pixel = tl.arange(0, PIXELS)
    above, before = pixel // L1 * S1 - P1, pixel % L1 * S1 - P1
    values = ()  # type: tuple[Any, ...]
    for one in tl.static_range(SPLIT):
        values += (tl.zeros((PIXELS,), tl.float32) + tl.load(w + AT_B1 + split * SPLIT + one),)
    for n in tl.static_range(C0 * K1 * K1):
        top, left = above + n // K1 % K1, before + n % K1
        seen = (pixel < H1 * L1) & (top >= 0) & (top < H0) & (left >= 0) & (left < L0)
        taken = tl.load(x + (n // (K1 * K1) * H0 + top) * L0 + left, mask=seen, other=0.0)
        added = ()  # type: tuple[Any, ...]
        for one in tl.static_range(SPLIT):
            added += (values[one] + tl.load(w1 + one * (C0 * K1 * K1) + n) * taken,)
        values = added

    total = tl.zeros((C2, PLACES), tl.float32)
    a1 += (model * C1 + split * SPLIT) * (H1 * L1)
    for one in tl.static_range(SPLIT):
        value = tl.where(values[one] < 0.0, 0.0, values[one])  # keeps NaN
        tl.store(a1 + one * (H1 * L1) + pixel, value, mask=pixel < H1 * L1)
        patches = windows(value, 0, tap[None, :], place[:, None], H1, L1, K2, S2, P2, H2, L2, PIXELS, 1, PLACES, TAPS)
        total = product(weights[one], patches, total, PRECISION)
    partial += (model * (C1 // SPLIT) + split) * (C2 * H2 * L2)
    tl.store(partial + out[:, None] * (H2 * L2) + place[None, :], total, mask=(place < H2 * L2)[None, :])

    share, tap = split * SHARE + tl.arange(0, SHARE)[:, None], tl.arange(0, FIRST_TAPS)[None, :]
    top, left = share // L1 * S1 - P1 + tap // K1 % K1, share % L1 * S1 - P1 + tap % K1
    seen = (share < H1 * L1) & (tap < C0 * K1 * K1) & (top >= 0) & (top < H0) & (left >= 0) & (left < L0)
    taken = tl.load(x + (tap // (K1 * K1) * H0 + top) * L0 + left, mask=seen, other=0.0)
    taken = tl.where(tap == C0 * K1 * K1, 1.0, taken)
    tl.store(a0 + share * FIRST_TAPS + tap, taken, mask=(share < PIXELS) & (tap < FIRST_TAPS))


def score(
    w: tensor, w_stride: tensor, partial: tensor, a2: tensor, features: tensor, scores: tensor,
    C1: constexpr, C2: constexpr, H2: constexpr, L2: constexpr, CLASSES: constexpr, NORM: constexpr, EPS: constexpr,
    AT_B2: constexpr, AT_FACTOR: constexpr, AT_SHIFT: constexpr, AT_MEAN: constexpr, AT_VARIANCE: constexpr,
    AT_W3: constexpr, AT_B3: constexpr, SPLIT: constexpr, PLACES: constexpr, SCORED: constexpr, SOME_CLASSES: constexpr,
) -> None:  # fmt: skip
    """a2 = relu(conv2 + bias), BatchNorm's output for it, and the contribution of SCORED channels to the scores."""
    block, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    w += model * w_stride
    entry = tl.arange(0, SCORED * PLACES)
    channel, place = block * SCORED + entry // PLACES, entry % PLACES
    real, feature = place < H2 * L2, channel * (H2 * L2) + place
    at = model * (C2 * H2 * L2) + feature
    value = tl.load(w + AT_B2 + channel, mask=real, other=0.0)
    if NORM != "none":
        factor = tl.load(w + AT_FACTOR + channel, mask=real, other=0.0)
        shift = tl.load(w + AT_SHIFT + channel, mask=real, other=0.0)
    if NORM == "training":
        factor *= 1.0 / tl.sqrt(tl.load(w + AT_VARIANCE + channel, mask=real, other=1.0) + EPS)
        shift -= tl.load(w + AT_MEAN + channel, mask=real, other=0.0) * factor
    for split in tl.static_range(C1 // SPLIT):
        part = partial + (model * (C1 // SPLIT) + split) * (C2 * H2 * L2) + feature
        value += tl.load(part, mask=real, other=0.0)
    value = tl.where(value < 0.0, 0.0, value)
    tl.store(a2 + at, value, mask=real)
    if NORM == "sample":
        rows, inside = tl.reshape(value, (SCORED, PLACES)), tl.reshape(real, (SCORED, PLACES))
        value = tl.reshape(normalised(rows, inside, H2 * L2, EPS)[0], (SCORED * PLACES,))
    if NORM != "none":
        value = value * factor + shift
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
    w: tensor, w_stride: tensor, scores: tensor, own: tensor, lengths: tensor, q: tensor, a2: tensor, slope2: tensor,
    sums: tensor,
    C2: constexpr, H2: constexpr, L2: constexpr, CLASSES: constexpr, NORM: constexpr, EPS: constexpr,
    AT_FACTOR: constexpr, AT_MEAN: constexpr, AT_VARIANCE: constexpr, AT_W3: constexpr,
    PLACES: constexpr, CHANNELS: constexpr, SOME_CLASSES: constexpr, PARTS: constexpr, ALL_PARTS: constexpr,
    SOFTMAX: constexpr,
) -> None:  # fmt: skip
    """The slope on conv2's output for CHANNELS channels, and the gradients of its bias and of BatchNorm's weight and
    bias.

    The slope on the scores is q, or with SOFTMAX that of the softmax loss times the step's length, which is then kept
    as q; there are at most SOME_CLASSES classes then.
    """
    block, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    w += model * w_stride
    q += model * CLASSES
    channel, place = block * CHANNELS + tl.arange(0, CHANNELS), tl.arange(0, PLACES)
    inside = (place < H2 * L2)[None, :] & (channel < C2)[:, None]
    feature = channel[:, None] * (H2 * L2) + place[None, :]
    slope = tl.zeros((CHANNELS, PLACES), tl.float32)
    for first in range(0, CLASSES, SOME_CLASSES):
        c = first + tl.arange(0, SOME_CLASSES)
        known = c < CLASSES
        at = AT_W3 + c[:, None, None] * (C2 * H2 * L2) + feature[None, :, :]
        weight = tl.load(w + at, mask=known[:, None, None] & inside[None, :, :], other=0.0)
        if SOFTMAX:
            part = tl.arange(0, ALL_PARTS)
            at_score = scores + (model * PARTS + part[:, None]) * CLASSES + c[None, :]
            h = tl.sum(tl.load(at_score, mask=(part < PARTS)[:, None] & known[None, :], other=0.0), axis=0)
            grown = tl.where(known, tl.exp(h - tl.max(tl.where(known, h, float("-inf")), axis=0)), 0.0)
            label = tl.load(own + model * CLASSES + c, mask=known, other=0.0)
            on_score = (grown / tl.sum(grown, axis=0) - label) * tl.load(lengths + model)
            tl.store(q + c, on_score, mask=known & (block == 0))
        else:
            on_score = tl.load(q + c, mask=known, other=0.0)
        slope += tl.sum(weight * on_score[:, None, None], axis=0)
    value = tl.load(a2 + model * (C2 * H2 * L2) + feature, mask=inside, other=0.0)
    sums += model * (3 * C2) + channel
    if NORM != "none":
        factor, whole = tl.load(w + AT_FACTOR + channel), tl.sum(slope, axis=1)
        if NORM == "training":
            inverse = 1.0 / tl.sqrt(tl.load(w + AT_VARIANCE + channel) + EPS)
            along = (tl.sum(slope * value, axis=1) - whole * tl.load(w + AT_MEAN + channel)) * inverse
        else:
            normed, inverse = normalised(value, inside, H2 * L2, EPS)
            along = tl.sum(slope * normed, axis=1)
            slope -= (whole[:, None] + normed * along[:, None]) / (H2 * L2)
        tl.store(sums + C2, along)
        tl.store(sums + 2 * C2, whole)
        slope = slope * (factor * inverse)[:, None]
    slope = tl.where(value > 0.0, slope, 0.0)
    tl.store(slope2 + model * (C2 * H2 * L2) + place[None, :] * C2 + channel[:, None], slope, mask=inside)
    tl.store(sums, tl.sum(slope, axis=1))


def approached(at: tensor, anchor: tensor, rate: tensor, mask: tensor, ANCHORED: constexpr) -> tensor:
    """w + rate (anchor - w), at these addresses."""
    new = tl.load(at, mask=mask, other=0.0)
    if ANCHORED:
        new += rate * (tl.load(anchor, mask=mask, other=0.0) - new)
    return new


def move(at: tensor, anchor: tensor, rate: tensor, gradient: tensor, mask: tensor, ANCHORED: constexpr) -> None:
    """w += rate (anchor - w) - gradient, at these addresses."""
    tl.store(at, approached(at, anchor, rate, mask, ANCHORED) - gradient, mask=mask)


def step(
    w: tensor, w_stride: tensor, to: tensor, to_stride: tensor, anchor: tensor, anchor_stride: tensor,
    rates: tensor, rates_stride: tensor,
    a0: tensor, a1: tensor, features: tensor, q: tensor, slope2: tensor, sums: tensor,
    C0: constexpr, K1: constexpr, C1: constexpr, H1: constexpr, L1: constexpr,
    K2: constexpr, S2: constexpr, P2: constexpr, C2: constexpr, H2: constexpr, L2: constexpr,
    CLASSES: constexpr, NORM: constexpr,
    AT_W1: constexpr, AT_B1: constexpr, AT_W2: constexpr, AT_B2: constexpr, AT_FACTOR: constexpr, AT_SHIFT: constexpr,
    AT_W3: constexpr, AT_B3: constexpr, PIXELS: constexpr, PLACES: constexpr, TAPS: constexpr, REACH: constexpr,
    PAIRS: constexpr, FIRST_TAPS: constexpr, FOLDED: constexpr, DEPTH: constexpr, LINEAR: constexpr,
    ALL_CLASSES: constexpr, ANCHORED: constexpr, PRECISION: constexpr,
) -> None:  # fmt: skip
    """Step every parameter of `to` along the gradient at w, which may be the same rows.

    A model's programs take FOLDED channels between the convolutions each, then the linear layer, then the vectors. A
    program reads no weights that another one steps. A model whose slope is 0, such as one without a label, stays as it
    is. It is long because a second kernel would cost a second launch.
    """
    task, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    w += model * w_stride
    to += model * to_stride
    anchor += model * anchor_stride
    slope2 += model * (C2 * H2 * L2)
    q += model * CLASSES
    c = tl.arange(0, ALL_CLASSES)
    on_score = tl.load(q + c, mask=c < CLASSES, other=0.0)
    rate = 0.0
    if ANCHORED:
        rate = tl.load(rates + model * rates_stride)
    elif tl.sum(tl.where(on_score == 0.0, 0, 1)) == 0:
        return
    if task < C1 // FOLDED:
        out, k, place = tl.arange(0, C2), tl.arange(0, FOLDED * TAPS), tl.arange(0, PLACES)
        real = k % TAPS < K2 * K2
        column = (task * FOLDED + k // TAPS) * (K2 * K2) + k % TAPS
        at = AT_W2 + out[:, None] * (C1 * K2 * K2) + column[None, :]
        channel, pixel = task * FOLDED + tl.arange(0, FOLDED), tl.arange(0, PIXELS)
        at_output = (model * C1 + channel[:, None]) * (H1 * L1) + pixel[None, :]
        output = tl.load(a1 + at_output, mask=(pixel < H1 * L1)[None, :], other=0.0)
        parts = ()  # type: tuple[Any, ...]
        for part in tl.static_range(C2 // DEPTH):
            some = part * DEPTH + tl.arange(0, DEPTH)
            at_some = AT_W2 + some[:, None] * (C1 * K2 * K2) + column[None, :]
            weight = tl.load(w + at_some, mask=real[None, :], other=0.0)
            at_slope = slope2 + place[:, None] * C2 + some[None, :]
            parts += ((weight, tl.load(at_slope, mask=(place < H2 * L2)[:, None], other=0.0)),)
        pulled = tl.zeros((FOLDED * TAPS, PLACES), tl.float32)
        for part in tl.static_range(C2 // DEPTH):
            pulled = product(tl.trans(parts[part][0]), parts[part][1], pulled, PRECISION)
        slope1 = folded(pulled, FOLDED, H1, L1, K2, S2, P2, H2, L2, PLACES, TAPS, PIXELS, REACH, PAIRS)
        slope1 = tl.where(output > 0.0, slope1, 0.0)

        n, tap = tl.arange(0, FOLDED)[:, None], tl.arange(0, FIRST_TAPS)[None, :]
        seen = tl.load(a0 + (model * PIXELS + pixel[:, None]) * FIRST_TAPS + tap)
        gradient1 = tl.zeros((FOLDED, FIRST_TAPS), tl.float32)
        for one in tl.static_range(FOLDED):
            slope_of_one = tl.sum(tl.where(n == one, slope1, 0.0), axis=0)
            gradient1 = tl.where(n == one, tl.sum(seen * slope_of_one[:, None], axis=0)[None, :], gradient1)
        of_weight = AT_W1 + (task * FOLDED + n) * (C0 * K1 * K1) + tap
        at_first = tl.where(tap < C0 * K1 * K1, of_weight, AT_B1 + task * FOLDED + n)
        move(to + at_first, anchor + at_first, rate, gradient1, (tap <= C0 * K1 * K1) & (n < FOLDED), ANCHORED)

        known = real[None, :] & (out < C2)[:, None]
        new = approached(to + at, anchor + at, rate, known, ANCHORED)
        slopes = ()  # type: tuple[Any, ...]
        for part in tl.static_range(PLACES // DEPTH):
            some = part * DEPTH + tl.arange(0, DEPTH)
            at_slope = slope2 + some[None, :] * C2 + out[:, None]
            slopes += (tl.load(at_slope, mask=(some < H2 * L2)[None, :], other=0.0),)
        gradient = tl.zeros((C2, FOLDED * TAPS), tl.float32)
        for part in tl.static_range(PLACES // DEPTH):
            some = part * DEPTH + tl.arange(0, DEPTH)
            patches = windows(
                output, (k // TAPS)[:, None], (k % TAPS)[:, None], some[None, :],
                H1, L1, K2, S2, P2, H2, L2, PIXELS, FOLDED, FOLDED * TAPS, DEPTH,
            )  # fmt: skip
            gradient = product(slopes[part], patches, gradient, PRECISION)
        tl.store(to + at, new - gradient, mask=known)
    elif task < tl.num_programs(0) - 1:
        at = (task - C1 // FOLDED) * LINEAR + tl.arange(0, LINEAR)
        real = at < CLASSES * C2 * H2 * L2
        feature = model * (C2 * H2 * L2) + at % (C2 * H2 * L2)
        value = tl.load(features + feature, mask=real, other=0.0)
        gradient = tl.load(q + at // (C2 * H2 * L2), mask=real, other=0.0) * value
        move(to + AT_W3 + at, anchor + AT_W3 + at, rate, gradient, real, ANCHORED)
    else:
        out = tl.arange(0, C2)
        sums += model * (3 * C2)
        move(to + AT_B2 + out, anchor + AT_B2 + out, rate, tl.load(sums + out), out < C2, ANCHORED)
        if NORM != "none":
            along, whole = tl.load(sums + C2 + out), tl.load(sums + 2 * C2 + out)
            move(to + AT_FACTOR + out, anchor + AT_FACTOR + out, rate, along, out < C2, ANCHORED)
            move(to + AT_SHIFT + out, anchor + AT_SHIFT + out, rate, whole, out < C2, ANCHORED)
        move(to + AT_B3 + c, anchor + AT_B3 + c, rate, on_score, c < CLASSES, ANCHORED)
