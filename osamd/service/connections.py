"""Connections under uvicorn, with limits on their number, their silence, and the size of a request's head."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from osamd.service.guard import overloaded

MOST_CONNECTIONS = 768
"""More than the requests that may be queued for the engine, so that overload is reported as such."""
LARGEST_HEAD = 64 * 2**10
"""Bytes of the request line and the headers."""
SLOWEST_HEAD = 30.0
"""Seconds, roughly, for the head to arrive: connections are checked at this interval."""
SLOWEST_READER = 20.0
"""Seconds in which a client must read some of its response."""

_turns = itertools.count()
"""The order in which connections became idle; the loop's clock is too coarse for it."""


class Connection(HttpToolsProtocol):
    """Closes a connection on which no request arrives for long, whose head has no end, or whose response nobody reads.

    If there are too many connections, the one that has been idle longest is closed, from the address with the most
    idle ones. If none is idle, the new connection is refused. The routes read the bodies.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = next(_turns)
        self._unread: asyncio.TimerHandle | None = None
        if len(self.connections) > MOST_CONNECTIONS and not self._make_room():
            self.app = overloaded
        self._seen: object = None
        self._head = 0
        self._look = self.loop.call_later(SLOWEST_HEAD, self._looked)

    def connection_lost(self, error: Exception | None) -> None:
        self._look.cancel()
        self.resume_writing()
        super().connection_lost(error)

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> bool:
        idle = [one for one in self.connections if one is not self and isinstance(one, Connection) and one.idle]
        if not idle:
            return False
        by_address = Counter(one.client[0] if one.client else "" for one in idle)
        crowded = by_address.most_common(1)[0][0]
        min((one for one in idle if (one.client[0] if one.client else "") == crowded), key=_age).transport.abort()
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(SLOWEST_READER, self.transport.abort)

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def on_response_complete(self) -> None:
        self._since = next(_turns)
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        within_body = before is not None and before.more_body
        super().data_received(data)
        self._head = 0 if within_body or self.cycle is not before else self._head + len(data)
        if self._head > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def _looked(self) -> None:
        """Close the connection if no request is being answered, and none was since the last check."""
        if self.idle and self.cycle is self._seen:
            self.transport.close()
            return
        self._seen = self.cycle
        self._look = self.loop.call_later(SLOWEST_HEAD, self._looked)


def _age(connection: Connection) -> int:
    return connection._since
