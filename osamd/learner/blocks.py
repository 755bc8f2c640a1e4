"""Rounds in blocks: the samples of a batch are decided on in few calls, with the results of `ask`, `tell` and `expire`.

    played = play(learner, rows, Patience(rounds=1000))

Queries begin to wait for their labels like any others, and those that have waited too long expire.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from osamd.accounting.target import CHECK_EVERY
from osamd.learner.ask_tell import AskTell
from osamd.learner.cores.block_playing import BlockQueries, Observations, single
from osamd.learner.decision import Decision
from osamd.numerics import Array


class Patience(NamedTuple):
    """How long queries wait for their labels."""

    rounds: int | None = None
    """A query expires if it was asked more than so many rounds ago; None means never."""
    most: int | None = None
    """The most queries that wait; beyond it, the oldest one expires for each new one. None means any number."""

    def due(self, number: int, rounds: int) -> float:
        """After how many more rounds this query expires, where so many have been played."""
        return math.inf if self.rounds is None else number + self.rounds + 2 - rounds


ENDLESS = Patience()


class ExpiredQuery(NamedTuple):
    """A query that expired while a block was played."""

    after: int
    """The rounds of the block that were played before."""
    id: int


class PlayedRounds(NamedTuple):
    """Rounds that were played one after the other."""

    first: int
    """The number of the first round."""
    draws: list[float]
    """The uniforms of the rounds, each of which decided on a query."""
    seen: Observations
    queries: list[Decision]
    """The decisions of the rounds that are queries."""
    expired: list[ExpiredQuery]

    def __len__(self) -> int:
        return len(self.draws)


def play(learner: AskTell, rows: Array, patience: Patience = ENDLESS) -> PlayedRounds:
    """Play the rounds of these samples, at least one of them, and let queries expire as soon as they have to.

    A round without a query is told that no label will come. The learner ends up as if it had been asked and told about
    every sample, to the last bit. A sample that the model cannot use ends the block; if it is the first one, it is
    refused with an InputError. `rows` holds one sample per row, in contiguous float64 numbers.
    """
    core = learner._core
    if len(rows) == 1 or not getattr(core, "in_blocks", False) or learner._expire_after is not None:
        return _one_round(learner, rows[0], patience)
    if learner._held is not None:
        learner._set_aside(learner._held)
    uniforms, first = learner._uniforms or learner._draw(), learner._rounds
    most = min(len(rows), len(uniforms), _undisturbed(learner, patience))
    draws, pending = uniforms[: -most - 1 : -1], _pending(learner, patience, most)
    oldest = list(itertools.islice(learner._pending.values(), len(pending.ids)))
    seen, expired_after = core.play(rows[:most], np.array(draws), pending)
    number = len(seen.label)
    if number == 0:
        raise core.refusal(rows[0])
    del uniforms[-number:]
    learner._rounds = first + number
    places = [place for place, query in enumerate(seen.query) if query]
    queries = [Decision(first + i, seen.at(i), learner, draws[i], rows[i].copy()) for i in places]
    learner._pending.update((query.id, query) for query in queries)
    expired = [ExpiredQuery(after, query.id) for after, query in zip(expired_after, oldest, strict=False)]
    for query in oldest[: len(expired)]:
        learner._no_longer_pending(query, "expired")
    if queries or expired:
        learner._await_labels()
    if seen.query[-1] and (not expired or expired[-1].after < number):
        learner._held = queries[-1]
    learner._steer()
    return PlayedRounds(first, draws[:number], seen, queries, expired + _made_room(learner, patience, number))


def shares(learner: AskTell, seen: Observations) -> list[float]:
    """The probabilities of the classes that were decided on, as in `Decision.probabilities`."""
    probabilities = learner._core.probabilities
    scores = seen.score.tolist() if seen.score.ndim == 1 else seen.score
    return [probabilities(score)[label] for score, label in zip(scores, seen.label, strict=True)]


def _one_round(learner: AskTell, row: Array, patience: Patience) -> PlayedRounds:
    """One round by `ask` and `tell`: for one sample this is quicker, and some models play no blocks."""
    decision = learner.ask(row)
    if not decision.query:
        learner.tell(decision)
    queries = [decision] if decision.query else []
    expired = _made_room(learner, patience, 1)
    return PlayedRounds(decision.id, [decision.draw], single(decision._seen), queries, expired)


def _undisturbed(learner: AskTell, patience: Patience) -> int:
    """The most rounds of a block before something has to be done that the block itself does not do."""
    rounds = learner._rounds
    if learner._limits.target is None:  # before a query of the same block expires
        return int(min(1 << 62, patience.due(rounds, rounds) - 1))
    steered = CHECK_EVERY - rounds % CHECK_EVERY  # the target is looked at before queries expire
    return int(max(1, min(steered, patience.due(next(iter(learner._pending), rounds), rounds))))


def _pending(learner: AskTell, patience: Patience, rounds: int) -> BlockQueries:
    """The pending queries, with those that may expire in so many rounds."""
    queries, number = learner._pending, len(learner._pending)
    room = rounds if patience.most is None else patience.most - number
    leaving: list[Decision] = []
    if learner._limits.target is None:
        overdue = sum(1 for _ in itertools.takewhile(lambda one: patience.due(one, learner._rounds) <= rounds, queries))
        leaving = list(itertools.islice(queries.values(), max(overdue, rounds - room)))
    due = [min(rounds + 1, patience.due(query.id, learner._rounds)) for query in leaving]
    samples = learner._core.stacked([query._sample for query in leaving]) if leaving else learner._core.no_samples()
    ids = np.array([query.id for query in leaving], dtype=np.int64)
    return BlockQueries(number, room, ids, samples, np.array(due, dtype=np.int64))


def _made_room(learner: AskTell, patience: Patience, after: int) -> list[ExpiredQuery]:
    """Let the oldest queries expire that are too old or too many after these rounds of a block."""
    pending, expired = learner._pending, []
    most = math.inf if patience.most is None else patience.most
    while pending:
        oldest = next(iter(pending))
        if len(pending) <= most and patience.due(oldest, learner._rounds) > 0:
            break
        learner.expire(oldest)
        expired.append(ExpiredQuery(after, oldest))
    return expired
