"""The database under a service, SQLite or PostgreSQL: connections, the lock of the one writer, transactions."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from osamd.errors import InputError
from osamd.service import postgres


class StorageError(Exception):
    """The database cannot be reached or written."""


class Database:
    """One database, and the lock that allows only one service to write to it."""

    def __init__(self, url: str | Path) -> None:
        self._url = _parsed(url)
        self._sqlite = self._url.get_backend_name() == "sqlite"
        self._lock: Any = None
        self._writer: sql.Connection | None = None
        try:
            self._engine = sql.create_engine(self._url, pool_pre_ping=not self._sqlite)
        except (NoSuchModuleError, ImportError) as error:
            raise InputError(
                f"`Database(database={self._url.render_as_string()!r})`: there is no driver for it ({error});"
                " pip install 'osamd[service]' brings those of SQLite and PostgreSQL (postgresql+psycopg://...)."
            ) from error
        if self._sqlite:
            sql.event.listen(self._engine, "do_connect", _private_sqlite)
            sql.event.listen(self._engine, "connect", _prepare_sqlite)
            sql.event.listen(self._engine, "begin", _begin_sqlite)
        elif self._url.get_driver_name() == "psycopg":
            postgres.bound(self._engine)
        self._writers = self._engine.execution_options(writes=True)

    @property
    def name(self) -> str:
        """The database, without its password."""
        return self._url.render_as_string(hide_password=True)

    @property
    def place(self) -> str:
        """Where the database is, for `service.json`: the address without user and password."""
        plain = self._url._replace(drivername=self._url.get_backend_name(), username=None, password=None)
        return plain.render_as_string()

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
        """The writer's connection, which is committed or rolled back at the end; a failure raises StorageError."""
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
            raise StorageError(brief(error)) from error

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A connection for reading what was committed."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StorageError(brief(error)) from error

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """A transaction for tokens and logins; only the writer writes events."""
        try:
            with self._writers.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StorageError(brief(error)) from error

    def scrub(self) -> None:
        """Remove erased data from the disk by emptying SQLite's write-ahead log. PostgreSQL vacuums by itself."""
        if not self._sqlite:
            return
        connection = self._engine.raw_connection()
        try:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()

    def _hold_again(self) -> None:
        """Take the lock again after the connection was lost; another service may have taken it."""
        try:
            self._hold()
        except InputError as error:
            raise StorageError(str(error)) from error

    def _hold(self) -> None:
        """Take the lock of the writer, and open its connection."""
        if self._sqlite and self._lock is None:
            self._lock = _locked(Path(str(self._url.database)))
        self._writer = self._writers.connect()
        if self._sqlite:
            return
        held = postgres.hold(self._writer)
        self._writer.commit()
        if held is not None:
            self._writer.close()
            self._writer = None
            raise _in_use(self.name, f" ({held})")


def brief(error: SQLAlchemyError) -> str:
    """The first line of the driver's message, which contains no statement and no values."""
    said = str(getattr(error, "orig", None) or type(error).__name__)
    return (said.splitlines() or [type(error).__name__])[0]


def _parsed(url: str | Path) -> URL:
    if isinstance(url, Path):
        return URL.create("sqlite", database=str(url))
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or parsed.get_backend_name() not in ("sqlite", "postgresql"):
        # The URL itself is not shown: it may hold a password.
        raise InputError(
            "`Database(database=...)`: give postgresql://USER:PASSWORD@HOST/NAME, or leave it out for SQLite."
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise InputError(
            "`Database(database='sqlite://...')`: name a file; a database in memory is lost when the service stops."
        )
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def _private_sqlite(_: Any, __: Any, arguments: Any, options: Any) -> None:
    """Make the file before SQLite does, for its owner alone; what SQLite puts beside it has the same mode."""
    with suppress(OSError):  # SQLite reports the error itself
        os.close(os.open(arguments[0], os.O_RDWR | os.O_CREAT, 0o600))


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun below, not by Python
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA busy_timeout=10000")
    cursor.execute("PRAGMA cache_size=-16384")  # KiB: a large transaction is not written twice
    cursor.execute("PRAGMA wal_autocheckpoint=4000")  # pages: fewer syncs; what a crash leaves is read in 0.1 s
    cursor.execute("PRAGMA secure_delete=ON")  # what is erased is overwritten
    cursor.close()


def _begin_sqlite(connection: sql.Connection) -> None:
    # A writer must say so at the start: a reader that becomes a writer is refused after another commit.
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


def _in_use(name: str, more: str = "") -> InputError:
    return InputError(f"{name} is in use by another service{more}; stop that one first.")
