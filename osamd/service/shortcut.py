"""The shortcut for samples, the most frequent request: their route is called without FastAPI's machinery.

FastAPI's routing and its layers for errors take longer than a round. Errors get the same responses here.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send


class Shortcut:
    """Answers the POST requests to one route; the app answers all others."""

    def __init__(self, app: ASGIApp, route: APIRoute) -> None:
        self._app, self._route = app, route
        self._handle = route.get_route_handler()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "http"
            or scope["method"] != "POST"
            or scope["path"].removeprefix(scope.get("root_path", "")) != self._route.path
        ):
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        request = Request(scope, receive)
        try:
            answer = await self._handle(request)
        except Exception as error:
            handlers = request.app.exception_handlers
            kind = next(kind for kind in type(error).__mro__ if kind in handlers)
            if kind is Exception:
                raise  # the layer around the whole app answers it
            answer = await handlers[kind](request, error)
        await answer(scope, receive, send)
