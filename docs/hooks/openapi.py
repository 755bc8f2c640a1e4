"""The page of the HTTP API: from the OpenAPI document of the service, with answers of a service that is asked here."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openapi_markdown import kinds, listed, models, parameter, table

NOON = 1_767_268_800.0
"""The clock of the example: noon of 1 January 2026, UTC."""

EVERYWHERE = ("unauthorised", "forbidden", "cross-site", "overloaded", "storage")
WITH_A_BODY = ("invalid", "malformed-json", "too-large", "unsupported-media-type", "timeout")
ENDED = ("unknown", "not-asked", "answered", "expired")

CODES = {
    "invalid": "something in the request is not as it must be; `where` says what",
    "refused": "the model can make nothing of the sample: its score is beyond all numbers",
    "wild": "a value is far beyond all before; see `wild` under limits",
    "no-such-class": "the label is none of the classes",
    "malformed-json": "the body is no JSON",
    "unauthorised": "no token, or one that is not known",
    "forbidden": "the token has another role",
    "cross-site": "another site sent it, or the service was called by a name that is not its own",
    "unknown": "there is no such round, or no sample with this id",
    "not-found": "there is no such path",
    "method-not-allowed": "the path has other methods",
    "timeout": "the body did not arrive within 20 s",
    "not-asked": "the round was no query",
    "not-answered": "the query still waits for its label",
    "answered": "the query has another answer already",
    "expired": "the query was given up, and its label is no longer wanted",
    "id-reused": "the id was used for another sample",
    "held": "somebody else holds the query",
    "too-large": "the body is above 8 MiB, or holds too many samples or labels",
    "unsupported-media-type": "the header `Content-Type: application/json` is missing (of Arrow: its own)",
    "overloaded": "too many requests wait; try again after the seconds in `Retry-After`",
    "storage": "the log cannot be written; send it again later, with the same id",
    "internal": "a fault of the service's own; its log tells",
}
"""What each code of a refusal means."""

ROUTES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "POST /v1/samples": (
        [
            {"features": {"temperature": 21.5, "vibration": 1.1, "line": "a"}, "id": "reading-1"},
            {"samples": [{"features": [20.4, 0.9, "b"]}, {"features": [33.1, None, "a"], "id": "reading-2"}]},
        ],
        ("refused", "wild", "id-reused"),
    ),
    "POST /v1/samples/arrow": ([], ("id-reused",)),
    "POST /v1/labels": (
        [
            {"round": 0, "label": "good"},
            {"labels": [{"id": "reading-2", "label": "faulty"}, {"round": 99, "label": "good"}]},
        ],
        ("no-such-class", *ENDED),
    ),
    "GET /v1/labels": ([], ("invalid",)),
    "POST /v1/corrections": (
        [{"round": 0, "label": "faulty"}],
        ("no-such-class", "unknown", "not-asked", "not-answered"),
    ),
    "GET /v1/answers": (["?limit=2"], ("invalid",)),
    "GET /v1/queries": (["?order=valuable&limit=1"], ("invalid",)),
    "POST /v1/queries/claim": ([{"holder": "anna-laptop", "limit": 1}], ()),
    "POST /v1/queries/{round}/skip": ([{"holder": "anna-laptop"}], (*ENDED, "held")),
    "POST /v1/queries/{round}/unsure": ([{"holder": "anna-laptop"}], (*ENDED, "held")),
    "POST /v1/queries/{round}/none": ([], (*ENDED, "held")),
    "GET /v1/queries/{round}/{place}": ([], ("not-found",)),
    "POST /v1/queries/{round}/expire": ([{}], ("unknown", "not-asked", "answered")),
    "POST /v1/queries/expire": ([{"older_than": 1000}], ()),
    "GET /v1/status": ([""], ()),
    "GET /v1/history": (["?points=2"], ("invalid",)),
    "GET /v1/schema": ([""], ()),
    "GET /v1/events": ([], ()),
    "POST /v1/budget": ([{"budget": 0.1}], ()),
    "POST /v1/classes": ([], ("refused",)),
    "POST /v1/archive": ([], ()),
    "POST /v1/erase": ([], ("unknown",)),
    "GET /livez": ([""], ()),
    "GET /readyz": ([""], ()),
    "GET /healthz": ([""], ()),
    "GET /metrics": ([], ()),
    "POST /login": ([], ()),
    "POST /logout": ([], ()),
}
"""Every route in the order of the page: what the example sends, and the codes of refusals beside the usual ones."""

SHOWN = {
    "POST /v1/samples/arrow": (
        "curl -s http://127.0.0.1:8000/v1/samples/arrow"
        " -H 'Content-Type: application/vnd.apache.arrow.stream' --data-binary @samples.arrows > decisions.arrows",
        "(an Arrow stream)",
    ),
    "GET /v1/labels": (
        "curl -s 'http://127.0.0.1:8000/v1/labels?after=0'",
        '{"seq": 4, "round": 0, "id": "reading-1", "decision": "good", "probability": 0.9, "label": "good", ...}',
    ),
    "POST /v1/queries/{round}/none": (
        'curl -s http://127.0.0.1:8000/v1/queries/7/none --json \'{"holder": "anna-laptop"}\'',
        '{"round": 7, "status": "none"}',
    ),
    "GET /v1/queries/{round}/{place}": ("curl -s http://127.0.0.1:8000/v1/queries/7/image > 7.png", "(the image)"),
    "GET /v1/events": (
        "curl -sN http://127.0.0.1:8000/v1/events",
        'event: status\ndata: {"seq": 41, "rounds": 38, "asked": 2, ...}\n\n'
        'id: 42\nevent: query\ndata: {"seq": 42, "round": 38, "at": 1767268800.0}\n\n'
        'id: 43\nevent: label\ndata: {"seq": 43, "round": 38, "at": 1767268861.5, "label": "good"}',
    ),
    "POST /v1/classes": (
        'curl -s http://127.0.0.1:8000/v1/classes --json \'{"name": "worn"}\'',
        '{"classes": ["good", "faulty", "worn"]}',
    ),
    "POST /v1/archive": (
        "curl -s http://127.0.0.1:8000/v1/archive --json '{\"older_than_days\": 90}'",
        '{"events": 12408, "file": "events-0-12407.parquet"}',
    ),
    "POST /v1/erase": (
        'curl -s http://127.0.0.1:8000/v1/erase --json \'{"ids": ["reading-2"]}\'',
        '{"samples": 1, "answers": 0}',
    ),
    "GET /metrics": (
        "curl -s http://127.0.0.1:8000/metrics",
        "# HELP osamd_rounds_total Samples decided on.\n# TYPE osamd_rounds_total counter\n"
        "osamd_rounds_total 38.0\n...",
    ),
    "POST /login": (
        'curl -s -c cookies http://127.0.0.1:8000/login --json \'{"token": "osamd_..."}\'',
        '{"name": "anna", "roles": ["annotator"]}',
    ),
    "POST /logout": ("curl -s -b cookies http://127.0.0.1:8000/logout --json '{}'", '{"status": "ok"}'),
}
"""Examples that no service without tokens, and without an end, can answer here."""


def page() -> str:
    """The page, in Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        app = _app(Path(folder))
        document = app.openapi()
        examples = asyncio.run(_examples(app))
    return "\n\n".join([_INTRODUCTION, _codes(), *_routes(document, _roles(app), examples), *models(document)]) + "\n"


_INTRODUCTION = """# The HTTP API

All bodies are JSON. The service itself gives this as an OpenAPI document, at `/openapi.json`. The examples were
answered by a service of three columns; `osamd.client` wraps the same routes in Python.

Where the service has tokens, programs send `Authorization: Bearer TOKEN`, and people a cookie that `/login` gave them.
Each route names the [role](../guides/operations.md#tokens-and-roles) it takes."""


def _codes() -> str:
    from osamd.service.refusals import STATUS

    guard = {"cross-site": 403, "unsupported-media-type": 415, "timeout": 408, "internal": 500}
    rows = [f"| `{code}` | {(STATUS | guard)[code]} | {meaning} |" for code, meaning in CODES.items()]
    example = json.dumps(
        {
            "error": {
                "code": "invalid",
                "message": "the column 'temperature' is '21.5'; give a number, or null where it is missing.",
                "where": "body.features",
            }
        },
        indent=2,
    )
    return "\n".join(
        [
            "## Refusals",
            "",
            "A refusal has changed nothing. Its code is stable; the message is for people.",
            "",
            f"```json\n{example}\n```",
            "",
            "| code | status | meaning |",
            "|---|---|---|",
            *rows,
            "",
            f"Any route may answer {listed(EVERYWHERE)}; one with a body {listed(WITH_A_BODY)}, too.",
        ]
    )


def _app(folder: Path) -> Any:
    """A service around a small table."""
    from osamd import OSAMD
    from osamd.service.api import make_app
    from osamd.service.engine import Engine
    from osamd.service.folder import create
    from osamd.service.log import Log
    from osamd.service.schema import NamedClass, SampleColumn, Schema

    schema = Schema(
        title="pumps",
        columns=[
            SampleColumn(name="temperature", unit="°C", fill=22.6),
            SampleColumn(name="vibration", fill=1.8),
            SampleColumn(name="line", kind="categorical", categories=["(missing)", "a", "b"]),
        ],
        classes=[NamedClass(name="faulty", title="faulty"), NamedClass(name="good", title="good")],
    )
    learner = OSAMD(features=schema.features, classes=["faulty", "good"], sigma=1e6, standardise=True)
    state = create(folder / "pumps", learner, schema=schema)
    log = Log(state.log_file)
    return make_app(Engine(state, log, lambda: NOON), log)


async def _examples(app: Any) -> dict[str, list[tuple[str, str]]]:
    """What is sent, as a curl command, and what the service answers, by route."""
    import httpx

    address, told = "http://127.0.0.1:8000", {}
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=address) as service:

        async def shown(route: str, given: Any) -> tuple[str, str]:
            method, path = route.replace("{round}", "1").split()
            if method == "GET":
                answer, sent = await service.get(path + given), f"'{address}{path}{given}'"
            else:
                answer, sent = await service.post(path, json=given), f"{address}{path} --json '{json.dumps(given)}'"
            assert answer.status_code == 200, (route, answer.text)
            return f"curl -s {sent}", json.dumps(answer.json(), indent=2, ensure_ascii=False)

        for route, (given, _) in ROUTES.items():
            told[route] = [await shown(route, one) for one in given] or [SHOWN[route]]
            if route == "POST /v1/labels":
                await _go_on(service)
    return told


async def _go_on(service: Any) -> None:
    """A hundred more rounds, so that there is something to tell of."""
    for i in range(100):
        features = [20.0 + 3 * (i % 5), 1.0 + 0.5 * (i % 5), "a"]
        decision = (await service.post("/v1/samples", json={"features": features})).json()
        if i < 98 and decision["query"]:
            label = {"round": decision["round"], "label": "faulty" if i % 5 > 2 else "good"}
            await service.post("/v1/labels", json=label)


def _routes(document: dict[str, Any], roles: dict[str, str], examples: dict[str, Any]) -> Iterator[str]:
    told = {f"{method.upper()} {path}" for path, ways in document["paths"].items() for method in ways}
    assert told == set(ROUTES), told ^ set(ROUTES)
    for route, (_, codes) in ROUTES.items():
        method, path = route.split()
        way = document["paths"][path][method.lower()]
        parts = [f"## `{route}`", way["description"], f"Takes {roles[route]}."]
        if way.get("parameters"):
            parts.append(table(("parameter", "in", "is", ""), map(parameter, way["parameters"])))
        if "requestBody" in way:
            parts.append(f"Body: {kinds(way['requestBody'])}.")
        parts.append(f"Answer: {kinds(way['responses']['200'])}." + (f" Refusals: {listed(codes)}." if codes else ""))
        for command, answer in examples[route]:
            kind = "json" if answer.startswith("{") else "text"
            parts.append(f"```text\n{command}\n```\n\n```{kind}\n{answer}\n```")
        yield "\n\n".join(parts)


def _roles(app: Any) -> dict[str, str]:
    """Who may use each route, from what it depends on."""
    from osamd.service import access, admin_routes, desk_routes, routes

    words = {
        access.admin: "an admin's token",
        access.annotator: "an annotator's token",
        access.client: "a client's token",
        access.member: "a client's or an annotator's token",
        access.person: "any token",
    }
    told: dict[str, str] = {}
    for router in (routes.samples, routes.router, desk_routes.router, admin_routes.router, _web()):
        for route in router.routes:
            called = set(_calls(route.dependant))
            role = next((text for call, text in words.items() if call in called), "no token")
            told |= {f"{method} {route.path}": role for method in route.methods}
    return told


def _web() -> Any:
    from osamd.service.web import router

    return router


def _calls(dependant: Any) -> Iterator[Any]:
    yield dependant.call
    for one in dependant.dependencies:
        yield from _calls(one)
