"""Starting the service: which addresses it may bind to, and how uvicorn runs it."""

from __future__ import annotations

import gc
import ipaddress
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.config import LOGGING_CONFIG

from osamd.errors import InputError
from osamd.service import auth
from osamd.service.api import make_app
from osamd.service.connections import Connection
from osamd.service.database import StorageError
from osamd.service.engine import Engine
from osamd.service.folder import CONFIG, ServiceState, create, open_state
from osamd.service.log import Log
from osamd.service.request_ids import Requests, logs_are_set_up

COLLECT = (10_000, 20, 20)
"""The thresholds of Python's garbage collector."""
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""The names of this machine."""


def open_log(state: ServiceState, database: str | None) -> Log:
    """The log of a service: the database, or SQLite in the folder."""
    log = Log(state.log_file if database is None else database)
    state.see(None if database is None else log.place)
    return log


def _remember(state: ServiceState, log: Log, database: str | None) -> None:
    state.remember(None if database is None else log.place)


@contextmanager
def opened(folder: Path, database: str | None) -> Iterator[tuple[ServiceState, Log]]:
    """A folder and its log, for a command that runs beside the service."""
    state = open_state(folder)
    log = open_log(state, database)
    try:
        log.make_tables()
        _remember(state, log, database)
        yield state, log
    except StorageError as error:
        raise InputError(f"the database {log.name} cannot be used ({error}); try again.") from error
    finally:
        log.close()


def serve(
    state: ServiceState,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    database: str | None = None,
    as_written: bool = False,
    ready: Callable[[str], None] = lambda url: None,
    **outward: Any,
) -> None:
    """Serve until the process is told to stop; `ready` gets the address once requests are accepted.

    `as_written`: see `Engine.start`; `outward`: secure_cookie, alarm_webhook and tracing of `make_app`.
    """
    log = open_log(state, database)
    engine = Engine(state, log)
    with _listening(host, port) as listening:
        engine.start(as_written)
        _remember(state, log, database)
        try:
            _run(engine, log, listening, host, ready, outward)
        finally:
            engine.stop()
    if engine.failure:
        raise InputError(
            f"the log {log.name} could not be written at the end ({engine.failure}); make room, or bring it back."
            " Nothing that was answered is lost, and the next start continues from there."
        )


def serve_streams(
    root: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    database: str | None = None,
    ready: Callable[[str], None] = lambda url: None,
    **outward: Any,
) -> None:
    """Serve every stream in a folder, each at /NAME, until the process is told to stop; `outward` as in `serve`."""
    from osamd.service.streams import Streams

    streams = Streams(root, host=host, database=database, **outward)

    @asynccontextmanager
    async def life(_: Any) -> AsyncIterator[None]:
        await streams.start()
        try:
            yield
        finally:
            await streams.stop()

    streams.app.router.lifespan_context = life
    with _listening(host, port) as listening:
        _serve_app(Requests(streams.app, outward.get("tracing")), listening, host, ready, streams.close_listeners)
    if streams.failures:
        told = "; ".join(f"{name}: {why}" for name, why in streams.failures.items())
        raise InputError(f"logs could not be written at the end ({told}). Nothing that was answered is lost.")


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise InputError(
                f"`serve(host={host!r}, port={port})`: cannot listen there ({error.strerror}); change host=... or"
                " port=... then."
            ) from error
        yield listening


def _run(
    engine: Engine,
    log: Log,
    listening: socket.socket,
    host: str,
    ready: Callable[[str], None],
    outward: dict[str, Any],
) -> None:
    open_to_all = not auth.token_names(log)
    if open_to_all and not is_loopback(host):
        raise InputError(
            f"`serve(host={host!r})`: others could reach the service, and it has no tokens yet; make some with"
            f" `osamd token {engine.state.folder} --name NAME --role client` (and annotator)."
        )
    # An open service answers only to the names of this machine.
    hosts = LOCAL_NAMES | {host} if open_to_all else None
    app = make_app(engine, log, hosts=hosts, may_open=open_to_all, **outward)
    _serve_app(Requests(app, outward.get("tracing")), listening, host, ready, app.state.parts.bell.close)


def _serve_app(
    app: Any, listening: socket.socket, host: str, ready: Callable[[str], None], close: Callable[[], None]
) -> None:
    config = uvicorn.Config(
        app,
        log_config=None if logs_are_set_up() else LOGGING_CONFIG,
        log_level="error",  # a line for every malformed request would let strangers fill the disk
        access_log=False,
        server_header=False,
        backlog=1024,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
        ws="none",
        http=Connection,
    )
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}"
    # Imported objects live as long as the service, and a large body makes thousands of objects that are no garbage.
    # With its default thresholds, the garbage collector would scan all of them again and again (a quarter of the time).
    gc.freeze()
    gc.set_threshold(*COLLECT)
    server = _Server(config, lambda: ready(address), close)
    with _ending(server):
        server.run(sockets=[listening])
    if not server.started:
        raise InputError("the service could not start; see the messages above.")


@contextmanager
def _ending(server: uvicorn.Server) -> Iterator[None]:
    """Let SIGINT and SIGTERM only stop the service properly; uvicorn would raise them again after its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    """Reports when it accepts requests, and closes the event streams before it waits for open responses."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], close: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._close = ready, close

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._close()
        await super().shutdown(sockets)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def state_of(folder: Path, model: Path | None) -> ServiceState:
    """The folder of a service; if there is none, it is made from a saved learner."""
    if (folder / CONFIG).exists():
        if model is not None:
            raise InputError(
                f"`state_of(model={str(model)!r})`: {folder} already has a learner; leave the model"
                " out, or name another folder."
            )
        return open_state(folder)
    if model is None:
        raise InputError(
            f"{folder} is not a service; make one with `osamd init {folder} --source TABLE --label COLUMN`, or give"
            " model=..., a learner that `save` wrote."
        )
    from osamd.service.creating import linear

    return create(folder, linear(model), title=model.stem)
