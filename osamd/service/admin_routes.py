"""The routes for admins: the budget and the classes of a stream, archiving and erasing."""

from __future__ import annotations

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from osamd.service import retention
from osamd.service.access import Admin, App, KnownRoute, json_answer
from osamd.service.desk import Refusal
from osamd.service.wire import report_bodies, requests, responses

router = APIRouter(prefix="/v1", route_class=KnownRoute, tags=["admin"])


@router.post("/budget", response_model=report_bodies.BudgetStatus)
async def change_budget(body: requests.NewBudget, parts: App, who: Admin) -> Response:
    """Change the budget from the next round on. Fields that are given change; null removes a limit.

    A rate counts only the rounds after the change; labels spent or saved before do not matter. `max_labels` counts all
    labels, including those from before the change.
    """
    changes = body.model_dump(include=body.model_fields_set)
    if not changes:
        raise Refusal("invalid", "nothing to change; give budget, budget_window, max_labels or target_accuracy.")
    await parts.engine.do(parts.engine.change_budget, changes, who.name)
    return json_answer(report_bodies.BudgetStatus.model_validate(parts.engine.status()["budget"]))


@router.post("/classes", response_model=responses.ClassNames)
async def add_class(body: requests.NewClass, parts: App, who: Admin) -> Response:
    """Add a class; people can choose it at once."""
    classes = await parts.engine.do(parts.engine.add_class, body.model_dump(), who.name)
    return json_answer(responses.ClassNames(classes=classes))


@router.post("/archive", response_model=responses.Archived)
async def archive(body: requests.Archive, parts: App, who: Admin) -> Response:
    """Move the events that are older than this many days into a Parquet file in STATE/archive.

    From then on the learner is rebuilt from its last snapshot. Pending queries stay in the log, and so do changes of
    the stream. The id of an archived sample is no longer known.
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
    return json_answer(responses.Archived(events=number, file=name))


@router.post("/erase", response_model=responses.Erased)
async def erase(body: requests.Erase, parts: App, who: Admin) -> Response:
    """Erase a person's data: samples by id or round with what was shown of them, or all answers of an annotator.

    The log still counts the rounds and answers, and the learner keeps what it has learned. Archives and backups are
    not changed.
    """
    if not body.ids and not body.rounds and body.labeller is None:
        raise Refusal("invalid", "the request names nothing to erase; give ids, rounds or labeller.")
    erased = await parts.engine.do(parts.engine.erase, body.ids, body.rounds, body.labeller, who.name)
    await run_in_threadpool(parts.log.scrub)
    return json_answer(responses.Erased.model_validate(erased))
