"""The halves of the paper's round, with budget, meter and statistics, as `osamd.learner.cores.paper` calls them.

Everything lies in one vector, the memory: the learner's own part, then the book, the meter and the statistics.
"""

from __future__ import annotations

import math
from typing import Any

from osamd.accounting.meter import NO_SOURCE, NOT_GIVEN, lost
from osamd.compiled.block_kernels import kind_of_round
from osamd.compiled.layout import AFTER, FEATURES, FLOOR, MARGIN, PROBABILITY, PSEUDOLABEL, SCORE, SIGMA, class_scores
from osamd.compiled.lowering import NUMBER, VECTOR, WHOLE, jit_for, lower
from osamd.compiled.stepwise import halves
from osamd.learner.cores.block_playing import compiled_block
from osamd.learner.decision import Said, counting, refused
from osamd.paper.methods import Learner
from osamd.paper.scores import UNLABELLED


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


def keep_flat_score(memory: Any, place: Any) -> Any:
    place[0] = memory[SCORE]


def keep_scores(memory: Any, place: Any) -> Any:
    deciding = class_scores(memory).deciding
    for i in range(place.shape[0]):
        place[i] = deciding[i]


def _plain_halves(learner: Learner, standardise: bool) -> tuple[Any, Any]:
    """The halves of a round with the budget, the meter and the statistics, ready to be compiled."""
    observe: Any
    learn: Any
    observe, learn = (lower(half) for half in halves(learner))
    for helper in (parts, standardised, gather, refused):
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
        return count(memory, book, meter, x, u)

    def tell(memory: Any, y: Any) -> Any:
        learn(memory, y)
        if standardise:
            gather(parts(memory)[2])

    return lower(ask), lower(tell)


def compiled_rounds(learner: Learner, standardise: bool) -> Any:
    """The rounds of a block, compiled: see `osamd.learner.cores.block_playing`."""
    observe, learn = _plain_halves(learner, standardise)

    def ask(memory: Any, waiting: Any, x: Any, u: Any) -> Any:
        return observe(memory, x, u)

    def tell(memory: Any, pseudolabel: Any) -> Any:
        learn(memory, UNLABELLED)

    def lose(memory: Any, number: Any) -> Any:
        lost(parts(memory)[1], number)

    keep = keep_flat_score if kind_of_round(learner) == "flat" else keep_scores
    return compiled_block(ask, tell, keep, lose, VECTOR)


def compiled_halves(learner: Learner, standardise: bool) -> tuple[Any, ...]:
    """`ask(memory, x, u)`, which gives an `Observation`, and `tell(memory, y)`, compiled."""
    observe, tell_plainly = _plain_halves(learner, standardise)
    score = lower(flat_score if kind_of_round(learner) == "flat" else first_score)

    def ask(memory: Any, x: Any, u: Any) -> Any:
        return observe(memory, x, u) + (score(memory),)  # noqa: RUF005 (numba takes no starred tuples)

    def tell(memory: Any, y: Any) -> Any:
        tell_plainly(memory, y)

    return jit_for(ask, VECTOR, VECTOR, NUMBER), jit_for(tell, VECTOR, WHOLE)
