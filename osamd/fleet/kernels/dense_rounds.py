"""The rounds of one dense network, compiled by numba; compare `osamd.fleet.round`.

Three things make a round short:

- every matrix is kept twice, by rows of its inputs for the forward pass and by rows of its outputs for the backward
  pass, so that all the work is on contiguous rows, in the same order on every machine;
- the results of the forward pass are kept for the backward pass;
- all steps of a round move the first layer along the one sample x, so the inner loops need only a vector for it: with
  the layer at W - a (x, 1)^T its outputs are W (x, 1) - a |(x, 1)|^2.

The file is long because numba's cache on disk notices edits of the file that defines `play`, but not of other files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from osamd.compiled.lowering import jit, lower


class Shape(NamedTuple):
    """Where the vectors and matrices of a network lie, one entry per layer; vector 0 is the sample, the last the
    scores.

    After its `width` numbers a vector has a 1, which multiplies the biases, and is padded to `room`.
    """

    width: Any
    room: Any
    start: Any
    """Where the vector starts in the flat array of all vectors."""
    forward: Any
    """Where the matrix to the next vector starts, (room x next room)."""
    back: Any
    """Where the same matrix starts as (next room x room); the first layer has none."""
    size: int
    """The size of all matrices together."""


class Numbers(NamedTuple):
    """The rates of one model, as numbers of the fleet's dtype."""

    sigma: Any
    floor: Any
    eta: Any
    cap: Any
    target: Any
    scale: Any
    inner_rate: Any
    loops: int
    self_training: bool
    teacher_decides: bool
    zero: Any
    one: Any
    tiny: Any
    flat: Any
    """The smallest ||grad||^2 that a teacher step is divided by."""


@lru_cache
def compiled() -> Callable[..., None]:
    """`play`, compiled; it lets other threads run."""
    lower(play, inline=True)
    return jit(play, nogil=True, optimise_parts=True)


def product(total: Any, weights: Any, at: int, inputs: Any, zero: Any) -> None:
    """total = sum_j inputs_j row_j, over rows of the length of total from `at` on, four rows at a time."""
    width = len(total)
    for i in range(width):
        total[i] = zero
    for j in range(0, len(inputs), 4):
        a, b, c, d = inputs[j], inputs[j + 1], inputs[j + 2], inputs[j + 3]
        if a == zero and b == zero and c == zero and d == zero:
            continue
        first = at + j * width
        row0, row1 = weights[first : first + width], weights[first + width : first + 2 * width]
        first += 2 * width
        row2, row3 = weights[first : first + width], weights[first + width : first + 2 * width]
        for i in range(width):
            total[i] += (a * row0[i] + b * row1[i]) + (c * row2[i] + d * row3[i])


def subtract(weights: Any, at: int, left: Any, right: Any, zero: Any) -> None:
    """row_j -= left_j right."""
    width = len(right)
    for j in range(len(left)):
        factor = left[j]
        if factor != zero:
            row = weights[at + j * width : at + (j + 1) * width]
            for i in range(width):
                row[i] -= factor * right[i]


def subtract_near(weights: Any, anchor: Any, share: Any, at: int, left: Any, right: Any) -> None:
    """The same, after moving by `share` of the distance back to the anchor."""
    width = len(right)
    for j in range(len(left)):
        factor = left[j]
        row, home = weights[at + j * width : at + (j + 1) * width], anchor[at + j * width : at + (j + 1) * width]
        for i in range(width):
            row[i] += share * (home[i] - row[i]) - factor * right[i]


def at_least(value: Any, least: Any) -> Any:
    """The larger of the two; NaN stays NaN."""
    return least if value < least else value


def squares(v: Any) -> Any:
    """|v|^2."""
    total = v[0] * v[0]
    for i in range(1, len(v)):
        total += v[i] * v[i]
    return total


def vector(vectors: Any, shape: Shape, n: int) -> Any:
    """The n-th vector."""
    return vectors[shape.start[n] : shape.start[n] + shape.room[n]]


def rectify(h: Any, width: int, zero: Any, one: Any) -> None:
    """ReLU, with the 1 after it; NaN stays NaN."""
    for i in range(len(h)):
        h[i] = zero if h[i] <= zero else h[i]
    h[width] = one


def forward(weights: Any, shape: Shape, vectors: Any, first: int, number: Numbers) -> None:
    """Compute the vectors after `first` from that one."""
    last = len(shape.width) - 1
    for n in range(first, last):
        after = vector(vectors, shape, n + 1)
        product(after, weights, shape.forward[n], vector(vectors, shape, n), number.zero)
        if n + 1 < last:
            rectify(after, shape.width[n + 1], number.zero, number.one)


def backward(weights: Any, shape: Shape, vectors: Any, slopes: Any, number: Numbers) -> None:
    """The slopes on all vectors but the sample, from the slope on the last."""
    for n in range(len(shape.width) - 2, 0, -1):
        slope, h = vector(slopes, shape, n), vector(vectors, shape, n)
        product(slope, weights, shape.back[n], vector(slopes, shape, n + 1), number.zero)
        for i in range(len(slope)):
            slope[i] = slope[i] if h[i] > number.zero else number.zero
        slope[shape.width[n]] = number.zero


def learn(weights: Any, shape: Shape, vectors: Any, slopes: Any, number: Numbers) -> None:
    """Move every matrix against its gradient."""
    for n in range(len(shape.width) - 1):
        h, slope = vector(vectors, shape, n), vector(slopes, shape, n + 1)
        subtract(weights, shape.forward[n], h, slope, number.zero)
        if n > 0:
            subtract(weights, shape.back[n], slope[: shape.width[n + 1]], h, number.zero)


def softmax(z: Any, p: Any) -> Any:
    """The probabilities, and log sum_s exp(z_s)."""
    top = z[0]
    for s in range(1, len(p)):
        top = max(top, z[s])
    total = z[0] - z[0]
    for s in range(len(p)):
        p[s] = np.exp(z[s] - top)
        total += p[s]
    for s in range(len(p)):
        p[s] /= total
    return top + np.log(total)


def decide(h: Any) -> int:
    """The class that the scores favour; the first one in a tie."""
    best = 0
    for s in range(1, len(h)):
        if h[s] > h[best]:
            best = s
    return best


def margin(h: Any, y: int) -> Any:
    """Psi = H^y - max_{s != y} H^s, and the runner-up s."""
    rival = 1 if y == 0 else 0
    for s in range(rival + 1, len(h)):
        if s != y and h[s] > h[rival]:
            rival = s
    return h[y] - h[rival], rival


def loss_slope(p: Any, y: int, step: Any, slope: Any) -> None:
    """step (p - e_y): the slope of the loss on the logits."""
    for s in range(len(p)):
        slope[s] = step * p[s]
    slope[y] -= step


def inner_gradient_loops(
    student: Any, adapted: Any, shape: Shape, v: Any, slopes: Any, p: Any, y: int, number: Numbers
) -> Any:
    """Go from w_hat to w_t and fill in its vectors `v` and probabilities `p`; returns log sum_s exp(z_s).

    `adapted` becomes w_t after the first layer; without inner loops it is the student itself.
    """
    last = len(shape.width) - 1
    if number.loops > 0:
        rest = shape.forward[1] if last > 1 else shape.size
        adapted[rest:] = student[rest:]
    x, h, slope = vector(v, shape, 0), vector(v, shape, 1), vector(slopes, shape, 1)
    product(h, student, 0, x, number.zero)
    start, moved, length = h.copy(), np.zeros_like(h), squares(x)
    scores = vector(v, shape, last)[: shape.width[last]]
    for k in range(number.loops + 1):
        if last > 1:
            rectify(h, shape.width[1], number.zero, number.one)
        forward(adapted, shape, v, 1, number)
        log_sum = softmax(scores, p)
        if k < number.loops:
            loss_slope(p, y, number.inner_rate * number.eta, vector(slopes, shape, last))
            backward(adapted, shape, v, slopes, number)
            for n in range(1, last):
                below, above = vector(v, shape, n), vector(slopes, shape, n + 1)
                inputs, outputs = below[: shape.width[n] + 1], above[: shape.width[n + 1]]
                subtract_near(adapted, student, number.inner_rate, shape.forward[n], inputs, above)
                subtract_near(adapted, student, number.inner_rate, shape.back[n], outputs, below)
            for i in range(len(h)):
                moved[i] += slope[i] - number.inner_rate * moved[i]
                h[i] = start[i] - length * moved[i]
    return log_sum


def teacher_step(
    teacher: Any, shape: Shape, v: Any, slopes: Any, h: Any, probabilities: bool, y: int, number: Numbers
) -> None:
    """The teacher's step towards its target margin for the label y; `h` are its scores."""
    psi, rival = margin(h, y)
    shortfall = number.target - psi
    if shortfall <= number.zero:
        return
    ascent = vector(slopes, shape, len(shape.width) - 1)
    for s in range(len(h)):
        ascent[s] = number.zero
    ascent[y], ascent[rival] = number.one, -number.one
    if probabilities:  # through the softmax: p (q - <p, q>)
        across = h[y] - h[rival]
        for s in range(len(h)):
            ascent[s] = h[s] * (ascent[s] - across)
    backward(teacher, shape, v, slopes, number)
    tau = number.scale * shortfall
    if number.scale <= number.zero:
        steepness = number.zero
        for n in range(len(shape.width) - 1):
            steepness += squares(vector(v, shape, n)) * squares(vector(slopes, shape, n + 1))
        tau = shortfall / at_least(steepness, number.flat)
    tau = min(tau, number.cap)
    for i in range(len(slopes)):
        slopes[i] *= -tau
    learn(teacher, shape, v, slopes, number)


def play(
    first: int, last: int, xs: Any, ys: Any, us: Any, shape: Shape, number: Numbers, probabilities: bool,
    teacher_row: Any, student_row: Any, record: Any, column: int,
) -> None:  # fmt: skip
    """Play the rounds of one model and change its rows of parameters in place; compare `osamd.fleet.round.bind`."""
    top = len(shape.width) - 1
    classes, total = shape.width[top], shape.start[top] + shape.room[top]
    teacher, student = np.zeros(shape.size, xs.dtype), np.zeros(shape.size, xs.dtype)
    adapted = np.zeros(shape.size, xs.dtype) if number.loops > 0 else student
    pack(teacher_row, shape, teacher, True)
    pack(student_row, shape, student, True)
    heard, seen = np.zeros(total, xs.dtype), np.zeros(total, xs.dtype)
    # Teacher and student have separate slopes, so that one that is no longer finite does not affect the other.
    taught, slopes = np.zeros(total, xs.dtype), np.zeros(total, xs.dtype)
    h, p = np.zeros(classes, xs.dtype), np.zeros(classes, xs.dtype)
    for t in range(first, last):
        for i in range(shape.width[0]):
            heard[i] = seen[i] = xs[t, i]
        heard[shape.width[0]] = seen[shape.width[0]] = number.one
        y = ys[t]
        z = vector(heard, shape, top)[:classes]
        forward(teacher, shape, heard, 0, number)
        log_sum = softmax(z, p)
        for s in range(classes):
            h[s] = p[s] if probabilities else z[s]
        pseudolabel = decide(h)  # pseudolabel
        if not number.teacher_decides:  # self-adaptation
            z = vector(seen, shape, top)[:classes]
            log_sum = inner_gradient_loops(student, adapted, shape, seen, slopes, p, pseudolabel, number)
        confidence, _ = margin(h, pseudolabel)
        doubt = number.sigma / at_least(number.sigma + confidence, number.tiny) if number.sigma > 0 else number.sigma
        probability = number.floor if doubt < number.floor else doubt
        query = us[t] < probability  # active query
        record[t, column, 0] = decide(p if probabilities else z)
        record[t, column, 1] = pseudolabel
        record[t, column, 2] = confidence
        record[t, column, 3] = probability
        record[t, column, 4] = query
        record[t, column, 5] = -np.log(at_least(p[y], number.tiny)) if probabilities else log_sum - z[y]
        if query:
            teacher_step(teacher, shape, heard, taught, h, probabilities, y, number)
        if not number.teacher_decides and (query or number.self_training):
            loss_slope(p, y if query else pseudolabel, number.eta, vector(slopes, shape, top))
            backward(adapted, shape, seen, slopes, number)
            learn(student, shape, seen, slopes, number)
    pack(teacher_row, shape, teacher, False)
    pack(student_row, shape, student, False)


def pack(row: Any, shape: Shape, weights: Any, inwards: bool) -> None:
    """Copy a row of parameters (the weights of each layer, one row per output, then its biases) to both matrices, or
    back."""
    place = 0
    for n in range(len(shape.width) - 1):
        inputs, outputs = shape.width[n], shape.width[n + 1]
        for i in range(outputs):
            for j in range(inputs + 1):
                at = place + (i * inputs + j if j < inputs else outputs * inputs + i)
                to = shape.forward[n] + j * shape.room[n + 1] + i
                if not inwards:
                    row[at] = weights[to]
                    continue
                weights[to] = row[at]
                if n > 0:
                    weights[shape.back[n] + i * shape.room[n] + j] = row[at]
        place += (inputs + 1) * outputs
