"""Many rounds in one compiled call: samples are observed and learned from, queries begin to wait, and others expire.

The halves of a round are those that `ask`, `tell` and `expire` call, so a block equals its rounds played one by one, to
the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.compiled.lowering import TABLE, VECTOR, WHOLE, WHOLES, jit_for, lower
from osamd.learner.decision import PEEK, Observation
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

    def at(self, place: int) -> Observation:
        """What the core says about one sample."""
        score = self.score[place]
        return Observation._make((*(c[place] for c in self[:-1]), float(score) if score.ndim == 0 else score.copy()))


class BlockQueries(NamedTuple):
    """The queries that wait when a block begins, as far as the block needs them."""

    number: int
    """How many there are."""
    room: int
    """How many more may wait before the oldest one expires for a new one."""
    ids: NDArray[np.int64]
    """Those that may expire in the block, the oldest first."""
    samples: Array
    """Their samples, one per row."""
    due: NDArray[np.int64]
    """After how many rounds of the block each of them expires, unless it has to make room before."""


class PlayedBlock(NamedTuple):
    """What a compiled block has written."""

    numbers: Array
    """One row per round: all fields of an `Observation` except the score."""
    scores: Array
    expired_after: list[int]
    """For each query that expired, the oldest first, the number of rounds played before."""


def observations(numbers: Array, score: Array) -> Observations:
    """The columns, from the numbers that a compiled block has written."""
    label, query, pseudolabel, withheld = numbers[:, [0, 1, 2, 5]].T.astype(np.int64).tolist()
    margin, probability, expected = numbers[:, [3, 4, 6]].T.tolist()
    return Observations(label, list(map(bool, query)), pseudolabel, margin, probability, withheld, expected, score)


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
    ask: Callable[..., Any],
    tell: Callable[..., Any],
    keep: Callable[..., Any],
    lose: Callable[..., Any],
    model: Any,
    *,
    allocates: bool = True,
) -> Any:
    """The compiled rounds of a block, from the plain halves of a round; `model` is the numba type of their first
    argument.

    `ask(model, waiting, x, u)` gives the fields of an `Observation`, where `waiting` holds the newest pending samples;
    `tell(model, pseudolabel)` learns without a label; `keep(model, place)` writes the score of the last sample into
    `place`; `lose(model, number)` notes that the label of a query will never come. The block ends before a sample that
    the model cannot use, and after a query for which one of the same block would have to make room. It returns how many
    rounds were played, and how many queries expired. `allocates` is that of `osamd.compiled.lowering.jit`.
    """
    for part in (ask, tell, keep, lose):
        lower(part)

    def play(
        model: Any,
        rows: Any,
        draws: Any,
        numbers: Any,
        scores: Any,
        queue: Any,
        queued: Any,
        newest: Any,
        pending: Any,
        room: Any,
        ids: Any,
        samples: Any,
        due: Any,
        expired_after: Any,
    ) -> Any:
        expired = 0
        for t in range(rows.shape[0]):
            seen = ask(model, queue[queued - min(pending, newest) : queued], rows[t], draws[t])
            if seen[0] < 0:
                return t, expired
            place = numbers[t]
            place[0], place[1], place[2] = seen[0], seen[1], seen[2]
            place[3], place[4], place[5], place[6] = seen[3], seen[4], seen[5], seen[6]
            keep(model, scores[t])
            if not seen[1]:
                tell(model, seen[2])
            else:
                pending, room = pending + 1, room - 1
                if newest > 0:
                    for i in range(rows.shape[1]):
                        queue[queued, i] = rows[t, i]
                    queued += 1
            while expired < ids.shape[0] and (room < 0 or due[expired] <= t + 1):
                seen = ask(model, queue[queued - min(pending, newest) : queued], samples[expired], PEEK)
                if seen[0] >= 0:  # otherwise the model can no longer score the sample, and nothing is learned from it
                    tell(model, seen[2])
                lose(model, ids[expired])
                pending, room = pending - 1, room + 1
                expired_after[expired] = t + 1
                expired += 1
            if room < 0:
                return t + 1, expired
        return rows.shape[0], expired

    tables = (TABLE, VECTOR, TABLE, TABLE, TABLE)
    waiting = (WHOLE, WHOLE, WHOLE, WHOLE, WHOLES, TABLE, WHOLES, WHOLES)
    return jit_for(play, model, *tables, *waiting, nogil=True, allocates=allocates)


def played(
    block: Any, model: Any, rows: Array, draws: Array, width: int, pending: BlockQueries, newest: Array, most: int
) -> PlayedBlock:
    """Play a block, with `width` numbers per score; `newest` holds up to `most` of the newest pending samples, the
    oldest of them first."""
    numbers, scores = np.empty((len(rows), FIELDS)), np.empty((len(rows), width))
    queue = np.empty((len(newest) + (len(rows) if most else 0), rows.shape[1]))
    queue[: len(newest)] = newest
    after = np.empty(len(pending.ids), dtype=np.int64)
    waiting = len(newest), most, pending.number, pending.room, pending.ids, pending.samples, pending.due
    rounds, expired = block(model, rows, draws, numbers, scores, queue, *waiting, after)
    return PlayedBlock(numbers[:rounds], scores[:rounds], after[:expired].tolist())
