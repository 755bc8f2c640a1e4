"""The memory of a learner that takes one sample at a time: one vector with a named place for everything.

It is a single vector because every argument of a compiled call costs. It holds, in this order:

- the numbers of the round (`SIGMA`, `ETA`, ...) and the sizes of the model;
- the last decision (`LABEL`, `MARGIN`, ...);
- five vectors of parameters, then the sample (`TEACHER`, ..., `SAMPLE`);
- three numbers per class (`ClassScores`).

The names below are constants and the functions are small enough to be inlined, so compiled code pays nothing for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from osamd.compiled.block_kernels import kind_of_round
from osamd.compiled.lanes import padded
from osamd.compiled.two_classes import TwoClassSeen
from osamd.numerics import Array
from osamd.paper.algorithm import Rates
from osamd.paper.methods import Learner

SELF_TRAINING, TEACHER_DECIDES, SIGMA, FLOOR, ETA, CAP, TARGET, SCALE, INNER_LOOPS, INNER_RATE = range(10)
"""The numbers of `Rates`, in the order of its fields, without the penalty, which is a vector."""

RIDGED, FEATURES, WIDTH, SIZE, CLASSES, AFTER = range(10, 16)
"""Whether there is an L2 term; the four numbers of `MemorySizes`; and where anything that is
appended to the memory begins."""

LABEL, PSEUDOLABEL, MARGIN, PROBABILITY, QUERY, SCORE, SLOPE, TEACHER_SCORE, SQUARE = range(16, 25)
"""The last decision, in the order of `TwoClassSeen`. Rounds that keep their scores by class leave some places empty."""

VECTORS = 32
"""Where the vectors begin."""

TEACHER, STUDENT, PENALTY, SHRINK, ADAPTED, SAMPLE = range(6)
"""The vectors in their order: theta, w_hat, the L2 coefficients, 1 / (1 + 2 eta L2), w_t, and the last sample."""


class MemorySizes(NamedTuple):
    """The sizes of a model in the memory."""

    features: int
    width: int
    """The length of the parameters of one class, with their padding where the round is fused."""
    size: int
    """The length of the parameters of all classes."""
    classes: int


class ClassScores(NamedTuple):
    """Three numbers per class, as views of the memory."""

    teacher: Any
    """The teacher's scores."""
    deciding: Any
    """The scores of the parameters that decide."""
    slope: Any
    """The slope on the scores by which w_t was reached."""


def memory_of(learner: Learner) -> Array:
    """A memory that starts at the learner's state."""
    model, rates = learner.model, learner.rates
    own = sizes_of(learner)
    memory = np.zeros(VECTORS + SAMPLE * own.size + own.width + len(ClassScores._fields) * model.classes)
    memory[SELF_TRAINING : INNER_RATE + 1] = [float(number) for number in rates[: INNER_RATE + 1]]
    memory[RIDGED] = bool(np.any(rates.penalty > 0.0))
    memory[FEATURES : CLASSES + 1] = own
    vector(memory, SHRINK, own.size)[:] = 1.0
    starts = {
        TEACHER: learner.state.teacher,
        STUDENT: learner.state.student,
        PENALTY: rates.penalty,
        SHRINK: 1.0 / (1.0 + 2.0 * rates.eta * rates.penalty),
    }
    for which, start in starts.items():
        view = params(learner, memory, which)
        view[:] = start.reshape(view.shape)
    if model.bias and kind_of_round(learner) != "general":
        sample(memory)[model.features] = 1.0
    return memory


def sizes_of(learner: Learner) -> MemorySizes:
    """The sizes of the learner's model."""
    model = learner.model
    bare = model.shape[-1]
    width = bare if kind_of_round(learner) == "general" else padded(bare)
    return MemorySizes(model.features, width, width * (learner.state.student.size // bare), model.classes)


def params(learner: Learner, memory: Array, which: int) -> Array:
    """A view of one vector of parameters without its padding, one row per class."""
    own = sizes_of(learner)
    whole: Array = vector(memory, which, own.size)
    return whole.reshape(-1, own.width)[:, : learner.model.shape[-1]]


def sizes(memory: Any) -> Any:
    """The `MemorySizes` of the memory."""
    return MemorySizes(int(memory[FEATURES]), int(memory[WIDTH]), int(memory[SIZE]), int(memory[CLASSES]))


def numbers(memory: Any, penalty: Any) -> Any:
    """The `Rates` of the memory, with this penalty."""
    return Rates(
        memory[SELF_TRAINING] != 0.0,
        memory[TEACHER_DECIDES] != 0.0,
        memory[SIGMA],
        memory[FLOOR],
        memory[ETA],
        memory[CAP],
        memory[TARGET],
        memory[SCALE],
        int(memory[INNER_LOOPS]),
        memory[INNER_RATE],
        penalty,
    )


def vector(memory: Any, which: Any, size: Any) -> Any:
    """One of the vectors of length `size`: a view. In a fused round for two classes the sample has that length too."""
    return memory[VECTORS + which * size : VECTORS + (which + 1) * size]


def sample(memory: Any) -> Any:
    """The last sample, as the parameters of one class meet it: a view."""
    own = sizes(memory)
    start = VECTORS + SAMPLE * own.size
    return memory[start : start + own.width]


def class_scores(memory: Any) -> Any:
    """The `ClassScores` of the memory."""
    own = sizes(memory)
    start = VECTORS + SAMPLE * own.size + own.width
    return ClassScores(
        memory[start : start + own.classes],
        memory[start + own.classes : start + 2 * own.classes],
        memory[start + 2 * own.classes : start + 3 * own.classes],
    )


def keep_seen(memory: Any, seen: Any) -> None:
    """Write a `TwoClassSeen` to its places."""
    memory[LABEL], memory[PSEUDOLABEL], memory[MARGIN] = seen.label, seen.pseudolabel, seen.confidence
    memory[PROBABILITY], memory[QUERY] = seen.probability, seen.query
    memory[SCORE], memory[SLOPE] = seen.score, seen.slope
    memory[TEACHER_SCORE], memory[SQUARE] = seen.teacher_score, seen.square


def kept_seen(memory: Any) -> Any:
    """The `TwoClassSeen` that was written last."""
    return TwoClassSeen(
        int(memory[LABEL]),
        int(memory[PSEUDOLABEL]),
        memory[MARGIN],
        memory[PROBABILITY],
        memory[QUERY] != 0.0,
        memory[SCORE],
        memory[SLOPE],
        memory[TEACHER_SCORE],
        memory[SQUARE],
    )
