"""The way in over HTTP: every route checks, lets the engine do it, and answers."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Discriminator, Tag
from starlette.concurrency import run_in_threadpool

from osamd import __version__
from osamd.errors import InputError
from osamd.service import arrow, sse, views
from osamd.service import labels as labels_out
from osamd.service.access import (
    Annotator,
    Anyone,
    App,
    KnownRoute,
    Member,
    SampleRoute,
    Sender,
    ServiceParts,
    json_answer,
)
from osamd.service.desk import AnsweredQuery, Refusal
from osamd.service.display import Display
from osamd.service.engine import ReceivedSample
from osamd.service.refusals import Refused
from osamd.service.wire import reports, requests, responses, values

router = APIRouter(prefix="/v1", route_class=KnownRoute)


def _number_of(body: Any) -> str:
    return "many" if isinstance(body, requests.SamplesIn | requests.LabelsIn) or _has_list(body) else "one"


def _has_list(body: Any) -> bool:
    return isinstance(body, dict) and ("samples" in body or "labels" in body)


SampleBody = Annotated[
    Annotated[requests.SampleIn, Tag("one")] | Annotated[requests.SamplesIn, Tag("many")], Discriminator(_number_of)
]
LabelBody = Annotated[
    Annotated[requests.LabelIn, Tag("one")] | Annotated[requests.LabelsIn, Tag("many")], Discriminator(_number_of)
]


samples = APIRouter(prefix="/v1", route_class=SampleRoute)


@samples.post("/samples", tags=["samples"], response_model=responses.Decided | responses.Decisions)
async def decide(body: SampleBody, parts: App, who: Sender) -> Response:
    """Decide on one sample or on several, one after the other, and say whether their labels are asked for.

    What is learned from a sample that is no query is learned at once. A sample with an id that was sent before is
    answered as then. If one of several samples is not as the schema says, nothing is done.
    """
    given = body.samples if isinstance(body, requests.SamplesIn) else [body]
    _refuse_many(parts, len(given))
    rows = []
    for i, sample in enumerate(given):
        try:
            row, raw = parts.schema.read(sample.features)
        except InputError as error:
            place = f"samples.{i}.features" if isinstance(body, requests.SamplesIn) else "features"
            raise Refused("invalid", str(error), f"body.{place}") from None
        display = None if raw is None and sample.display is None else Display(raw, sample.display)
        rows.append(ReceivedSample(sample.id, row, display))
    outcomes = await parts.engine.do(parts.engine.observe, rows)
    if isinstance(body, requests.SamplesIn):
        return json_answer({"decisions": [_told(lambda event: views.decided(parts, event), one) for one in outcomes]})
    if isinstance(outcomes[0], Refusal):
        raise outcomes[0]
    return json_answer(views.decided(parts, outcomes[0]))


@router.post(
    "/samples/arrow",
    tags=["samples"],
    response_class=Response,
    responses={200: {"content": {arrow.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def decide_arrow(request: Request, parts: App, who: Sender) -> Response:
    """Decide on the samples of an Arrow stream: the columns of the schema, or `features`, lists of numbers; and `id`.

    The answer is an Arrow stream: round, label, probability, margin, query, and error, the code of a refusal.
    """
    body = await request.body()
    rows = await run_in_threadpool(arrow.samples, body, parts.schema)
    _refuse_many(parts, len(rows))
    outcomes = await parts.engine.do(parts.engine.observe, rows)
    return Response(await run_in_threadpool(arrow.decisions, parts, outcomes), media_type=arrow.MEDIA_TYPE)


@router.post("/labels", tags=["queries"], response_model=responses.LabelOutcome | responses.LabelOutcomes)
async def tell(body: LabelBody, parts: App, who: Member) -> Response:
    """Give the labels of queries. The first answer stands: the same again is `repeated`, another one is refused."""
    given = body.labels if isinstance(body, requests.LabelsIn) else [body]
    _refuse_many(parts, len(given))
    labels: list[tuple[Any, int, str]] = []
    for i, told in enumerate(given):
        place = f"body.labels.{i}" if isinstance(body, requests.LabelsIn) else "body"
        if (told.round is None) == (told.id is None):
            raise Refused("invalid", "give the round or the id of the sample, and not both.", place)
        name = who.name if told.holder is None else f"{who.name}/{told.holder}"
        try:
            labels.append((told.id if told.round is None else told.round, parts.class_of(told.label), name))
        except Refusal as refusal:
            raise Refused(refusal.code, refusal.message, f"{place}.label") from None
    outcomes = await _answered(parts, labels)
    if isinstance(body, requests.LabelsIn):
        return json_answer({"outcomes": [_told(AnsweredQuery._asdict, one) for one in outcomes]})
    if isinstance(outcomes[0], Refusal):
        raise outcomes[0]
    return json_answer(outcomes[0]._asdict())


async def _answered(parts: ServiceParts, labels: list[tuple[int | str, int, str]]) -> list[Any]:
    """What becomes of labels; those that nobody awaits take none of the engine's time."""
    engine = parts.engine
    early = [not engine.awaits(of) for of, _, _ in labels]
    known: list[Any] = [None] * len(labels)
    if any(early):

        def looked_up() -> list[Any]:
            return [
                engine.not_awaited(of, label) if no else None for (of, label, _), no in zip(labels, early, strict=True)
            ]

        known = await run_in_threadpool(looked_up)
    asked = [label for label, told in zip(labels, known, strict=True) if told is None]
    told = iter(await engine.do(engine.answer, asked) if asked else [])
    return [next(told) if one is None else one for one in known]


@router.get(
    "/labels",
    tags=["queries"],
    response_class=StreamingResponse,
    responses={200: {"content": {kind: {"schema": {"type": "string"}} for kind in labels_out.MEDIA_TYPES.values()}}},
)
def labels(
    parts: App,
    who: Member,
    format: labels_out.Format = "jsonl",
    after: Annotated[int, Query(ge=0, le=values.MOST, description="The `seq` of the last one that is known.")] = 0,
) -> StreamingResponse:
    """What people have answered: sample, decision, label, who and when, as JSON lines, CSV or Parquet."""
    rows = labels_out.rows(parts.engine.state, parts.log, parts.engine, after)
    return StreamingResponse(labels_out.written(rows, format), media_type=labels_out.MEDIA_TYPES[format])


@router.get("/status", tags=["status"], response_model=reports.Status)
def status(parts: App, who: Anyone) -> Response:
    """How it stands: rounds, labels, budget, accuracy from the labels alone, health."""
    return json_answer(_status(parts))


@router.get("/history", tags=["status"], response_model=reports.History)
def history(parts: App, who: Anyone, points: Annotated[int, Query(ge=2, le=5000)] = 300) -> Response:
    """How it stood over the rounds: a point every hundred, thinned to at most `points`."""
    told = ",".join(parts.log.points(points))  # each was written as JSON
    classes = json.dumps(parts.classes)
    return Response(f'{{"points":[{told}],"classes":{classes}}}', media_type="application/json")


@router.get("/schema", tags=["status"])
def schema(parts: App, who: Anyone) -> responses.SchemaOut:
    """What samples and classes are."""
    described, image = parts.schema, parts.schema.image
    size = None if image is None else image.model_dump(include={"height", "width", "channels"})
    return responses.SchemaOut(
        title=described.title,
        guidelines=described.guidelines,
        show_guess=described.show_guess,
        ignored=described.ignored,
        features=described.features,
        columns=described.columns,
        image=None if size is None else responses.ImageSize(**size),
        classes=described.classes,
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
    await sse.refuse_many(parts.bell)
    after = int(last_event_id) if last_event_id and last_event_id.isdecimal() and len(last_event_id) < 16 else None

    def told() -> str | None:
        return json.dumps(_status(parts)) if parts.door.knows(who) else None

    listening = sse.stream(parts.engine, parts.log, parts.bell, after, told)
    return StreamingResponse(listening, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _status(parts: ServiceParts) -> dict[str, Any]:
    return parts.engine.status() | {"version": __version__}


def _refuse_many(parts: ServiceParts, number: int) -> None:
    most = parts.engine.state.config.max_batch
    if number > most:
        raise Refusal("too-large", f"one request may hold {most}, and this one holds {number}; send several.")


def _told(tell: Any, outcome: Any) -> Any:
    if isinstance(outcome, Refusal):
        return responses.problem(outcome.code, outcome.message)
    return tell(outcome)
