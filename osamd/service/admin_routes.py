"""The routes of those who run a stream: its budget, its classes, what is kept and what is erased."""

from __future__ import annotations

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from osamd.service import retention
from osamd.service.access import Admin, App, KnownRoute, json_answer
from osamd.service.desk import Refusal
from osamd.service.wire import reports, requests, responses

router = APIRouter(prefix="/v1", route_class=KnownRoute, tags=["admin"])


@router.post("/budget", response_model=reports.BudgetStatus)
async def change_budget(body: requests.NewBudget, parts: App, who: Admin) -> Response:
    """Keep another budget from the next round on. What is given is changed, null takes a limit away.

    A rate is that of the rounds to come: what was spent before is neither owed nor held against it. `max_labels` counts
    all labels, those of before among them.
    """
    changes = body.model_dump(include=body.model_fields_set)
    if not changes:
        raise Refusal("invalid", "nothing is given; give budget, budget_window, max_labels or target_accuracy.")
    await parts.engine.do(parts.engine.change_budget, changes, who.name)
    return json_answer(parts.engine.status()["budget"])


@router.post("/classes", response_model=responses.ClassNames)
async def add_class(body: requests.NewClass, parts: App, who: Admin) -> Response:
    """Take in a class that was not there before; people can choose it at once."""
    classes = await parts.engine.do(parts.engine.add_class, body.model_dump(), who.name)
    return json_answer({"classes": classes})


@router.post("/archive", response_model=responses.Archived)
async def archive(body: requests.Archive, parts: App, who: Admin) -> Response:
    """Move the events that are older than so many days into a Parquet file in STATE/archive.

    The log then explains the learner from its last snapshot on. Queries that wait stay, and so do changes of the
    stream. An id of a sample that was archived is not known any more.
    """
    engine = parts.engine
    old = await engine.do(engine.archivable, engine.now() - 86_400.0 * body.older_than_days)
    folder, number, name = engine.state.folder / "archive", 0, None
    if old is not None:
        place, number = await run_in_threadpool(retention.write_archive, parts.log, old, folder)
    if old is not None and number:
        name = place.name
        number = await engine.do(engine.drop_archived, old, name, who.name)
        await run_in_threadpool(parts.log.scrub)
    return json_answer({"events": number, "file": name})


@router.post("/erase", response_model=responses.Erased)
async def erase(body: requests.Erase, parts: App, who: Admin) -> Response:
    """Erase a person's data: samples by ids or rounds, with what was shown of them, and all answers of a labeller.

    That they were is kept, and what the learner has learned from them. Archives and backups are files of their own.
    """
    if not body.ids and not body.rounds and body.labeller is None:
        raise Refusal("invalid", "nothing is given; give ids, rounds or labeller.")
    told = await parts.engine.do(parts.engine.erase, body.ids, body.rounds, body.labeller, who.name)
    await run_in_threadpool(parts.log.scrub)
    return json_answer(told)
