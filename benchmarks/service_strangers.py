"""The service among strangers: bodies that are withheld, heads that never end, answers that nobody reads.

Strangers come from an address of their own (127.0.0.2); meanwhile somebody else asks again and again, each time on a
new connection, and the longest wait for an answer is kept.
"""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

STRANGER, HOST = "127.0.0.2", "127.0.0.1"
BODIES, HEADS, UNREAD = 250, 1500, 60
SENT = 200_000
"""Bytes that a stranger sends of a body of eight megabytes."""
SIDE = 28
"""Pixels of the images that wait for a label: a list of all is five megabytes."""
WAITING = 500
ASKED = 30
"""Requests of somebody else, while the strangers are there."""


def strangers(folder: Path, bodies: int = BODIES, heads: int = HEADS, unread: int = UNREAD) -> dict[str, Any]:
    """How much memory the strangers took, and the longest wait of somebody else, in seconds."""
    _allow_connections(heads + 200)
    content: dict[str, Any] = {}
    with _guarded(folder / "guarded") as (port, process, token):
        before = _resident(process)
        with _crowd(port, bodies, _POST + b" " * SENT):
            content["withheld_bodies"] = bodies
            content["wait_beside_withheld_bodies_s"] = _longest_wait(port, token)
            content["memory_for_withheld_bodies_mb"] = round(_resident(process) - before, 1)
        with _crowd(port, heads, b"GET /v1/status HTTP/1.1\r\nhost: "):
            content["half_heads"] = heads
            content["wait_beside_half_heads_s"] = _longest_wait(port, token)
    with _images(folder / "images") as (port, process):
        before = _resident(process)
        with _crowd(port, unread, b"GET /v1/queries?limit=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n"):
            content["unread_answers"] = unread
            content["wait_beside_unread_answers_s"] = _longest_wait(port)
            content["memory_for_unread_answers_mb"] = round(_resident(process) - before, 1)
    return content


_POST = (
    b"POST /v1/samples HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 8000000\r\n\r\n"
)


@contextmanager
def _crowd(port: int, number: int, said: bytes) -> Iterator[None]:
    """So many strangers who say this, and nothing more."""
    held = []
    try:
        for _ in range(number):
            held.append(socket.create_connection((HOST, port), 60, source_address=(STRANGER, 0)))
            held[-1].setblocking(False)
            try:
                held[-1].send(said)
            except (BlockingIOError, ConnectionError):  # a service may well show them the door
                continue
        yield
    finally:
        for one in held:
            one.close()


def _longest_wait(port: int, token: str | None = None) -> float:
    """The longest wait of somebody else, each of whose requests must be answered with 200."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    waits = []
    for _ in range(ASKED):
        start = time.perf_counter()
        httpx.get(f"http://{HOST}:{port}/v1/status", headers=headers, timeout=60).raise_for_status()
        waits.append(time.perf_counter() - start)
    return round(max(waits), 3)


@contextmanager
def _guarded(folder: Path) -> Iterator[tuple[int, int, str]]:
    """A service with a token, which strangers do not have: its port, process and token."""
    from benchmarks.service import made, started
    from osamd.service import auth, server
    from osamd.service.folder import open_state

    made(folder)
    log = server.open_log(open_state(folder), None)
    log.make_tables()
    token = auth.make_token(log, "shop", "client")
    log.close()
    process, port = started(folder)
    try:
        yield port, process.pid, token
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def _images(folder: Path) -> Iterator[tuple[int, int]]:
    """A service in which many images wait for their label: its port and process."""
    from benchmarks.service import started
    from osamd.learner.linear import OSAMD
    from osamd.service.folder import create
    from osamd.service.schema import Image, NamedClass, Schema

    schema = Schema(image=Image(height=SIDE, width=SIDE), classes=[NamedClass(name=0), NamedClass(name=1)])
    create(folder, OSAMD(features=SIDE * SIDE, classes=[0, 1], method="osamd", sigma=1e9), schema=schema)
    process, port = started(folder)
    try:
        rows = np.random.default_rng(0).random(size=(WAITING, SIDE * SIDE)).round(3).tolist()
        for start in range(0, WAITING, 100):
            body = {"samples": [{"features": row} for row in rows[start : start + 100]]}
            httpx.post(f"http://{HOST}:{port}/v1/samples", json=body, timeout=60).raise_for_status()
        yield port, process.pid
    finally:
        process.terminate()
        process.communicate()


def _resident(process: int) -> float:
    """Megabytes of memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _allow_connections(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, hard), hard))
