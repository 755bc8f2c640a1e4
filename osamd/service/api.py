"""The way in over HTTP: every route checks, lets the engine do it, and answers."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import Discriminator, Tag
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from osamd import __version__
from osamd.errors import InputError
from osamd.service import auth, sse, wire
from osamd.service.engine import Answer, Engine, Refusal, Waiting
from osamd.service.guard import HEADERS, Guard
from osamd.service.log import Event, Log, StorageError
from osamd.service.metrics import Metrics
from osamd.service.schema import Schema

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
    "too-large": 413,
    "overloaded": 503,
    "storage": 503,
}
"""The status of each code."""


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


def make_app(
    engine: Engine,
    log: Log,
    *,
    hosts: frozenset[str] | None = None,
    secure_cookie: bool = False,
    may_open: bool = True,
) -> FastAPI:
    """The service around an engine, which starts and stops with it.

    `may_open`: whether it needs no token while there are none; for what others can reach, say False, so that revoking
    the last token does not let everybody in.
    """
    from osamd.service.web import router as web

    bell = sse.Bell()
    parts = Parts(engine, log, auth.Doorkeeper(log, may_open), bell, Metrics(engine), secure_cookie)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        bell.bind()
        engine.changed = bell.ring
        await run_in_threadpool(engine.start)
        try:
            yield
        finally:
            bell.close()
            await run_in_threadpool(engine.stop)

    app = FastAPI(
        title="osamd",
        version=__version__,
        description="Samples in, decisions out; the few whose label is asked for wait for people.",
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={code: {"model": wire.Error} for code in (400, 401, 403, 404, 408, 409, 413, 415, 422, 503)},
    )
    app.state.parts = parts
    app.add_middleware(parts.metrics.timed)
    app.add_middleware(Guard, hosts=hosts)
    app.include_router(router, prefix="/v1")
    app.include_router(web)
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    return app


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


class _KnownRoute(QuickRoute):
    """Asks who it is before it reads what they send."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def known(request: Request) -> Response:
            request.state.person = await person(request, await _bearer(request))
            return await handler(request)

        return known


router = APIRouter(route_class=_KnownRoute)


def _number_of(body: Any) -> str:
    return "many" if isinstance(body, wire.Samples | wire.Labels) or _has_list(body) else "one"


def _has_list(body: Any) -> bool:
    return isinstance(body, dict) and ("samples" in body or "labels" in body)


SampleBody = Annotated[
    Annotated[wire.Sample, Tag("one")] | Annotated[wire.Samples, Tag("many")], Discriminator(_number_of)
]
LabelBody = Annotated[Annotated[wire.Told, Tag("one")] | Annotated[wire.Labels, Tag("many")], Discriminator(_number_of)]


@router.post("/samples", tags=["samples"], response_model=wire.Decided | wire.Decisions)
async def decide(body: SampleBody, parts: App, who: Client) -> Response:
    """Decide on one sample or on several, one after the other, and say whether their labels are asked for.

    What is learned from a sample that is no query is learned at once. A sample with an id that was sent before is
    answered as then. If one of several samples is not as the schema says, nothing is done.
    """
    given = body.samples if isinstance(body, wire.Samples) else [body]
    _refuse_many(parts, len(given))
    rows = []
    for i, sample in enumerate(given):
        try:
            rows.append((sample.id, parts.schema.row(sample.features)))
        except InputError as error:
            place = f"samples.{i}.features" if isinstance(body, wire.Samples) else "features"
            raise Refused("invalid", str(error), f"body.{place}") from None
    outcomes = await parts.engine.do(parts.engine.observe, rows)
    if isinstance(body, wire.Samples):
        return _json({"decisions": [_told(parts.decided, one) for one in outcomes]})
    if isinstance(outcomes[0], Refusal):
        raise outcomes[0]
    return _json(parts.decided(outcomes[0]))


@router.post("/labels", tags=["queries"], response_model=wire.Outcome | wire.Outcomes)
async def tell(body: LabelBody, parts: App, who: Anyone) -> Response:
    """Give the labels of queries. The first answer stands: the same again is `repeated`, another one is refused."""
    given = body.labels if isinstance(body, wire.Labels) else [body]
    _refuse_many(parts, len(given))
    labels = []
    for i, told in enumerate(given):
        place = f"body.labels.{i}" if isinstance(body, wire.Labels) else "body"
        if (told.round is None) == (told.id is None):
            raise Refused("invalid", "give the round or the id of the sample, and not both.", place)
        name = who.name if told.holder is None else f"{who.name}/{told.holder}"
        try:
            labels.append((told.id if told.round is None else told.round, parts.class_of(told.label), name))
        except Refusal as refusal:
            raise Refused(refusal.code, refusal.message, f"{place}.label") from None
    outcomes = await parts.engine.do(parts.engine.answer, labels)
    if isinstance(body, wire.Labels):
        return _json({"outcomes": [_told(Answer._asdict, one) for one in outcomes]})
    if isinstance(outcomes[0], Refusal):
        raise outcomes[0]
    return _json(outcomes[0]._asdict())


Order = Annotated[wire.Order, Query(description="Or the least certain first.")]
Limit = Annotated[int, Query(ge=1, le=1000)]
RoundInPath = Annotated[int, Path(ge=0, le=wire.MOST)]


@router.get("/queries", tags=["queries"], response_model=wire.Queries)
def pending(parts: App, who: Annotator, order: Order = "oldest", limit: Limit = 20) -> Response:
    """The queries that wait for their labels; those that were skipped come last."""
    waiting, now = parts.engine.queries(order), parts.engine.now()
    return _json({"queries": [parts.query(one, now) for one in waiting[:limit]], "pending": len(waiting)})


@router.post("/queries/claim", tags=["queries"], response_model=wire.Queries)
async def claim(body: wire.Claim, parts: App, who: Annotator) -> Response:
    """Take queries to answer, for a while in which nobody else gets them: those held already, then others."""
    holder = f"{who.name}/{body.holder}"
    engine = parts.engine
    waiting = await engine.do(engine.claim, holder, body.order, body.limit, body.lease)
    now = engine.now()
    return _json({"queries": [parts.query(one, now) for one in waiting], "pending": len(engine.queries())})


@router.post("/queries/expire", tags=["queries"])
async def expire_older(body: wire.Expire, parts: App, who: Annotator) -> wire.Expired:
    """Give up waiting for labels that were asked for more than so many rounds ago."""
    return wire.Expired(expired=await parts.engine.do(parts.engine.expire_older, body.older_than))


@router.post("/queries/{round}/skip", tags=["queries"])
async def skip(round: RoundInPath, body: wire.Skip, parts: App, who: Annotator) -> wire.Ended:
    """Leave a query to others, or for later: it goes behind those that were skipped less often."""
    await parts.engine.do(parts.engine.skip, round, f"{who.name}/{body.holder}")
    return wire.Ended(round=round, status="skipped")


@router.post("/queries/{round}/expire", tags=["queries"])
async def expire(round: RoundInPath, parts: App, who: Annotator) -> wire.Ended:
    """Give up waiting for one label: the model's own opinion stands in for it."""
    return wire.Ended(round=round, status=await parts.engine.do(parts.engine.expire, round))


@router.get("/status", tags=["status"], response_model=wire.Status)
def status(parts: App, who: Anyone) -> Response:
    """How it stands: rounds, labels, budget, accuracy from the labels alone, health."""
    return _json(_status(parts))


@router.get("/history", tags=["status"], response_model=wire.History)
def history(parts: App, who: Anyone, points: Annotated[int, Query(ge=2, le=5000)] = 300) -> Response:
    """How it stood over the rounds: a point every hundred, thinned to at most `points`."""
    told = ",".join(parts.log.points(points))  # each was written as JSON
    classes = json.dumps(parts.classes)
    return Response(f'{{"points":[{told}],"classes":{classes}}}', media_type="application/json")


@router.get("/schema", tags=["status"])
def schema(parts: App, who: Anyone) -> wire.Described:
    """What samples and classes are."""
    told = parts.schema
    image = (
        None if told.image is None else wire.ImageSize(**told.image.model_dump(include={"height", "width", "channels"}))
    )
    return wire.Described(
        title=told.title, features=told.features, columns=told.columns, image=image, classes=told.classes
    )


@router.get(
    "/events",
    tags=["status"],
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    parts: App,
    who: Annotator,
    last_event_id: Annotated[str | None, Header(description="Go on after this one.")] = None,
) -> StreamingResponse:
    """Server-sent events: `status` at most four times a second, and `query`, `label`, `expire`, `skip`, `claim`."""
    sse.refuse_many(parts.bell)
    after = int(last_event_id) if last_event_id and last_event_id.isdecimal() and len(last_event_id) < 16 else None

    def told() -> str | None:
        return json.dumps(_status(parts)) if parts.door.knows(who) else None

    listening = sse.stream(parts.engine, parts.log, parts.bell, after, told)
    return StreamingResponse(listening, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


class Refused(Refusal):
    """A refusal that says where in the request the fault is."""

    def __init__(self, code: str, message: str, where: str) -> None:
        super().__init__(code, message)
        self.where = where


def _status(parts: Parts) -> dict[str, Any]:
    return parts.engine.status() | {"version": __version__}


def _refuse_many(parts: Parts, number: int) -> None:
    most = parts.engine.state.config.max_batch
    if number > most:
        raise Refusal("too-large", f"one request may hold {most}, and this one holds {number}; send several.")


def _told(tell: Any, outcome: Any) -> Any:
    if isinstance(outcome, Refusal):
        return wire.problem(outcome.code, outcome.message)
    return tell(outcome)


def _json(content: Any) -> Response:
    return Response(json.dumps(content, allow_nan=False, separators=(",", ":")), media_type="application/json")


def _refusal(code: str, message: str, where: str | None = None, status: int | None = None) -> JSONResponse:
    answer = JSONResponse(wire.problem(code, message, where), status or STATUS[code])
    if answer.status_code == 503:
        answer.headers["retry-after"] = "1"
    if answer.status_code == 401:
        answer.headers["www-authenticate"] = "Bearer"
    return answer


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _refusal(error.code, error.message, getattr(error, "where", None))


async def _on_invalid(request: Request, error: Exception) -> Response:
    """What came is not shown again: it may be large, and is not always JSON."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part)[:100] for i, part in enumerate(first["loc"]) if i != 1 or part not in ("one", "many"))
    if first["type"] == "json_invalid":
        return _refusal("malformed-json", "the body is no JSON.")
    return _refusal("invalid", f"{str(first['msg'])[:300]}.", where[:300])


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _refusal("not-found", "there is nothing here; see /openapi.json.")
    if error.status_code == 405:
        answer = _refusal("method-not-allowed", "the method is not for this path; see /openapi.json.")
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
    return JSONResponse(
        wire.problem("internal", "something went wrong here; the log of the service tells."), 500, HEADERS
    )


_HANDLERS: dict[Any, Any] = {
    Refusal: _on_refusal,
    RequestValidationError: _on_invalid,
    HTTPException: _on_http,
    StorageError: _on_storage,
    InputError: _on_input,
    Exception: _on_anything,
}
