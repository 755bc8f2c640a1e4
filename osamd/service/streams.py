"""Many streams in one service: every folder in ROOT that `osamd init` made is one, at /NAME.

Each has its own log, tokens, limits and pages. The service watches the folder: a stream that is made while it runs is
found within seconds, and one that is archived (`osamd streams ROOT --archive NAME`) is closed, but keeps its log.
Streams share nothing but the process.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import AsyncExitStack
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from osamd.errors import InputError
from osamd.service import auth
from osamd.service.api import make_app
from osamd.service.database import StorageError
from osamd.service.engine import Engine
from osamd.service.folder import CONFIG, open_state
from osamd.service.guard import HEADERS
from osamd.service.server import LOCAL_NAMES, is_loopback, open_log
from osamd.service.web import ASSETS, PAGES

LOOK = 2.0
"""Seconds between two checks for new or removed streams."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
"""A valid name of a stream: it is a part of an address, and a schema of PostgreSQL."""
TAKEN = ("assets", "livez", "readyz")


class ServedStream(NamedTuple):
    """A stream that is being served."""

    title: str
    app: Any
    engine: Engine
    life: AsyncExitStack


class Streams:
    """The app of many streams."""

    def __init__(self, root: Path, *, host: str, database: str | None, **outward: Any) -> None:
        self._root, self._host, self._database, self._outward = root, host, database, outward
        self._open: dict[str, ServedStream] = {}
        self._refused: dict[str, str] = {}
        self._looking: asyncio.Task[None] | None = None
        self.closing = False
        self._fixed = [
            Route("/", self._index),
            Route("/livez", self._livez),
            Route("/readyz", self._readyz),
            Route("/assets/{name}", self._asset),
        ]
        self.app = Starlette(routes=list(self._fixed))

    async def start(self) -> None:
        """Open all streams, and watch for others from now on."""
        await self.look()
        self._looking = asyncio.create_task(self._look_again())

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for name in list(self._open):
            await self._close(name)

    def close_listeners(self) -> None:
        """Close the event streams."""
        for stream in self._open.values():
            stream.app.state.parts.bell.close()

    @property
    def failures(self) -> dict[str, str]:
        """The streams whose log could not be written at the end, and why."""
        return {name: one.engine.failure for name, one in self._open.items() if one.engine.failure}

    async def look(self) -> None:
        """Open new streams, and close those that were archived or removed."""
        found = await run_in_threadpool(names, self._root)
        for name in set(self._open) - set(found):
            await self._close(name)
            del self._open[name]
        for name in found:
            if name not in self._open:
                await self._begin(name)
        mounts = [Mount(f"/{name}", self._open[name].app, name=name) for name in sorted(self._open)]
        self.app.router.routes[:] = [*self._fixed, *mounts]

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            await self.look()

    async def _begin(self, name: str) -> None:
        try:
            engine, app = await run_in_threadpool(self._made, name)
            life = AsyncExitStack()
            await life.enter_async_context(app.router.lifespan_context(app))
        except (InputError, StorageError) as error:
            if self._refused.get(name) != str(error):
                logging.getLogger("osamd.service").error("the stream %s is not served: %s", name, error)
            self._refused[name] = str(error)
            return
        self._refused.pop(name, None)
        self._open[name] = ServedStream(engine.state.schema.title, app, engine, life)

    def _made(self, name: str) -> tuple[Engine, Any]:
        state = open_state(self._root / name)
        log = open_log(state, None if self._database is None else schema_of(self._database, name))
        try:
            log.make_tables()
            open_to_all = not auth.token_names(log)
        except BaseException:
            log.close()
            raise
        if open_to_all and not is_loopback(self._host):
            log.close()
            raise InputError(
                f"others could reach it, and it has no tokens; make one with `osamd token {state.folder} --name NAME`."
            )
        engine = Engine(state, log)
        hosts = LOCAL_NAMES | {self._host} if open_to_all else None
        engine.start()
        state.remember(None if self._database is None else log.place)
        return engine, make_app(engine, log, hosts=hosts, may_open=open_to_all, **self._outward)

    async def _close(self, name: str) -> None:
        await self._open[name].life.aclose()

    async def _index(self, _: Any) -> Response:
        """The list of streams with links to their pages; names and titles are public, the contents are not."""
        rows = "".join(
            f'<li class="card"><h2><bdi>{escape(one.title)}</bdi></h2><p class="small">{escape(name)}</p>'
            f'<p><a href="{name}/label">Label</a> · <a href="{name}/dashboard">Dashboard</a></p></li>'
            for name, one in sorted(self._open.items())
        )
        return HTMLResponse(_INDEX.format(rows=rows or "<li>There is no stream yet.</li>"), headers=HEADERS)

    async def _livez(self, _: Any) -> Response:
        dead = [name for name, one in self._open.items() if not one.engine.alive]
        return JSONResponse({"status": "ok", "ended": dead}, 503 if dead else 200, headers=HEADERS)

    async def _readyz(self, _: Any) -> Response:
        late = [name for name, one in self._open.items() if not one.engine.healthy]
        told = {"status": "ok", "streams": sorted(self._open), "late": late, "refused": sorted(self._refused)}
        return JSONResponse(told, 503 if late else 200, headers=HEADERS)

    async def _asset(self, request: Any) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return JSONResponse({"error": {"code": "not-found", "message": "there is nothing here."}}, 404)
        return FileResponse(PAGES / name, media_type=ASSETS[name], headers=HEADERS)


def names(root: Path) -> list[str]:
    """The streams in a folder that are not archived."""
    found = sorted(path.parent.name for path in root.glob(f"*/{CONFIG}"))
    return [name for name in found if NAME.fullmatch(name) and name not in TAKEN and not archived(root / name)]


def archived(folder: Path) -> bool:
    return (folder / "archived").exists()


def archive(folder: Path, away: bool) -> None:
    """Put a stream away, or take it back; its log is kept."""
    if not (folder / CONFIG).is_file():
        raise InputError(f"`archive({str(folder)!r})`: this is no stream; name one of its folder.")
    if away:
        (folder / "archived").touch(0o600)
    else:
        (folder / "archived").unlink(missing_ok=True)


def schema_of(database: str, name: str) -> str:
    """The address of a stream's own schema in a PostgreSQL database; the schema is made if it is missing."""
    import sqlalchemy as sql
    from sqlalchemy.engine import make_url

    from osamd.service.database import Database, brief

    whole = Database(database)
    try:
        with whole.writing() as connection:
            connection.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{name}"')
    except sql.exc.SQLAlchemyError as error:
        raise InputError(f"the database {whole.name} cannot be used ({brief(error)}); is it there?") from error
    finally:
        whole.close()
    own = make_url(database).update_query_dict({"options": f'-csearch_path="{name}"'})
    return own.render_as_string(hide_password=False)


_INDEX = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Streams</title>
<link rel="icon" href="assets/favicon.svg" type="image/svg+xml"><link rel="stylesheet" href="assets/style.css">
<script src="assets/theme.js"></script></head>
<body class="dashboard"><header><span class="brand">osamd</span><span class="task">Streams</span>
<button class="quiet" id="theme" type="button" hidden></button></header>
<main><h1 class="hidden">Streams</h1><ul class="charts streams">{rows}</ul></main></body></html>
"""
