"""The routes for people and monitors: pages, login, health, metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, RedirectResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from osamd.service import auth
from osamd.service.access import Anyone, App, QuickRoute, json_answer
from osamd.service.desk import Refusal
from osamd.service.wire import report_bodies, requests, responses

PAGES = Path(__file__).parent / "pages"
ASSETS = {
    path.name: {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}[path.suffix]
    for path in PAGES.iterdir()
    if path.suffix in (".js", ".css", ".svg")
}
"""All files that are served by name: no path of a request reaches the file system."""

SLOWEST_PROBE = 5.0
"""Seconds that a write may take before the service counts as not ready."""

router = APIRouter(route_class=QuickRoute)


@router.get("/livez", tags=["status"], response_model=report_bodies.ServiceUp)
async def livez(parts: App) -> Response:
    """Whether the process works; if it does not, restart it."""
    if not parts.engine.alive:
        raise Refusal("storage", "the engine has stopped; restart the service.")
    return json_answer(report_bodies.ServiceUp(status="ok"))


@router.get("/readyz", tags=["status"], response_model=report_bodies.ServiceUp)
@router.get("/healthz", tags=["status"], response_model=report_bodies.ServiceUp)
async def healthz(parts: App) -> Response:
    """Whether the log can be written. If the last commit is older than a second, this writes to it."""
    engine = parts.engine
    try:
        async with asyncio.timeout(SLOWEST_PROBE):
            await engine.do(engine.probe)
    except TimeoutError:
        raise Refusal("storage", f"the log was last written {engine.age:.0f} s ago, and does not respond.") from None
    except Refusal as refusal:
        if refusal.code != "overloaded" or not engine.healthy:  # a long queue is no fault of the log
            raise
    return json_answer(report_bodies.ServiceUp(status="ok"))


@router.get(
    "/metrics",
    tags=["status"],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(parts: App, who: Anyone) -> Response:
    """The metrics for Prometheus."""
    return Response(parts.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@router.post("/login", tags=["people"], response_model=responses.LoggedIn)
async def log_in(body: requests.Login, parts: App, request: Request) -> Response:
    """Log in with a token; the cookie lasts for twelve hours."""
    found = await run_in_threadpool(parts.door.log_in, body.token)
    if found is None:
        parts.door.refuse(request.client.host if request.client is not None else "")
        raise Refusal("unauthorised", "this token is not known; `osamd token` makes one.")
    person, secret = found
    answer = json_answer(responses.LoggedIn(name=person.name, roles=sorted(person.roles)))
    answer.set_cookie(
        auth.COOKIE,
        secret,
        max_age=int(auth.SESSION_SECONDS),
        path=request.scope.get("root_path") or "/",
        httponly=True,
        samesite="strict",
        secure=parts.secure_cookie or request.scope["scheme"] == "https",
    )
    return answer


@router.post("/logout", tags=["people"], response_model=report_bodies.ServiceUp)
async def log_out(parts: App, request: Request) -> Response:
    """End the login."""
    secret = request.cookies.get(auth.COOKIE)
    if secret is not None and await run_in_threadpool(parts.door.by_cookie, secret) is not None:
        await run_in_threadpool(parts.door.log_out, secret)
    answer = json_answer(report_bodies.ServiceUp(status="ok"))
    answer.delete_cookie(auth.COOKIE, path=request.scope.get("root_path") or "/", httponly=True, samesite="strict")
    return answer


@router.get("/", include_in_schema=False)
async def home(request: Request) -> RedirectResponse:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/dashboard")


@router.get("/{page}", include_in_schema=False)
async def page(page: str, request: Request) -> Response:
    if page == "favicon.ico":
        return RedirectResponse(f"{request.scope.get('root_path', '')}/assets/favicon.svg")
    if page not in ("label", "dashboard", "login"):
        raise _nothing()
    return FileResponse(PAGES / f"{page}.html", media_type="text/html")


@router.get("/assets/{name}", include_in_schema=False)
async def asset(name: str) -> Response:
    if name not in ASSETS:
        raise _nothing()
    return FileResponse(PAGES / name, media_type=ASSETS[name])


def _nothing() -> Refusal:
    return Refusal("not-found", "there is nothing here; see /openapi.json.")
