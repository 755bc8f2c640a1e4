"""One sample at a time: all that a learner holds lies in one vector, since every argument of a compiled call costs.

The vector holds the numbers of the round, what was seen of the last sample, five vectors of parameters (teacher,
student, L2 coefficients, their r_i, w_t), the sample, and three numbers of every class (the teacher's score, that of
the decision, the slope). The input is checked in compiled code, where that costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from osamd.compiled.blocks import kind_of_round, once, widen
from osamd.compiled.lanes import add, padded, sums
from osamd.compiled.lowering import in_one_vector, jit, lower
from osamd.compiled.several_classes import SeenByRows, fused_rows
from osamd.compiled.two_classes import Seen, fused
from osamd.numerics import Array
from osamd.paper.algorithm import Decision, Rates, State, bind
from osamd.paper.methods import Learner
from osamd.paper.scores import UNLABELLED

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
    kind = kind_of_round(learner)
    decide, learn = once(f"one {kind}", learner, lambda: tuple(jit(half) for half in halves(learner)))
    return OneSample(decide, learn, memory_of(learner))


def halves(learner: Learner) -> tuple[Any, Any]:
    """The two functions, to be compiled; the sizes of the model are numbers of the memory."""
    make = {"flat": _flat_halves, "rows": _rows_halves, "general": _general_halves}[kind_of_round(learner)]
    return make(learner)


def memory_of(learner: Learner) -> Array:
    """A memory that starts at the learner's state."""
    model, rates = learner.model, learner.rates
    row, size = lengths(learner)
    memory = np.zeros(VECTORS + 5 * size + row + 3 * model.classes)
    memory[NUMBERS : NUMBERS + 10] = [float(number) for number in rates[:10]]
    memory[NUMBERS + 10] = bool(np.any(rates.penalty > 0.0))
    memory[NUMBERS + 11 : NUMBERS + 15] = model.features, row, size, model.classes
    memory[VECTORS + 3 * size : VECTORS + 4 * size] = 1.0
    for i, held in enumerate((*learner.state, rates.penalty, 1.0 / (1.0 + 2.0 * rates.eta * rates.penalty))):
        place = params(learner, memory, i)
        place[:] = held.reshape(place.shape)
    if model.bias and kind_of_round(learner) != "general":
        memory[VECTORS + 5 * size + model.features] = 1.0
    return memory


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


def sizes(memory: Any) -> Any:
    """Features, the length of one class's parameters with their padding, that of all classes', and the classes."""
    return int(memory[11]), int(memory[12]), int(memory[13]), int(memory[14])


def vector(memory: Any, i: Any, size: Any) -> Any:
    """The i-th vector of the memory."""
    return memory[VECTORS + i * size : VECTORS + (i + 1) * size]


def of_classes(memory: Any) -> Any:
    """Of every class: the teacher's score, that of the decision, the slope."""
    _, row, size, classes = sizes(memory)
    start = VECTORS + 5 * size + row
    return (
        memory[start : start + classes],
        memory[start + classes : start + 2 * classes],
        memory[start + 2 * classes : start + 3 * classes],
    )


def _flat_halves(learner: Learner) -> tuple[Any, Any]:
    parts: Any = (lower(part, inline=True) for part in fused(learner.loss))
    adapt, adapt_by_row, observe, correct = parts
    for helper in (numbers, vector, sizes):
        lower(helper)

    def decide(memory: Any, x: Any, u: Any) -> Any:
        features, _, size, _ = sizes(memory)
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
        _, _, size, _ = sizes(memory)
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
    for helper in (numbers, vector, sizes, of_classes):
        lower(helper)

    def decide(memory: Any, x: Any, u: Any) -> Any:
        features, length, size, _ = sizes(memory)
        if x.shape[0] != features:
            return -1, False
        row = memory[VECTORS + 5 * size : VECTORS + 5 * size + length]
        for i in range(features):
            row[i] = x[i]
        h, scores, q = of_classes(memory)
        theta, w = vector(memory, 0, size), vector(memory, 1, size)
        seen = observe_rows(theta, w, row, 0, length, False, h, scores, q, numbers(memory, 0.0))
        if not seen.finite:
            return -1, False
        last = memory[SEEN : SEEN + 5]
        last[0], last[1], last[2], last[3], last[4] = seen[0], seen[1], seen[2], seen[3], seen[4]
        return seen.label, u < seen.probability

    def learn(memory: Any, y: Any) -> Any:
        _, length, size, classes = sizes(memory)
        if not UNLABELLED <= y < classes:
            return False
        last = memory[SEEN : SEEN + 5]
        seen = SeenByRows(int(last[0]), int(last[1]), last[2], last[3], last[4], True)
        row = memory[VECTORS + 5 * size : VECTORS + 5 * size + length]
        theta, w = vector(memory, 0, size), vector(memory, 1, size)
        h, scores, q = of_classes(memory)
        learn_rows(theta, w, row, 0, length, False, h, scores, q, seen, y, numbers(memory, 0.0))
        return True

    return decide, learn


def binary_slope(memory: Any) -> Any:
    return of_classes(memory)[2][0]


def multiclass_slope(memory: Any) -> Any:
    return of_classes(memory)[2]


def keep_binary(memory: Any, score: Any, slope: Any) -> Any:
    """Keep the score that decides and the slope, where they are finite numbers, and say whether they are."""
    _, scores, slopes = of_classes(memory)
    if not abs(score) + abs(slope) < np.inf:
        return False
    scores[0], slopes[0] = score, slope
    return True


def keep_multiclass(memory: Any, score: Any, slope: Any) -> Any:
    _, scores, slopes = of_classes(memory)
    if not np.abs(score).sum() + np.abs(slope).sum() < np.inf:
        return False
    scores[:], slopes[:] = score, slope
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
    for helper in (numbers, vector, sizes, slope_of, keep, widen):
        lower(helper)

    def decide(memory: Any, x: Any, u: Any) -> Any:
        features, width, size, _ = sizes(memory)
        row = memory[VECTORS + 5 * size : VECTORS + 5 * size + width]
        if x.shape[0] != features or not widen(x, row, bias, signed):
            return -1, False
        state = State(vector(memory, 0, size), vector(memory, 1, size))
        decided = observe_general(state, row, u, numbers(memory, vector(memory, 2, size)))
        if not decided.margin < np.inf or not keep(memory, scores_of(decided.adapted, row), decided.slope):
            return -1, False
        last = memory[SEEN : SEEN + 5]
        last[0], last[1], last[2] = decided.label, decided.pseudolabel, decided.margin
        last[3], last[4] = decided.probability, decided.query
        vector(memory, 4, size)[:] = decided.adapted
        return decided.label, decided.query

    def learn(memory: Any, y: Any) -> Any:
        _, width, size, classes = sizes(memory)
        if not UNLABELLED <= y < classes:
            return False
        last = memory[SEEN : SEEN + 5]
        teacher, student = vector(memory, 0, size), vector(memory, 1, size)
        row = memory[VECTORS + 5 * size : VECTORS + 5 * size + width]
        decided = Decision(
            int(last[0]),
            int(last[1]),
            last[2],
            last[3],
            last[4] != 0.0,
            vector(memory, 4, size),
            slope_of(memory),
        )
        after = learn_general(State(teacher, student), row, decided, y, numbers(memory, vector(memory, 2, size)))
        teacher[:], student[:] = after.teacher, after.student
        return True

    return decide, learn
