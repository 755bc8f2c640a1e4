"""What PostgreSQL needs beyond SQLite: connections with time limits, and a lock for the writer.

A network may go silent without closing a connection. Then the client's system retries for a quarter of an hour, and the
server keeps the session and its lock even longer. So every wait here has an end (`Bounded`), and the server is asked to
detect silent clients (`SESSION`). A lock whose holder has been silent for SILENT seconds is taken over: its session is
ended first, which rolls back whatever was not committed, so there are never two writers.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Generator
from typing import Any, TypeVar

import sqlalchemy as sql

T = TypeVar("T")

CONNECT = 5
"""Seconds to connect."""
NO_ANSWER = 15.0
"""Seconds without a byte from the server after which a connection is dropped."""
SILENT = 30.0
"""Seconds after which the holder of the lock counts as dead: a live service writes every few seconds."""
LEAVING = 20
"""How often the lock is tried, every 50 ms: the server lets go of it a moment after its holder has left."""
SESSION = (
    "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '60s';"
    " SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
)
"""Settings of a session: nobody waits long for a lock, and a session whose client is gone is detected."""
ARGUMENTS = {
    "connect_timeout": CONNECT,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": int(1000 * NO_ANSWER),
}

_WRITER = 0x6F73616D
"""The first half of the key of the advisory lock: "osam" in ASCII. The second is a digest of the schema's name."""

_HOLDER = sql.text(
    "SELECT activity.pid, extract(epoch FROM clock_timestamp() - activity.state_change) AS silent"
    " FROM pg_locks JOIN pg_stat_activity AS activity USING (pid)"
    " WHERE locktype = 'advisory' AND granted AND classid = :writer AND objid = :schema"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def bound(engine: sql.Engine) -> None:
    """Make all connections of this engine `Bounded`."""
    import psycopg

    class Bounded(psycopg.Connection[Any]):
        """A connection that is closed if the server is silent for too long."""

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return super().wait(_until_silent(gen), *arguments, **options)
            except TimeoutError as error:
                self.close()
                raise psycopg.OperationalError(str(error)) from error

    def connect(_: Any, __: Any, arguments: Any, options: Any) -> Any:
        return Bounded.connect(*arguments, **(ARGUMENTS | options))

    def connected(connection: Any, _: Any) -> None:
        before, connection.autocommit = connection.autocommit, True
        connection.execute(SESSION)
        connection.autocommit = before

    sql.event.listen(engine, "do_connect", connect)
    sql.event.listen(engine, "connect", connected)


def _until_silent(waits: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """The waits of psycopg, with a TimeoutError once nothing was ready for NO_ANSWER seconds."""
    heard = time.monotonic()
    try:
        wanted = next(waits)
        while True:
            ready = yield wanted
            if ready:
                heard = time.monotonic()
            elif time.monotonic() - heard > NO_ANSWER:
                waits.close()
                raise TimeoutError(f"the server has been silent for {NO_ANSWER:g} s")
            wanted = waits.send(ready)
    except StopIteration as end:
        done: T = end.value
        return done


def hold(connection: sql.Connection) -> str | None:
    """Take the lock of the writer. If a live holder has it, return the reason for the failure; else None."""
    schema = str(connection.execute(sql.text("SELECT current_schema()")).scalar())
    key = {"writer": _WRITER, "schema": zlib.crc32(schema.encode()) & 0x7FFFFFFF}
    for _ in range(LEAVING):
        if _taken(connection, key):
            return None
        time.sleep(0.05)
    holder = connection.execute(_HOLDER, key).first()
    if holder is None:  # it has just gone
        return None if _taken(connection, key) else "it is being started"
    if holder.silent is None:
        return "it belongs to another role"
    if holder.silent < SILENT:
        return f"it wrote {holder.silent:.0f} s ago"
    connection.execute(sql.text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": holder.pid})
    return None if _taken(connection, key) else "it has been silent, but its session does not end"


def _taken(connection: sql.Connection, key: dict[str, int]) -> bool:
    return bool(connection.execute(sql.text("SELECT pg_try_advisory_lock(:writer, :schema)"), key).scalar())
