"""What stands before the routes: how large and how slow a request may be, where it may come from, and the headers.

Plain ASGI, since server-sent events must pass through it unbuffered.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osamd.service.wire import problem

LARGEST_BODY = 8 * 2**20
"""Bytes."""
_READ = 4
"""So many times larger bodies are read to their end and forgotten: who is cut off while sending sees no answer."""
SLOWEST_BODY = 20.0
"""Seconds for a whole body to arrive."""

_SAFE = ("GET", "HEAD", "OPTIONS")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class _TooLarge(Exception):
    pass


class Guard:
    """Refuses what no route should see, and adds the headers to every answer.

    `hosts`: names by which the service may be called; None for any. Without tokens they are those of this machine, so
    that no other site can reach the service through somebody's browser by a name of its own (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None = None) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, with_headers = _headers(scope), _with_headers(send)
        refusal = self._refused(scope, headers)
        try:
            async with asyncio.timeout(SLOWEST_BODY):
                body = await _whole(receive, headers)  # of a refused request too, or its sender might not see why
        except _TooLarge:
            refusal = 413, "too-large", f"the body is larger than {LARGEST_BODY // 2**20} MiB; send less at a time."
        except TimeoutError:
            refusal = 408, "timeout", f"the body did not arrive within {SLOWEST_BODY:.0f} s."
        else:
            if body is None:
                return
            if refusal is None:
                await self._app(scope, _given(body, receive), with_headers)
                return
        await _answer(with_headers, *refusal)

    def _refused(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, str] | None:
        if self._hosts is not None and _name(headers.get("host", "")) not in self._hosts:
            return 403, "cross-site", "the service answers to the names of this machine alone, such as localhost."
        if scope["method"] in _SAFE:
            return None
        site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
        if site not in ("same-origin", "none") or (origin is not None and not _same(origin, headers.get("host", ""))):
            return 403, "cross-site", "another site must not send this; use the pages of the service, or a client."
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return 415, "unsupported-media-type", "send JSON, with the header Content-Type: application/json."
        return None


async def overloaded(scope: Scope, receive: Receive, send: Send) -> None:
    """What is answered where too many are connected."""
    await _answer(_with_headers(send), 503, "overloaded", "too many are connected; try again in a second.")


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            message["headers"] = list(message["headers"]) + [
                (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in present
            ]
        await send(message)

    return with_headers


async def _whole(receive: Receive, headers: dict[str, str]) -> bytes | None:
    """The body, where it is not too large; None where the connection ended within it."""
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 12 or int(length) > _READ * LARGEST_BODY:
        raise _TooLarge
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > _READ * LARGEST_BODY:
            raise _TooLarge
        if size <= LARGEST_BODY:
            parts.append(part)
        if not message.get("more_body", False):
            break
    if size > LARGEST_BODY:
        raise _TooLarge
    return b"".join(parts)


def _given(body: bytes, receive: Receive) -> Receive:
    """A `receive` that hands out the body, and then waits for the end of the connection."""
    told = False

    async def again() -> Message:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


async def _answer(send: Any, status: int, code: str, message: str) -> None:
    body = json.dumps(problem(code, message)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status in (408, 413, 503):
        headers.append((b"connection", b"close"))
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _name(host: str) -> str | None:
    """The name in a Host header, without the port; None where there is none."""
    if len(host) > 255 or not all(33 <= ord(letter) < 127 and letter not in "/?#@\\" for letter in host):
        return None
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # half an address of IPv6
        return None


def _same(origin: str, host: str) -> bool:
    return _name(host) is not None and origin.partition("://")[2] == host
