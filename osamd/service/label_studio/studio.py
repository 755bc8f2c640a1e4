"""The part of Label Studio's HTTP API that the bridge uses."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import httpx

from osamd.errors import InputError
from osamd.service.label_studio.tasks import KEY, ROUND

PAGE = 100
"""Tasks read at a time."""
LARGEST_IMPORT = 8 * 2**20
"""Bytes of tasks per request, roughly; Label Studio accepts 250 MB."""


class LabelStudioError(Exception):
    """Label Studio did not fulfil a request; `passing`: trying again later may help."""

    def __init__(self, message: str, passing: bool) -> None:
        super().__init__(message)
        self.passing = passing


class AnnotatedTask(NamedTuple):
    """A task in Label Studio, and the first choice that somebody made."""

    id: int
    key: str
    updated_at: str
    choice: str | None
    """None if nobody has chosen yet; a skipped task has no choice."""
    by: int | None
    """The number of the person in Label Studio."""


class Project(NamedTuple):
    """A project in Label Studio."""

    id: int
    title: str
    label_config: str


class TokenAuth(httpx.Auth):
    """Either kind of token: a legacy token is sent as it is, a personal one is exchanged for short-lived tokens."""

    requires_response_body = True

    def __init__(self, url: str, token: str) -> None:
        self._refresh, self._token = f"{url.rstrip('/')}/api/token/refresh", token
        self._access: str | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._token.count(".") != 2:  # not a JSON web token
            request.headers["authorization"] = f"Token {self._token}"
            yield request
            return
        if self._access is not None:
            request.headers["authorization"] = f"Bearer {self._access}"
            if (yield request).status_code != 401:
                return
        answer = yield httpx.Request("POST", self._refresh, json={"refresh": self._token})
        if answer.status_code == 200:
            self._access = str(answer.json()["access"])
        request.headers["authorization"] = f"Bearer {self._access}"
        yield request


class LabelStudio:
    """Talks to Label Studio at `url`."""

    def __init__(self, url: str, token: str, timeout: float = 60.0) -> None:
        try:
            self._http = httpx.Client(base_url=url, auth=TokenAuth(url, token), timeout=timeout, follow_redirects=True)
        except httpx.InvalidURL as error:
            raise InputError(
                f"`LabelStudio(label_studio={url!r})`: {error}; give an address such as http://host:8080."
            ) from error

    def projects(self, title: str) -> list[Project]:
        """The projects with exactly this title, the first one first."""
        found = self._call("GET", "/api/projects", params={"title": title, "page_size": 1000})["results"]
        return sorted(_project(one) for one in found if one["title"] == title)

    def project(self, number: int) -> Project:
        return _project(self._call("GET", f"/api/projects/{number}"))

    def create_project(self, **settings: Any) -> None:
        self._call("POST", "/api/projects", json=settings)

    def set_config(self, project: int, label_config: str) -> None:
        self._call("PATCH", f"/api/projects/{project}", json={"label_config": label_config})

    def create_tasks(self, project: int, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Make tasks, in batches."""
        for some in _batches(tasks):
            self._call("POST", f"/api/projects/{project}/import", content=some)

    def remove_tasks(self, project: int, tasks: Sequence[int]) -> None:
        chosen = {"selectedItems": {"all": False, "included": list(tasks)}}
        self._call("POST", "/api/dm/actions", params={"id": "delete_tasks", "project": project}, json=chosen)

    def tasks(self, project: int, since: str | None = None) -> Iterator[AnnotatedTask]:
        """The tasks of queries, or only those that changed after this time (a text of Label Studio)."""
        wanted: list[dict[str, Any]] = [
            {"filter": f"filter:tasks:data.{ROUND}", "operator": "greater_or_equal", "type": "Number", "value": 0}
        ]
        if since is not None:
            changed = {"filter": "filter:tasks:updated_at", "operator": "greater", "type": "Datetime", "value": since}
            wanted.append(changed)
        query = json.dumps({"filters": {"conjunction": "and", "items": wanted}, "ordering": ["tasks:id"]})
        asked = {"project": project, "page_size": PAGE, "fields": "all", "query": query}
        seen, page, total = 0, 1, 1
        while seen < total:
            told = self._call("GET", "/api/tasks", params=asked | {"page": page})
            total, page, seen = int(told["total"]), page + 1, seen + PAGE
            yield from (_annotated(one) for one in told["tasks"])

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, path: str, **given: Any) -> Any:
        if "content" in given:
            given["headers"] = {"content-type": "application/json"}
        try:
            answer = self._http.request(method, path, **given)
        except (httpx.TransportError, httpx.TooManyRedirects) as error:
            raise LabelStudioError(
                f"Label Studio at {self._http.base_url} does not respond ({error}).", True
            ) from error
        if answer.is_success:
            return answer.json() if answer.content else None
        passing = answer.status_code >= 500 or answer.status_code in (404, 408, 429)
        raise LabelStudioError(f"Label Studio refuses {method} {path}: {_why(answer)}", passing)


def _why(answer: httpx.Response) -> str:
    try:
        said = answer.json()
        told = f"{said.get('detail')} {json.dumps(said.get('validation_errors') or '')}".strip(' "')
    except (ValueError, AttributeError):
        told = answer.reason_phrase
    if answer.status_code in (401, 403):
        told += " Set LABEL_STUDIO_API_KEY to a token; you find it under Account & Settings."
    return f"{answer.status_code} {told[:500]}"


def _project(told: Mapping[str, Any]) -> Project:
    return Project(int(told["id"]), str(told["title"]), str(told["label_config"]))


def _annotated(task: Mapping[str, Any]) -> AnnotatedTask:
    made = sorted(task.get("annotations") or [], key=lambda one: one["id"])
    chosen = [(choice, one) for one in made if not one["was_cancelled"] for choice in _choices(one)]
    choice, annotation = chosen[0] if chosen else (None, {})
    key = str(task["data"].get(KEY, ""))
    return AnnotatedTask(int(task["id"]), key, str(task["updated_at"]), choice, annotation.get("completed_by"))


def _choices(annotation: Mapping[str, Any]) -> list[str]:
    found = [one["value"]["choices"] for one in annotation["result"] if one.get("type") == "choices"]
    return [str(choice) for choices in found for choice in choices]


def _batches(tasks: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    held: list[bytes] = []
    for task in tasks:
        held.append(json.dumps(task).encode())
        if sum(map(len, held)) > LARGEST_IMPORT or len(held) >= PAGE:
            yield b"[" + b",".join(held) + b"]"
            held = []
    if held:
        yield b"[" + b",".join(held) + b"]"
