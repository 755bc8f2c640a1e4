"""The routes for clients: each checks its request, passes it to the engine, and responds."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Discriminator, Tag
from starlette.concurrency import run_in_threadpool

from osamd import __version__
from osamd.errors import InputError
from osamd.service import arrow, labels_out, presentation, sse
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
from osamd.service.incoming import ReceivedSample
from osamd.service.refusals import Refused
from osamd.service.wire import report_bodies, request_values, requests, responses

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

    The learner learns from a sample without a query at once. A sample whose id was sent before gets the same response
    again. If one of several samples does not match the schema, none is used.
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
        decisions = [
            _refused(one) if isinstance(one, Refusal) else presentation.decided(parts, one) for one in outcomes
        ]
        return json_answer(responses.Decisions(decisions=decisions))
    if isinstance(outcomes[0], Refusal):
        raise outcomes[0]
    return json_answer(presentation.decided(parts, outcomes[0]))


@router.post(
    "/samples/arrow",
    tags=["samples"],
    response_class=Response,
    responses={200: {"content": {arrow.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def decide_arrow(request: Request, parts: App, who: Sender) -> Response:
    """Decide on the samples of an Arrow stream, with the columns of the schema or lists of numbers in `features`; `id`
    is optional.

    The response is an Arrow stream with round, label, probability, margin, query, and error, the code of a refusal.
    """
    body = await request.body()
    batch = await run_in_threadpool(arrow.samples, body, parts.schema)
    _refuse_many(parts, len(batch))
    outcomes = await parts.engine.do(parts.engine.observe_batch, batch)
    return Response(await run_in_threadpool(arrow.decisions, parts, outcomes), media_type=arrow.MEDIA_TYPE)


@router.post("/labels", tags=["queries"], response_model=responses.LabelOutcome | responses.LabelOutcomes)
async def tell(body: LabelBody, parts: App, who: Member) -> Response:
    """Give the labels of queries. The first answer stands: the same again is `repeated`, a different one is refused."""
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
        return json_answer(responses.LabelOutcomes(outcomes=[_outcome(one) for one in outcomes]))
    if isinstance(outcomes[0], Refusal):
        raise outcomes[0]
    return json_answer(_outcome(outcomes[0]))


async def _answered(parts: ServiceParts, labels: list[tuple[int | str, int, str]]) -> list[Any]:
    """The outcomes of labels; labels that are not awaited take none of the engine's time."""
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
    after: Annotated[
        int, Query(ge=0, le=request_values.MOST, description="The `seq` of the last row that you have.")
    ] = 0,
) -> StreamingResponse:
    """The answers of people, with sample, decision, label, who and when, as JSON lines, CSV or Parquet."""
    rows = labels_out.rows(parts.engine.state, parts.log, parts.engine, after)
    return StreamingResponse(labels_out.written(rows, format), media_type=labels_out.MEDIA_TYPES[format])


@router.get("/status", tags=["status"], response_model=report_bodies.Status)
def status(parts: App, who: Anyone) -> Response:
    """The status: rounds, labels, budget, the accuracy estimated from the labels, and the health."""
    return json_answer(_status(parts))


@router.get("/history", tags=["status"], response_model=report_bodies.History)
def history(parts: App, who: Anyone, points: Annotated[int, Query(ge=2, le=5000)] = 300) -> Response:
    """The history: a point per hundred rounds (per thousand after 100,000 rounds), thinned to at most `points`.

    The points were stored as JSON.
    """
    listed = ",".join(parts.log.points(points))
    classes = json.dumps(parts.classes)
    return Response(f'{{"points":[{listed}],"classes":{classes}}}', media_type="application/json")


@router.get("/schema", tags=["status"])
def schema(parts: App, who: Anyone) -> responses.SchemaOut:
    """The schema: what samples and classes are."""
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
    last_event_id: Annotated[str | None, Header(description="Continue after this event.")] = None,
) -> StreamingResponse:
    """Server-sent events: `status` at most four times per second, and `query`, `label`, `expire`, `skip`, `claim`."""
    await sse.refuse_many(parts.bell)
    after = int(last_event_id) if last_event_id and last_event_id.isdecimal() and len(last_event_id) < 16 else None

    def told() -> str | None:
        return _status(parts).model_dump_json() if parts.door.knows(who) else None

    listening = sse.stream(parts.engine, parts.log, parts.bell, after, told)
    return StreamingResponse(listening, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _status(parts: ServiceParts) -> report_bodies.Status:
    return report_bodies.Status.model_validate(parts.engine.status() | {"version": __version__})


def _refuse_many(parts: ServiceParts, number: int) -> None:
    most = parts.engine.state.config.max_batch
    if number > most:
        raise Refusal("too-large", f"a request may hold at most {most} items, and this one holds {number}; split it.")


def _refused(refusal: Refusal) -> responses.Error:
    return responses.Error(error=responses.Problem(code=refusal.code, message=refusal.message))


def _outcome(of: AnsweredQuery | Refusal) -> responses.LabelOutcome | responses.Error:
    return _refused(of) if isinstance(of, Refusal) else responses.LabelOutcome.model_validate(of._asdict())
