"""Middleware before the routes: it checks where a request comes from, and adds headers to every response.

It is plain ASGI, because server-sent events must pass through unbuffered.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osamd.service.bodies import forget
from osamd.service.wire.responses import problem

TYPES = {"/v1/samples/arrow": "application/vnd.apache.arrow.stream"}
"""The content types of these paths; all others take JSON."""
_SAFE = ("GET", "HEAD", "OPTIONS")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """Refuses requests that no route should see, and adds the headers to every response.

    `hosts`: the host names that the service answers to; None for any. Without tokens these are the names of this
    machine, so that no other site can reach the service through somebody's browser (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None = None) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, with_headers = _headers(scope), _with_headers(send)
        refusal = self._refused(scope, headers)
        if refusal is None:
            await self._app(scope, receive, with_headers)
        else:
            await forget(receive)
            await _answer(with_headers, *refusal)

    def _refused(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, str] | None:
        if self._hosts is not None and _name(headers.get("host", "")) not in self._hosts:
            return 403, "cross-site", "the service answers only to the names of this machine, such as localhost."
        if scope["method"] in _SAFE:
            return None
        site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
        if site not in ("same-origin", "none") or (origin is not None and not _same(origin, headers.get("host", ""))):
            return 403, "cross-site", "another site must not send this; use the pages of the service, or a client."
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        wanted = TYPES.get(scope["path"].removeprefix(scope.get("root_path", "")), "application/json")
        if kind != wanted:
            told = "JSON" if wanted == "application/json" else "an Arrow stream"
            return 415, "unsupported-media-type", f"send {told}, with the header Content-Type: {wanted}."
        return None


async def overloaded(scope: Scope, receive: Receive, send: Send) -> None:
    """The response if there are too many connections."""
    await _answer(_with_headers(send), 503, "overloaded", "there are too many connections; try again in a second.")


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            message["headers"] = list(message["headers"]) + [one for one in _ENCODED if one[0] not in present]
        await send(message)

    return with_headers


async def _answer(send: Any, status: int, code: str, message: str) -> None:
    body = json.dumps(problem(code, message)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 503:
        headers += [(b"connection", b"close"), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _name(host: str) -> str | None:
    """The host name in a Host header, without the port; None if there is none."""
    if len(host) > 255 or not all(33 <= ord(letter) < 127 and letter not in "/?#@\\" for letter in host):
        return None
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # an incomplete IPv6 address
        return None


def _same(origin: str, host: str) -> bool:
    return _name(host) is not None and origin.partition("://")[2] == host
