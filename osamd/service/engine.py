"""The engine: it plays rounds, takes answers, and writes both as events; responses are sent after the commit.

The learner is a fold of the log: `Fold` computes it from the last snapshot and the events after it. `writer` has the
queue and the transactions, `people` what annotators do, `changes` what admins do, and `desk` who holds which query.
"""

from __future__ import annotations

import json
import logging
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sql

from osamd.errors import InputError
from osamd.learner import blocks
from osamd.learner.blocks import PlayedRounds
from osamd.learner.cores.block_playing import Observations
from osamd.numerics import Array
from osamd.service import log as logs
from osamd.service import standing
from osamd.service.administration import Changes
from osamd.service.database import StorageError
from osamd.service.database_tables import points
from osamd.service.desk import LabelDesk, Refusal
from osamd.service.display import Display, keep_displays
from osamd.service.fold import folded
from osamd.service.folder import ServiceState, try_out
from osamd.service.incoming import DecidedSamples, ReceivedBatch, ReceivedSample, batch_of, each, write
from osamd.service.log import Event, Log

SNAPSHOT_EVERY = 20_000
"""Events between two snapshots; a start replays at most this many."""
POINT_EVERY = 100
"""Rounds between two points of the history, up to a thousand points; after them, ten times as many."""
LOOK = 1.0
"""Seconds that a request for the status waits for a slow commit; then it gets the last known status."""


class Engine(Changes):
    """See the module. `start` it, `do` things, `stop` it."""

    def __init__(
        self,
        state: ServiceState,
        log: Log,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(state, log, clock, steady)
        self._points: list[dict[str, Any]] = []
        self._displays: list[tuple[int, Display]] = []
        self._kept = 0
        self._known: dict[str, Any] = {}
        self._known_at = (-1, -1)
        self.wild: dict[str, Any] = {"count": 0, "last": ""}
        """The samples refused since the start for a value far larger than any before, and the last reason."""

    def start(self, as_written: bool = False) -> None:
        """Fold the log, compile what is not compiled yet, and take requests; a second call does nothing.

        `as_written`: if the log cannot be reproduced here, keep its decisions as they are, and continue.
        """
        if self._thread.is_alive():
            return
        self._log.open(self.state.identity)
        try:
            self._rebuild(as_written)
            if self._live.differing:
                self._take_as_written()
            try_out(self._live.learner.copy(), self.state.config)
        except BaseException as error:
            self._log.close()
            if isinstance(error, StorageError):
                raise InputError(
                    f"the log {self._log.name} cannot be read ({error}); restore a backup of it."
                ) from error
            raise
        self._thread.start()

    def _take_as_written(self) -> None:
        """Write that the log was accepted as it is, and a snapshot from which later starts continue."""
        live = self._live
        told = (
            f"{live.differing} decisions differ from those computed here, {len(live.orphans)} of them pending queries"
        )
        logging.getLogger("osamd.service").warning("the log was accepted as written: %s", told)
        with self._log.transaction() as connection:
            for number in sorted(live.orphans):
                self._write("expire", number)
            self._write("accept", live.learner.rounds, who=told)
            write(connection, self._rows)
            logs.keep_snapshot(connection, live.snapshot(), live.damaged)
        self._rebuild()

    # These serve requests. They run in the engine's thread and refuse before they change anything.

    def observe(self, samples: Sequence[Any]) -> list[Event | Refusal]:
        """Play a round per `ReceivedSample`, and return an outcome for each: see `observe_batch`."""
        given = [one if type(one) is ReceivedSample else ReceivedSample(*one) for one in samples]
        return each(self.observe_batch(batch_of(given))) if given else []

    def observe_batch(self, batch: ReceivedBatch) -> list[Event | Refusal | DecidedSamples]:
        """Play a round per sample; a sample whose client id is known gets the recorded decision.

        A sample that the model cannot score (its score is not finite) is refused, but the others are not.
        """
        if batch.ids is None:
            return self._rounds(batch)
        known = self._recorded([name for name in batch.ids if name is not None])
        seen = {name: event.features for name, event in known.items()}
        for name, row in zip(batch.ids, batch.rows, strict=True):
            if name is not None and seen.setdefault(name, row.tobytes()) != row.tobytes():
                raise Refusal("id-reused", f"the id {name!r} was used for another sample; give each sample its own.")
        told: list[Event | Refusal | DecidedSamples] = []
        start, names = 0, set[str]()
        for place, name in enumerate(batch.ids):
            if name is None:
                continue
            if name in names:
                told += self._rounds(batch.part(start, place))
                start, names = place, set()
            event = known.get(name) or self._uncommitted(name)
            if event is not None:
                told += [*self._rounds(batch.part(start, place)), event]
                start = place + 1
            else:
                names.add(name)
        return told + self._rounds(batch.part(start, len(batch)))

    # These may be called from any thread.

    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    def probabilities(self, event: Event) -> dict[Any, float]:
        """The probabilities of the classes in a recorded decision."""
        held = event.score or b""
        return self.probabilities_of(struct.unpack("<d", held)[0] if len(held) == 8 else np.frombuffer(held).copy())

    def probabilities_of(self, score: Any) -> dict[Any, float]:
        """The probabilities of the classes from the score of a decision."""
        return self._live.learner.probabilities_of(score)

    def shares(self, seen: Observations) -> list[float]:
        """The probabilities of the classes that were decided on."""
        return blocks.shares(self._live.learner, seen)

    def status(self) -> dict[str, Any]:
        """The status, as in /v1/status."""
        if not self._lock.acquire(timeout=LOOK):
            if not self._known:
                raise Refusal("storage", "writing the log takes long; try again later.")
            return self._known | {"held": self._desk.held(), "wild": dict(self.wild)}
        try:
            live = self._live
            if self._known_at != (live.seq, self._day()):
                self._known = standing.status(live, len(self._desk.waiting), self._day())
                self._known_at = live.seq, self._day()
        finally:
            self._lock.release()
        return self._known | {"held": self._desk.held(), "wild": dict(self.wild)}

    # These serve the writer.

    def _rebuild(self, as_written: bool = False) -> None:
        """Rebuild everything from the log."""
        self._drop_rows()
        fold = folded(self.state, self._log, as_written)
        self._kept = fold.kept
        self._desk = LabelDesk(self._steady, self.state.config.second_opinion)
        with self._log.reading() as connection:
            pending = [decision.id for decision in fold.learner.pending]
            self._desk.restore(connection, pending, self._clock())
            since = fold.learner.rounds - fold.learner.rounds % _point_every(fold.learner.rounds)
            self._decided = logs.decided_since(connection, since, len(fold.learner.classes))
        self._committed = fold.seq
        self._fold = fold

    def _forget(self) -> None:
        self._fold = None

    @property
    def built(self) -> bool:
        return self._fold is not None

    def _last(self) -> int:
        return self._live.seq

    def _commit(self, connection: sql.Connection, stopping: bool) -> bool:
        live, wrote = self._live, bool(self._rows) or self._wrote_early
        self._wrote_early = False
        write(connection, self._rows)
        if self._points:
            connection.execute(sql.insert(points), self._points)
        if self._displays:
            keep_displays(connection, self._displays)
        if live.seq - self._kept >= SNAPSHOT_EVERY or (stopping and live.seq > self._kept):
            logs.keep_snapshot(connection, live.snapshot(), live.damaged)
            self._kept, live.damaged, wrote = live.seq, [], True
        self._drop_rows()
        return wrote

    def _drop_rows(self) -> None:
        self._rows, self._points, self._displays, self._fresh = [], [], [], {}

    def _rounds(self, batch: ReceivedBatch) -> list[Event | Refusal | DecidedSamples]:
        """Play the rounds of new samples in blocks, each of which ends where the history gets a point."""
        told: list[Event | Refusal | DecidedSamples] = []
        if not len(batch):
            return told
        unusual, at = self._live.larger(batch.rows).nonzero()[0].tolist(), 0
        while at < len(batch):
            if unusual and unusual[0] < at:
                unusual.pop(0)
                continue
            usual, rounds = not unusual or at < unusual[0], self._live.learner.rounds
            point = at + _point_every(rounds) - rounds % _point_every(rounds)
            end = min([*unusual[:1], len(batch), point]) if usual else at + 1
            try:
                if not usual:
                    self._refuse_wild(batch.rows[at])
                played = self._live.play(batch.rows[at:end], usual)
            except (InputError, Refusal) as error:
                told.append(error if isinstance(error, Refusal) else Refusal("refused", str(error)))
                at += 1
                continue
            told.append(self._played(played, batch.part(at, at + len(played))))
            at += len(played)
        return told

    def _played(self, played: PlayedRounds, batch: ReceivedBatch) -> DecidedSamples:
        """Keep the events of a block of rounds, and tell the desk and the history."""
        live = self._live
        decided = DecidedSamples(live.seq + 1, self._clock(), batch, played)
        self._rows.append(decided)
        live.count_rounds(decided.last, decided.at, played)
        if batch.ids is not None:
            self._fresh |= {name: (decided, i) for i, name in enumerate(batch.ids) if name is not None}
        if len(played) == 1:
            self._decided[played.seen.label[0]] += 1  # a tenth of the time
        else:
            self._decided += np.bincount(played.seen.label, minlength=len(self._decided))
        for query in played.queries:
            place = query.id - played.first
            self._desk.add(decided.event(place))
            if batch.displays is not None and (display := batch.displays[place]) is not None:
                self._displays.append((query.id, display))
        for expired in played.expired:
            self._desk.remove(expired.id)
        if live.learner.rounds % _point_every(live.learner.rounds) == 0:
            self._points.append({"round": live.learner.rounds, "body": json.dumps(self._point(decided.at))})
        return decided

    def _refuse_wild(self, row: Array) -> None:
        place = self._live.wild(row)
        if place is None:
            return
        name, most = self.state.schema.feature(place), self.state.config.wild
        usual = self._live.sizes[place] or self._live.sizes.max()
        why = f"{name} is {row[place]:g}, and was never above {usual:g}: {most:g} times that and more is refused."
        self.wild = {"count": self.wild["count"] + 1, "last": why}
        raise Refusal("wild", f"{why} If it is right, raise `wild` in service.json.")

    def _point(self, at: float) -> dict[str, Any]:
        told = standing.point(self._live, len(self._desk.waiting), self._decided, at)
        self._decided[:] = 0.0
        return told

    def _day(self) -> int:
        return int(self._clock() // 86_400)


def _point_every(rounds: int) -> int:
    """The rounds between two points of the history, after this many rounds."""
    return POINT_EVERY if rounds < 1000 * POINT_EVERY else 10 * POINT_EVERY
