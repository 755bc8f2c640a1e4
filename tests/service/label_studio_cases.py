"""What the tests of the bridge share: a small stand-in for Label Studio, shaped by answers of the real one, and people.

The stand-in speaks the few endpoints that the bridge uses. Whatever is tested against it is tested against the real
server, too, by `make test-label-studio`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import httpx
from http_cases import Served, until

from osamd.service.label_studio.bridge import MOMENT
from osamd.service.label_studio.tasks import KEY, ROUND

TOKEN = "0123456789abcdef0123456789abcdef01234567"
PERSONAL = "eyJhbGciOiJIUzI1NiJ9.eyJ0b2tlbl90eXBlIjoicmVmcmVzaCJ9.c2lnbmVk"


class FakeStudio:
    """Projects and tasks in memory, behind a server that answers nobody while it is `down`."""

    def __init__(self) -> None:
        self.projects: list[dict[str, Any]] = []
        self.tasks: dict[int, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.access = 0
        self.down = False
        self._numbers = iter(range(1, 10**6))
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, query: dict[str, str], token: str, body: Any) -> tuple[int, Any]:
        with self._lock:
            self.requests.append(f"{method} {path}")
            if path == "/api/token/refresh":
                self.access += 1
                return (200, {"access": f"access-{self.access}"}) if body["refresh"] == PERSONAL else (401, {})
            if token not in (f"Token {TOKEN}", f"Bearer access-{self.access}"):
                return 401, {"status_code": 401, "detail": "Invalid token.", "exc_info": None}
            return self._known(method, path.rstrip("/").split("/")[2:], query, body)

    def _known(self, method: str, parts: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        if parts == ["projects"] and method == "GET":
            found = [one for one in self.projects if query["title"] in one["title"]]
            return 200, {"count": len(found), "next": None, "previous": None, "results": found}
        if parts == ["projects"]:
            self.projects.append({"id": next(self._numbers)} | body)
            return 201, self.projects[-1]
        if parts[0] == "projects":
            project = next((one for one in self.projects if one["id"] == int(parts[1])), None)
            if project is None:
                return 404, {"status_code": 404, "detail": "Not found.", "exc_info": None}
            if parts[2:] == ["import"]:
                return self._imported(project, body)
            project.update(body or {})
            return 200, project
        if parts == ["dm", "actions"]:
            assert query["id"] == "delete_tasks"
            for number in body["selectedItems"]["included"]:
                del self.tasks[number]
            return 200, {"processed_items": len(body["selectedItems"]["included"])}
        if parts[0] == "tasks" and parts[2:] == ["annotations"]:
            task = self.tasks[int(parts[1])]
            task["annotations"].append({"id": next(self._numbers), "was_cancelled": False, "completed_by": 1} | body)
            task["updated_at"] = _now()
            return 201, task["annotations"][-1]
        if parts[0] == "annotations":
            return self._changed(int(parts[1]), body)
        assert parts == ["tasks"]
        return self._listed(query)

    def _changed(self, number: int, body: Any) -> tuple[int, Any]:
        for task in self.tasks.values():
            for annotation in task["annotations"]:
                if annotation["id"] == number:
                    annotation |= body
                    task["updated_at"] = _now()
                    return 200, annotation
        return 404, {"status_code": 404, "detail": "Not found.", "exc_info": None}

    def _imported(self, project: dict[str, Any], body: Any) -> tuple[int, Any]:
        keys = [word.strip('"').removeprefix("$") for word in project["label_config"].split("value=") if word[1] == "$"]
        names = [key.split('"')[0] for key in keys]
        for i, task in enumerate(body):
            missing = [name for name in names if name not in task["data"]]
            if missing:
                told = [f'Error at item {i}: "{missing[0]}" key is expected in task data']
                errors = {"non_field_errors": told}
                return 400, {"status_code": 400, "detail": "Validation error", "validation_errors": errors}
            number = next(self._numbers)
            self.tasks[number] = task | {
                "id": number,
                "project": project["id"],
                "annotations": [],
                "updated_at": _now(),
            }
        return 201, {"task_count": len(body), "annotation_count": 0, "prediction_count": len(body)}

    def _listed(self, query: dict[str, str]) -> tuple[int, Any]:
        found = [task for task in self.tasks.values() if task["project"] == int(query["project"])]
        for wanted in json.loads(query["query"])["filters"]["items"] if "query" in query else []:
            if wanted["filter"] == f"filter:tasks:data.{ROUND}":
                found = [task for task in found if task["data"].get(ROUND, -1) >= wanted["value"]]
            else:
                since = datetime.strptime(wanted["value"], MOMENT).replace(tzinfo=UTC)
                found = [task for task in found if datetime.fromisoformat(task["updated_at"]) > since]
        page, size = int(query.get("page", 1)), int(query["page_size"])
        if page > 1 and (page - 1) * size >= len(found):
            return 404, {"status_code": 404, "detail": "Invalid page.", "exc_info": None}
        return 200, {"total": len(found), "tasks": found[(page - 1) * size : page * size]}


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _handler(studio: FakeStudio) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            if studio.down:
                self.close_connection = True
                return
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            place = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(place.query).items()}
            token = self.headers.get("authorization", "")
            status, told = studio.answer(self.command, place.path, query, token, body)
            held = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(held)))
            self.end_headers()
            self.wfile.write(held)

        do_GET = do_POST = do_PATCH = _answer

        def log_message(self, *_: object) -> None:
            return

    return Handler


class Person:
    """Somebody who works in Label Studio, by its API."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, headers={"authorization": f"Token {TOKEN}"}, timeout=60)
        self.chosen: dict[int, str] = {}
        """The choice for each round."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def project(self, title: str) -> int | None:
        found = self._http.get("/api/projects", params={"title": title, "page_size": 10}).json()["results"]
        return found[0]["id"] if found else None

    def tasks(self, project: int) -> list[dict[str, Any]]:
        asked = {"project": project, "page_size": 1000, "fields": "all"}
        told: list[dict[str, Any]] = self._http.get("/api/tasks", params=asked).json()["tasks"]
        return told

    def choose(self, task: dict[str, Any], choice: str) -> None:
        self.annotate(task, {"result": [_chosen(choice)]})
        self.chosen[task["data"][ROUND]] = choice

    def change(self, task: dict[str, Any], choice: str) -> None:
        """Change the choice that was made in a task, which was read again after it was made."""
        made = next(one for one in task["annotations"] if not one.get("was_cancelled"))  # a skipped task has one, too
        path = f"/api/annotations/{made['id']}/"
        self._http.patch(path, json={"result": [_chosen(choice)]}).raise_for_status()

    def skip(self, task: dict[str, Any]) -> None:
        self.annotate(task, {"was_cancelled": True, "result": []})

    def annotate(self, task: dict[str, Any], body: dict[str, Any]) -> None:
        self._http.post(f"/api/tasks/{task['id']}/annotations/", json=body).raise_for_status()


def _chosen(choice: str) -> dict[str, Any]:
    return {"from_name": "label", "to_name": "sample", "type": "choices", "value": {"choices": [choice]}}


class BridgeProcess:
    """`osamd label-studio` in a process of its own."""

    def __init__(self, service: str, studio: str, *options: str) -> None:
        command = [sys.executable, "-m", "osamd", "label-studio", "--url", service, "--label-studio", studio]
        command += ["--every", "0.2", *options]
        environment = os.environ | {"LABEL_STUDIO_API_KEY": TOKEN}
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def end(self) -> None:
        """As an operator does; Ctrl-C is ignored where the tests run in the background."""
        self._process.terminate()
        self._process.communicate(timeout=30)


def answered_under_kills(service: Served, studio_url: str, queries: int, kills: int) -> dict[int, str]:
    """Let a person answer all queries in Label Studio while the bridge is killed so many times; what they chose."""
    with Person(studio_url) as person:
        _answer_under_kills(person, service, studio_url, queries, kills)
        return person.chosen


def _answer_under_kills(person: Person, service: Served, studio_url: str, queries: int, kills: int) -> None:
    bridge = BridgeProcess(service.url, studio_url)
    title = service.get("/v1/schema")["title"]
    try:
        project = until(lambda: person.project(title), "the bridge makes the project", 60)
        killed = 0
        while len(person.chosen) < queries:
            for task in person.tasks(project):
                number = task["data"][ROUND]
                if number in person.chosen:
                    continue
                person.choose(task, "cat" if number % 3 else "dog")
                if killed < kills and len(person.chosen) >= (killed + 1) * queries // (kills + 1):
                    bridge.kill()
                    bridge = BridgeProcess(service.url, studio_url)
                    killed += 1
        assert killed == kills
        until(lambda: service.get("/v1/status")["told"] >= queries, "the bridge tells all answers", 120)
    finally:
        bridge.end()
    keys = [task["data"][KEY] for task in person.tasks(project)]
    assert len(set(keys)) == queries
