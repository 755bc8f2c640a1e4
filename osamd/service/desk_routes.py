"""The routes for annotators: see queries, claim them, answer without a class, correct, and list own answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import sqlalchemy as sql
from fastapi import APIRouter, Path, Query, Response
from starlette.concurrency import run_in_threadpool

from osamd.service import presentation
from osamd.service.access import Annotator, App, KnownRoute, json_answer
from osamd.service.database_tables import events
from osamd.service.desk import Refusal
from osamd.service.display import medium_of
from osamd.service.wire import request_values, requests, responses

router = APIRouter(prefix="/v1", route_class=KnownRoute, tags=["queries"])

OrderParameter = Annotated[request_values.Order, Query(description="`valuable` lists the least certain first.")]
Limit = Annotated[int, Query(ge=1, le=1000)]
RoundInPath = Annotated[int, Path(ge=0, le=request_values.MOST)]
MEDIUM = {"schema": {"type": "string", "format": "binary"}}
ANSWERS = ("label", "none", "unsure", "second", "correct")
"""The kinds of events that are answers of people."""


@router.get("/queries", response_model=responses.PendingQueries)
async def pending(parts: App, who: Annotator, order: OrderParameter = "oldest", limit: Limit = 20) -> Response:
    """The pending queries; those that were skipped come last."""
    waiting = parts.engine.queries(order)
    return await presentation.queries(parts, waiting[:limit], len(waiting))


@router.post("/queries/claim", response_model=responses.PendingQueries)
async def claim(body: requests.Claim, parts: App, who: Annotator) -> Response:
    """Claim queries to answer. Nobody else gets them during the lease. Own claims are renewed first."""
    engine = parts.engine
    waiting = await engine.do(engine.claim, f"{who.name}/{body.holder}", body.order, body.limit, body.lease)
    return await presentation.queries(parts, waiting, len(engine.queries()))


@router.post("/queries/expire")
async def expire_older(body: requests.Expire, parts: App, who: Annotator) -> responses.ExpiredCount:
    """Expire the queries that were asked more than this many rounds ago."""
    return responses.ExpiredCount(expired=await parts.engine.do(parts.engine.expire_older, body.older_than))


@router.post("/queries/{round}/skip")
async def skip(round: RoundInPath, body: requests.Skip, parts: App, who: Annotator) -> responses.QueryOutcome:
    """Leave a query to others, or for later: it moves behind those that were skipped less often."""
    await parts.engine.do(parts.engine.skip, round, f"{who.name}/{body.holder}")
    return responses.QueryOutcome(round=round, status="skipped")


@router.post("/queries/{round}/unsure")
async def unsure(round: RoundInPath, body: requests.Skip, parts: App, who: Annotator) -> responses.QueryOutcome:
    """Answer "don't know": others are asked, and when several people don't know, the query expires."""
    status = await parts.engine.do(parts.engine.unsure, round, f"{who.name}/{body.holder}")
    return responses.QueryOutcome(round=round, status=status)


@router.post("/queries/{round}/none")
async def none(round: RoundInPath, body: requests.Skip, parts: App, who: Annotator) -> responses.QueryOutcome:
    """Say that no class fits: the query ends without a label."""
    await parts.engine.do(parts.engine.none, round, f"{who.name}/{body.holder}")
    return responses.QueryOutcome(round=round, status="none")


@router.post("/queries/{round}/expire")
async def expire(round: RoundInPath, parts: App, who: Annotator) -> responses.QueryOutcome:
    """Expire one query: the model's own decision stands in for its label."""
    return responses.QueryOutcome(round=round, status=await parts.engine.do(parts.engine.expire, round))


@router.get(
    "/queries/{round}/{place}",
    response_class=Response,
    responses={200: {"content": {"image/*": MEDIUM, "audio/*": MEDIUM}}},
)
async def medium(round: RoundInPath, place: Literal["image", "audio"], parts: App, who: Annotator) -> Response:
    """The image or the sound that was sent with a sample."""

    def found() -> tuple[str, bytes] | None:
        with parts.log.reading() as connection:
            return medium_of(connection, round, place, parts.engine.state.media_folder)

    medium = await run_in_threadpool(found)
    if medium is None:
        raise Refusal("not-found", f"there is no {place} of round {round}.")
    kind, content = medium
    headers = {"content-security-policy": "default-src 'none'; sandbox", "cache-control": "private, max-age=600"}
    return Response(content, media_type=kind, headers=headers)


@router.post("/corrections", response_model=responses.LabelOutcome)
async def correct(body: requests.Correct, parts: App, who: Annotator) -> Response:
    """Record another label for a query that was answered. Exports contain the correction; the learner cannot unlearn
    the first answer."""
    name = who.name if body.holder is None else f"{who.name}/{body.holder}"
    corrected = await parts.engine.do(parts.engine.correct, body.round, parts.class_of(body.label), name)
    return json_answer(responses.LabelOutcome.model_validate(corrected._asdict()))


@router.get("/answers", response_model=responses.OwnAnswers)
def own_answers(parts: App, who: Annotator, limit: Limit = 50) -> Response:
    """The answers that were signed with the caller's token, the latest first."""
    own = (events.c.who == who.name) | events.c.who.between(f"{who.name}/", f"{who.name}/\x7f")
    chosen = sql.select(events.c.seq, events.c.round, events.c.at, events.c.kind, events.c.label)
    chosen = chosen.where(own, events.c.kind.in_(ANSWERS)).order_by(events.c.seq.desc()).limit(limit)
    with parts.log.reading() as connection:
        rows: list[dict[str, Any]] = [dict(row._mapping) for row in connection.execute(chosen)]
    named = [row | {"label": None if row["label"] is None else parts.classes[row["label"]]} for row in rows]
    return json_answer(responses.OwnAnswers.model_validate({"answers": named}))
