"""The two halves of the paper's round for ask and tell, compiled.

The book of the budget, the meter of the accuracy and the statistics of the features lie in the one vector of
`osamd.compiled.layout`, since every argument of a compiled call takes time.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from osamd.checks import ROUNDING, require_finite_in, require_within
from osamd.compiled.block_kernels import kind_of_round, once
from osamd.compiled.layout import AFTER, STUDENT, TEACHER, class_scores, memory_of, params, sample
from osamd.errors import InputError, require_place
from osamd.learner.cores.block_playing import BlockQueries, Observations, observations, played
from osamd.learner.cores.compiled_packing import packing
from osamd.learner.cores.paper_halves import compiled_halves, compiled_rounds, parts
from osamd.learner.cores.sample_rows import LinearSamples, confirming
from osamd.learner.decision import Observation
from osamd.numerics import Array
from osamd.paper.geometry.base import DecisionSet
from osamd.paper.methods import Learner


class LinearCore(LinearSamples):
    """A linear model for `osamd.learner.ask_tell`, compiled. With `standardise` features are scaled by running
    statistics."""

    too_large = (
        "the scores are not finite: x is too large, or the steps were too large for these features and have spoilt the"
        " learner. Then load an earlier save or make a new one, scale the features (standardise=True), or lower eta or"
        " the L2 term."
    )

    in_blocks = True
    """Whether rounds can be played in blocks."""

    def __init__(self, learner: Learner, book: Array, meter: Array, standardise: bool) -> None:
        super().__init__(learner.model.features)
        self._learner = learner
        start = memory_of(learner)
        statistics = np.zeros(1 + 4 * self.features if standardise else 0)
        ends = len(start) + 3 + np.cumsum([0, len(book), len(meter), len(statistics)])
        start[AFTER] = len(start)
        kind = f"ask {kind_of_round(learner)}"
        self._halves = once(kind, learner, lambda: compiled_halves(learner, standardise), standardise)
        self.standardise, self._several = standardise, learner.model.classes > 2
        self._take(np.concatenate([start, ends[:3], book, meter, statistics]))

    def _take(self, memory: Array) -> None:
        self._memory = memory
        self.book, self.meter, self._statistics = parts(memory)
        ask, tell = self._halves
        self._ask: Callable[[Array, float], Any] = partial(ask, memory)
        self._deciding: Array = class_scores(memory).deciding
        self._tell: Callable[[int], Any] = partial(tell, memory)
        self.confirm: Callable[..., Any] = partial(confirming(), self.meter)

    def observe(self, sample: Array, u: float) -> Observation:
        seen = self._ask(sample, u)
        if self._several:  # compiled code that returns an array cannot be kept on disk, so the scores are copied here
            seen = (*seen[:-1], self._deciding.copy())
        return Observation._make(seen)

    def play(self, rows: Array, draws: Array, pending: BlockQueries) -> tuple[Observations, list[int]]:
        """Rounds without labels: see `osamd.learner.blocks`."""
        classes = self._learner.model.classes
        none, width = self.no_samples(), classes if classes > 2 else 1
        block = played(self._block, self._memory, rows, draws, width, pending, none, 0)
        return observations(block.numbers, block.scores if classes > 2 else block.scores[:, 0]), block.expired_after

    @cached_property
    def _block(self) -> Any:
        """The compiled rounds of a block; only the service needs them, and they take seconds to compile."""
        learner, standardise = self._learner, self.standardise
        kind = f"block {kind_of_round(learner)}"
        return once(kind, learner, lambda: compiled_rounds(learner, standardise), standardise)

    def learn(self, y: int, weight: float = 0.0) -> None:
        self._tell(y)

    def last(self) -> Array:
        held = self._statistics[1 + 2 * self.features :] if self.standardise else sample(self._memory)
        last: Array = held[: self.features].copy()
        return last

    def probabilities(self, score: Any) -> list[float]:
        if type(score) is float or np.ndim(score) == 0:  # the first is quicker
            second = 1.0 / (1.0 + math.exp(-score)) if score >= 0.0 else 1.0 - 1.0 / (1.0 + math.exp(score))
            return [1.0 - second, second]
        shares = np.exp(score - score.max())
        return list((shares / shares.sum()).tolist())

    def weights(self, *, teacher: bool) -> Array:
        """The plain weights of one of the two models."""
        model = self._learner.model
        held: Array = params(self._learner, self._memory, TEACHER if teacher else STUDENT)
        weights: Array = model.weights(held.reshape(model.shape).copy())
        return weights

    def start(self, weights: Array) -> None:
        """Start both models from these weights."""
        model, geometry = self._learner.model, self._learner.geometry
        if model.signed:
            weights = np.concatenate([np.maximum(weights, 0.0), np.maximum(-weights, 0.0)], axis=-1)
        for which in (TEACHER, STUDENT):
            place = params(self._learner, self._memory, which)
            place[:] = geometry.project(weights).reshape(place.shape)

    def gather(self, rows: Array) -> None:
        """Start the statistics from a whole table."""
        features, held = rows.shape[1], self._statistics
        with np.errstate(over="ignore"):
            squares = ((rows - rows.mean(axis=0)) ** 2).sum(axis=0)
        if not np.isfinite(squares).all():
            raise InputError("`from_source(X=...)`: X holds numbers too large to be squared; scale its columns.")
        held[0], held[1 : 1 + features] = len(rows), rows.mean(axis=0)
        held[1 + features : 1 + 2 * features] = squares

    def scaled(self, rows: Array) -> Array:
        """A table, standardised by the current statistics."""
        features, held = rows.shape[1], self._statistics
        mean, variance = held[1 : 1 + features], held[1 + features : 1 + 2 * features] / max(held[0], 1.0)
        varies = variance > 1e-24 * mean * mean
        scaled: Array = np.where(varies, (rows - mean) / np.sqrt(np.where(varies, variance, 1.0)), 0.0)
        return scaled

    def restore(self, arrays: dict[str, Array]) -> None:
        for name, place in self._places().items():
            place[:] = require_place(arrays, name, place.shape)
        self.check()

    def check(self) -> None:
        """Refuse numbers that cannot belong to a learner."""
        inside = self._learner.geometry.decision_set
        for which, name in ((TEACHER, "teacher"), (STUDENT, "student")):
            _require_inside(name, params(self._learner, self._memory, which), inside)
        if self.standardise:
            count, spread = self._statistics[0], self._statistics[1 : 1 + 2 * self.features]
            require_within("statistics.count", count, 0, 2.0**53, whole=True)
            require_finite_in("statistics", spread)
            require_within("statistics.squares", spread[self.features :], 0.0, math.inf)

    def _places(self) -> dict[str, Array]:
        teacher, student = (params(self._learner, self._memory, which) for which in (TEACHER, STUDENT))
        gathered = self._statistics[: 1 + 2 * self.features]  # what follows is of the last sample
        return {"teacher": teacher, "student": student, "statistics": gathered}

    def size(self) -> int:
        """The most numbers that `packed` writes."""
        return sum(place.size for place in self._places().values())

    def packed(self, out: Any, at: int) -> int:
        """Write what has been learned as few bytes; returns where they end."""
        for place in self._places().values():
            at = packing().put_numbers(out, at, place.ravel(), np.zeros(place.size))
        return at

    def twin(self, classes: int, book: Array, meter: Array) -> LinearCore:
        """A core for the same samples, with a copy of the book and the meter."""
        other = copy.copy(self)
        other._take(self._memory.copy())
        other.book[:], other.meter[:] = book, meter
        return other

    def unpack(self, data: Any, at: int) -> int:
        """Take up what `packed` wrote; returns where it ends, or BAD."""
        for place in self._places().values():
            numbers = np.zeros(place.size)
            at = packing().take_numbers(data, at, numbers, numbers)
            place[:] = numbers.reshape(place.shape)
        return at


def _require_inside(name: str, weights: Array, inside: DecisionSet) -> None:
    """Refuse weights outside the decision set; `ask` reports a learner whose weights are not finite."""
    if not np.isfinite(weights).all():
        return
    slack = ROUNDING * max(1.0, float(np.abs(weights).max()))
    low = inside.low if inside.total is None else (1.0 - ROUNDING) * inside.low  # its logarithm is taken
    require_within(name, weights, low - (slack if inside.total is None else 0.0), inside.high + slack)
    if inside.total is not None:
        require_within(f"the sum of {name}", weights.sum(), inside.total - slack, inside.total + slack)
    if inside.radius < math.inf:
        length = float(np.linalg.norm(weights.ravel(), inside.p))
        require_within(f"the norm of {name}", length, 0.0, inside.radius * (1.0 + ROUNDING))
