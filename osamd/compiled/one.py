"""One sample at a time: all that a learner holds lies in one vector, since every argument of a compiled call costs.

The vector holds the numbers of the round, what was seen of the last sample, five vectors of parameters (teacher,
student, L2 coefficients, their r_i, w_t), the sample, and three numbers of every class (the teacher's score, that of
the decision, the slope). The input is checked in compiled code, where that costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from osamd.algorithm import Decision, Rates, State, bind
from osamd.compiled.flat import Seen, fused
from osamd.compiled.kernels import kind_of_round, once, widen
from osamd.compiled.lanes import add, padded, sums
from osamd.compiled.lowering import in_one_vector, jit, lower
from osamd.compiled.rows import SeenByRows, fused_rows
from osamd.methods import Learner
from osamd.numerics import Array
from osamd.scores import UNLABELLED

NUMBERS, SEEN = 0, 16
"""Where the numbers of the round and the last decision begin; both have sixteen places."""
VECTORS = 32


class OneSample(NamedTuple):
    """decide(memory, x, u) -> (label, query), label -1 for an x that cannot be used; learn(memory, y) -> whether y is
    a label; and the memory."""

    decide: Callable[[Array, Array, float], tuple[int, bool]]
    learn: Callable[[Array, int], bool]
    memory: Array


def one_sample(learner: Learner) -> OneSample:
    """The compiled halves of the round, and a memory that starts at the learner's state."""
    model, rates, kind = learner.model, learner.rates, kind_of_round(learner)
    make = {"flat": _flat_halves, "rows": _rows_halves, "general": _general_halves}[kind]
    of_its_own = (model.features, model.classes)
    decide, learn = once(f"one {kind}", learner, lambda: tuple(jit(half) for half in make(learner)), *of_its_own)
    row, size = lengths(learner)
    memory = np.zeros(VECTORS + 5 * size + row + 3 * model.classes)
    memory[NUMBERS : NUMBERS + 10] = [float(number) for number in rates[:10]]
    memory[NUMBERS + 10] = bool(np.any(rates.penalty > 0.0))
    memory[VECTORS + 3 * size : VECTORS + 4 * size] = 1.0
    for i, held in enumerate((*learner.state, rates.penalty, 1.0 / (1.0 + 2.0 * rates.eta * rates.penalty))):
        place = params(learner, memory, i)
        place[:] = held.reshape(place.shape)
    if model.bias and kind != "general":
        memory[VECTORS + 5 * size + model.features] = 1.0
    return OneSample(decide, learn, memory)


def lengths(learner: Learner) -> tuple[int, int]:
    """Of the parameters of one class, with their padding where the round is fused, and of all classes."""
    width = learner.model.shape[-1]
    row = width if kind_of_round(learner) == "general" else padded(width)
    return row, row * (learner.state.student.size // width)


def params(learner: Learner, memory: Array, i: int) -> Array:
    """A view of the i-th vector of the memory without its padding, one row a class."""
    row, size = lengths(learner)
    whole: Array = vector(memory, i, size)
    return whole.reshape(-1, row)[:, : learner.model.shape[-1]]


def numbers(memory: Any, penalty: Any) -> Any:
    """The `Rates` of the memory."""
    return Rates(
        memory[0] != 0.0,
        memory[1] != 0.0,
        memory[2],
        memory[3],
        memory[4],
        memory[5],
        memory[6],
        memory[7],
        int(memory[8]),
        memory[9],
        penalty,
    )


def vector(memory: Any, i: Any, size: Any) -> Any:
    """The i-th vector of the memory."""
    return memory[VECTORS + i * size : VECTORS + (i + 1) * size]


def _flat_halves(learner: Learner) -> tuple[Any, Any]:
    parts: Any = (lower(part, inline=True) for part in fused(learner.loss))
    adapt, adapt_by_row, observe, correct = parts
    features, size = learner.model.features, padded(learner.model.shape[0])
    for helper in (numbers, vector):
        lower(helper)

    def decide(memory: Any, x: Any, u: Any) -> Any:
        if x.shape[0] != features:
            return -1, False
        row, adapted = vector(memory, 5, size), vector(memory, 4, size)
        for i in range(features):
            row[i] = x[i]
        rates, theta, w = numbers(memory, 0.0), vector(memory, 0, size), vector(memory, 1, size)
        h, s, square = sums(theta, w, 0, row, 0, size, False)
        if memory[10] != 0.0 or rates.inner_loops > 0:
            penalty, shrink = vector(memory, 2, size), vector(memory, 3, size)
            score, q = adapt_by_row(h, s, theta, w, penalty, shrink, row, rates, adapted)
        else:
            score, q = adapt(h, s, square, rates)
        seen = observe(h, score, q, square, u, rates)
        if not square + abs(score) + seen.confidence < np.inf:
            return -1, False
        last = memory[SEEN : SEEN + 9]
        last[0], last[1], last[2], last[3], last[4] = seen[0], seen[1], seen[2], seen[3], seen[4]
        last[5], last[6], last[7], last[8] = seen[5], seen[6], seen[7], seen[8]
        return seen.label, seen.query

    def learn(memory: Any, y: Any) -> Any:
        if not UNLABELLED <= y <= 1:
            return False
        last = memory[SEEN : SEEN + 9]
        seen = Seen(int(last[0]), int(last[1]), last[2], last[3], last[4] != 0.0, last[5], last[6], last[7], last[8])
        theta, w, penalty = vector(memory, 0, size), vector(memory, 1, size), vector(memory, 2, size)
        row, adapted, rates = vector(memory, 5, size), vector(memory, 4, size), numbers(memory, 0.0)
        q = seen.slope
        if y != UNLABELLED:
            tau, q = correct(y, seen, rates)
            if tau != 0.0:
                add(tau, row, 0, size, False, theta, 0)
        if not rates.teacher_decides and (y != UNLABELLED or rates.self_training):
            if memory[10] != 0.0:
                for i in range(size):
                    w[i] -= rates.eta * (q * row[i] + 2.0 * penalty[i] * adapted[i])
            elif q != 0.0:
                add(-rates.eta * q, row, 0, size, False, w, 0)
        return True

    return decide, learn


def _rows_halves(learner: Learner) -> tuple[Any, Any]:
    parts: Any = (lower(part, inline=True) for part in fused_rows(learner.loss))
    observe_rows, learn_rows = parts
    features, classes = learner.model.features, learner.model.classes
    row_size, size = lengths(learner)
    row_start = VECTORS + 5 * size
    of_classes = row_start + row_size
    for helper in (numbers, vector):
        lower(helper)

    def decide(memory: Any, x: Any, u: Any) -> Any:
        if x.shape[0] != features:
            return -1, False
        row = memory[row_start:of_classes]
        for i in range(features):
            row[i] = x[i]
        h, scores = memory[of_classes : of_classes + classes], memory[of_classes + classes : of_classes + 2 * classes]
        q, theta, w = memory[of_classes + 2 * classes :], vector(memory, 0, size), vector(memory, 1, size)
        seen = observe_rows(theta, w, row, 0, row_size, False, h, scores, q, numbers(memory, 0.0))
        if not seen.finite:
            return -1, False
        last = memory[SEEN : SEEN + 5]
        last[0], last[1], last[2], last[3], last[4] = seen[0], seen[1], seen[2], seen[3], seen[4]
        return seen.label, u < seen.probability

    def learn(memory: Any, y: Any) -> Any:
        if not UNLABELLED <= y < classes:
            return False
        last = memory[SEEN : SEEN + 5]
        seen = SeenByRows(int(last[0]), int(last[1]), last[2], last[3], last[4], True)
        row, theta, w = memory[row_start:of_classes], vector(memory, 0, size), vector(memory, 1, size)
        h, scores = memory[of_classes : of_classes + classes], memory[of_classes + classes : of_classes + 2 * classes]
        q = memory[of_classes + 2 * classes :]
        learn_rows(theta, w, row, 0, row_size, False, h, scores, q, seen, y, numbers(memory, 0.0))
        return True

    return decide, learn


def binary_slope(memory: Any, start: Any) -> Any:
    return memory[start]


def multiclass_slope(memory: Any, start: Any) -> Any:
    return memory[start:]


def keep_binary_slope(memory: Any, start: Any, slope: Any) -> Any:
    memory[start] = slope


def keep_multiclass_slope(memory: Any, start: Any, slope: Any) -> Any:
    memory[start:] = slope


def _general_halves(learner: Learner) -> tuple[Any, Any]:
    model = learner.model
    halves = bind(in_one_vector(model), learner.loss, learner.geometry)
    observe_general: Any
    learn_general: Any
    observe_general, learn_general = (lower(half) for half in halves)
    features, classes, bias, signed = model.features, model.classes, model.bias, model.signed
    width, size = lengths(learner)
    row_start, slope_start = VECTORS + 5 * size, VECTORS + 5 * size + width + 2 * classes
    two = classes == 2
    slope_of, keep_slope = (binary_slope, keep_binary_slope) if two else (multiclass_slope, keep_multiclass_slope)
    for helper in (numbers, vector, slope_of, keep_slope, widen):
        lower(helper)

    def decide(memory: Any, x: Any, u: Any) -> Any:
        row = memory[row_start : row_start + width]
        if x.shape[0] != features or not widen(x, row, bias, signed):
            return -1, False
        state = State(vector(memory, 0, size), vector(memory, 1, size))
        decided = observe_general(state, row, u, numbers(memory, vector(memory, 2, size)))
        if not decided.margin < np.inf:
            return -1, False
        last = memory[SEEN : SEEN + 5]
        last[0], last[1], last[2] = decided.label, decided.pseudolabel, decided.margin
        last[3], last[4] = decided.probability, decided.query
        vector(memory, 4, size)[:] = decided.adapted
        keep_slope(memory, slope_start, decided.slope)
        return decided.label, decided.query

    def learn(memory: Any, y: Any) -> Any:
        if not UNLABELLED <= y < classes:
            return False
        last = memory[SEEN : SEEN + 5]
        teacher, student, row = vector(memory, 0, size), vector(memory, 1, size), memory[row_start : row_start + width]
        decided = Decision(
            int(last[0]),
            int(last[1]),
            last[2],
            last[3],
            last[4] != 0.0,
            vector(memory, 4, size),
            slope_of(memory, slope_start),
        )
        after = learn_general(State(teacher, student), row, decided, y, numbers(memory, vector(memory, 2, size)))
        teacher[:], student[:] = after.teacher, after.student
        return True

    return decide, learn
