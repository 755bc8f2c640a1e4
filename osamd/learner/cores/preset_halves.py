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
from osamd.preset.round import gather, learn, opine, remember

LARGEST = 1e150
"""Larger features are refused: the sum of their squares may overflow."""

for of_views in (layout.parts_of, layout.work_of, opine):
    lower(of_views, inline=True)  # it takes longer to pass so many views than to cut them


def decide(model: Any, x: Any, u: Any, sigma: Any, floor: Any) -> Any:
    """The preset's decision; close to a pending query it asks only for the audit."""
    state, work, book, waiting = model
    if x.shape[0] != int(state[layout.FEATURES]):
        return refused()
    for i in range(x.shape[0]):
        if not abs(x[i]) <= LARGEST:
            return refused()
    part, seen = layout.parts_of(state), layout.work_of(work, state)
    if close_to_pending(state, part.scale, waiting, x):
        sigma, floor = 0.0, min(floor, book[books.FLOOR])
    label, pseudolabel, margin, query, probability = opine(state, part, seen, x, u, sigma, floor)
    if label < 0:
        return refused()
    sourced = state[layout.SOURCED] > 0.0
    source = likeliest(seen.source)[0] if sourced else NO_SOURCE
    bold = boldness(sourced, state[layout.KEPT])
    apart = dissent(part.arbiter.losses, seen.shares, sourced, bold, label)
    return Said(label, query, pseudolabel, margin, probability, margin**POWER, source, apart)


def log_odds(second: Any) -> Any:
    """The score for two classes, from the share of the second one in the mixture."""
    return math.log(max(second, 1e-300)) - math.log(max(1.0 - second, 1e-300))


def keep_score(model: Any, place: Any) -> Any:
    """Write down the score of the sample observed last if there is one place, and otherwise its mixture."""
    state, work = model[0], model[1]
    mixture = layout.work_of(work, state).mixture
    if place.shape[0] == 1:
        place[0] = log_odds(mixture[1])
    else:
        for i in range(place.shape[0]):
            place[i] = mixture[i]


class CompiledPreset:
    """The functions of the preset, each compiled when it is first used: a first decision waits for `ask` alone."""

    @cached_property
    def ask(self) -> Any:
        """The first half of a round; it gives an `Observation`, whose score is that of two classes."""
        count = lower(counting(decide))
        lower(log_odds)

        def ask(state: Any, work: Any, book: Any, meter: Any, waiting: Any, x: Any, u: Any) -> Any:
            seen = count((state, work, book, waiting), book, meter, x, u)
            score = log_odds(layout.work_of(work, state).mixture[1])
            return seen + (score,)  # noqa: RUF005 (numba takes no starred tuples)

        return jit_for(ask, VECTOR, VECTOR, VECTOR, VECTOR, TABLE, VECTOR, NUMBER, allocates=False)

    @cached_property
    def tell(self) -> Any:
        lower(learn)

        def tell(state: Any, work: Any, pseudolabel: Any, y: Any, weight: Any) -> Any:
            learn(state, work, pseudolabel, y, weight)

        return jit_for(tell, VECTOR, VECTOR, WHOLE, WHOLE, NUMBER, allocates=False)

    @cached_property
    def block(self) -> Any:
        """The rounds of a block: see `osamd.learner.cores.block_playing`."""
        count = lower(counting(decide))
        lower(learn)

        def ask(model: Any, waiting: Any, x: Any, u: Any) -> Any:
            state, work, book, meter = model
            return count((state, work, book, waiting), book, meter, x, u)

        def tell(model: Any, pseudolabel: Any) -> Any:
            learn(model[0], model[1], pseudolabel, UNLABELLED, 0.0)

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
