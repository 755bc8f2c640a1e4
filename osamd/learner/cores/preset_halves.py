"""The halves of the default learner's round, with budget and meter, as `osamd.learner.cores.preset` calls them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numba

from osamd.accounting import book as books
from osamd.accounting.meter import NO_SOURCE, lost
from osamd.compiled.lowering import NUMBER, TABLE, VECTOR, WHOLE, WHOLES, jit_for, lower
from osamd.learner.cores.block_playing import compiled_block
from osamd.learner.decision import Said, counting, refused
from osamd.paper.scores import UNLABELLED
from osamd.preset import state as layout
from osamd.preset.arbiter import POWER, dissent, likeliest
from osamd.preset.grounds import boldness
from osamd.preset.pending import close_to_pending
from osamd.preset.round import gather, opine, remember, take_in

LARGEST = 1e150
"""Larger features are refused: the sum of their squares may overflow."""
NO_SAMPLE = -2.0
"""Given in place of a uniform: learn, and observe nothing."""

for of_views in (layout.parts_of, layout.work_of, opine, take_in):
    lower(of_views, inline=True)  # it takes longer to pass so many views than to cut them


def decide(model: Any, x: Any, u: Any, sigma: Any, floor: Any) -> Any:
    """The preset's decision; close to a pending query it asks only for the audit."""
    state, part, seen, book, waiting = model
    if x.shape[0] != int(state[layout.FEATURES]):
        return refused()
    for i in range(x.shape[0]):
        if not abs(x[i]) <= LARGEST:
            return refused()
    if close_to_pending(state, part.scale, waiting, x):
        sigma, floor = 0.0, min(floor, book[books.FLOOR])
    label, pseudolabel, margin, query, probability = opine(state, part, seen, x, u, sigma, floor)
    if label < 0:
        return refused()
    sourced = state[layout.SOURCED] > 0.0
    source = likeliest(seen.source)[0] if sourced else NO_SOURCE
    bold = boldness(sourced, state[layout.KEPT])
    apart = dissent(part.arbiter.losses, seen.opinions, sourced, bold, label)
    return Said(label, query, pseudolabel, margin, probability, margin**POWER, source, apart)


def log_odds(mixture: Any) -> Any:
    """The score for two classes, from the mixture."""
    return math.log(max(mixture[1], 1e-300)) - math.log(max(mixture[0], 1e-300))


def keep_score(model: Any, place: Any) -> Any:
    """Write down the score of the sample observed last if there is one place, and otherwise its mixture."""
    state, work = model[0], model[1]
    mixture = layout.work_of(work, state).mixture
    if place.shape[0] == 1:
        place[0] = log_odds(mixture)
    else:
        for i in range(place.shape[0]):
            place[i] = mixture[i]


class CompiledPreset:
    """The functions of the preset, each compiled when it is first used: a first decision waits for `turn` alone."""

    @cached_property
    def turn(self) -> Any:
        """The second half of a round, if its pseudolabel is not below 0, and the first half of the next one.

        It gives an `Observation`, whose score is that of two classes. The halves share a call because a call takes as
        long as learning without a label. If `u` is NO_SAMPLE, it only learns, and what it gives means nothing.
        """
        count = lower(counting(decide), inline=True)
        lower(log_odds)

        def turn(
            state: Any,
            work: Any,
            book: Any,
            meter: Any,
            waiting: Any,
            x: Any,
            u: Any,
            pseudolabel: Any,
            y: Any,
            weight: Any,
        ) -> Any:
            part, seen = layout.parts_of(state), layout.work_of(work, state)
            if pseudolabel >= 0:
                take_in(state, part, seen, pseudolabel, y, weight)
            if u == NO_SAMPLE:
                return -1, False, 0, 0.0, 0.0, 0, 0.0, 0.0
            said = count((state, part, seen, book, waiting), book, meter, x, u)
            return said + (log_odds(seen.mixture),)  # noqa: RUF005 (numba takes no starred tuples)

        vectors = (VECTOR, VECTOR, VECTOR, VECTOR, TABLE, VECTOR)
        return jit_for(turn, *vectors, NUMBER, WHOLE, WHOLE, NUMBER, allocates=False)

    @cached_property
    def block(self) -> Any:
        """The rounds of a block: see `osamd.learner.cores.block_playing`."""
        count = lower(counting(decide), inline=True)

        def ask(model: Any, waiting: Any, x: Any, u: Any) -> Any:
            state, work, book, meter = model
            part, seen = layout.parts_of(state), layout.work_of(work, state)
            return count((state, part, seen, book, waiting), book, meter, x, u)

        def tell(model: Any, pseudolabel: Any) -> Any:
            state, work = model[0], model[1]
            take_in(state, layout.parts_of(state), layout.work_of(work, state), pseudolabel, UNLABELLED, 0.0)

        def lose(model: Any, number: Any) -> Any:
            lost(model[3], number)

        model = numba.types.Tuple((VECTOR, VECTOR, VECTOR, VECTOR))  # type: ignore[no-untyped-call]
        return compiled_block(ask, tell, keep_score, lose, model, allocates=False)

    @cached_property
    def gather(self) -> Any:
        lower(gather)

        def gather_table(state: Any, work: Any, rows: Any) -> Any:
            gather(state, work, rows)

        return jit_for(gather_table, VECTOR, VECTOR, TABLE, allocates=False)

    @cached_property
    def remember(self) -> Any:
        lower(remember)

        def remember_table(state: Any, work: Any, rows: Any, labels: Any) -> Any:
            remember(state, work, rows, labels)

        return jit_for(remember_table, VECTOR, VECTOR, TABLE, WHOLES, allocates=False)


COMPILED = CompiledPreset()
