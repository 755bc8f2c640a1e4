"""Traces for OpenTelemetry, set by its standard variables: a span per request, and one for its time in the engine.

    pip install 'osamd[telemetry]'
    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 osamd serve --dir pumps

Without such a variable, OpenTelemetry is not imported, and requests are not traced.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from starlette.types import Scope

from osamd import __version__
from osamd.service.request_ids import route_of

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""The variables that switch traces on."""


class Tracing:
    """Makes the spans."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry import propagate, trace

        self._provider, self._propagate, self._trace = provider, propagate, trace
        self._tracer = provider.get_tracer("osamd", __version__)

    def request(self, scope: Scope) -> Any:
        """A span around one request; its parent is the span that the caller names (`traceparent`)."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        parent, kind = self._propagate.extract(headers), self._trace.SpanKind.SERVER
        return self._tracer.start_as_current_span(scope["method"], context=parent, kind=kind)

    def answered(self, span: Any, scope: Scope, status: int, name: str) -> None:
        """Add the outcome to the span; the route is known only now."""
        route = route_of(scope)
        span.update_name(f"{scope['method']} {route}")
        told = {"http.request.method": scope["method"], "http.route": route, "http.response.status_code": status}
        span.set_attributes(told | {"osamd.request_id": name})
        if status >= 500 or status == 0:
            span.set_status(self._trace.StatusCode.ERROR)

    def around(self, do: Callable[..., Any]) -> Callable[..., Any]:
        """The engine's `do`, with a span from the queue to the commit of the events."""

        async def traced(work: Callable[..., Any], *arguments: Any) -> Any:
            with self._tracer.start_as_current_span(f"engine {work.__name__}"):
                return await do(work, *arguments)

        return traced

    def stop(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()


def tracing() -> Tracing | None:
    """The tracing, if the variables ask for it; else None."""
    wanted = (
        any(os.environ.get(name) for name in ENDPOINTS) and os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    )
    if not wanted or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        told = "no traces are sent, though %s is set: pip install 'osamd[telemetry]'"
        logging.getLogger("osamd.service").warning(told, next(name for name in ENDPOINTS if os.environ.get(name)))
        return None
    name = os.environ.get("OTEL_SERVICE_NAME", "osamd")
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)
