"""The writer: a thread that works through a queue, in transactions that many requests share.

The thread takes all queued requests, does them one after the other, writes their events in one transaction, and
responds; so many requests share one sync of the disk. If a commit fails, the state is dropped and rebuilt from the log.
A log that has not been written for a while is written anyway, so that the age of the last commit shows whether it can
be written.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import sqlalchemy as sql

from osamd.errors import InputError
from osamd.service import log as logs
from osamd.service.database import StorageError
from osamd.service.desk import Refusal
from osamd.service.incoming import ReceivedBatch
from osamd.service.log import Log

T = TypeVar("T")

MOST_WAITING = 512
"""The most queued requests; others are refused as overload."""
GROUP = 2000
"""Samples and other requests per transaction, after which no further request joins it."""
RETRY = 1.0
"""Seconds after which a failed log is tried again, if no request comes sooner."""
PROBE = 10.0
"""Seconds without a commit after which the log is written only to check that it can be."""
STALE = 60.0
"""Seconds without a commit after which the service is not ready: probes failed, or a request takes long."""
LONGEST_END = 60.0
"""Seconds that a stop waits for the log."""


class Writer(ABC):
    """See the module. `start` it, `do` things, `stop` it."""

    def __init__(self, log: Log, clock: Callable[[], float], steady: Callable[[], float]) -> None:
        self._log, self._clock, self._steady = log, clock, steady
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="osamd-engine", daemon=True)
        self._committed = 0
        self._connection: Any = None  # the connection of the transaction
        self._probed = False
        self._written_at = time.monotonic()
        self.failure = ""
        """Why the log could not be written at the end; empty if it could."""
        self.changed: Callable[[], None] = lambda: None
        """Called in the writer's thread after every commit that wrote events."""

    @abstractmethod
    def _rebuild(self) -> None:
        """Rebuild everything from the log."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop state that may be ahead of the log."""

    @property
    @abstractmethod
    def built(self) -> bool:
        """Whether the state agrees with the log."""

    @abstractmethod
    def _commit(self, connection: sql.Connection, stopping: bool) -> bool:
        """Write the new events into the transaction; True if there were any."""

    @abstractmethod
    def _last(self) -> int:
        """The number of the last event, committed or not."""

    def stop(self) -> None:
        """Finish the queue, write a snapshot, and close the log; a second call does nothing."""
        if not self._thread.is_alive():
            return
        self._inbox.put(None)
        self._thread.join(LONGEST_END)
        if self._thread.is_alive():
            self.failure = f"it did not respond for {LONGEST_END:g} s"
            return
        self._log.close()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def age(self) -> float:
        """Seconds since the last commit."""
        return time.monotonic() - self._written_at

    @property
    def healthy(self) -> bool:
        """Whether the log can be written, as far as known."""
        return self.built and self.alive and self.age < STALE

    @property
    def seq(self) -> int:
        """The number of the last event that was committed."""
        return self._committed

    async def do(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run a method in the writer's thread, and wait until its events are committed."""
        if self._inbox.qsize() >= MOST_WAITING:
            raise Refusal("overloaded", "too many requests are queued; try again in a second.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._inbox.put((work, arguments, loop, future))
        return await future

    def probe(self) -> None:
        """Write to the log, unless it was written just now."""
        if self.age > RETRY:
            logs.probe(self._connection, self._clock())
            self._probed = True

    def _serve(self) -> None:
        stopping = False
        while not stopping:
            try:
                group = [self._inbox.get(timeout=PROBE if self.built else RETRY)]
            except queue.Empty:
                self._done([(self.probe, (), None, None)], False)  # this also rebuilds the state after a failure
                continue
            while sum(map(_size, group)) < GROUP and not self._inbox.empty():
                group.append(self._inbox.get())
            stopping = None in group
            group = [one for one in group if one is not None]
            if group or stopping:
                self._answer_all(group, self._done(group, stopping))

    def _done(self, group: list[Any], stopping: bool) -> list[Any]:
        """Do all of these in one transaction, and return their outcomes."""
        with self._lock:
            try:
                if not self.built:
                    self._rebuild()
                outcomes, self._probed = [], False
                with self._log.transaction() as self._connection:
                    for work, arguments, _, _ in group:
                        try:
                            outcomes.append(work(*arguments))
                        except (Refusal, InputError) as refusal:
                            outcomes.append(refusal)
                    wrote = self._commit(self._connection, stopping)
                if wrote or self._probed:
                    self._written_at = time.monotonic()
                written, self._committed = self._last() > self._committed, self._last()
            except BaseException as error:  # whatever happened, the learner may be ahead of the log now
                self._forget()
                if stopping:
                    self.failure = str(error) or type(error).__name__
                return [_failed(error, group) for _ in group]
        if written:
            with suppress(RuntimeError):  # the loop of those who listen has gone
                self.changed()
        return outcomes

    def _answer_all(self, group: list[Any], outcomes: list[Any]) -> None:
        by_loop: dict[Any, list[tuple[Any, Any]]] = {}
        for (_, _, loop, future), outcome in zip(group, outcomes, strict=True):
            by_loop.setdefault(loop, []).append((future, outcome))
        for loop, answers in by_loop.items():
            with suppress(RuntimeError):  # the event loop of the callers has gone
                loop.call_soon_threadsafe(_resolve, answers)


def _failed(error: BaseException, group: list[Any]) -> BaseException:
    if not isinstance(error, StorageError | InputError):
        return error
    if group[0][2] is not None:  # there is a caller
        logging.getLogger("osamd.service").error("the log cannot be written: %s", error)
    # The connection may break after a successful commit; then the id is already known.
    return Refusal("storage", "the log cannot be written; send it again later, with the same id.")


def _size(request: Any) -> int:
    """The number of samples or labels in a queued request; 1 for any other request."""
    first = request[1][0] if request is not None and request[1] else None
    return len(first) if isinstance(first, list | ReceivedBatch) else 1


def _resolve(answers: Iterable[tuple[Any, Any]]) -> None:
    for future, outcome in answers:
        if future.done():  # the caller has gone
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
