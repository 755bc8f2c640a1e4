"""Play one learner on one hard stream, or the unchanged source model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.evaluation.answers import Answers, Desk
from osamd.learner import source
from osamd.learner.linear import OSAMD
from osamd.numerics import Array
from osamd.paper.ledger import balanced
from osamd.streams import Hardship, Stream
from osamd.streams.base import Labels


class Rounds(NamedTuple):
    """All rounds of a stream on one seed: the samples, the labels that queries get, and the true labels."""

    x: Array
    y: Labels
    truth: Labels


class RobustnessRun(NamedTuple):
    """For each round, whether the decision was right, whether the label was asked for, and the true class."""

    right: NDArray[np.bool_]
    asked: NDArray[np.bool_]
    truth: Labels
    health: str = ""
    """The learner's own state of health after the last round."""

    @property
    def accuracy(self) -> float:
        """The share of rounds that were decided correctly."""
        return float(self.right.mean())

    @property
    def labels(self) -> float:
        """The share of rounds whose label was asked for."""
        return float(self.asked.mean())

    @property
    def balanced_accuracy(self) -> float:
        """The accuracy per class, averaged over the classes that occur."""
        return balanced(self.right, self.truth)

    def accuracy_of(self, index: int) -> float:
        """The accuracy in the rounds of one class; 1 if there are none, as may happen on a short stream."""
        right = self.right[self.truth == index]
        return float(right.mean()) if len(right) else 1.0


def rounds_of(stream: Stream, seed: int) -> Rounds:
    """The rounds of a stream, with the true labels even if a hardship changes them."""
    x, y = stream.sample(seed)
    return Rounds(np.ascontiguousarray(x), y, stream.truth(seed) if isinstance(stream, Hardship) else y)


def play(learner: OSAMD, rounds: Rounds, answers: Answers, seed: int) -> RobustnessRun:
    """Play a learner whose classes are class indices over all rounds; accuracy is against the true labels."""
    decided, asked = np.zeros(len(rounds.y), dtype=np.int64), np.zeros(len(rounds.y), dtype=np.bool_)
    ask, take = learner.ask, Desk(learner, learner.classes, answers, seed).take
    for t, (row, label) in enumerate(zip(rounds.x, rounds.y.tolist(), strict=True)):
        decision = ask(row)
        decided[t], asked[t] = decision.label, decision.query
        take(decision, label)
    return RobustnessRun(decided == rounds.truth, asked, rounds.truth, learner.health().state)


def left_alone(stream: Stream, rounds: Rounds, count: int, seed: int) -> RobustnessRun:
    """The decisions of the model that `OSAMD.from_source` fits to the source, without any learning afterwards."""
    classes = len(stream.classes)
    weights = source.fit(*stream.source(count, seed), classes)
    scores = rounds.x @ weights[..., :-1].T + weights[..., -1]
    decided = scores.argmax(axis=1) if classes > 2 else (scores > 0.0).astype(np.int64)
    return RobustnessRun(decided == rounds.truth, np.zeros(len(rounds.y), dtype=np.bool_), rounds.truth)
