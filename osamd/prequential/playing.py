"""Plays one learner over labelled rows: ask about each row, and tell the labels asked for when they arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.errors import InputError
from osamd.evaluation.answers import Answers, Delay, Desk
from osamd.learner.linear import OSAMD
from osamd.numerics import Array
from osamd.paper.ledger import Ledger
from osamd.paper.losses import loss
from osamd.streams.base import Labels

Blocks = Iterable[tuple[Array, Labels]]

LOSS = "hinge"

CHECKS = 256
"""The accuracy estimate is recorded at this many rounds at most."""


class Check(NamedTuple):
    """The learner's own accuracy estimate after `round` rounds, over its window."""

    round: int
    value: float
    low: float
    high: float


class PlayedRun(NamedTuple):
    """A finished run: the learner, one row per round, the rounds at whose end a label came, and the estimates."""

    learner: OSAMD
    ledger: Ledger
    came: NDArray[np.int64]
    checks: list[Check]


def play(
    learner: OSAMD,
    blocks: Blocks,
    seed: int,
    delay: Delay | None = None,
    progress: Callable[[int], None] | None = None,
    classes: Sequence[Any] | None = None,
) -> PlayedRun:
    """Play a learner over rows with labels (indices into `classes`, by default its own): test, then train.

    `classes` may grow as the blocks are read, if the learner accepts new ones.

    Without a delay, a label that is asked for is told at once, as in `osamd.paper.play` with the same seed. With a
    delay, it is told at the end of the round in which it arrives; labels that arrive after the last row are not told.
    """
    classes = learner.classes if classes is None else classes
    book, checks = _Book(), _Checks(learner)
    desk = Desk(learner, classes, Answers(delay or Delay()), seed)
    ask, take = learner.ask, desk.take
    for x, y in blocks:
        decisions = []
        for row, truth in zip(np.ascontiguousarray(x), y.tolist(), strict=True):
            decision = ask(row)
            decisions.append(decision)
            take(decision, truth)
            if desk.rounds == checks.next:
                checks.take()
        book.enter(decisions, {name: i for i, name in enumerate(classes)}, learner.classes, y)
        if progress is not None:
            progress(desk.rounds)
    if not desk.rounds:
        raise InputError("no row after the warm-up has a label; give a table with labelled rows.")
    return PlayedRun(learner, book.ledger(), np.array(desk.came, dtype=np.int64), checks.taken)


class _Checks:
    """Accuracy estimates at evenly spaced rounds; the spacing doubles when there are too many."""

    def __init__(self, learner: OSAMD) -> None:
        self.taken: list[Check] = []
        self._learner, self._step = learner, 10
        self.next = self._step

    def take(self) -> None:
        found = self._learner.accuracy(window=True)
        self.taken.append(Check(self._learner.rounds, found.value, found.low, found.high))
        if len(self.taken) == CHECKS:
            self.taken, self._step = self.taken[1::2], 2 * self._step
        self.next += self._step


class _Book:
    """Collects the columns of a ledger, block by block."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, ...]] = []

    def enter(self, decisions: list[Any], index: dict[Any, int], known: list[Any], y: Labels) -> None:
        count = len(decisions)
        order = np.array([index[name] for name in known])
        margins = _margins(_in_order([decision.score for decision in decisions], order, len(index)), y)
        self._parts.append(
            (
                y,
                np.fromiter((index[decision.label] for decision in decisions), np.int64, count),
                np.fromiter((index[decision.pseudolabel] for decision in decisions), np.int64, count),
                np.fromiter((decision.margin for decision in decisions), np.float64, count),
                np.fromiter((decision.probability for decision in decisions), np.float64, count),
                np.fromiter((decision.query for decision in decisions), np.bool_, count),
                np.asarray(loss(LOSS).value(margins)),
            )
        )

    def ledger(self) -> Ledger:
        return Ledger(*(np.concatenate(column) for column in zip(*self._parts, strict=True)))


def _in_order(scores: list[Any], order: NDArray[np.int64], classes: int) -> Array:
    """Scores with one column for each class of the rows; `order` maps the learner's own classes to these columns.

    The single score of two classes is that of the second minus that of the first. A class that the learner had not seen
    gets the score of the least likely one that it had seen.

    >>> _in_order([1.0, np.array([0.5, 0.3, 0.2])], np.array([0, 2, 1]), 4).tolist()
    [[-0.5, -0.5, 0.5, -0.5], [0.5, 0.2, 0.3, 0.2]]
    """
    rows = [np.array([-0.5 * score, 0.5 * score]) if np.ndim(score) == 0 else score for score in scores]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    placed = np.empty((len(rows), classes))
    for length in np.unique(lengths).tolist():
        at = np.flatnonzero(lengths == length)
        alike = np.stack([rows[i] for i in at])
        placed[at] = alike.min(axis=1, keepdims=True)
        placed[np.ix_(at, order[:length])] = alike
    return placed


def _margins(scores: Array, y: Labels) -> Array:
    """Psi of the true class: its score minus the best of the others."""
    rows = np.arange(len(y))
    own = scores[rows, y]
    others = scores.copy()
    others[rows, y] = -np.inf
    margins: Array = own - others.max(axis=1)
    return margins
