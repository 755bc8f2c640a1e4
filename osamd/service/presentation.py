"""How decisions and queries are shown, to programs and to people."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from osamd.service.access import ServiceParts
from osamd.service.desk import Waiting
from osamd.service.display import displays_of
from osamd.service.log import Event
from osamd.service.wire import responses

BLOCK = 20
"""Queries that are prepared at a time: a client that does not read the response costs no more than these."""


def shares(parts: ServiceParts, event: Event) -> dict[str, float]:
    """The probabilities of the classes in a recorded decision, by the text of their names."""
    return {str(name): share for name, share in parts.engine.probabilities(event).items()}


def decided(parts: ServiceParts, event: Event) -> responses.Decided:
    """The response to a sample."""
    return responses.Decided.model_validate(
        {
            "round": event.round,
            "id": event.client_id,
            "label": parts.classes[event.decision or 0],
            "probabilities": shares(parts, event),
            "margin": event.margin,
            "query": event.query,
            "probability": event.probability,
            "withheld": event.withheld,
        }
    )


def query(parts: ServiceParts, one: Waiting, kept: dict[str, Any]) -> responses.PendingQuery:
    """A query as people and programs see it; `kept` is what is stored for people to see."""
    event, row = one.event, np.frombuffer(one.event.features or b"")
    left = parts.engine.lease_left(one)
    return responses.PendingQuery.model_validate(
        {
            "round": event.round,
            "id": event.client_id,
            "asked_at": event.at,
            "guess": parts.classes[event.decision or 0],
            "probabilities": shares(parts, event),
            "margin": event.margin,
            "features": parts.schema.shown(row, kept.get("raw")),
            "image": parts.schema.pixels(row),
            "display": _display(event.round, kept),
            "second": one.first is not None,
            "skips": one.skips,
            "held": left is not None,
            "lease_until": None if left is None else parts.engine.now() + left,
        }
    )


def _display(number: int, kept: dict[str, Any]) -> dict[str, Any] | None:
    if not kept.keys() - {"raw"}:
        return None
    fields = kept.get("fields")
    listed = None if fields is None else [{"name": name, "value": value} for name, value in fields.items()]
    places = {place: f"v1/queries/{number}/{place}" if place in kept else None for place in ("image", "audio")}
    return {"text": kept.get("text"), "fields": listed, "link": kept.get("link")} | places


async def queries(parts: ServiceParts, waiting: Sequence[Waiting], pending: int) -> Response:
    """The response that lists queries; a long one is streamed as the client reads it."""
    document = _document(parts, waiting, pending)
    if len(waiting) > BLOCK:
        return StreamingResponse(document, media_type="application/json")
    return Response(b"".join([part async for part in document]), media_type="application/json")


async def _document(parts: ServiceParts, waiting: Sequence[Waiting], pending: int) -> AsyncIterator[bytes]:

    def block(some: Sequence[Waiting]) -> bytes:
        with parts.log.reading() as connection:
            kept = displays_of(connection, [one.event.round for one in some])
        return b",".join(to_json(query(parts, one, kept.get(one.event.round, {}))) for one in some)

    yield b'{"queries":['
    for start in range(0, len(waiting), BLOCK):
        async with parts.listing:
            listed = await run_in_threadpool(block, waiting[start : start + BLOCK])
        yield (b"," if start else b"") + listed
    yield b'],"pending":%d}' % pending
