"""Starting the service: what it may bind to, and uvicorn under it."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from osamd.errors import InputError
from osamd.service import auth
from osamd.service.api import make_app
from osamd.service.engine import Engine
from osamd.service.guard import overloaded
from osamd.service.log import Log, StorageError
from osamd.service.state import CONFIG, State, create, open_state

MOST_CONNECTIONS = 768
"""More than requests may wait for the engine, so that overload is told as such."""
LARGEST_HEAD = 64 * 2**10
"""Bytes of the line and the headers of a request."""
COLLECT = (10_000, 20, 20)
"""Python's thresholds for the collector of cycles."""
SLOWEST_HEAD = 30.0
"""Seconds for them to arrive, about: connections are looked at so often."""


def open_log(state: State, database: str | None) -> Log:
    """The log of a service: the database, or SQLite in the folder."""
    return Log(state.log_file if database is None else database)


@contextmanager
def opened(folder: Path, database: str | None) -> Iterator[tuple[State, Log]]:
    """A folder and its log, for a command that uses it beside the service."""
    state = open_state(folder)
    log = open_log(state, database)
    try:
        log.make_tables()
        yield state, log
    except StorageError as error:
        raise InputError(f"the database {log.name} cannot be used ({error}); try again.") from error
    finally:
        log.close()


def serve(
    state: State,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    database: str | None = None,
    secure_cookie: bool = False,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until the process is told to end; `ready` gets the address once samples are taken."""
    log = open_log(state, database)
    engine = Engine(state, log)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise InputError(
                f"`--host {host} --port {port}`: cannot listen there ({error.strerror}); give another --port or --host."
            ) from error
        engine.start()
        try:
            _run(engine, log, listening, host, secure_cookie, ready)
        finally:
            engine.stop()


def _run(
    engine: Engine, log: Log, listening: socket.socket, host: str, secure_cookie: bool, ready: Callable[[str], None]
) -> None:
    open_to_all = not auth.token_names(log)
    if open_to_all and not is_loopback(host):
        raise InputError(
            f"`--host {host}`: others could reach the service, and it has no tokens yet; make some by"
            f" `osamd token {engine.state.folder} --name NAME --role client` (and annotator)."
        )
    # By an open service only names of this machine are answered to.
    hosts = frozenset({"localhost", "127.0.0.1", "::1", host}) if open_to_all else None
    app = make_app(engine, log, hosts=hosts, secure_cookie=secure_cookie, may_open=open_to_all)
    config = uvicorn.Config(
        app,
        log_level="error",  # a line for every malformed request would let strangers fill the disk
        access_log=False,
        server_header=False,
        backlog=1024,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
        ws="none",
        http=_Connection,
    )
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}"
    # What was imported lives as long as the service, and a large body makes thousands of objects that are no garbage:
    # the collector of cycles, left as it is, would look through all of them again and again (a quarter of the time).
    gc.freeze()
    gc.set_threshold(*COLLECT)
    server = _Server(config, lambda: ready(address), app.state.parts.bell.close)
    with _ending(server):
        server.run(sockets=[listening])
    if not server.started:
        raise InputError("the service could not start; see above.")


@contextmanager
def _ending(server: uvicorn.Server) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the service properly and nothing more: uvicorn sends them again when it has ended."""
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


class _Connection(HttpToolsProtocol):
    """Refuses where there are too many, and ends one on which no request arrives for long, or one without end; bodies
    are the guard's."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self.app = overloaded
        self._seen: object = None
        self._head = 0
        self._look = self.loop.call_later(SLOWEST_HEAD, self._looked)

    def connection_lost(self, error: Exception | None) -> None:
        self._look.cancel()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        within_body = before is not None and before.more_body
        super().data_received(data)
        self._head = 0 if within_body or self.cycle is not before else self._head + len(data)
        if self._head > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def _looked(self) -> None:
        """Close where nothing is being answered, and nothing was since the last look."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if not answering and self.cycle is self._seen:
            self.transport.close()
            return
        self._seen = self.cycle
        self._look = self.loop.call_later(SLOWEST_HEAD, self._looked)


class _Server(uvicorn.Server):
    """Says when it takes requests, and ends the listeners before it waits for those who are still answered."""

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
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def state_of(folder: Path, model: Path | None) -> State:
    """The folder of a service; made from a saved learner where there is none."""
    if (folder / CONFIG).exists():
        if model is not None:
            raise InputError(f"`--model {model}`: {folder} has a learner already; leave it out, or give another --dir.")
        return open_state(folder)
    if model is None:
        raise InputError(
            f"{folder} is no service; make one by `osamd init {folder} --source TABLE --label COLUMN`, or give"
            " --model FILE, a learner that `save` wrote."
        )
    from osamd.service.making import linear

    return create(folder, linear(model), title=model.stem)
