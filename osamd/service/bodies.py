"""The bodies of requests: they are read after the sender is known, within limits of size, time and memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from starlette.requests import Request
from starlette.types import Message, Receive

from osamd.service.desk import Refusal

LARGEST_BODY = 8 * 2**20
"""Bytes."""
LARGEST_LOGIN = 4096
"""The largest body that may be sent without a token, in bytes."""
SLOWEST_BODY = 20.0
"""Seconds for a whole body to arrive."""
SLOWEST_REFUSED = 5.0
"""Seconds for the body of a request that is refused anyway."""
MOST_OF_ONE = 64 * 2**20
"""Bytes of unfinished bodies from one address; the limit is generous, because a proxy is one address."""
_READ = 4
"""Bodies up to this many times too large are read and dropped, because a client that is cut off sees no response."""

_arriving: Counter[str] = Counter()
"""Bytes received of unfinished bodies, by address."""


async def whole(request: Request, largest: int) -> Receive | None:
    """A `receive` that returns the whole body; None if the connection closed before its end."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 12 or int(length) > _READ * LARGEST_BODY:
        raise _too_large(largest)
    address = request.client.host if request.client is not None else ""
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            body = await _read(request.receive, address, largest)
    except TimeoutError:
        raise Refusal("timeout", f"the body did not arrive within {SLOWEST_BODY:.0f} s.") from None
    return None if body is None else _given(body, request.receive)


async def forget(receive: Receive) -> None:
    """Read and drop the body of a refused request, for a while: a client that is cut off sees no response."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(SLOWEST_REFUSED):
            while size <= _READ * LARGEST_BODY:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


async def _read(receive: Receive, address: str, largest: int) -> bytes | None:
    parts, size, kept = [], 0, 0
    try:
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > _READ * LARGEST_BODY:
                raise _too_large(largest)
            if size <= largest:
                parts.append(part)
                kept += len(part)
                _arriving[address] += len(part)
                if _arriving[address] > MOST_OF_ONE:
                    raise Refusal(
                        "overloaded", "too many bytes are in transit from your address; try again in a second."
                    )
            if not message.get("more_body", False):
                break
    finally:
        _arriving[address] -= kept
        if not _arriving[address]:
            del _arriving[address]
    if size > largest:
        raise _too_large(largest)
    return b"".join(parts)


def _given(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body once, and then waits for the connection to close."""
    told = False

    async def again() -> Message:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


def _too_large(largest: int) -> Refusal:
    shown = f"{largest // 2**20} MiB" if largest >= 2**20 else f"{largest} bytes"
    return Refusal("too-large", f"the body is larger than {shown}; send smaller requests.")
