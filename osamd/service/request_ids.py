"""Request ids: each request has one in its response and in the log, and a span if OpenTelemetry is used.

`X-Request-ID` is taken from the client or the proxy, or else generated. With `--log-format json` the process log has
one JSON object per line, and a line for every request.
"""

from __future__ import annotations

import json
import logging
import random
import re
import sys
import time
from contextlib import nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osamd.errors import InputError, nearest

FORMATS = ("text", "json")
HEADER = b"x-request-id"
KNOWN_ID = re.compile(rb"[\x21-\x7e]{1,128}")
"""A valid id: printable ASCII without spaces. Anything else is replaced."""

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered."""
_answers = logging.getLogger("osamd.requests")


class Requests:
    """Wraps the app: each request gets an id, a log line, and a span if there is a tracer."""

    def __init__(self, app: ASGIApp, tracing: Any = None) -> None:
        self._app, self._tracing = app, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == HEADER), b"")
        # Not `os.urandom`: it lets other threads run, which costs more than all else here.
        name = given if KNOWN_ID.fullmatch(given) else f"{random.getrandbits(64):016x}".encode()
        start, status = time.perf_counter(), 0

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (HEADER, name)]
            await send(message)

        before = request_id.set(name.decode())
        try:
            with nullcontext() if self._tracing is None else self._tracing.request(scope) as span:
                try:
                    await self._app(scope, receive, named)
                finally:
                    if span is not None:
                        self._tracing.answered(span, scope, status, name.decode())
                    if _answers.isEnabledFor(logging.INFO):
                        _answers.info("answered", extra={"fields": _told(scope, status, time.perf_counter() - start)})
        finally:
            request_id.reset(before)


def route_of(scope: Scope) -> str:
    """The route after the name of the stream; requested paths are not recorded."""
    return str(scope.get("root_path", "")) + str(getattr(scope.get("route"), "path", "other"))


def _told(scope: Scope, status: int, seconds: float) -> dict[str, Any]:
    client = scope.get("client")
    return {
        "method": scope["method"],
        "route": route_of(scope),
        "status": status,
        "ms": round(1e3 * seconds, 2),
        "client": client[0] if client else None,
    }


class JsonLines(logging.Formatter):
    """Formats a log record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (name := request_id.get()) is not None:
            told["request_id"] = name
        told |= getattr(record, "fields", {}) | _trace()
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


def _trace() -> dict[str, str]:
    """The ids of the current span, if there are traces."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"} if context.is_valid else {}


def set_up_logs(form: str) -> None:
    """Write the process log as text, the default, or as JSON lines."""
    if form not in FORMATS:
        raise InputError(f"`set_up_logs(log_format={form!r})`: no such format. {nearest(form, FORMATS)}")
    if form == "text":
        return
    lines = logging.StreamHandler()
    lines.setFormatter(JsonLines())
    for name in ("osamd", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [lines], False
    _answers.setLevel(logging.INFO)


def logs_are_set_up() -> bool:
    """Whether the logs are set up here, so that uvicorn must not change them."""
    return any(isinstance(one.formatter, JsonLines) for one in logging.getLogger("uvicorn").handlers)
