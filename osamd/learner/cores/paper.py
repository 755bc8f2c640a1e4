"""The two halves of the paper's round for ask and tell, compiled.

The book of the budget, the meter of the accuracy and the statistics of the features lie in the one vector of
`osamd.compiled.memory`, since every argument of a compiled call takes time.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from osamd.accounting.meter import NO_SOURCE, NOT_GIVEN
from osamd.checks import ROUNDING, require_finite_in, require_within
from osamd.compiled.blocks import kind_of_round, once
from osamd.compiled.lowering import NUMBER, VECTOR, WHOLE, jit_for, lower
from osamd.compiled.memory import (
    AFTER,
    FEATURES,
    FLOOR,
    MARGIN,
    PROBABILITY,
    PSEUDOLABEL,
    SCORE,
    SIGMA,
    STUDENT,
    TEACHER,
    class_scores,
    memory_of,
    params,
    sample,
)
from osamd.compiled.stepwise import halves
from osamd.errors import InputError, require_place
from osamd.learner.cores.packing import packing
from osamd.learner.cores.samples import LinearSamples, confirming
from osamd.learner.decision import Observation, Said, counting, refused
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

    def __init__(self, learner: Learner, book: Array, meter: Array, standardise: bool) -> None:
        super().__init__(learner.model.features)
        self._learner = learner
        start = memory_of(learner)
        statistics = np.zeros(1 + 4 * self.features if standardise else 0)
        ends = len(start) + 3 + np.cumsum([0, len(book), len(meter), len(statistics)])
        start[AFTER] = len(start)
        kind = f"ask {kind_of_round(learner)}"
        self._halves = once(kind, learner, lambda: _compiled(learner, standardise), standardise)
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

    def learn(self, y: int, weight: float = 0.0) -> None:
        self._tell(y)

    def last(self) -> Array:
        held = self._statistics[1 + 2 * self.features :] if self.standardise else sample(self._memory)
        last: Array = held[: self.features].copy()
        return last

    def probabilities(self, score: Any) -> list[float]:
        if np.ndim(score) == 0:
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


def parts(memory: Any) -> Any:
    """Book, meter and statistics: views of the memory."""
    at = int(memory[AFTER])
    book, meter, statistics = int(memory[at]), int(memory[at + 1]), int(memory[at + 2])
    return memory[book:meter], memory[meter:statistics], memory[statistics:]


def standardised(statistics: Any, x: Any) -> Any:
    """x standardised by the mean and deviation of all samples learned so far and of x itself.

    The statistics hold the number of samples, then means, sums of squared deviations, x as it came, and x standardised.
    A feature that has not varied yet becomes 0.
    """
    n, d = statistics[0] + 1.0, x.shape[0]
    means, squares = statistics[1 : 1 + d], statistics[1 + d : 1 + 2 * d]
    raw, scaled = statistics[1 + 2 * d : 1 + 3 * d], statistics[1 + 3 * d : 1 + 4 * d]
    for i in range(d):
        raw[i] = x[i]
        mean = means[i] + (x[i] - means[i]) / n
        variance = (squares[i] + (x[i] - means[i]) * (x[i] - mean)) / n
        scaled[i] = (x[i] - mean) / math.sqrt(variance) if variance > 1e-24 * mean * mean else 0.0 * x[i]
        if not variance < math.inf:
            scaled[i] = math.nan  # refuses the sample: such a square would hide the feature forever
    return scaled


def gather(statistics: Any) -> Any:
    """Welford's step for the sample standardised last."""
    d = (statistics.shape[0] - 1) // 4
    means, squares, raw = statistics[1 : 1 + d], statistics[1 + d : 1 + 2 * d], statistics[1 + 2 * d : 1 + 3 * d]
    statistics[0] += 1.0
    for i in range(d):
        delta = raw[i] - means[i]
        means[i] += delta / statistics[0]
        squares[i] += delta * (raw[i] - means[i])


def flat_score(memory: Any) -> Any:
    return memory[SCORE]


def first_score(memory: Any) -> Any:
    return class_scores(memory).deciding[0]


def _compiled(learner: Learner, standardise: bool) -> tuple[Any, ...]:
    observe: Any
    learn: Any
    observe, learn = (lower(half) for half in halves(learner))
    score = flat_score if kind_of_round(learner) == "flat" else first_score
    for helper in (parts, standardised, gather, score, refused):
        lower(helper)

    def decide(memory: Any, x: Any, u: Any, sigma: Any, floor: Any) -> Any:
        memory[SIGMA], memory[FLOOR] = sigma, floor
        if x.shape[0] != int(memory[FEATURES]):
            return refused()
        label, query = observe(memory, standardised(parts(memory)[2], x) if standardise else x, u)
        if label < 0:
            return refused()
        pseudolabel, margin, probability = int(memory[PSEUDOLABEL]), memory[MARGIN], memory[PROBABILITY]
        return Said(label, query, pseudolabel, margin, probability, margin, NO_SOURCE, NOT_GIVEN)

    count = lower(counting(lower(decide)))

    def ask(memory: Any, x: Any, u: Any) -> Any:
        book, meter, _ = parts(memory)
        return count(memory, book, meter, x, u) + (score(memory),)  # noqa: RUF005 (numba takes no starred tuples)

    def tell(memory: Any, y: Any) -> Any:
        learn(memory, y)
        if standardise:
            gather(parts(memory)[2])

    return jit_for(ask, VECTOR, VECTOR, NUMBER), jit_for(tell, VECTOR, WHOLE)
