"""A small service to test: a folder around a linear learner, logs in SQLite and in a PostgreSQL of our own, engines."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs its extra: pip install 'osamd[service]'")
sql = pytest.importorskip("sqlalchemy", reason="the service needs its extra: pip install 'osamd[service]'")

from engine_cases import Clock, Service, linear_state  # noqa: E402


class Postgres:
    """A server for the tests alone: its files in a temporary folder, reached by a socket there, syncing as always."""

    database = "tests"

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._numbers = itertools.count()
        # PostgreSQL refuses to be run by root, and sockets must have short names.
        self._folder = Path(tempfile.mkdtemp(prefix="osamd-pg-"))
        self._user = _plain_user() if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self._folder, self._user, -1)
        self._data = self._folder / "data"
        self._run("initdb", "-D", self._data, "-U", "osamd", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        self._control("start")
        # Its input ends with this process, however that ends, and then the server goes too.
        end = 'read _; "$0" -D "$1/data" -w -m immediate stop; rm -rf "$1"'
        command = ["sh", "-c", end, str(binaries / "pg_ctl"), str(self._folder)]
        quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
        self._guard = subprocess.Popen(
            command, stdin=pipe, stdout=quiet, cwd="/", user=self._user, start_new_session=True
        )
        self._admin, self._inside = (
            sql.create_engine(self.url(name), isolation_level="AUTOCOMMIT", poolclass=sql.NullPool)
            for name in ("postgres", self.database)
        )
        self.do(f"CREATE DATABASE {self.database}")

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://osamd@/{name}?host={self._folder}"

    def fresh(self) -> str:
        """The address of an empty schema, for one service at a time: those before lose their connections.

        A database for each would do too, and takes a hundred times as long.
        """
        name = f"test{next(self._numbers)}"
        self.do(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.database}'")
        with self._inside.connect() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {name}")
        return f"{self.url(self.database)}&options=-csearch_path%3D{name}"

    def do(self, statement: str) -> list[tuple[object, ...]]:
        with self._admin.connect() as connection:
            found = connection.exec_driver_sql(statement)
            return [tuple(row) for row in found] if found.returns_rows else []

    def restart(self) -> None:
        """All connections are lost."""
        self._control("restart", "-m", "fast")

    def stop(self) -> None:
        self._guard.communicate()

    def _control(self, *what: str) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self._folder} -c fsync=on"
        self._run("pg_ctl", "-D", self._data, "-w", "-l", self._folder / "log", "-o", options, *what)

    def _run(self, name: str, *arguments: object) -> None:
        command = [str(self._binaries / name), *map(str, arguments)]
        subprocess.run(command, check=True, cwd="/", user=self._user, stdout=subprocess.DEVNULL)


def _plain_user() -> int:
    known = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    return known.get("postgres", known.get("nobody", 65534))


@pytest.fixture(scope="session")
def postgres():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    beside = shutil.which("initdb")
    if not found and beside is None:
        pytest.skip("PostgreSQL is not installed here: apt-get install postgresql")
    pytest.importorskip("psycopg", reason="the driver of PostgreSQL is in the extra: pip install 'osamd[service]'")
    server = Postgres((found[-1] if found else Path(str(beside))).parent)
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request, tmp_path_factory):
    """Makes addresses of empty databases."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres").fresh
    return lambda: f"sqlite:///{tmp_path_factory.mktemp('log') / 'log.sqlite'}"


@pytest.fixture
def log_url(new_url):
    """The address of an empty database, in SQLite and in PostgreSQL."""
    return new_url()


@pytest.fixture
def state(tmp_path):
    """The folder of a service around a small linear learner that asks for about half of the labels."""
    return linear_state(tmp_path / "state")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def service(state, log_url, clock):
    """An engine that is started, over the log of `log_url`, with `clock` for its time."""
    with Service(state, log_url, clock) as started:
        yield started
