"""Who answers the queries of a learner, and when: at once, late, in part, wrongly, or nobody at all.

This is a setting of a run and not of a stream: a `Desk` stands between a learner and the truth. It takes every decision
with the true class, and passes answers on to the learner when they are due. The delay of an answer, and whether it is
wrong, are drawn for every round, whether or not its label is asked for, so two learners on one seed get the same
answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from osamd.errors import reject, require_whole

_DELAYS, _WRONG = 3, 9
"""Mark the generators of delays and of wrong answers, which are separate from those of source, stream and queries."""
_DRAWN = 1024
"""The number of rounds that are drawn at a time; the draws do not depend on it."""


class Delay(NamedTuple):
    """How late labels come: after `fixed` rounds and a geometric number of mean `random`, and then with the next batch.

    A batch ends every `bursty` rounds. A share `lost` never comes; it is given up when it would have come.
    """

    fixed: int = 0
    random: float = 0.0
    bursty: int = 0
    lost: float = 0.0


class Answers(NamedTuple):
    """How queries are answered: after a `delay`, and a share `wrong` of the answers names another class.

    If `nobody` answers, queries stay pending forever. By default all are answered correctly and at once.
    """

    delay: Delay = Delay()
    wrong: float = 0.0
    nobody: bool = False


class Arrivals(NamedTuple):
    """For each round, the round at whose end its label comes, or is given up if it is `lost`."""

    when: NDArray[np.int64]
    lost: NDArray[np.bool_]


def delay_generator(seed: int) -> np.random.Generator:
    """The generator of `arrivals`, separate from that of the queries."""
    return np.random.default_rng([_DELAYS, seed])


def arrivals(delay: Delay, generator: np.random.Generator, first: int, count: int) -> Arrivals:
    """When labels come, as if each were asked for, for the rounds first, ..., first + count - 1.

    It draws two uniforms per round, so the result for a round does not depend on how rounds are grouped.

    >>> arrivals(Delay(fixed=10, bursty=50), delay_generator(0), 30, 3).when.tolist()
    [49, 49, 49]
    """
    uniforms = generator.random((count, 2))
    late = np.full(count, delay.fixed, dtype=np.int64)
    if delay.random > 0.0:
        # P(late > k) = q^(k+1) with q = mean / (1 + mean), inverted.
        late += np.floor(np.log1p(-uniforms[:, 0]) / math.log(delay.random / (1.0 + delay.random))).astype(np.int64)
    when = np.arange(first, first + count) + late
    if delay.bursty:
        when = (when // delay.bursty + 1) * delay.bursty - 1
    return Arrivals(when, uniforms[:, 1] < delay.lost)


class Hears(Protocol):
    """What a desk needs from a learner."""

    def tell(self, decision: Any, y: Any = None) -> Any:
        """Learn from a decision: y is the label, or None if none will come."""

    def expire(self, decision: Any) -> Any:
        """Give up waiting for the label of a query."""


class Desk:
    """Whoever answers one learner in one run; give `take` every decision, in order, with the index of the true class.

    `classes` are the names of the classes, in the order of those indices; the list may grow between rounds. A decision
    that is not a query is told at once, without a label. The answer to a query is told at the end of the round in which
    it comes; a lost one expires then. Answers that have not come by the last round are not told.

    >>> from osamd import OSAMD
    >>> learner = OSAMD(features=1, budget=0.5)
    >>> desk = Desk(learner, learner.classes, Answers(nobody=True), seed=0)
    >>> for x in (-1.0, 1.0) * 10:
    ...     desk.take(learner.ask([x]), truth=int(x > 0.0))
    >>> learner.told, len(learner.pending) == learner.asked > 0
    (0, True)
    """

    def __init__(self, learner: Hears, classes: Sequence[Any], answers: Answers, seed: int) -> None:
        if not 0.0 <= answers.wrong <= 1.0:
            rule = "wrong is the share of wrong answers: a number between 0 and 1."
            raise reject("Answers", "wrong", answers.wrong, rule)
        self._answers, self._classes = answers, classes
        self._tell, self._expire = learner.tell, learner.expire
        self._delays = delay_generator(require_whole("Desk", "seed", seed, 0))
        self._mistakes = np.random.default_rng([_WRONG, seed])
        self._due: dict[int, list[tuple[Any, Any]]] = {}
        self._first = self._until = 0
        self.rounds = 0
        self.came: list[int] = []
        """For each label that came, the round at whose end it came."""

    def take(self, decision: Any, truth: int) -> None:
        """End the next round: tell its decision if that needs no answer, and all answers that come in this round."""
        t = self.rounds
        self.rounds = t + 1
        if not decision.query:
            self._tell(decision)
        elif not self._answers.nobody:
            when, answer = self._answer(t, truth)
            self._due.setdefault(when, []).append((decision, answer))
        if t in self._due:
            for waiting, answer in self._due.pop(t):
                if answer is None:
                    self._expire(waiting)
                else:
                    self._tell(waiting, answer)
                    self.came.append(t)

    def _answer(self, t: int, truth: int) -> tuple[int, Any]:
        """The round at whose end the answer comes, and the class that it names, or None if it is lost."""
        while t >= self._until:
            self._draw()
        at = t - self._first
        if self._late.lost[at]:
            return int(self._late.when[at]), None
        drawn, which = self._mistaken[at]
        if drawn < self._answers.wrong:
            truth = (truth + 1 + int(which * (len(self._classes) - 1))) % len(self._classes)
        return int(self._late.when[at]), self._classes[truth]

    def _draw(self) -> None:
        """Draw for the next rounds."""
        self._first, self._until = self._until, self._until + _DRAWN
        self._late = arrivals(self._answers.delay, self._delays, self._first, _DRAWN)
        self._mistaken = self._mistakes.random((_DRAWN, 2))
