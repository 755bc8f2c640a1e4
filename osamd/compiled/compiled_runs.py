"""The compiled learner over a whole stream in one call, or one sample at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from osamd.compiled.block_kernels import DIVERGED, GOOD, flat_block, general_block, kind_of_round, once
from osamd.compiled.layout import STUDENT, TEACHER, params
from osamd.compiled.lowering import jit
from osamd.compiled.several_classes import rows_block
from osamd.compiled.stepwise import stepwise_kernels
from osamd.errors import InputError, lookup
from osamd.numerics import Array
from osamd.paper.algorithm import State
from osamd.paper.ledger import Ledger
from osamd.paper.methods import Learner
from osamd.paper.play import check_block, diverged
from osamd.streams.base import Stream, query_generator

COLUMNS: dict[str, Any] = {
    "decision": np.int64,
    "pseudolabel": np.int64,
    "margin": np.float64,
    "probability": np.float64,
    "asked": np.bool_,
    "loss": np.float64,
}
"""The columns of the ledger other than `label`, in the order in which the kernels take them."""


class Totals(NamedTuple):
    """Sums over a run. `loss` is accumulated only if that column is kept; otherwise it is 0."""

    rounds: int
    right: int
    asked: int
    pseudolabel_errors: int
    loss: float

    @property
    def accuracy(self) -> float:
        return self.right / self.rounds

    @property
    def label_rate(self) -> float:
        return self.asked / self.rounds


class CompiledRun(NamedTuple):
    """The result of a stream; columns of the ledger that were not kept have length 0."""

    ledger: Ledger
    state: State
    totals: Totals


def block_kernel(learner: Learner) -> Any:
    """kernel(x, y, u, teacher, student, rates, columns, totals) -> (how it ended, round), for this learner.

    The rows of x are raw features. The columns are those of the ledger without `label`; one of length 0 is not kept.
    Teacher and student change in place, and (right, asked, pseudolabel errors, loss) are added to totals.
    """
    kind = kind_of_round(learner)
    make = {"flat": flat_block, "rows": rows_block, "general": general_block}[kind]
    return once(kind, learner, lambda: jit(make(learner), optimise_parts=True))


def play(
    learner: Learner,
    stream: Stream,
    seed: int,
    *,
    columns: Sequence[str] = tuple(COLUMNS),
    keep_params: bool = False,
    progress: Callable[[int], None] | None = None,
) -> CompiledRun:
    """`osamd.paper.play.play`, compiled: the same queries in every round, and the same parameters up to rounding.

    It needs memory for one block and for the `columns` kept, so with columns=() it does not grow with the stream.

    >>> from osamd.paper.methods import Settings, learner
    >>> from osamd.paper.models import linear
    >>> from osamd.streams import rotating_gaussian
    >>> osamd = learner("osamd", linear(features=2), Settings(eta=0.01, sigma=0.35), start=[0.4, 0.0, -4.0])
    >>> play(osamd, rotating_gaussian(5000), seed=1, columns=()).totals.rounds
    5000
    """
    for name in columns:
        lookup("play", "columns", name, COLUMNS)
    kernel = block_kernel(learner)
    length = {name: stream.rounds if name in columns else 0 for name in COLUMNS}
    kept: list[Any] = [np.zeros(length[name], dtype) for name, dtype in COLUMNS.items()]
    shape = learner.model.shape
    kept.append(np.zeros((stream.rounds if keep_params else 0, math.prod(shape))))
    label = np.zeros(stream.rounds if columns else 0, dtype=np.int64)
    teacher, student = learner.state.teacher.ravel().copy(), learner.state.student.ravel().copy()
    rates = learner.rates._replace(penalty=learner.rates.penalty.ravel())
    sums, generator, uniforms = np.zeros(4), query_generator(seed), np.empty(0)
    t = 0
    for x, y in stream.blocks(seed):
        stop = t + len(y)
        if x.ndim != 2 or x.shape[1] != learner.model.features or stop > stream.rounds:
            check_block(learner, x, y, t)
            raise InputError(
                f"`play(stream={stream.name!r})`: the stream announced {stream.rounds} rounds and gave more."
            )
        part = tuple(column[t:stop] for column in kept)
        x, y = np.ascontiguousarray(x, dtype=np.float64), np.ascontiguousarray(y, dtype=np.int64)
        if len(uniforms) < len(y):
            uniforms = np.empty(len(y))  # kept from block to block: fresh memory costs more than the draws
        u = generator.random(out=uniforms[: len(y)])
        ended, at = kernel(x, y, u, teacher, student, rates, part, sums)
        if ended == DIVERGED:
            raise diverged(t + at)
        if ended != GOOD:
            check_block(learner, x[at : at + 1], y[at : at + 1], t + at)
        if len(label):
            label[t:stop] = y
        t = stop
        if progress is not None:
            progress(t)
    if t != stream.rounds:
        raise InputError(f"`play(stream={stream.name!r})`: the stream announced {stream.rounds} rounds and gave {t}.")
    columns_kept = dict(zip(COLUMNS, kept, strict=False))
    ledger = Ledger(label=label, params=kept[-1].reshape(-1, *shape) if keep_params else None, **columns_kept)
    totals = Totals(t, int(sums[0]), int(sums[1]), int(sums[2]), float(sums[3]))
    return CompiledRun(ledger, State(teacher.reshape(shape), student.reshape(shape)), totals)


class StepwiseLearner:
    """A learner for one sample at a time: `decide`, then `learn`, each one compiled call.

    >>> from osamd.paper.methods import Settings, learner
    >>> from osamd.paper.models import linear
    >>> bound = learner("osamd", linear(features=2), Settings(eta=0.01, sigma=0.35), start=[0.4, 0.0, -4.0])
    >>> stepwise = StepwiseLearner(bound)
    >>> label, query = stepwise.decide(np.array([15.0, 0.0]), u=0.9)
    >>> stepwise.learn(-1)
    >>> label, query
    (1, False)
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._decide, self._learn, self._memory = stepwise_kernels(learner)

    def decide(self, x: Array, u: float) -> tuple[int, bool]:
        """The decision for a row of raw features, and whether to ask for its label; `u` draws the query."""
        label, query = self._decide(self._memory, x, u)
        if label < 0:
            check_block(self.learner, np.atleast_2d(x), np.zeros(1, dtype=np.int64), 0)
            raise diverged(0)
        return label, query

    def learn(self, y: int) -> None:
        """Learn from the last decision: y is the class index of its label, or `UNLABELLED`."""
        if not self._learn(self._memory, y):
            raise InputError(
                f"`learn(y={y!r})`: y is not a class index; give 0..{self.learner.model.classes - 1}, or UNLABELLED."
            )

    @property
    def state(self) -> State:
        """A copy of the state."""
        shape = self.learner.model.shape
        return State(*(params(self.learner, self._memory, which).reshape(shape).copy() for which in (TEACHER, STUDENT)))
