"""Many rounds in one compiled call: the samples of a block are observed and learned from until one is a query.

The halves of a round are those that `ask` and `tell` call, so a block equals its rounds played one by one, to the last
bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.compiled.lowering import TABLE, VECTOR, jit_for, lower
from osamd.learner.decision import Observation
from osamd.numerics import Array

FIELDS = 7
"""The numbers of an `Observation`: all of its fields except the score."""


class Observations(NamedTuple):
    """What a core says about the samples of a block: the columns of `Observation`, one number per sample."""

    label: list[int]
    query: list[bool]
    pseudolabel: list[int]
    margin: list[float]
    probability: list[float]
    withheld: list[int]
    expected: list[float]
    score: Array
    """One number per sample for two classes, or one row per sample with one score per class."""

    def last(self) -> Observation:
        """What the core says about the last sample."""
        score = self.score[-1]
        return Observation._make((*(c[-1] for c in self[:-1]), float(score) if score.ndim == 0 else score.copy()))


def observations(numbers: Array, score: Array) -> Observations:
    """The columns, from the numbers that a compiled block has written."""
    label, query, pseudolabel, margin, probability, withheld, expected = numbers.T.tolist()
    return Observations(
        [int(value) for value in label],
        [value != 0.0 for value in query],
        [int(value) for value in pseudolabel],
        margin,
        probability,
        [int(value) for value in withheld],
        expected,
        score,
    )


def single(seen: Observation) -> Observations:
    """The columns of a block of one sample."""
    return Observations(
        [int(seen.label)],
        [bool(seen.query)],
        [int(seen.pseudolabel)],
        [float(seen.margin)],
        [float(seen.probability)],
        [int(seen.withheld)],
        [float(seen.expected)],
        np.array([seen.score], dtype=np.float64),
    )


def compiled_block(
    ask: Callable[..., Any], tell: Callable[..., Any], keep: Callable[..., Any], model: Any, *, allocates: bool = True
) -> Any:
    """The compiled rounds of a block, from the plain halves of a round; `model` is the numba type of their first
    argument.

    `ask(model, x, u)` gives the fields of an `Observation`, `tell(model, pseudolabel)` learns without a label, and
    `keep(model, place)` writes the score of the last sample into `place`. The block ends after a query and before a
    sample that the model cannot use; it returns how many rounds were played. `allocates` is that of
    `osamd.compiled.lowering.jit`.
    """
    for half in (ask, tell, keep):
        lower(half)

    def play(model: Any, rows: Any, draws: Any, numbers: Any, scores: Any) -> Any:
        for t in range(rows.shape[0]):
            seen = ask(model, rows[t], draws[t])
            if seen[0] < 0:
                return t
            place = numbers[t]
            place[0], place[1], place[2] = seen[0], seen[1], seen[2]
            place[3], place[4], place[5], place[6] = seen[3], seen[4], seen[5], seen[6]
            keep(model, scores[t])
            if seen[1]:
                return t + 1
            tell(model, seen[2])
        return rows.shape[0]

    return jit_for(play, model, TABLE, VECTOR, TABLE, TABLE, allocates=allocates)


def played(block: Any, model: Any, rows: Array, draws: NDArray[np.float64], width: int) -> tuple[Array, Array]:
    """Play a block; the numbers and the scores, `width` per sample, of the rounds that were played."""
    numbers, scores = np.empty((len(rows), FIELDS)), np.empty((len(rows), width))
    number = block(model, rows, draws, numbers, scores)
    return numbers[:number], scores[:number]
