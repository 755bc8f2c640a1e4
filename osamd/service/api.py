"""The app: the routes, the middleware, and the engine, which starts and stops with the app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from osamd import __version__
from osamd.service import admin_routes, auth, desk_routes, routes, sse, web
from osamd.service.access import SampleRoute, ServiceParts
from osamd.service.alarm import Alarm
from osamd.service.engine import Engine
from osamd.service.guard import Guard
from osamd.service.log import Log
from osamd.service.metrics import Metrics
from osamd.service.refusals import HANDLERS
from osamd.service.shortcut import Shortcut
from osamd.service.telemetry import Tracing
from osamd.service.wire import responses


def make_app(
    engine: Engine,
    log: Log,
    *,
    hosts: frozenset[str] | None = None,
    secure_cookie: bool = False,
    may_open: bool = True,
    alarm_webhook: str | None = None,
    tracing: Tracing | None = None,
) -> FastAPI:
    """The app of the service around an engine, which starts and stops with the app.

    `may_open`: whether the service is open while there are no tokens. Pass False if others can reach the service, so
    that revoking the last token does not let everybody in. `alarm_webhook`: the address that the alarm is posted to.
    """
    bell = sse.Bell()
    state = engine.state
    if tracing is not None:
        engine.do = tracing.around(engine.do)  # type: ignore[method-assign]
    alarm = None
    if alarm_webhook is not None:
        alarm = Alarm(alarm_webhook, state.schema.title, state.folder / "alarm.json", engine.status)
    parts = ServiceParts(engine, log, auth.Doorkeeper(log, may_open), bell, Metrics(engine, alarm), secure_cookie)

    def changed() -> None:
        bell.ring()
        if alarm is not None:
            alarm.look()

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        bell.bind()
        engine.changed = changed
        await run_in_threadpool(engine.start)
        if alarm is not None:
            alarm.start()
        try:
            yield
        finally:
            bell.close()
            if alarm is not None:
                await run_in_threadpool(alarm.stop)
            await run_in_threadpool(engine.stop)

    app = FastAPI(
        title="osamd",
        version=__version__,
        description="Samples in, decisions out; people answer the few queries.",
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={code: {"model": responses.Error} for code in (400, 401, 403, 404, 408, 409, 413, 415, 422, 503)},
    )
    app.state.parts = parts
    app.add_middleware(Shortcut, route=next(one for one in routes.samples.routes if isinstance(one, SampleRoute)))
    app.add_middleware(parts.metrics.timed)
    app.add_middleware(Guard, hosts=hosts)
    app.include_router(routes.samples)
    app.include_router(routes.router)
    app.include_router(desk_routes.router)
    app.include_router(admin_routes.router)
    app.include_router(web.router)
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, handler)
    return app
