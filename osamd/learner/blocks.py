"""Rounds in blocks: the samples of a batch are decided on in few calls, with the results of `ask` and `tell`.

    played = play(learner, rows)   # rounds in which no label is asked for, and the first in which one is

A block ends where somebody has something to do: after a query, which then waits for its label like any other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osamd.accounting.target import CHECK_EVERY
from osamd.learner.ask_tell import AskTell
from osamd.learner.cores.block_playing import Observations, single
from osamd.learner.decision import Decision
from osamd.numerics import Array

BLOCK = 64
"""The most rounds in one call: a query ends most calls, and what was prepared for later rounds is wasted."""


class PlayedRounds(NamedTuple):
    """Rounds that were played one after the other."""

    first: int
    """The number of the first round."""
    draws: list[float]
    """The uniforms of the rounds, each of which decided on a query."""
    seen: Observations
    query: Decision | None
    """The decision of the last round if it is a query; no other round is one."""

    def __len__(self) -> int:
        return len(self.draws)


def play(learner: AskTell, rows: Array) -> PlayedRounds:
    """Play the rounds of these samples, at least one of them, and stop after the first query.

    A round without a query is told that no label will come. The learner ends up as if it had been asked and told about
    every sample, to the last bit. A sample that the model cannot use ends the block; if it is the first one, it is
    refused with an InputError. `rows` holds one sample per row, in contiguous float64 numbers.
    """
    core = learner._core
    if len(rows) == 1 or not getattr(core, "in_blocks", False) or learner._expire_after is not None:
        return _one_round(learner, rows[0])
    if learner._held is not None:
        learner._set_aside(learner._held)
    uniforms = learner._uniforms or learner._draw()
    most = min(len(rows), len(uniforms), BLOCK)
    if learner._limits.target is not None:
        most = min(most, CHECK_EVERY - learner._rounds % CHECK_EVERY)
    draws = uniforms[: -most - 1 : -1]
    seen: Observations = core.play(rows[:most], np.array(draws))
    number = len(seen.label)
    if number == 0:
        raise core.refusal(rows[0])
    del uniforms[-number:]
    first = learner._rounds
    learner._rounds = first + number
    query = None
    if seen.query[-1]:
        query = Decision(learner._rounds - 1, seen.last(), learner, draws[number - 1])
        learner._await(query)
    learner._steer()
    return PlayedRounds(first, draws[:number], seen, query)


def _one_round(learner: AskTell, row: Array) -> PlayedRounds:
    """One round by `ask` and `tell`: for one sample this is quicker, and some models play no blocks."""
    decision = learner.ask(row)
    if not decision.query:
        learner.tell(decision)
    return PlayedRounds(decision.id, [decision.draw], single(decision._seen), decision if decision.query else None)
