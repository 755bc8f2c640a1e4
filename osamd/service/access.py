"""What every route is given: the parts of the service, and who sends the request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool

from osamd.service import auth, sse
from osamd.service.engine import Engine, Refusal, Waiting
from osamd.service.log import Event, Log
from osamd.service.metrics import Metrics
from osamd.service.schema import Schema


@dataclass
class Parts:
    """What the routes use."""

    engine: Engine
    log: Log
    door: auth.Doorkeeper
    bell: sse.Bell
    metrics: Metrics
    secure_cookie: bool

    def __post_init__(self) -> None:
        classes = [one.name for one in self.engine.state.schema.classes]
        self.classes = classes
        # A class may be named as JSON has it, or by its text, as probabilities are.
        self.index: dict[Any, int] = {str(name): i for i, name in enumerate(classes)}
        self.index |= {name: i for i, name in enumerate(classes)}

    @property
    def schema(self) -> Schema:
        return self.engine.state.schema

    def class_of(self, label: Any) -> int:
        """The index of a class."""
        found = self.index.get(label)
        if found is None:
            known = ", ".join(repr(name) for name in self.classes[:10])
            raise Refusal("no-such-class", f"there is no class {label!r:.100}; give one of {known}.")
        return found

    def shares(self, event: Event) -> dict[str, float]:
        """The probabilities of the classes, of a recorded decision."""
        return {str(name): share for name, share in self.engine.probabilities(event).items()}

    def decided(self, event: Event) -> dict[str, Any]:
        """The answer to a sample."""
        return {
            "round": event.round,
            "id": event.client_id,
            "label": self.classes[event.decision or 0],
            "probabilities": self.shares(event),
            "margin": event.margin,
            "query": event.query,
            "probability": event.probability,
            "withheld": event.withheld,
        }

    def query(self, one: Waiting, now: float) -> dict[str, Any]:
        """A query as people and programs see it."""
        event, row = one.event, np.frombuffer(one.event.features or b"")
        return {
            "round": event.round,
            "id": event.client_id,
            "asked_at": event.at,
            "guess": self.classes[event.decision or 0],
            "probabilities": self.shares(event),
            "margin": event.margin,
            "features": self.schema.shown(row),
            "image": self.schema.pixels(row),
            "skips": one.skips,
            "held": one.held(now),
            "lease_until": one.until if one.held(now) else None,
        }


def parts_of(request: Request) -> Parts:
    """What the app was made with."""
    found: Parts = request.app.state.parts
    return found


_bearer = HTTPBearer(auto_error=False, description="A token that `osamd token` made.")
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
App = Annotated[Parts, Depends(parts_of)]


async def person(request: Request, bearer: Bearer) -> auth.Person:
    """Who sends the request, by token or by cookie."""
    known: auth.Person | None = getattr(request.state, "person", None)
    if known is not None:
        return known
    door = parts_of(request).door
    if door.stale:
        await run_in_threadpool(door.refresh)
    if door.open:
        return auth.LOCAL
    cookie = request.cookies.get(auth.COOKIE)
    found = None
    if bearer is not None:
        found = door.by_token(bearer.credentials)
    elif cookie is not None:
        found = await run_in_threadpool(door.by_cookie, cookie)
    if found is None:
        raise Refusal("unauthorised", "give a token: Authorization: Bearer TOKEN, or log in at /login.")
    return found


Anyone = Annotated[auth.Person, Depends(person)]


async def annotator(who: Anyone) -> auth.Person:
    """Who may see and answer queries."""
    if "annotator" not in who.roles:
        raise Refusal("forbidden", "this takes a token with the role annotator.")
    return who


async def client(who: Anyone) -> auth.Person:
    """Who may send samples."""
    if "client" not in who.roles:
        raise Refusal("forbidden", "this takes a token with the role client.")
    return who


Annotator = Annotated[auth.Person, Depends(annotator)]
Client = Annotated[auth.Person, Depends(client)]


class _Request(Request):
    """Reads JSON by pydantic's own reader, in a third of the time of Python's."""

    async def json(self) -> Any:
        return from_json(await self.body(), allow_inf_nan=False)


class QuickRoute(APIRoute):
    """Of requests that read JSON so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def quick(request: Request) -> Response:
            return await handler(_Request(request.scope, request.receive))

        return quick


class KnownRoute(QuickRoute):
    """Asks who it is before it reads what they send."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def known(request: Request) -> Response:
            request.state.person = await person(request, await _bearer(request))
            return await handler(request)

        return known
