"""The fold of the log: the learner after some events, made of the last snapshot and the events behind it."""

from __future__ import annotations

import json

import numpy as np

from osamd.decisions import Decision
from osamd.errors import InputError
from osamd.numerics import Array
from osamd.service.log import Event, Log, Snapshot
from osamd.service.state import State


class Fold:
    """The learner after some events, with what happened on the day of the last one."""

    def __init__(self, state: State, snapshot: Snapshot | None) -> None:
        self.state = state
        self.learner = state.learner(None if snapshot is None else snapshot.learner)
        self.seq = 0 if snapshot is None else snapshot.seq
        self.today: dict[str, int] = {"day": 0, "rounds": 0, "asked": 0, "told": 0}
        if snapshot is not None:
            self.today |= json.loads(snapshot.counts)

    def play(self, row: Array) -> Decision:
        """A whole round, but for the label that is asked for."""
        decision = self.learner.ask(self.state.sample(row))
        if not decision.query:
            self.learner.tell(decision)
        return decision

    def count(self, event: Event) -> None:
        """Enter an event into the counts."""
        self.seq = event.seq
        day = int(event.at // 86_400)
        if day != self.today["day"]:
            self.today = {"day": day, "rounds": 0, "asked": 0, "told": 0}
        if event.kind == "sample":
            self.today["rounds"] += 1
            self.today["asked"] += bool(event.query)
        elif event.kind == "label":
            self.today["told"] += 1

    def repeat(self, event: Event) -> None:
        """Play an event of the log again, and see that it comes out as it is written."""
        if event.kind == "sample":
            assert event.features is not None
            decision = self.play(np.frombuffer(event.features).copy())
            if (decision.id, decision.draw, decision.query, decision.margin) != (
                event.round,
                event.draw,
                event.query,
                event.margin,
            ):
                raise InputError(
                    f"event {event.seq} of the log does not come out as it is written: this osamd, numpy or processor"
                    " computes otherwise than the one that wrote it; start it there, stop it properly, and come back."
                )
        elif event.kind == "label":
            assert event.label is not None
            self.learner.tell(event.round, self.learner.classes[event.label])
        elif event.kind == "expire":
            self.learner.expire(event.round)
        self.count(event)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.seq, json.dumps(self.today), self.learner.to_bytes())


def folded(state: State, log: Log) -> Fold:
    """The state that the log tells."""
    fold = Fold(state, log.snapshot())
    for event in log.all_since(fold.seq):
        fold.repeat(event)
    return fold
