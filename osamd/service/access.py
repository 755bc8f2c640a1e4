"""What every route receives: the parts of the service, and who sends the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, get_type_hints

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from osamd.service import auth, sse
from osamd.service.bodies import LARGEST_BODY, LARGEST_LOGIN, forget, whole
from osamd.service.desk import Refusal
from osamd.service.engine import Engine
from osamd.service.log import Log
from osamd.service.metrics import Metrics
from osamd.service.schema import Schema
from osamd.service.wire.responses import Out

MOST_LISTED = 2
"""Lists of queries that are prepared at the same time; more would occupy all threads and make others wait."""


class ClassIndex(NamedTuple):
    """The classes of a schema, and the index of each by its name."""

    schema: Schema
    classes: list[Any]
    places: dict[Any, int]


@dataclass
class ServiceParts:
    """The parts of the service that the routes use."""

    engine: Engine
    log: Log
    door: auth.Doorkeeper
    bell: sse.Bell
    metrics: Metrics
    secure_cookie: bool

    def __post_init__(self) -> None:
        self._named: ClassIndex | None = None
        self.listing = asyncio.Semaphore(MOST_LISTED)

    @property
    def schema(self) -> Schema:
        return self.engine.schema

    @property
    def classes(self) -> list[Any]:
        """The names of the current classes."""
        return self._names().classes

    def _names(self) -> ClassIndex:
        schema = self.engine.schema
        if self._named is None or self._named.schema is not schema:  # a class was added
            classes = [one.name for one in schema.classes]
            # A class may be given by its name or by the text of its name, as in the probabilities.
            index: dict[Any, int] = {str(name): i for i, name in enumerate(classes)}
            self._named = ClassIndex(schema, classes, index | {name: i for i, name in enumerate(classes)})
        return self._named

    def class_of(self, label: Any) -> int:
        """The index of a class."""
        found = self._names().places.get(label)
        if found is None:
            known = ", ".join(repr(name) for name in self.classes[:10])
            raise Refusal("no-such-class", f"there is no class {label!r:.100}; give one of {known}.")
        return found


async def parts_of(request: Request) -> ServiceParts:
    """The parts of the app. (It is `async` because FastAPI runs other functions in a thread, which takes longer.)"""
    found: ServiceParts = request.app.state.parts
    return found


_bearer = HTTPBearer(auto_error=False, description="A token from `osamd token`.")
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
App = Annotated[ServiceParts, Depends(parts_of)]


async def person(request: Request, bearer: Bearer) -> auth.Person:
    """Who sends the request, by token or by cookie."""
    known: auth.Person | None = getattr(request.state, "person", None)
    if known is not None:
        return known
    door = (await parts_of(request)).door
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
        if bearer is not None or cookie is not None:
            door.refuse(request.client.host if request.client is not None else "")
        raise Refusal("unauthorised", "give a token: Authorization: Bearer TOKEN, or log in at /login.")
    return found


Anyone = Annotated[auth.Person, Depends(person)]


async def member(who: Anyone) -> auth.Person:
    """A sender of samples or an annotator."""
    if not who.roles & {"client", "annotator"}:
        raise Refusal("forbidden", "this needs a token with the role client or annotator.")
    return who


async def annotator(who: Anyone) -> auth.Person:
    """An annotator, who may see and answer queries."""
    if "annotator" not in who.roles:
        raise Refusal("forbidden", "this needs a token with the role annotator.")
    return who


async def client(who: Anyone) -> auth.Person:
    """A client, who may send samples."""
    if "client" not in who.roles:
        raise Refusal("forbidden", "this needs a token with the role client.")
    return who


async def admin(who: Anyone) -> auth.Person:
    """An admin, who may change the stream."""
    if "admin" not in who.roles:
        raise Refusal("forbidden", "this needs a token with the role admin.")
    return who


Admin = Annotated[auth.Person, Depends(admin)]
Member = Annotated[auth.Person, Depends(member)]
Annotator = Annotated[auth.Person, Depends(annotator)]
Sender = Annotated[auth.Person, Depends(client)]


def json_answer(content: Out) -> Response:
    """The response with this body, in JSON."""
    return Response(to_json(content), media_type="application/json")


class _Request(Request):
    """Reads JSON with pydantic's parser, which takes a third of the time of Python's."""

    async def json(self) -> Any:
        return from_json(await self.body(), allow_inf_nan=False)


Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _Nothing(Response):
    """The response to a client that has disconnected."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        return


class QuickRoute(APIRoute):
    """A route for requests that anybody may send; their bodies must be small."""

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def quick(request: Request) -> Response:
            return await _handled(handler, request, LARGEST_LOGIN)

        return quick


class KnownRoute(APIRoute):
    """A route that finds out who sends the request before it reads the body."""

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def known(request: Request) -> Response:
            try:
                request.state.person = await person(request, await _bearer(request))
            except Refusal:
                await forget(request.receive)
                raise
            return await _handled(handler, request, LARGEST_BODY)

        return known


class SampleRoute(KnownRoute):
    """A fast route for samples, the most frequent request: it calls the endpoint with the body, the parts and the
    sender directly. FastAPI's dependency resolution would take longer than a round.

    The OpenAPI document is still made from the endpoint's signature.
    """

    def get_route_handler(self) -> Handler:
        adapter: TypeAdapter[Any] = TypeAdapter(get_type_hints(self.endpoint, include_extras=True)["body"])

        async def direct(request: Request) -> Response:
            try:
                who = await client(await person(request, await _bearer(request)))
            except Refusal:
                await forget(request.receive)
                raise
            receive = await whole(request, LARGEST_BODY)
            if receive is None:
                return _Nothing()
            body = (await receive())["body"]
            answer: Response = await self.endpoint(_valid(adapter, body), request.app.state.parts, who)
            return answer

        return direct


def _valid(adapter: TypeAdapter[Any], body: bytes) -> Any:
    """The content of a body, or the refusal that FastAPI would give."""
    if not body:
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "Field required"}])
    try:
        given = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise Refusal("malformed-json", "the body cannot be read as JSON.") from None
    try:
        return adapter.validate_python(given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in found]) from None


async def _handled(
    handler: Callable[[Request], Coroutine[Any, Any, Response]], request: Request, largest: int
) -> Response:
    receive: Receive | None = request.receive
    if request.method not in ("GET", "HEAD"):
        receive = await whole(request, largest)
        if receive is None:  # the client has disconnected
            return _Nothing()
    assert receive is not None
    return await handler(_Request(request.scope, receive))
