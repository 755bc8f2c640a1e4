"""Requests that nobody should send, made from a seed: what a service must refuse, or answer without any change.

    found = hostile(client, 10_000, seed=0)

`client` sends an attempt and gives the status; `over_sockets` is one for a service that listens. No attempt is a valid
command, so a service that is as it should be has the same log, the same learner and the same tables afterwards;
`hostile_service` starts one and sees to that.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.hostile_values import BROKEN, HEADERS, JSON, METHODS, NASTY, NOISE, PATHS, POSTS, READS, VAIN, WRONG

HARMLESS = {200, 206, 307}
"""Statuses that an attempt to read may get: pages, figures, how the service stands."""


class Attempt(NamedTuple):
    """One request."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def short(self) -> str:
        return f"{self.method} {self.target[:80]} {str(self.headers)[:200]} {self.body[:80]!r}"


def hostile(client: Callable[[Attempt], int], number: int, seed: int) -> Counter[int]:
    """Send so many attempts; how many were answered by which status. An AssertionError names one that got a 500."""
    found: Counter[int] = Counter()
    for attempt in attempts(number, seed):
        status = client(attempt)
        assert status != 500, attempt.short
        found[status] += 1
    return found


def attempts(number: int, seed: int) -> Iterator[Attempt]:
    """The list of known tricks first, then spoilt commands."""
    told = 0
    for attempt in _known():
        if told == number:
            return
        told += 1
        yield attempt
    dice = random.Random(seed)
    while told < number:
        told += 1
        yield dice.choice((_spoilt, _spoilt, _spoilt, _cut, _noisy, _elsewhere, _vain))(dice)


def over_sockets(host: str, port: int) -> Callable[[Attempt], int]:
    """A client of a service that listens, a connection for each attempt; 0 where that was closed without a word."""

    def send(attempt: Attempt) -> int:
        given = dict(attempt.headers)
        lines = [f"{attempt.method} {attempt.target} HTTP/1.1", "connection: close"]
        lines += [] if "host" in given else [f"host: {host}:{port}"]
        lines += [f"{name}: {value}" for name, value in attempt.headers]
        head = "\r\n".join([*lines, f"content-length: {len(attempt.body)}", "", ""]).encode("latin-1", "replace")
        answer = b""
        with socket.create_connection((host, port), 60.0) as connection:
            try:
                connection.sendall(head + attempt.body)
                while part := connection.recv(65536):
                    answer += part
            except (BrokenPipeError, ConnectionResetError):
                pass
        return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0

    return send


def hostile_service(folder: Path, number: int, seed: int) -> dict[str, Any]:
    """Start a service with some history, send it so many attempts, and count what they did."""
    from benchmarks.service import started
    from osamd.learner.linear import OSAMD
    from osamd.service.folder import create

    place = folder / "under-attack"
    create(place, OSAMD(features=3, classes=["cat", "dog"], method="osamd", sigma=2.0))
    process, port = started(place)
    try:
        client = over_sockets("127.0.0.1", port)
        _history(client)
        Counter(map(client, attempts(1000, seed + 1)))  # by now Python's own caches and pools are as large as they get
        before, memory = _rows(place), _resident(process.pid)
        found = Counter(map(client, attempts(number, seed)))
        after, grown = _rows(place), _resident(process.pid) - memory
        alive = client(Attempt("GET", "/healthz", (), b"")) == 200
    finally:
        process.terminate()
        process.wait()
    return {
        "requests": number,
        **{f"answered_{status}": count for status, count in sorted(found.items()) if status},
        "closed_without_an_answer": found[0],
        "server_errors": sum(count for status, count in found.items() if status >= 500),
        "tables_changed": sum(before[name] != after[name] for name in before),
        "learner_changed": int(not _learner_is_the_logs(place)),
        "stopped_serving": int(not alive),
        "memory_grown_mib": round(grown / 2**20, 1),
    }


def _history(client: Callable[[Attempt], int]) -> None:
    """Samples, of which some are queries, a label, a claim."""
    dice = random.Random(0)
    commands: list[tuple[str, Any]] = [
        ("/v1/samples", {"features": [dice.gauss(0, 1) for _ in range(3)], "id": f"s{i}"}) for i in range(100)
    ]
    commands += [("/v1/labels", {"labels": [{"round": 0, "label": "cat"}, {"round": 1, "label": "dog"}]})]
    commands += [("/v1/queries/claim", {"holder": "somebody", "lease": 3600})]
    for path, body in commands:
        status = client(Attempt("POST", path, (JSON,), json.dumps(body).encode()))
        assert status == 200, (path, status)


def _rows(folder: Path) -> dict[str, tuple[int, str]]:
    """How many rows every table of the database has, and their digest; without the time of the last health probe."""
    told = {}
    with closing(sqlite3.connect(folder / "log.sqlite")) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = [row for row in database.execute(f"SELECT * FROM {name} ORDER BY 1") if row[0] != "probe"]
            told[name] = len(rows), hashlib.sha256(repr(rows).encode()).hexdigest()
    return told


def _resident(process: int) -> int:
    """Bytes of memory, where the system tells them."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _learner_is_the_logs(folder: Path) -> bool:
    """Whether the learner that the service kept when it stopped is the one that the log alone gives."""
    from osamd.service.fold import Fold
    from osamd.service.folder import open_state
    from osamd.service.log import Log

    log = Log(folder / "log.sqlite")
    kept, fold = log.snapshot(), Fold(open_state(folder), None)
    for event in log.all_since(0):
        fold.repeat(event)
    log.close()
    return kept is not None and _digest(kept.learner) == _digest(fold.learner.to_bytes())


def _digest(saved: bytes) -> str:
    header = json.loads(saved[8 : 8 + int.from_bytes(saved[:8], "little")])
    return str(header["__metadata__"]["digest"])


def _known() -> Iterator[Attempt]:
    for path, bodies in POSTS.items():
        for broken in BROKEN:
            if not (path.endswith("skip") and broken == b""):
                yield Attempt("POST", path, (JSON,), broken)
        for headers in HEADERS:
            yield _with(headers, "POST", path, json.dumps(bodies[0]).encode())
        for method in METHODS:
            yield Attempt(method, path, (JSON,), json.dumps(bodies[0]).encode())
    yield Attempt("POST", "/v1/samples", (JSON,), b" " * (9 * 2**20))
    for path in PATHS:
        yield Attempt("GET", path, (), b"")
        if "/expire" not in path:
            yield Attempt("POST", path, (JSON,), b"{}")
    for path in READS:
        for noise in (*NOISE, *HEADERS):
            yield Attempt("GET", path, noise, b"")
        for method in METHODS:
            yield Attempt(method, path, (JSON,), b"")


def _with(headers: tuple[tuple[str, str], ...], method: str, path: str, body: bytes) -> Attempt:
    """A command with these headers, and the right content type where they do not spoil it."""
    spoilt = any(name == "content-type" for name, _ in headers)
    return Attempt(method, path, headers if spoilt else (JSON, *headers), body)


def _spoilt(dice: random.Random) -> Attempt:
    """A command with one value in it replaced, or a field that nobody knows."""
    path = dice.choice(list(POSTS))
    body = json.loads(json.dumps(dice.choice(POSTS[path])))
    holder, key, kind = dice.choice(list(_places(body)))
    if kind == "optional" or (path == "/v1/queries/expire" and dice.random() < 0.5):
        body = {**body, dice.choice(("admin", "constructor", "", "a" * 300, "samples ", "\x00")): dice.choice(NASTY)}
    else:
        holder[key] = dice.choice(WRONG[kind])
    noise = dice.choice(NOISE)
    return Attempt("POST", path, (JSON, *noise), json.dumps(body, ensure_ascii=dice.random() < 0.5).encode())


def _places(body: Any) -> Iterator[tuple[Any, Any, str]]:
    """Where a command can be spoilt: the object, the key, and what belongs there."""
    for key, value in list(body.items()):
        if key in ("features", "samples", "labels"):
            yield body, key, "list"
            for i, inner in enumerate(value) if isinstance(value, list) else ():
                if isinstance(inner, dict):
                    yield from _places(inner)
                else:
                    yield value, i, "number"
            for name in value if isinstance(value, dict) else ():
                yield value, name, "number"
        elif key in ("round", "older_than", "limit"):
            yield body, key, "whole"
        elif key == "lease":
            yield body, key, "number"
        else:
            yield body, key, {"label": "label", "token": "token"}.get(key, "text")


def _cut(dice: random.Random) -> Attempt:
    """A command with its bytes cut, doubled or changed, so that it is no JSON."""
    path = dice.choice(list(POSTS))
    body = json.dumps(dice.choice(POSTS[path])).encode()
    place = dice.randrange(1, len(body))
    body = dice.choice((body[:place], body + body, body[:place] + b"\xff" + body[place:], b"\x00" + body, body + b","))
    return Attempt("POST", path, (JSON, *dice.choice(NOISE)), body)


def _noisy(dice: random.Random) -> Attempt:
    """A command that is valid, from where it must not come."""
    path = dice.choice(list(POSTS))
    body = json.dumps(dice.choice(POSTS[path])).encode()
    return _with(dice.choice(HEADERS) + dice.choice(NOISE), "POST", path, body)


def _vain(dice: random.Random) -> Attempt:
    path, body = dice.choice(VAIN)
    return Attempt("POST", path, (JSON, *dice.choice(NOISE)), json.dumps(body).encode())


def _elsewhere(dice: random.Random) -> Attempt:
    """Something else than a command: another method, another path, made of pieces."""
    pieces = [
        "v1",
        "samples",
        "labels",
        "queries",
        "0",
        "skip",
        "..",
        "%2e%2e",
        "%00",
        "assets",
        "",
        "*",
        "~",
        "status",
    ]
    path = "/" + "/".join(dice.choice(pieces) for _ in range(dice.randrange(1, 6)))
    return Attempt(dice.choice((*METHODS, "GET")), path, (JSON, *dice.choice(NOISE)), dice.choice(BROKEN[:10]))
