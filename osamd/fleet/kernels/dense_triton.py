"""The rounds of a fleet of dense networks in Triton: one program per model, which it keeps in registers.

The layout of the matrices lets reductions alternate between their axes (first layer inputs x outputs, second outputs x
inputs, third inputs x outputs): the result of one has the layout that the next one, forward or backward, needs. As in
`osamd.fleet.kernels.dense_rounds`, all steps of a round move the first layer along the one sample, so the inner loops
need only a vector for it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

tl: Any = None
constexpr = Any
tensor = Any
"""Triton's own, once `kernel` has imported it: Triton looks up the names in a kernel among its module's globals."""


@lru_cache
def kernel() -> Any:
    """`rounds`, which Triton compiles when it is first called and caches on disk."""
    triton, language = import_module("triton"), import_module("triton.language")
    globals().update(tl=language, constexpr=language.constexpr, tensor=language.tensor)
    return triton.jit(rounds, do_not_specialize=["first", "last", "x_rounds", "u_rounds", "unit"])


def rounds(
    x_ptr: tensor, y_ptr: tensor, u_ptr: tensor, teacher_ptr: tensor, student_ptr: tensor, record_ptr: tensor,
    stream_ptr: tensor, seed_ptr: tensor, rates_ptr: tensor, passes_ptr: tensor, first: tensor, last: tensor,
    x_rounds: tensor, u_rounds: tensor, models: tensor, size: constexpr, unit: tensor,
    D: constexpr, H1: constexpr, H2: constexpr, C: constexpr,
    DP: constexpr, H1P: constexpr, H2P: constexpr, CP: constexpr, PROBABILITIES: constexpr, NORMED: constexpr,
) -> None:  # fmt: skip
    """Play the rounds of this program's model; compare `osamd.fleet.round.bind`, line by line.

    T are the teacher's matrices, S the student's, and A the adapted ones, each with its biases, which multiply a 1
    after the inputs; v are vectors, and d the slopes on them. `unit` is 1, but the compiler must not know that: it
    would choose the layout of every matrix by how fast it can be loaded. It is long because a program
    keeps all of this in registers.
    """
    m = tl.program_id(0)
    i, j, k, c = tl.arange(0, DP), tl.arange(0, H1P), tl.arange(0, H2P), tl.arange(0, CP)
    here1 = (i[:, None] <= D) & (j[None, :] < H1)
    here2 = (k[:, None] < H2) & (j[None, :] <= H1)
    here3 = (k[:, None] <= H2) & (c[None, :] < C)
    row = m.to(tl.int64) * size
    at1 = row + tl.where(i[:, None] < D, j[None, :] * D + i[:, None] * unit, H1 * D + j[None, :] * unit)
    row += (D + 1) * H1
    at2 = row + tl.where(j[None, :] < H1, k[:, None] * H1 + j[None, :] * unit, H2 * H1 + k[:, None] * unit)
    row += (H1 + 1) * H2
    at3 = row + tl.where(k[:, None] < H2, c[None, :] * H2 + k[:, None] * unit, C * H2 + c[None, :] * unit)
    T1 = tl.load(teacher_ptr + at1, mask=here1, other=0.0)
    T2 = tl.load(teacher_ptr + at2, mask=here2, other=0.0)
    T3 = tl.load(teacher_ptr + at3, mask=here3, other=0.0)
    S1 = tl.load(student_ptr + at1, mask=here1, other=0.0)
    S2 = tl.load(student_ptr + at2, mask=here2, other=0.0)
    S3 = tl.load(student_ptr + at3, mask=here3, other=0.0)

    rates = rates_ptr + m * 8
    sigma, floor, eta, cap = tl.load(rates), tl.load(rates + 1), tl.load(rates + 2), tl.load(rates + 3)
    goal, scale, rate, trains = tl.load(rates + 4), tl.load(rates + 5), tl.load(rates + 6), tl.load(rates + 7)
    passes = tl.load(passes_ptr + m)
    tiny = 1.1754944e-38  # the smallest normal float32; Triton would take a smaller one for a float64

    stream = tl.load(stream_ptr + m)
    t = stream * 0 + first
    xs, ys = x_ptr + stream * x_rounds * D, y_ptr + stream * x_rounds
    us = u_ptr + tl.load(seed_ptr + m) * u_rounds
    next_x = tl.load(xs + t * D + i * unit, mask=i < D, other=0.0)
    next_y, next_u = tl.load(ys + t), tl.load(us + t)
    for _ in range(first, last):
        x, y, u = tl.where(i == D, 1.0, next_x), next_y.to(tl.int32), next_u
        after = tl.minimum(t + 1, last - 1)  # fetched while this round is computed
        next_x = tl.load(xs + after * D + i * unit, mask=i < D, other=0.0)
        next_y, next_u = tl.load(ys + after), tl.load(us + after)

        # The teacher's scores h, the pseudolabel, the query.
        v1 = tl.sum(T1 * x[:, None], 0)
        v1 = tl.where(j == H1, 1.0, tl.where(v1 <= 0.0, 0.0, v1))
        v2 = tl.sum(T2 * v1[None, :], 1)
        v2 = tl.where(k == H2, 1.0, tl.where(v2 <= 0.0, 0.0, v2))
        z = tl.where(c < C, tl.sum(T3 * v2[:, None], 0), float("-inf"))
        top = tl.max(z, 0)
        e = tl.exp(z - top)
        total = tl.sum(e, 0)
        p = e / total
        h = tl.where(c < C, p, float("-inf")) if PROBABILITIES else z
        best = tl.max(h, 0)
        pseudolabel = tl.min(tl.where(h == best, c, C - 1), 0)
        confidence = best - tl.max(tl.where(c == pseudolabel, float("-inf"), h), 0)
        doubt = sigma + confidence
        doubt = tl.where(sigma > 0.0, sigma / tl.where(doubt < tiny, tiny, doubt), 0.0)
        probability = tl.where(doubt < floor, floor, doubt)
        query = u < probability.to(tl.float64)
        asked = query.to(tl.float32)
        label = tl.where(query, y, pseudolabel)

        # The teacher's step.
        h_label = tl.sum(tl.where(c == label, h, 0.0), 0)
        h_rival = tl.max(tl.where(c == label, float("-inf"), h), 0)
        rival = tl.min(tl.where((h == h_rival) & (c != label), c, C), 0)
        shortfall = goal - (h_label - h_rival)
        shortfall = tl.where(shortfall < 0.0, 0.0, shortfall)
        d3 = (c == label).to(tl.float32) - (c == rival).to(tl.float32)
        if PROBABILITIES:
            d3 = p * (d3 - tl.sum(p * d3, 0))
        d2 = tl.where((v2 > 0.0) & (k < H2), tl.sum(T3 * d3[None, :], 1), 0.0)
        d1 = tl.where((v1 > 0.0) & (j < H1), tl.sum(T2 * d2[:, None], 0), 0.0)
        length = tl.sum(x * x, 0)
        tau = scale * shortfall
        if NORMED:
            steepness = tl.sum(d1 * d1, 0) * length + tl.sum(d2 * d2, 0) * tl.sum(v1 * v1, 0)
            steepness += tl.sum(d3 * d3, 0) * tl.sum(v2 * v2, 0)
            tau = tl.where(scale > 0.0, tau, shortfall / tl.maximum(steepness, 1e-30))
        tau = tl.where(tau > cap, cap, tau) * asked
        T1 += x[:, None] * (tau * d1)[None, :]
        T2 += (tau * d2)[:, None] * v1[None, :]
        T3 += v2[:, None] * (tau * d3)[None, :]

        # The student's passes: inner loops towards the pseudolabel, and a last one for its own step. Without a student
        # there are none, and the teacher's scores decide.
        start = tl.sum(S1 * x[:, None], 0)
        moved, d1, d2, d3 = tl.zeros_like(d1), tl.zeros_like(d1), tl.zeros_like(d2), tl.zeros_like(d3)
        A2, A3 = S2, S3
        step = eta * tl.where(query, 1.0, trains)
        for n in range(passes):
            v1 = start - length * moved
            v1 = tl.where(j == H1, 1.0, tl.where(v1 <= 0.0, 0.0, v1))
            v2 = tl.sum(A2 * v1[None, :], 1)
            v2 = tl.where(k == H2, 1.0, tl.where(v2 <= 0.0, 0.0, v2))
            z = tl.where(c < C, tl.sum(A3 * v2[:, None], 0), float("-inf"))
            top = tl.max(z, 0)
            e = tl.exp(z - top)
            total = tl.sum(e, 0)
            p = e / total
            ends = n == passes - 1
            towards = tl.where(ends, label, pseudolabel)
            d3 = (p - (c == towards).to(tl.float32)) * tl.where(ends, step, rate * eta)
            d2 = tl.where((v2 > 0.0) & (k < H2), tl.sum(A3 * d3[None, :], 1), 0.0)
            d1 = tl.where((v1 > 0.0) & (j < H1), tl.sum(A2 * d2[:, None], 0), 0.0)
            moved += d1 - rate * moved
            A2 += rate * (S2 - A2) - d2[:, None] * v1[None, :]
            A3 += rate * (S3 - A3) - v2[:, None] * d3[None, :]
        S1 -= x[:, None] * d1[None, :]
        S2 -= d2[:, None] * v1[None, :]
        S3 -= v2[:, None] * d3[None, :]

        scores = tl.where(c < C, p, float("-inf")) if PROBABILITIES else z
        decision = tl.min(tl.where(scores == tl.max(scores, 0), c, C - 1), 0)
        if PROBABILITIES:
            p_label = tl.sum(tl.where(c == y, p, 0.0), 0)
            loss = -tl.log(tl.where(p_label < tiny, tiny, p_label))
        else:
            loss = top + tl.log(total) - tl.sum(tl.where(c == y, z, 0.0), 0)
        to = record_ptr + (t * models + m) * 6
        tl.store(to, decision.to(tl.float32))
        tl.store(to + 1, pseudolabel.to(tl.float32))
        tl.store(to + 2, confidence)
        tl.store(to + 3, probability)
        tl.store(to + 4, asked)
        tl.store(to + 5, loss)
        t += 1

    tl.store(teacher_ptr + at1, T1, mask=here1)
    tl.store(teacher_ptr + at2, T2, mask=here2)
    tl.store(teacher_ptr + at3, T3, mask=here3)
    tl.store(student_ptr + at1, S1, mask=here1)
    tl.store(student_ptr + at2, S2, mask=here2)
    tl.store(student_ptr + at3, S3, mask=here3)
