"""What the tests of HTTP share: the app in this process, asked by bare ASGI messages, and a server of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Self
from unittest.mock import patch
from urllib.parse import unquote, urlsplit

import sqlalchemy as sql
import uvicorn
from engine_cases import linear_state, row

from osamd.service import log as logs
from osamd.service import server
from osamd.service.api import make_app
from osamd.service.engine import Engine
from osamd.service.folder import ServiceState, open_state
from osamd.service.log import Log

small_state = linear_state
JSON = (("content-type", "application/json"),)
Headers = Iterable[tuple[str, str]]


class Reply(NamedTuple):
    """An answer; `headers` as they came, names in small letters."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json()["error"]["code"])

    def header(self, name: str) -> str | None:
        return next((value for known, value in self.headers if known == name), None)


class Web:
    """The app around an engine, in a loop in a thread; leaving it stops both."""

    def __init__(
        self, state: ServiceState, *, url: str | None = None, clock: Callable[[], float] = time.time, **options: Any
    ) -> None:
        self.log = Log(url or state.log_file)
        self.engine = Engine(state, self.log, clock, clock)
        self.app = make_app(self.engine, self.log, **options)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._life = self.app.router.lifespan_context(self.app)

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._life.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._life.__aexit__(None, None, None))
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def get(self, target: str, headers: Headers = ()) -> Reply:
        return self.send("GET", target, headers)

    def post(self, target: str, body: Any, headers: Headers = ()) -> Reply:
        return self.send("POST", target, [*JSON, *headers], json.dumps(body).encode())

    def send(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Reply:
        return self.run(ask(self.app, method, target, headers, [body]))

    def label_all(self, name: str = "cat") -> None:
        """Answer every query that waits."""
        for query in self.get("/v1/queries?limit=1000").json()["queries"]:
            assert self.post("/v1/labels", {"round": query["round"], "label": name}).status == 200

    def queries(self, number: int) -> list[int]:
        """Send samples until so many queries wait; their rounds."""
        for sent in range(500):
            waiting = self.get("/v1/queries?limit=1000").json()["queries"]
            if len(waiting) >= number:
                return [query["round"] for query in waiting]
            assert self.post("/v1/samples", {"features": row(sent).tolist()}).status == 200
        raise AssertionError("too few samples are queries")

    def no_query(self) -> int:
        """Send samples, and answer their queries, until one is no query; its round."""
        for number in range(500):
            told = self.post("/v1/samples", {"features": row(number).tolist()}).json()
            if not told["query"]:
                return int(told["round"])
            self.post("/v1/labels", {"round": told["round"], "label": "cat" if number % 3 else "dog"})
        raise AssertionError("every sample is a query")

    def facts(self) -> dict[str, Any]:
        """All that a request may have changed: the learner, the log, the rows of every table."""
        status = self.engine.status()
        with self.log.reading() as connection:
            count = sql.select(sql.func.count())
            rows = {name: connection.execute(count.select_from(table)).scalar() for name, table in TABLES.items()}
        return {"status": status, "rows": rows, "learner": digest(self.engine._live.learner.to_bytes())}


def digest(saved: bytes) -> str:
    """The digest that the header of a saved learner states; the order within the header is not fixed."""
    header = json.loads(saved[8 : 8 + int.from_bytes(saved[:8], "little")])
    return str(header["__metadata__"]["digest"])


TABLES = dict(logs.tables.tables)


async def ask(
    app: Any, method: str, target: str, headers: Headers = (), parts: Sequence[bytes] = (b"",), *, ends: bool = True
) -> Reply:
    """One request by ASGI messages; `ends` says whether the last part is the end of the body, or the connection's."""
    path, _, query = target.partition("?")
    given = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    if not any(name == b"host" for name, _ in given):
        given.append((b"host", b"localhost"))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": given,
        "client": ("127.0.0.1", 9),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
    left = list(parts)
    sent: list[Any] = []

    async def receive() -> Any:
        if left:
            part = left.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(left) or not ends}
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    if not sent:
        return Reply(0, [], b"")
    answered = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in sent[0]["headers"]]
    return Reply(sent[0]["status"], answered, b"".join(message.get("body", b"") for message in sent[1:]))


class Asked:
    """A server at a port, asked over connections."""

    url: str

    def __enter__(self) -> Self:
        return self

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def connect(self, timeout: float = 60.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def raw(self, data: bytes) -> bytes:
        """Send these bytes; what comes until the other side closes."""
        with self.connect() as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return _until_closed(connection)

    def send(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Reply:
        """One request on a connection of its own."""
        lines = [f"{method} {target} HTTP/1.1", f"host: {urlsplit(self.url).netloc}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in headers] + [f"content-length: {len(body)}"]
        with self.connect() as connection:
            connection.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            return parsed(_until_closed(connection))

    def get(self, target: str) -> Any:
        return self.send("GET", target).json()

    def post(self, target: str, body: Any) -> Any:
        return self.send("POST", target, JSON, json.dumps(body).encode()).json()


class Served(Asked):
    """A server in a process of its own, at a port of the system's choice; `before` is Python run there first.

    For tests that kill it, read what it wrote, or measure it; a new process takes about two seconds of a processor.
    """

    def __init__(self, state: ServiceState, before: str = "") -> None:
        self.state = state
        program = (
            f"{before}\nfrom pathlib import Path\nfrom osamd.service.server import serve\n"
            "from osamd.service.folder import open_state\n"
            f"serve(open_state(Path({str(state.folder)!r})), port=0, ready=lambda url: print(url, flush=True))"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise AssertionError(self.process.communicate()[1])
        self.errors = ""

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> int:
        """Tell it to end as a supervisor does; what it wrote to its log is in `errors`."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
        self.errors += self.process.communicate(timeout=60)[1]
        return self.process.returncode


class ServedHere(Asked):
    """The same server in a thread of this process, or one for all streams of a folder."""

    def __init__(self, place: ServiceState | Path) -> None:
        self.state = place
        serve = server.serve_streams if isinstance(place, Path) else server.serve
        opened = place if isinstance(place, Path) else open_state(place.folder)
        servers: list[uvicorn.Server] = []
        ready: SimpleQueue[str] = SimpleQueue()

        class Kept(server._Server):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                servers.append(self)

        self._thread = ThreadPoolExecutor(1)
        # The garbage collector of the tests stays as it is.
        with patch.object(server, "_Server", Kept), patch.object(server, "gc"):
            self._served = self._thread.submit(serve, opened, port=0, ready=ready.put)
            self._served.add_done_callback(lambda _: ready.put(""))
            self.url = ready.get(timeout=60)
        if not self.url:
            self._served.result()
        (self._server,) = servers

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._server.should_exit = True
        self._served.result(60)
        self._thread.shutdown()


def _until_closed(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def parsed(data: bytes) -> Reply:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return Reply(int(first.split()[1]), headers, body)


def until(met: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """Wait for a condition; the deadline is for a test that would never end."""
    end = time.monotonic() + seconds
    while not (found := met()):
        assert time.monotonic() < end, f"it never came to pass: {what}"
        threading.Event().wait(0.01)
    return found
