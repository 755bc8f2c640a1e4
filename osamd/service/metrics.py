"""Metrics for Prometheus: the status of the stream, and response times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osamd.service.alarm import Alarm
from osamd.service.desk import Refusal
from osamd.service.engine import Engine

_COUNTERS = {
    "rounds": "Samples decided on.",
    "asked": "Labels asked for.",
    "told": "Labels received.",
    "expired": "Queries that expired without a label.",
}
_GAUGES: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "pending_queries": ("Pending queries.", lambda status: status["pending"]),
    "accuracy": ("Estimated accuracy over all rounds.", lambda status: status["accuracy"]["value"]),
    "accuracy_low": ("Lower end of its interval.", lambda status: status["accuracy"]["low"]),
    "accuracy_high": ("Upper end of its interval.", lambda status: status["accuracy"]["high"]),
    "recent_accuracy": ("Estimated accuracy over the last rounds.", lambda status: status["recent"]["value"]),
    "recent_disagreement": (
        "Share of decisions that differ from the pseudolabel.",
        lambda s: s["health"]["disagreement"],
    ),
    "recent_margin": ("Mean margin over the last rounds.", lambda status: status["health"]["margin"]),
    "budget_rate": ("The budget: the largest share of labels.", lambda status: status["budget"]["rate"]),
    "collapsed": ("1 while self-training is found to go wrong.", lambda s: int(s["health"]["collapsed"])),
    "alarm": ("1 while the learner raises the alarm.", lambda s: int(s["health"]["state"] == "alarm")),
    "health_unknown": ("1 while too little is known.", lambda s: int(s["health"]["state"] == "unknown")),
    "recent_accuracy_low": ("Lower end of its interval.", lambda s: s["recent"]["low"]),
    "recent_accuracy_high": ("Upper end of its interval.", lambda s: s["recent"]["high"]),
    "wild_samples": ("Samples refused for a value far larger than any before.", lambda s: s["wild"]["count"]),
    "second_opinion_agreement": ("Share of samples two people agree on.", lambda s: s["second_opinions"]["share"]),
}


class Metrics:
    """The metrics of one engine."""

    def __init__(self, engine: Engine, alarm: Alarm | None = None) -> None:
        self._engine, self._alarm = engine, alarm
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._seconds = Histogram(
            "osamd_request_seconds",
            "Response time.",
            ["route", "status"],
            registry=self._registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0),
        )
        self._series: dict[tuple[str, str], Any] = {}

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Any]:
        """The metrics, as the Prometheus client library calls for them."""
        told = "Seconds since the log was last written."
        yield GaugeMetricFamily("osamd_last_commit_age_seconds", told, value=self._engine.age)
        if self._alarm is not None:
            told = "1 while a change of the alarm waits to be posted to the webhook."
            yield GaugeMetricFamily("osamd_alarm_webhook_pending", told, value=int(self._alarm.pending))
            told = "Failed attempts to post it."
            yield CounterMetricFamily("osamd_alarm_webhook_failures", told, value=self._alarm.failures)
        try:
            status = self._engine.status()
        except Refusal:
            return
        for name, told in _COUNTERS.items():
            yield CounterMetricFamily(f"osamd_{name}", told, value=status[name])
        for name, (told, read) in _GAUGES.items():
            value = read(status)
            if value is not None:
                yield GaugeMetricFamily(f"osamd_{name}", told, value=value)

    def timed(self, app: ASGIApp) -> ASGIApp:
        """The app with its response times measured per route; requested paths are not recorded."""

        async def timed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            start = time.perf_counter()

            async def seen(message: Message) -> None:
                if message["type"] == "http.response.start":
                    route = getattr(scope.get("route"), "path", "other")
                    labels = (route, str(message["status"]))
                    series = self._series.get(labels)
                    if series is None:
                        series = self._series[labels] = self._seconds.labels(*labels)
                    series.observe(time.perf_counter() - start)
                await send(message)

            await app(scope, receive, seen)

        return timed
