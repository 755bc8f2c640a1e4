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
from osamd.learner.blocks import PlayedRounds
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
from osamd.service.incoming import ReceivedSample, sample_events
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
            logs.append(connection, self._rows)
            logs.keep_snapshot(connection, live.snapshot(), live.damaged)
        self._rebuild()

    # These serve requests. They run in the engine's thread and refuse before they change anything.

    def observe(self, samples: Sequence[Any]) -> list[Event | Refusal]:
        """Play a round per `ReceivedSample`; a sample whose client id is known gets the recorded decision.

        A sample that the model cannot score (its score is not finite) is refused, but the others are not.
        """
        given = [one if type(one) is ReceivedSample else ReceivedSample(*one) for one in samples]
        known = self._recorded([one.client_id for one in given if one.client_id is not None])
        seen = {name: event.features for name, event in known.items()}
        for name, row, _ in given:
            if name is not None and seen.setdefault(name, row.tobytes()) != row.tobytes():
                raise Refusal("id-reused", f"the id {name!r} was used for another sample; give each sample its own.")
        told: list[Event | Refusal] = []
        run: list[ReceivedSample] = []
        names: set[str] = set()
        for one in given:
            if one.client_id is not None:
                if one.client_id in names:
                    told += self._rounds(run)
                    run, names = [], set()
                event = known.get(one.client_id) or self._fresh.get(one.client_id)
                if event is not None:
                    told += [*self._rounds(run), event]
                    run = []
                    continue
                names.add(one.client_id)
            run.append(one)
        return told + self._rounds(run)

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
        logs.append(connection, self._rows)
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

    def _rounds(self, samples: Sequence[ReceivedSample]) -> list[Event | Refusal]:
        """Play the rounds of new samples in blocks, each of which ends where the desk or the history has work."""
        if not samples:
            return []
        rows = samples[0].row[None] if len(samples) == 1 else np.array([one.row for one in samples])
        unusual = self._live.larger(rows).nonzero()[0].tolist()
        told: list[Event | Refusal] = []
        while (at := len(told)) < len(samples):
            if unusual and unusual[0] < at:
                unusual.pop(0)
                continue
            usual = not unusual or at < unusual[0]
            end = at + 1 if not usual else min([*unusual[:1], len(samples), at + self._undisturbed()])
            try:
                if not usual:
                    self._refuse_wild(rows[at])
                played = self._live.play(rows[at:end], usual)
            except (InputError, Refusal) as error:
                told.append(error if isinstance(error, Refusal) else Refusal("refused", str(error)))
                continue
            told += self._played(played, samples[at : at + len(played)], rows[at : at + len(played)])
        return told

    def _undisturbed(self) -> int:
        """The rounds up to the next point of the history, or to the next query that expires if that comes first."""
        rounds, after = self._live.learner.rounds, self.state.config.expire_after
        most = _point_every(rounds) - rounds % _point_every(rounds)
        oldest = next(iter(self._desk.waiting), None)
        return most if oldest is None or after is None else max(1, min(most, oldest + after + 2 - rounds))

    def _played(self, played: PlayedRounds, samples: Sequence[ReceivedSample], rows: Array) -> list[Event]:
        """Write the events of a block of rounds, and do what its end calls for."""
        live = self._live
        events = sample_events(live.seq + 1, self._clock(), played, [one.client_id for one in samples], rows)
        self._rows += events
        last = events[-1]
        live.count(last, len(events))
        for event in events:
            if event.client_id is not None:
                self._fresh[event.client_id] = event
        for place in played.seen.label:
            self._decided[place] += 1
        if played.query is not None:
            self._desk.add(last)
            if samples[-1].display is not None:
                self._displays.append((last.round, samples[-1].display))
        self._make_room()
        if live.learner.rounds % _point_every(live.learner.rounds) == 0:
            self._points.append({"round": live.learner.rounds, "body": json.dumps(self._point(last.at))})
        return events

    def _refuse_wild(self, row: Array) -> None:
        place = self._live.wild(row)
        if place is None:
            return
        name, most = self.state.schema.feature(place), self.state.config.wild
        usual = self._live.sizes[place] or self._live.sizes.max()
        why = f"{name} is {row[place]:g}, and was never above {usual:g}: {most:g} times that and more is refused."
        self.wild = {"count": self.wild["count"] + 1, "last": why}
        raise Refusal("wild", f"{why} If it is right, raise `wild` in service.json.")

    def _make_room(self) -> None:
        """Expire the oldest queries if they are too old or too many."""
        config, waiting = self.state.config, self._desk.waiting
        if not waiting:
            return
        while len(waiting) > config.max_pending:
            self._expired(next(iter(waiting)))
        if config.expire_after is not None:
            self.expire_older(config.expire_after)

    def _point(self, at: float) -> dict[str, Any]:
        told = standing.point(self._live, len(self._desk.waiting), self._decided, at)
        self._decided[:] = 0.0
        return told

    def _day(self) -> int:
        return int(self._clock() // 86_400)


def _point_every(rounds: int) -> int:
    """The rounds between two points of the history, after this many rounds."""
    return POINT_EVERY if rounds < 1000 * POINT_EVERY else 10 * POINT_EVERY
