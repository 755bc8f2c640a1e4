"""The fold of the log: the learner after some events, computed from the last snapshot and the events after it."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osamd.errors import InputError
from osamd.learner import blocks
from osamd.learner.blocks import Patience, PlayedRounds
from osamd.numerics import Array
from osamd.service.folder import ServiceState
from osamd.service.log import Event, Log, Snapshot
from osamd.service.schema import NamedClass

CHANGES = ("budget", "class")
"""The kinds of events that change the stream."""
MET = 100
"""Samples after which the usual sizes of values are known well enough to call another one wild."""


class Fold:
    """The learner after some events, with the counts of the day of the last one.

    `as_written`: an event that is computed differently here is no error, and the log prevails. A query that only the
    log contains is in `orphans` until its label or expiry comes, and one that only the learner would ask expires.
    """

    def __init__(self, state: ServiceState, snapshot: Snapshot | None, as_written: bool = False) -> None:
        self.state, self._as_written = state, as_written
        self._patience = Patience(state.config.expire_after, state.config.max_pending)
        self.learner = state.learner(None if snapshot is None else snapshot.learner)
        self.seq = self.kept = 0 if snapshot is None else snapshot.seq
        self.damaged: list[int] = []
        """Snapshots that could not be used."""
        self.differing = 0
        self.orphans: set[int] = set()
        self.today: dict[str, int] = {"day": 0, "rounds": 0, "asked": 0, "told": 0}
        classes = len(state.schema.classes)
        self.opinions: dict[str, Any] = {"agreed": 0, "first": [0] * classes, "second": [0] * classes}
        """For samples that two people judged: how often they agreed, and how often each gave which class."""
        self.schema = state.schema
        """The current schema."""
        self.sizes = state.schema.sizes
        if snapshot is not None:
            counts = json.loads(snapshot.counts)
            for added in counts.pop("added", []):
                self.schema = self.schema.with_class(NamedClass.model_validate(added))
            self.opinions = counts.pop("opinions", self.opinions)
            self.sizes = np.array(counts.pop("sizes", self.sizes))
            self.today |= counts

    def larger(self, rows: Array) -> NDArray[np.bool_]:
        """Whether a feature of a sample is larger than any before, for each of these samples."""
        return np.asarray((np.abs(rows) > self.sizes).any(axis=-1))

    def wild(self, row: Array) -> int | None:
        """The feature that is larger than any before by a factor that no drift explains; None if there is none."""
        most = self.state.config.wild
        if most is None or not self.larger(row):
            return None
        if self.learner.rounds < MET and not self.state.schema.sized:
            return None
        largest = self.sizes.max()
        usual = np.where(self.sizes > 0.0, self.sizes, largest)
        place = int(np.argmax(np.abs(row) - most * usual))
        return place if largest > 0.0 and abs(row[place]) > most * usual[place] else None

    def play(self, rows: Array, usual: bool) -> PlayedRounds:
        """Play rounds, of which queries stay open; `usual`: the samples are known not to be `larger`."""
        played = blocks.play(self.learner, self.state.samples(rows), self._patience)
        if not usual:
            np.maximum(self.sizes, np.abs(rows[: len(played)]).max(axis=0), out=self.sizes)
        return played

    def count(self, event: Event) -> None:
        """Add an event to the counts."""
        self._count(event.seq, event.at)
        if event.kind == "sample":
            self.today["rounds"] += 1
            self.today["asked"] += bool(event.query)
        elif event.kind == "label":
            self.today["told"] += 1
        elif event.kind == "second" and event.decision is not None and event.label is not None:
            self.opinions["agreed"] += event.label == event.decision
            self.opinions["first"][event.decision] += 1
            self.opinions["second"][event.label] += 1

    def count_rounds(self, seq: int, at: float, played: PlayedRounds) -> None:
        """Add the events of rounds to the counts; `seq` is the last of them."""
        self._count(seq, at)
        self.today["rounds"] += len(played)
        self.today["asked"] += len(played.queries)

    def _count(self, seq: int, at: float) -> None:
        self.seq = seq
        day = int(at // 86_400)
        if day != self.today["day"]:
            self.today = {"day": day, "rounds": 0, "asked": 0, "told": 0}

    def repeat(self, event: Event) -> None:
        """Replay an event of the log, and check that the result is the recorded one."""
        if event.kind == "sample":
            self._repeat_sample(event)
        elif event.round in self.orphans:
            self.orphans -= {event.round} if event.kind in ("label", "expire", "none") else set()
        elif event.kind == "label":
            assert event.label is not None
            self.learner.tell(event.round, self.learner.classes[event.label])
        elif event.kind in ("expire", "none"):
            self.learner.expire(event.round)
        elif event.kind in CHANGES:
            self.change(event.kind, json.loads(event.body or ""))
        self.count(event)

    def change(self, kind: str, body: dict[str, Any]) -> None:
        """Apply a change of an admin: the budget from the next round on, or the classes. It refuses before it changes
        anything."""
        if kind == "budget":
            self.learner = self.learner.remade(**body)
        else:
            named = NamedClass.model_validate(body)
            wider = self.schema.with_class(named)
            self.learner.add_class(named.name)
            self.schema = wider
            for side in ("first", "second"):
                self.opinions[side].append(0)

    def _repeat_sample(self, event: Event) -> None:
        assert event.features is not None
        row = np.frombuffer(event.features).copy()
        decision = self.learner.ask(self.state.samples(row[None])[0])
        if not decision.query:
            self.learner.tell(decision)
        np.maximum(self.sizes, np.abs(row), out=self.sizes)
        found = decision.id, decision.draw, decision.query, decision.margin
        if found == (event.round, event.draw, event.query, event.margin):
            return
        if not self._as_written or decision.id != event.round:
            raise InputError(
                f"event {event.seq} of the log cannot be reproduced: this osamd, numpy or processor computes"
                " a different result than the one that wrote it. Start the service there, stop it properly, and try"
                " again; or continue here with `osamd serve --as-written`, which keeps the recorded decisions."
            )
        self.differing += 1
        if decision.query and not event.query:
            self.learner.expire(decision)
        elif event.query and not decision.query:
            self.orphans.add(event.round)

    def snapshot(self) -> Snapshot:
        counts = self.today | {"opinions": self.opinions, "sizes": self.sizes.tolist()}
        added = self.schema.classes[len(self.state.schema.classes) :]
        counts |= {"added": [one.model_dump() for one in added]}
        return Snapshot(self.seq, json.dumps(counts), self.learner.to_bytes())


def folded(state: ServiceState, log: Log, as_written: bool = False) -> Fold:
    """The fold of the whole log, from the last usable snapshot."""
    fold = _begun(state, log, as_written)
    for event in log.all_since(fold.seq):
        fold.repeat(event)
    return fold


def _begun(state: ServiceState, log: Log, as_written: bool) -> Fold:
    state.module()  # refused code must not be mistaken for a damaged snapshot
    damaged: list[int] = []
    for snapshot in log.snapshots():
        try:
            fold = Fold(state, snapshot, as_written)
        except (InputError, ValueError, KeyError, TypeError) as error:
            damaged.append(snapshot.seq)
            logging.getLogger("osamd.service").error(
                "the snapshot after event %d cannot be used, so an earlier one is used: %s", snapshot.seq, error
            )
        else:
            fold.damaged = damaged
            return fold
    if (begins := log.begins()) > 0:
        raise InputError(
            f"the log {log.name} was archived or erased up to event {begins}, and no snapshot after it can be used;"
            " restore a backup."
        )
    fold = Fold(state, None, as_written)
    fold.damaged = damaged
    return fold
