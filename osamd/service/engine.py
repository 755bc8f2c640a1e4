"""The engine: the one writer, which plays rounds, writes their events, and lets the answers go after the commit.

Requests wait in a queue. A thread takes all that wait, plays them one after the other, writes their events in one
transaction, and answers; so many requests share one sync of the disk. The learner is a fold of the log: it is made
from the last snapshot and the events after it, here as everywhere, by `Fold`. Where a commit fails, what was played
since is forgotten and the fold is made anew, so that the learner is never ahead of the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sql

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.service import log as logs
from osamd.service import standing
from osamd.service.fold import Fold, folded
from osamd.service.log import Event, Log, StorageError
from osamd.service.state import State, try_out
from osamd.service.tables import points

T = TypeVar("T")

MOST_WAITING = 512
"""Requests that wait for the engine; others are refused as overload."""
GROUP = 500
"""Samples and other requests in one transaction, after which no further request joins it."""
SNAPSHOT_EVERY = 20_000
"""Events, after which a snapshot is kept: a start folds at most so many."""
RETRY = 1.0
"""Seconds after which a log that failed is tried again, where nobody asks for anything sooner."""
POINT_EVERY = 100
"""Rounds, after which a point of the history is kept."""


class Refusal(Exception):
    """A request that cannot be done, with a stable code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass
class Waiting:
    """A query that waits for its label."""

    event: Event
    skips: int = 0
    holder: str | None = None
    until: float = 0.0

    def held(self, now: float) -> bool:
        return self.holder is not None and self.until > now


class Answer(NamedTuple):
    """What became of a label: learned now, or repeated, the same as before."""

    round: int
    label: Any
    status: str


class Engine:
    """See the module. `start` it, `do` things, `stop` it."""

    def __init__(self, state: State, log: Log, clock: Callable[[], float] = time.time) -> None:
        self.state, self._log, self._clock = state, log, clock
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._fold: Fold | None = None
        self._thread = threading.Thread(target=self._serve, name="osamd-engine", daemon=True)
        self._rows: list[Event] = []
        self._points: list[dict[str, Any]] = []
        self._fresh: dict[str, Event] = {}
        self._waiting: dict[int, Waiting] = {}
        self._committed = self._kept = 0
        self._known: dict[str, Any] = {}
        self._known_at = (-1, -1)
        self.changed: Callable[[], None] = lambda: None
        """Called in the engine's thread after every commit that wrote events."""

    def start(self) -> None:
        """Fold the log, compile what is not compiled yet, and take requests; nothing where it does so already."""
        if self._thread.is_alive():
            return
        self._log.open(self.state.identity)
        try:
            self._rebuild()
            try_out(self._live.learner.copy(), self.state.config)
        except BaseException as error:
            self._log.close()
            if isinstance(error, StorageError):
                raise InputError(f"the log {self._log.name} cannot be read ({error}); use a copy of it.") from error
            raise
        self._thread.start()

    def stop(self) -> None:
        """Finish what waits, keep a snapshot, and let go of the log; nothing where it has stopped."""
        if not self._thread.is_alive():
            return
        self._inbox.put(None)
        self._thread.join()
        self._log.close()

    @property
    def healthy(self) -> bool:
        """Whether the log can be written, as far as is known."""
        return self._fold is not None and self._thread.is_alive()

    async def do(self, work: Callable[..., T], *arguments: Any) -> T:
        """Let the engine do one of the methods below, and wait until its events are committed."""
        if self._inbox.qsize() >= MOST_WAITING:
            raise Refusal("overloaded", "too many requests wait; try again in a second.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._inbox.put((work, arguments, loop, future))
        return await future

    # What requests ask for. They run in the engine's thread; a refusal comes before any change.

    def observe(self, samples: Sequence[tuple[str | None, Array]]) -> list[Event | Refusal]:
        """Play a round for each sample; one whose client id is known gets the recorded decision.

        A sample of which the model can make nothing (its score is beyond all numbers) is refused, the others are not.
        """
        known = self._recorded([name for name, _ in samples if name is not None])
        seen = {name: event.features for name, event in known.items()}
        for name, row in samples:
            if name is not None and seen.setdefault(name, row.tobytes()) != row.tobytes():
                raise Refusal("id-reused", f"the id {name!r} was used for another sample; give each sample its own.")
        told: list[Event | Refusal] = []
        for name, row in samples:
            event = None if name is None else known.get(name)
            if event is None:
                try:
                    event = self._round(name, row)
                except InputError as error:
                    told.append(Refusal("refused", str(error)))
                    continue
                if name is not None:
                    known[name] = event
            told.append(event)
        return told

    def answer(self, labels: Sequence[tuple[int | str, int, str]]) -> list[Answer | Refusal]:
        """Tell labels: (round or client id, class, who). The first answer stands."""
        return [self._answered(*label) for label in labels]

    def claim(self, holder: str, order: str, limit: int, lease: float) -> list[Waiting]:
        """Let this person have queries for a while: those held already, then others that nobody holds."""
        now = self._clock()
        own = [one for one in self._waiting.values() if one.holder == holder and one.held(now)]
        free = [one for one in self.queries(order) if not one.held(now)]
        chosen = (own + free)[:limit]
        for one in chosen:
            one.holder, one.until = holder, now + lease
            self._write("claim", one.event.round, who=holder, until=one.until)
        return chosen

    def skip(self, number: int, holder: str) -> None:
        """Put a query behind those that were skipped less often."""
        one = self._pending(number)
        if one.held(self._clock()) and one.holder != holder:
            raise Refusal("held", f"round {number} is held by somebody else; leave it to them.")
        one.skips, one.holder = one.skips + 1, None
        self._write("skip", number, who=holder)

    def expire(self, number: int) -> Literal["expired", "repeated"]:
        """Give up waiting for one label."""
        try:
            self._pending(number)
        except Refusal as refusal:
            if refusal.code == "expired":
                return "repeated"
            raise
        self._expired(number)
        return "expired"

    def expire_older(self, rounds: int) -> int:
        """Give up waiting for labels that were asked for more than so many rounds ago."""
        before = self._live.learner.expired
        last = self._live.learner.rounds - 1 - rounds
        while self._waiting and (oldest := next(iter(self._waiting))) < last:
            self._expired(oldest)
        return self._live.learner.expired - before

    # What may be called from any thread.

    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    @property
    def seq(self) -> int:
        """The number of the last event that was committed."""
        return self._committed

    def probabilities(self, event: Event) -> dict[Any, float]:
        """Of the classes, in a recorded decision."""
        held = event.score or b""
        score = struct.unpack("<d", held)[0] if len(held) == 8 else np.frombuffer(held).copy()
        return self._live.learner.probabilities_of(score)

    def queries(self, order: str = "oldest") -> list[Waiting]:
        """The queries that wait, the oldest or the least certain first, those that were skipped behind the others."""
        waiting = list(self._waiting.values())
        if order == "valuable":
            return sorted(waiting, key=lambda one: (one.skips, one.event.margin))
        return sorted(waiting, key=lambda one: (one.skips, one.event.round))

    def status(self) -> dict[str, Any]:
        """How it stands, as /v1/status tells it."""
        with self._lock:
            live = self._live
            if self._known_at != (live.seq, self._day()):
                self._known = standing.status(live, len(self._waiting), self._day())
                self._known_at = live.seq, self._day()
            return self._known | {"held": sum(one.held(self._clock()) for one in self.queries())}

    # The thread.

    def _serve(self) -> None:
        stopping = False
        while not stopping:
            try:
                group = [self._inbox.get(timeout=None if self._fold is not None else RETRY)]
            except queue.Empty:
                self._done([], False)  # which folds the log again
                continue
            while sum(map(_size, group)) < GROUP and not self._inbox.empty():
                group.append(self._inbox.get())
            stopping = None in group
            group = [one for one in group if one is not None]
            if group or stopping:
                self._answer_all(group, self._done(group, stopping))

    def _done(self, group: list[Any], stopping: bool) -> list[Any]:
        """Do all of these in one transaction; what became of each."""
        with self._lock:
            try:
                if self._fold is None:
                    self._rebuild()
                outcomes = []
                with self._log.transaction() as self._connection:
                    for work, arguments, _, _ in group:
                        try:
                            outcomes.append(work(*arguments))
                        except (Refusal, InputError) as refusal:
                            outcomes.append(refusal)
                    self._commit(stopping)
                written, self._committed = self._live.seq > self._committed, self._live.seq
            except BaseException as error:  # whatever it was, the learner may be ahead of the log now
                self._fold = None
                failure: BaseException = error
                if isinstance(error, StorageError | InputError):
                    if group:
                        logging.getLogger("osamd.service").error("the log cannot be written: %s", error)
                    # A connection may break after the commit, so that it was done: then the same id is known.
                    failure = Refusal("storage", "the log cannot be written; send it again later, with the same id.")
                return [failure for _ in group]
        if written:
            with suppress(RuntimeError):  # the loop of those who listen has gone
                self.changed()
        return outcomes

    def _commit(self, stopping: bool) -> None:
        live = self._live
        logs.append(self._connection, self._rows)
        if self._points:
            self._connection.execute(sql.insert(points), self._points)
        if live.seq - self._kept >= SNAPSHOT_EVERY or (stopping and live.seq > self._kept):
            logs.keep_snapshot(self._connection, live.snapshot())
            self._kept = live.seq
        self._rows, self._points, self._fresh = [], [], {}

    def _answer_all(self, group: list[Any], outcomes: list[Any]) -> None:
        by_loop: dict[Any, list[tuple[Any, Any]]] = {}
        for (_, _, loop, future), outcome in zip(group, outcomes, strict=True):
            by_loop.setdefault(loop, []).append((future, outcome))
        for loop, answers in by_loop.items():
            with suppress(RuntimeError):  # the loop of those who asked has gone
                loop.call_soon_threadsafe(_resolve, answers)

    def _rebuild(self) -> None:
        """Make everything from the log."""
        self._rows, self._points, self._fresh = [], [], {}
        fold = folded(self.state, self._log)
        kept = self._log.snapshot()
        self._kept = 0 if kept is None else kept.seq
        with self._log.reading() as connection:
            pending = [decision.id for decision in fold.learner.pending]
            asked = logs.of_rounds(connection, pending, ("sample",))
            self._waiting = {event.round: Waiting(event) for event in asked}
            for event in logs.of_rounds(connection, pending, ("claim", "skip")):
                one = self._waiting[event.round]
                if event.kind == "claim":
                    one.holder, one.until = event.who, event.until or 0.0
                else:
                    one.skips, one.holder = one.skips + 1, None
            since = fold.learner.rounds - fold.learner.rounds % POINT_EVERY
            self._decided = logs.decided_since(connection, since, len(fold.learner.classes))
        self._committed = fold.seq
        self._fold = fold

    @property
    def _live(self) -> Fold:
        if self._fold is None:
            raise Refusal("storage", "the log cannot be read; try again later.")
        return self._fold

    def _write(self, kind: str, number: int, **values: Any) -> Event:
        event = Event(self._live.seq + 1, self._clock(), kind, number, **values)
        self._rows.append(event)
        self._live.count(event)
        return event

    def _round(self, client_id: str | None, row: Array) -> Event:
        live = self._live
        decision = live.play(row)
        seen = decision._seen
        event = self._write(
            "sample",
            decision.id,
            client_id=client_id,
            features=row.tobytes(),
            draw=decision.draw,
            decision=int(seen.label),
            pseudolabel=int(seen.pseudolabel),
            margin=float(seen.margin),
            probability=float(seen.probability),
            query=decision.query,
            withheld=decision.withheld,
            score=np.asarray(seen.score, dtype=np.float64).tobytes(),
        )
        if client_id is not None:
            self._fresh[client_id] = event
        self._decided[event.decision] += 1
        if decision.query:
            self._waiting[event.round] = Waiting(event)
        self._make_room()
        if live.learner.rounds % POINT_EVERY == 0:
            self._points.append({"round": live.learner.rounds, "body": json.dumps(self._point(event.at))})
        return event

    def _make_room(self) -> None:
        """Give up on the oldest queries, where they are too old or too many."""
        config = self.state.config
        while len(self._waiting) > config.max_pending:
            self._expired(next(iter(self._waiting)))
        if config.expire_after is not None:
            self.expire_older(config.expire_after)

    def _expired(self, number: int) -> None:
        self._live.learner.expire(number)
        del self._waiting[number]
        self._write("expire", number)

    def _answered(self, of: int | str, label: int, who: str) -> Answer | Refusal:
        live = self._live
        try:
            number = of if isinstance(of, int) else self._round_of(of)
            name = live.learner.classes[label]
            if number in self._waiting:
                live.learner.tell(number, name)
                del self._waiting[number]
                self._write("label", number, label=label, who=who)
                return Answer(number, name, "learned")
            before = self._closed(number)
            if before.kind == "expire":
                raise _too_late(number)
            if before.label != label:
                given = live.learner.classes[before.label or 0]
                raise Refusal(
                    "answered", f"round {number} was answered already, by {given!r}; the first answer stands."
                )
            return Answer(number, name, "repeated")
        except Refusal as refusal:
            return refusal
        except InputError as error:  # the model can make nothing of the sample any more
            return Refusal("refused", str(error))

    def _pending(self, number: int) -> Waiting:
        if number not in self._waiting:
            kind = self._closed(number).kind
            if kind == "expire":
                raise _too_late(number)
            raise Refusal("answered", f"round {number} was answered already.")
        return self._waiting[number]

    def _closed(self, number: int) -> Event:
        """The event that ended the waiting of a round; a refusal where it did not wait."""
        ended = [one for one in self._rows if one.round == number and one.kind in ("label", "expire")]
        ended = ended or logs.of_rounds(self._connection, [number], ("label", "expire"))
        if ended:
            return ended[-1]
        fresh = any(one.round == number and one.kind == "sample" for one in self._rows)
        if fresh or logs.of_rounds(self._connection, [number], ("sample",)):
            raise Refusal("not-asked", f"round {number} was no query, and its sample is learned from already.")
        raise Refusal("unknown", f"there is no round {number}.")

    def _round_of(self, client_id: str) -> int:
        found = self._recorded([client_id])
        if client_id not in found:
            raise Refusal("unknown", f"there is no sample with the id {client_id!r}.")
        return found[client_id].round

    def _recorded(self, ids: Sequence[str]) -> dict[str, Event]:
        """The samples with these client ids, among them those that are not committed yet."""
        found = {name: self._fresh[name] for name in ids if name in self._fresh}
        others = [name for name in ids if name not in found]
        if others:
            found |= {str(event.client_id): event for event in logs.of_clients(self._connection, others)}
        return found

    def _point(self, at: float) -> dict[str, Any]:
        told = standing.point(self._live, len(self._waiting), self._decided, at)
        self._decided[:] = 0.0
        return told

    def _day(self) -> int:
        return int(self._clock() // 86_400)


def _too_late(number: int) -> Refusal:
    return Refusal("expired", f"the label of round {number} is not awaited any more: it has expired.")


def _size(request: Any) -> int:
    """Of what waits for the engine: samples, labels, or one for any other request."""
    first = request[1][0] if request is not None and request[1] else None
    return len(first) if isinstance(first, list) else 1


def _resolve(answers: Iterable[tuple[Any, Any]]) -> None:
    for future, outcome in answers:
        if future.done():  # the one who asked has gone
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
