"""The app: the routes, what stands before them, and the engine, which starts and stops with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from osamd import __version__
from osamd.service import admin_routes, auth, desk_routes, routes, sse, web, wire
from osamd.service.access import Parts
from osamd.service.engine import Engine
from osamd.service.guard import Guard
from osamd.service.log import Log
from osamd.service.metrics import Metrics
from osamd.service.refusals import HANDLERS


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
    app.include_router(routes.router, prefix="/v1")
    app.include_router(desk_routes.router, prefix="/v1")
    app.include_router(admin_routes.router, prefix="/v1")
    app.include_router(web.router)
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, handler)
    return app
