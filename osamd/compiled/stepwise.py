"""The round for one sample at a time: its two halves, compiled, on the vector of `osamd.compiled.layout`.

The input is checked in compiled code, where that costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from osamd.compiled.block_kernels import kind_of_round, once, widen
from osamd.compiled.lanes import add, sums
from osamd.compiled.layout import (
    ADAPTED,
    LABEL,
    MARGIN,
    PENALTY,
    PROBABILITY,
    PSEUDOLABEL,
    QUERY,
    RIDGED,
    SAMPLE,
    SHRINK,
    SQUARE,
    STUDENT,
    TEACHER,
    class_scores,
    keep_seen,
    kept_seen,
    memory_of,
    numbers,
    sample,
    sizes,
    vector,
)
from osamd.compiled.lowering import in_one_vector, jit, lower
from osamd.compiled.several_classes import SeveralClassSeen, fused_rows
from osamd.compiled.two_classes import fused
from osamd.numerics import Array
from osamd.paper.algorithm import RoundDecision, State, bind
from osamd.paper.methods import Learner
from osamd.paper.scores import UNLABELLED


class StepwiseKernels(NamedTuple):
    """The compiled halves of the round, and the memory that they work on."""

    decide: Callable[[Array, Array, float], tuple[int, bool]]
    """decide(memory, x, u) -> (label, query); the label is -1 for an x that cannot be used."""
    learn: Callable[[Array, int], bool]
    """learn(memory, y) -> whether y is a label."""
    memory: Array


def stepwise_kernels(learner: Learner) -> StepwiseKernels:
    """The compiled halves of the round, and a memory that starts at the learner's state."""
    kind = kind_of_round(learner)
    decide, learn = once(f"one {kind}", learner, lambda: tuple(jit(half) for half in halves(learner)))
    return StepwiseKernels(decide, learn, memory_of(learner))


def halves(learner: Learner) -> tuple[Any, Any]:
    """The two functions to be compiled; they read the sizes of the model from the memory."""
    make = {"flat": _flat_halves, "rows": _rows_halves, "general": _general_halves}[kind_of_round(learner)]
    return make(learner)


def _flat_halves(learner: Learner) -> tuple[Any, Any]:
    parts: Any = (lower(part, inline=True) for part in fused(learner.loss))
    adapt, adapt_by_row, observe, correct = parts
    for helper in (numbers, vector, sizes):
        lower(helper)
    lower(keep_seen, inline=True)
    lower(kept_seen, inline=True)

    def decide(memory: Any, x: Any, u: Any) -> Any:
        own = sizes(memory)
        if x.shape[0] != own.features:
            return -1, False
        size = own.size
        row, adapted = vector(memory, SAMPLE, size), vector(memory, ADAPTED, size)
        for i in range(own.features):
            row[i] = x[i]
        rates, theta, w = numbers(memory, 0.0), vector(memory, TEACHER, size), vector(memory, STUDENT, size)
        h, s, square = sums(theta, w, 0, row, 0, size, False)
        if memory[RIDGED] != 0.0 or rates.inner_loops > 0:
            penalty, shrink = vector(memory, PENALTY, size), vector(memory, SHRINK, size)
            score, q = adapt_by_row(h, s, theta, w, penalty, shrink, row, rates, adapted)
        else:
            score, q = adapt(h, s, square, rates)
        seen = observe(h, score, q, square, u, rates)
        if not square + abs(score) + seen.confidence < np.inf:
            return -1, False
        keep_seen(memory, seen)
        return seen.label, seen.query

    def learn(memory: Any, y: Any) -> Any:
        if not UNLABELLED <= y <= 1:
            return False
        size, seen, rates = sizes(memory).size, kept_seen(memory), numbers(memory, 0.0)
        theta, w, penalty = vector(memory, TEACHER, size), vector(memory, STUDENT, size), vector(memory, PENALTY, size)
        row, adapted = vector(memory, SAMPLE, size), vector(memory, ADAPTED, size)
        q = seen.slope
        if y != UNLABELLED:
            tau, q = correct(y, seen, rates)
            if tau != 0.0:
                add(tau, row, 0, size, False, theta, 0)
        if not rates.teacher_decides and (y != UNLABELLED or rates.self_training):
            if memory[RIDGED] != 0.0:
                for i in range(size):
                    w[i] -= rates.eta * (q * row[i] + 2.0 * penalty[i] * adapted[i])
            elif q != 0.0:
                add(-rates.eta * q, row, 0, size, False, w, 0)
        return True

    return decide, learn


def _rows_halves(learner: Learner) -> tuple[Any, Any]:
    parts: Any = (lower(part, inline=True) for part in fused_rows(learner.loss))
    observe_rows, learn_rows = parts
    for helper in (numbers, vector, sizes, sample, class_scores):
        lower(helper)

    def decide(memory: Any, x: Any, u: Any) -> Any:
        own, row = sizes(memory), sample(memory)
        if x.shape[0] != own.features:
            return -1, False
        for i in range(own.features):
            row[i] = x[i]
        h, scores, q = class_scores(memory)
        theta, w = vector(memory, TEACHER, own.size), vector(memory, STUDENT, own.size)
        seen = observe_rows(theta, w, row, 0, own.width, False, h, scores, q, numbers(memory, 0.0))
        if not seen.finite:
            return -1, False
        memory[LABEL], memory[PSEUDOLABEL], memory[MARGIN] = seen.label, seen.pseudolabel, seen.confidence
        memory[PROBABILITY], memory[SQUARE] = seen.probability, seen.square
        return seen.label, u < seen.probability

    def learn(memory: Any, y: Any) -> Any:
        own, row = sizes(memory), sample(memory)
        if not UNLABELLED <= y < own.classes:
            return False
        seen = SeveralClassSeen(
            int(memory[LABEL]), int(memory[PSEUDOLABEL]), memory[MARGIN], memory[PROBABILITY], memory[SQUARE], True
        )
        theta, w = vector(memory, TEACHER, own.size), vector(memory, STUDENT, own.size)
        h, scores, q = class_scores(memory)
        learn_rows(theta, w, row, 0, own.width, False, h, scores, q, seen, y, numbers(memory, 0.0))
        return True

    return decide, learn


def binary_slope(memory: Any) -> Any:
    """The slope of the last decision: a number for two classes."""
    return class_scores(memory).slope[0]


def multiclass_slope(memory: Any) -> Any:
    """The slope of the last decision: a vector for several classes."""
    return class_scores(memory).slope


def keep_binary(memory: Any, score: Any, slope: Any) -> Any:
    """Keep the deciding score and the slope if they are finite, and say whether they are."""
    if not abs(score) + abs(slope) < np.inf:
        return False
    kept = class_scores(memory)
    kept.deciding[0], kept.slope[0] = score, slope
    return True


def keep_multiclass(memory: Any, score: Any, slope: Any) -> Any:
    """The same for several classes."""
    if not np.abs(score).sum() + np.abs(slope).sum() < np.inf:
        return False
    kept = class_scores(memory)
    kept.deciding[:], kept.slope[:] = score, slope
    return True


def _general_halves(learner: Learner) -> tuple[Any, Any]:
    model = in_one_vector(learner.model)
    observe_general: Any
    learn_general: Any
    observe_general, learn_general = (lower(half) for half in bind(model, learner.loss, learner.geometry))
    scores_of: Any = lower(model.scores)
    bias, signed = model.bias, model.signed
    two = model.classes == 2
    slope_of, keep = (binary_slope, keep_binary) if two else (multiclass_slope, keep_multiclass)
    for helper in (numbers, vector, sizes, sample, slope_of, keep, widen):
        lower(helper)

    def decide(memory: Any, x: Any, u: Any) -> Any:
        own, row = sizes(memory), sample(memory)
        if x.shape[0] != own.features or not widen(x, row, bias, signed):
            return -1, False
        state = State(vector(memory, TEACHER, own.size), vector(memory, STUDENT, own.size))
        decided = observe_general(state, row, u, numbers(memory, vector(memory, PENALTY, own.size)))
        if not decided.margin < np.inf or not keep(memory, scores_of(decided.adapted, row), decided.slope):
            return -1, False
        memory[LABEL], memory[PSEUDOLABEL], memory[MARGIN] = decided.label, decided.pseudolabel, decided.margin
        memory[PROBABILITY], memory[QUERY] = decided.probability, decided.query
        vector(memory, ADAPTED, own.size)[:] = decided.adapted
        return decided.label, decided.query

    def learn(memory: Any, y: Any) -> Any:
        own = sizes(memory)
        if not UNLABELLED <= y < own.classes:
            return False
        teacher, student = vector(memory, TEACHER, own.size), vector(memory, STUDENT, own.size)
        decided = RoundDecision(
            int(memory[LABEL]),
            int(memory[PSEUDOLABEL]),
            memory[MARGIN],
            memory[PROBABILITY],
            memory[QUERY] != 0.0,
            vector(memory, ADAPTED, own.size),
            slope_of(memory),
        )
        rates = numbers(memory, vector(memory, PENALTY, own.size))
        after = learn_general(State(teacher, student), sample(memory), decided, y, rates)
        teacher[:], student[:] = after.teacher, after.student
        return True

    return decide, learn
