"""Refusals: each has a stable code with its HTTP status, and all have the same form of body."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from osamd.errors import InputError
from osamd.service.database import StorageError
from osamd.service.desk import Refusal
from osamd.service.guard import HEADERS
from osamd.service.wire.responses import problem

STATUS = {
    "invalid": 422,
    "refused": 422,
    "no-such-class": 422,
    "malformed-json": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "unknown": 404,
    "not-found": 404,
    "method-not-allowed": 405,
    "not-asked": 409,
    "answered": 409,
    "expired": 409,
    "id-reused": 409,
    "held": 409,
    "not-answered": 409,
    "wild": 422,
    "timeout": 408,
    "too-large": 413,
    "overloaded": 503,
    "storage": 503,
}
"""The HTTP status of each code."""


class Refused(Refusal):
    """A refusal that says where in the request the fault is."""

    def __init__(self, code: str, message: str, where: str) -> None:
        super().__init__(code, message)
        self.where = where


def _refusal(code: str, message: str, where: str | None = None, status: int | None = None) -> JSONResponse:
    answer = JSONResponse(problem(code, message, where), status or STATUS[code])
    if answer.status_code in (408, 413):
        answer.headers["connection"] = "close"
    if answer.status_code == 503:
        answer.headers["retry-after"] = "1"
    if answer.status_code == 401:
        answer.headers["www-authenticate"] = "Bearer"
    return answer


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _refusal(error.code, error.message, getattr(error, "where", None))


async def _on_invalid(request: Request, error: Exception) -> Response:
    """The response does not repeat the request: it may be large, and is not always JSON."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part)[:100] for i, part in enumerate(first["loc"]) if i != 1 or part not in ("one", "many"))
    if first["type"] == "json_invalid":
        return _refusal("malformed-json", "the body is not JSON.")
    return _refusal("invalid", f"{str(first['msg'])[:300]}.", where[:300])


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _refusal("not-found", "there is nothing here; see /openapi.json.")
    if error.status_code == 405:
        answer = _refusal("method-not-allowed", "this path does not support the method; see /openapi.json.")
        answer.headers.update(error.headers or {})
        return answer
    code = "malformed-json" if error.status_code == 400 else "invalid"
    return _refusal(code, "the body cannot be read as JSON.", status=error.status_code)


async def _on_storage(request: Request, error: Exception) -> Response:
    return _refusal("storage", "the database cannot be reached; try again later.")


async def _on_input(request: Request, error: Exception) -> Response:
    return _refusal("invalid", str(error)[:500])


async def _on_anything(request: Request, error: Exception) -> Response:
    logging.getLogger("osamd.service").error("a request failed", exc_info=error)
    return JSONResponse(problem("internal", "something went wrong in the service; see its log."), 500, HEADERS)


HANDLERS: dict[Any, Any] = {
    Refusal: _on_refusal,
    RequestValidationError: _on_invalid,
    HTTPException: _on_http,
    StorageError: _on_storage,
    InputError: _on_input,
    Exception: _on_anything,
}
"""The handler of each kind of error."""
