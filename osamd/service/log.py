"""The one log of events, in SQLite or PostgreSQL, and what is kept beside it to start soon: snapshots and points.

An event is a row: a sample with its draw and decision, a label, an expiry, a claim, a skip. There is one writer, which
a lock sees to, and it numbers the events itself. What an answer speaks of was committed before; SQLite syncs its
write-ahead log with every commit (synchronous=FULL), so an acknowledged event survives a loss of power too.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.service.tables import about, events, points, snapshots, tables

FORMAT = "1"
"""Of the tables. A service refuses a log of another format."""

SNAPSHOTS_KEPT = 2

_WRITER = 0x6F73616D64
"""The key of PostgreSQL's advisory lock of the one writer: "osamd" in ASCII."""

_CHUNK = 500
"""Values in one IN (...)."""


class Event(NamedTuple):
    """One row of the log. Classes are indices, samples and scores the bytes of float64 numbers."""

    seq: int
    at: float
    """Seconds since 1970."""
    kind: str
    """sample, label, expire, claim or skip."""
    round: int
    client_id: str | None = None
    features: bytes | None = None
    draw: float | None = None
    decision: int | None = None
    pseudolabel: int | None = None
    margin: float | None = None
    probability: float | None = None
    query: bool | None = None
    withheld: str | None = None
    score: bytes | None = None
    label: int | None = None
    who: str | None = None
    """Of a label, claim or skip: who did it."""
    until: float | None = None
    """Of a claim: when it lapses."""


class Snapshot(NamedTuple):
    """The learner after the event `seq`."""

    seq: int
    counts: str
    learner: bytes


class StorageError(Exception):
    """The database cannot be reached or written."""


class Log:
    """The database of one service."""

    def __init__(self, url: str | Path) -> None:
        self._url = _parsed(url)
        self._sqlite = self._url.get_backend_name() == "sqlite"
        self._lock: Any = None
        self._writer: sql.Connection | None = None
        try:
            self._engine = sql.create_engine(self._url, pool_pre_ping=not self._sqlite)
        except (NoSuchModuleError, ImportError) as error:
            raise InputError(
                f"`--database {self._url.render_as_string()}`: there is no driver for it ({error});"
                " pip install 'osamd[service]' brings those of SQLite and PostgreSQL (postgresql+psycopg://...)."
            ) from error
        if self._sqlite:
            sql.event.listen(self._engine, "connect", _prepare_sqlite)
            sql.event.listen(self._engine, "begin", _begin_sqlite)
        self._writers = self._engine.execution_options(writes=True)

    @property
    def name(self) -> str:
        """The database, without its password."""
        return self._url.render_as_string(hide_password=True)

    def open(self, identity: str) -> None:
        """Become the one writer; make the tables where there are none, and refuse those of another service.

        `identity` says which learner the log began with.
        """
        try:
            self._hold()
            self.make_tables()
            with self._writers.begin() as connection:
                found: dict[str, str] = dict(connection.execute(sql.select(about.c.key, about.c.value)).all())
                if not found:
                    told = [{"key": "format", "value": FORMAT}, {"key": "start", "value": identity}]
                    connection.execute(sql.insert(about), told)
        except InputError:
            self.close()
            raise
        except SQLAlchemyError as error:
            self.close()
            raise InputError(f"the database {self.name} cannot be used ({_brief(error)}); is it there?") from error
        if found and found.get("format") != FORMAT:
            self.close()
            raise InputError(
                f"the database {self.name} is of format {found.get('format')}, and this osamd writes format {FORMAT};"
                " use the osamd that wrote it."
            )
        if found and found.get("start") != identity:
            self.close()
            raise InputError(
                f"the database {self.name} belongs to another learner than the folder; give the folder it was made"
                " with, or an empty database."
            )

    def make_tables(self) -> None:
        """Make the tables that are not there yet."""
        try:
            with self._writers.begin() as connection:
                tables.create_all(connection)
        except SQLAlchemyError as error:
            raise InputError(f"the database {self.name} cannot be used ({_brief(error)}); is it there?") from error

    def close(self) -> None:
        """Let go of the database and of the lock."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        self._engine.dispose()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def transaction(self) -> Iterator[sql.Connection]:
        """The writer's connection; committed at the end, or rolled back. A StorageError where that failed."""
        try:
            if self._writer is None or self._writer.closed or self._writer.invalidated:
                self._hold_again()
            assert self._writer is not None
            with self._writer.begin():
                yield self._writer
        except SQLAlchemyError as error:
            if self._writer is not None:
                self._writer.invalidate()
                self._writer.close()
                self._writer = None
            raise StorageError(_brief(error)) from error

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A connection that sees what was committed."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StorageError(_brief(error)) from error

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """A transaction beside the writer's, for tokens and logins; events are the writer's alone."""
        try:
            with self._writers.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StorageError(_brief(error)) from error

    def since(self, seq: int, most: int = 10_000) -> list[Event]:
        """The first events after this one, `most` of them."""
        chosen = sql.select(events).where(events.c.seq > seq).order_by(events.c.seq).limit(most)
        with self.reading() as connection:
            return _events(connection.execute(chosen))

    def notable(self, after: int, upto: int) -> list[Any]:
        """Seq, at, kind, round and label of the events in between that are no sample, or a query."""
        columns = (events.c.seq, events.c.at, events.c.kind, events.c.round, events.c.label)
        chosen = sql.select(*columns).where(events.c.seq > after, events.c.seq <= upto).order_by(events.c.seq)
        with self.reading() as connection:
            return list(connection.execute(chosen.where((events.c.kind != "sample") | events.c.query)))

    def all_since(self, seq: int) -> Iterator[Event]:
        """All events after this one, in their order, in flat memory."""
        while block := self.since(seq):
            yield from block
            seq = block[-1].seq

    def last(self) -> int:
        """The number of the last event, 0 where there is none."""
        with self.reading() as connection:
            return int(connection.execute(sql.select(sql.func.max(events.c.seq))).scalar() or 0)

    def snapshot(self) -> Snapshot | None:
        """The last one."""
        with self.reading() as connection:
            found = connection.execute(sql.select(snapshots).order_by(snapshots.c.seq.desc()).limit(1)).first()
        return None if found is None else Snapshot(found.seq, found.counts, bytes(found.learner))

    def points(self, most: int) -> list[str]:
        """Points of the history, at most so many, evenly spread, the last one among them."""
        with self.reading() as connection:
            number = connection.execute(sql.select(sql.func.count()).select_from(points)).scalar_one()
            every = max(1, -(-number // most))
            place = sql.func.row_number().over(order_by=points.c.round.desc()).label("place")
            ranked = sql.select(points.c.round, points.c.body, place).subquery()
            chosen = sql.select(ranked.c.body).where((ranked.c.place - 1) % every == 0).order_by(ranked.c.round)
            return list(connection.execute(chosen).scalars())

    def _hold_again(self) -> None:
        """The same after a connection was lost; another service may have come meanwhile."""
        try:
            self._hold()
        except InputError as error:
            raise StorageError(str(error)) from error

    def _hold(self) -> None:
        """Take the lock of the one writer, and a connection to write by."""
        if self._sqlite and self._lock is None:
            self._lock = _locked(Path(str(self._url.database)))
        self._writer = self._writers.connect()
        if self._sqlite:
            return
        taken = self._writer.execute(sql.text("SELECT pg_try_advisory_lock(:key)"), {"key": _WRITER}).scalar()
        self._writer.commit()
        if not taken:
            self._writer.close()
            self._writer = None
            raise _in_use(self.name)


def append(connection: sql.Connection, rows: Sequence[Event]) -> None:
    """Write these events; the statement goes to the driver as it is, since that takes a third of the time."""
    if rows:
        statement, by_place = _insertion(connection.dialect)
        connection.exec_driver_sql(statement, list(rows) if by_place else [row._asdict() for row in rows])


@cache
def _insertion(dialect: sql.Dialect) -> tuple[str, bool]:
    """The statement that writes an event, and whether its values go by their places."""
    compiled = sql.insert(events).compile(dialect=dialect)
    return str(compiled), compiled.positional


def keep_snapshot(connection: sql.Connection, snapshot: Snapshot) -> None:
    """Write a snapshot, and forget those before the last ones."""
    connection.execute(sql.delete(snapshots).where(snapshots.c.seq == snapshot.seq))
    connection.execute(sql.insert(snapshots), snapshot._asdict())
    kept = sql.select(snapshots.c.seq).order_by(snapshots.c.seq.desc()).limit(SNAPSHOTS_KEPT)
    recent = list(connection.execute(kept).scalars())
    connection.execute(sql.delete(snapshots).where(snapshots.c.seq < recent[-1]))


def of_rounds(connection: sql.Connection, rounds: Iterable[int], kinds: Sequence[str]) -> list[Event]:
    """The events of these rounds, of these kinds, in their order."""
    return _chosen(connection, events.c.round, list(rounds), kinds)


def of_clients(connection: sql.Connection, ids: Sequence[str]) -> list[Event]:
    """The samples with these client ids."""
    return _chosen(connection, events.c.client_id, list(ids), ("sample",))


def decided_since(connection: sql.Connection, number: int, classes: int) -> Array:
    """How often each class was decided for, in this round and after it."""
    chosen = sql.select(events.c.decision, sql.func.count()).where(events.c.kind == "sample", events.c.round >= number)
    counts = np.zeros(classes)
    for decision, count in connection.execute(chosen.group_by(events.c.decision)):
        counts[decision] = count
    return counts


def _chosen(connection: sql.Connection, column: Any, values: list[Any], kinds: Sequence[str]) -> list[Event]:
    found: list[Event] = []
    for start in range(0, len(values), _CHUNK):
        among = column.in_(values[start : start + _CHUNK]) & events.c.kind.in_(kinds)
        found += _events(connection.execute(sql.select(events).where(among)))
    return sorted(found, key=lambda event: event.seq)


def _events(rows: Iterable[Any]) -> list[Event]:
    return [Event(*row) for row in rows]


def _parsed(url: str | Path) -> URL:
    if isinstance(url, Path):
        return URL.create("sqlite", database=str(url))
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or parsed.get_backend_name() not in ("sqlite", "postgresql"):
        # The URL itself is not shown: it may hold a password.
        raise InputError("`--database URL`: give postgresql://USER:PASSWORD@HOST/NAME, or leave it out for SQLite.")
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise InputError("`--database sqlite://...`: name a file, since what is in memory is gone with the service.")
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun below, not by Python
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA busy_timeout=10000")
    cursor.close()


def _begin_sqlite(connection: sql.Connection) -> None:
    # Who will write says so at once: a reader that turned into a writer would be refused after another's commit.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _locked(database: Path) -> int:
    place = database.with_name(database.name + ".lock")
    try:
        handle = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"{place}: cannot be written ({error.strerror}); name another folder.") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise _in_use(str(database)) from None
    return handle


def _in_use(name: str) -> InputError:
    return InputError(f"{name} is in use by another service; stop that one first.")


def _brief(error: SQLAlchemyError) -> str:
    """The first line of what the driver said, which holds no statement and no values."""
    said = str(getattr(error, "orig", None) or type(error).__name__)
    return (said.splitlines() or [type(error).__name__])[0]
