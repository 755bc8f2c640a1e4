"""Server-sent events: the status, at most four times per second, and every event of a query.

A connection reads the log from its own position, so nothing is kept for it in memory, and a client that reconnects
continues after its Last-Event-ID.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from osamd.service.database import StorageError
from osamd.service.desk import Refusal
from osamd.service.engine import Engine
from osamd.service.log import Log

MOST_LISTENERS = 64
PARTING = 0.1
"""Seconds after which a closed connection has surely been released: a page that reloads closes one first."""
SHORTEST = 0.25
"""Least seconds between two status messages."""
LONGEST = 15.0
"""Seconds after which something is sent in any case, so that a dead connection is detected."""
_BLOCK = 5000
"""Events read at a time."""


class Bell:
    """Wakes the listeners after a commit."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rung = asyncio.Event()
        self.listeners = 0
        self.closing = False

    def bind(self) -> None:
        self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """Wake the listeners. It may be called from any thread."""
        if self._loop is not None and self.listeners:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._rung.set()
        self._rung = asyncio.Event()

    def close(self) -> None:
        """End all connections."""
        self.closing = True
        self._wake()

    async def wait(self, seconds: float) -> bool:
        """Wait until it rings; False if it did not within this time."""
        try:
            await asyncio.wait_for(self._rung.wait(), seconds)
            return True
        except TimeoutError:
            return False


async def refuse_many(bell: Bell) -> None:
    """Refuse a listener beyond the limit, after a moment for closed connections to be released."""
    if bell.listeners >= MOST_LISTENERS:
        await asyncio.sleep(PARTING)
    if bell.listeners >= MOST_LISTENERS:
        raise Refusal("overloaded", f"{MOST_LISTENERS} listeners are connected; poll /v1/status instead.")


async def stream(
    engine: Engine, log: Log, bell: Bell, after: int | None, told: Callable[[], str | None]
) -> AsyncIterator[str]:
    """The text of the events; `told` returns the status as JSON, or None if the person has lost access."""
    bell.listeners += 1
    rung: asyncio.Future[bool] | None = None
    try:
        last = await run_in_threadpool(log.last)
        seq = last if after is None else min(after, last)
        yield "retry: 2000\n\n"
        shown = -1.0
        while not bell.closing:
            rung = asyncio.ensure_future(bell.wait(LONGEST))
            try:
                status = await run_in_threadpool(told)
                if status is None:
                    return
                last = engine.seq
                while seq < last:
                    upto = min(seq + _BLOCK, last)
                    yield "".join(_message(event, engine) for event in await run_in_threadpool(log.notable, seq, upto))
                    seq = upto
                yield f"event: status\ndata: {status}\n\n"
            except (StorageError, Refusal):
                yield ": the log cannot be read\n\n"
            shown = time.monotonic()
            await rung
            await asyncio.sleep(max(0.0, SHORTEST - (time.monotonic() - shown)))
    finally:
        bell.listeners -= 1
        if rung is not None:
            rung.cancel()


def _message(event: Any, engine: Engine) -> str:
    kind = "query" if event.kind == "sample" else event.kind
    body: dict[str, Any] = {"seq": event.seq, "round": event.round, "at": event.at}
    if event.kind == "label" and event.label is not None:
        body["label"] = engine.schema.classes[event.label].name
    return f"id: {event.seq}\nevent: {kind}\ndata: {json.dumps(body)}\n\n"
