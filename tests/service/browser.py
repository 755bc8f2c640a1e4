"""What the tests of the pages share: services of their own in processes, and pages that notice every complaint."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import osamd
from osamd.service.folder import create
from osamd.service.schema import NamedClass, SampleColumn, Schema

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}

HOSTILE = ["<img src=x onerror=alert(1)>", "שלום עולם", "A" * 200, "__proto__", "\u202ebackwards"]
"""Names that must stay text, whatever they look like."""


def make_folder(folder: Path, classes: list[str], columns: list[SampleColumn], title: str) -> None:
    """A service whose learner asks for every label."""
    generator = np.random.default_rng(0)
    labels = [classes[i % len(classes)] for i in range(60)]
    rows = generator.normal(size=(60, len(columns)))
    learner = osamd.OSAMD.from_source(rows, labels, classes=classes, sigma=1e9, seed=0)
    named = [NamedClass(name=name, title=name if name in HOSTILE else name.capitalize()) for name in classes]
    create(folder, learner, schema=Schema(title=title, columns=columns, classes=named))


class Served:
    """`osamd serve` in a process of its own."""

    def __init__(self, folder: Path, token: str | None = None) -> None:
        command = [sys.executable, "-m", "osamd", "serve", "--dir", str(folder), "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._generator = np.random.default_rng(1)
        self._token = token

    def wait(self) -> None:
        """Until it takes requests."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"at (http://\S+)", line)
        assert found, line
        self.url = found[1]
        header = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        self.http = httpx.Client(base_url=self.url, headers=header)
        self.features = len(self.call("GET", "/v1/schema")["columns"])

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def ask(self, count: int) -> list[int]:
        """Samples that all become queries; their rounds."""
        rows = self._generator.normal(size=(count, self.features)).tolist()
        decisions = self.call("POST", "/v1/samples", {"samples": [{"features": row} for row in rows]})["decisions"]
        assert all(decision["query"] for decision in decisions)
        return [decision["round"] for decision in decisions]

    def empty(self) -> None:
        """No query waits any more; answers that closing pages have sent may still come in between."""
        for query in self.call("GET", "/v1/queries?limit=1000")["queries"]:
            self.http.post(f"/v1/queries/{query['round']}/expire", json={})
        assert self.status()["pending"] == 0

    def status(self) -> Any:
        return self.call("GET", "/v1/status")

    def label_of(self, round: int, classes: list[str]) -> str | None:
        """The label that a round was told: the one that is "repeated" when told again."""
        for name in classes:
            if self.http.post("/v1/labels", json={"round": round, "label": name}).is_success:
                return name
        return None

    def stop(self) -> None:
        self.http.close()
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=30)


def plain_columns(count: int) -> list[SampleColumn]:
    units = ["m", "°C", ""]
    return [SampleColumn(name=f"sensor {i + 1}", unit=units[i % 3]) for i in range(count)]


def hostile_columns() -> list[SampleColumn]:
    return [SampleColumn(name=name, unit="<b>m</b>") for name in HOSTILE]


WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


class Watched:
    """Pages in a context of their own; all that they complain of is kept."""

    def __init__(self, browser: Any, url: str, *, expected: str | None = None, **settings: Any) -> None:
        self.context = browser.new_context(base_url=url, **settings)
        self.context.set_default_timeout(15_000)
        self.context.add_init_script(WATCH)
        self.complaints: list[str] = []
        self._expected = expected
        self.context.on("page", self._watch)

    def _watch(self, page: Any) -> None:
        page.on("console", lambda message: self._hear(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def _hear(self, text: str) -> None:
        if self._expected is None or not re.search(self._expected, text):
            self.complaints.append(text)

    def open(self, path: str) -> Any:
        page = self.context.new_page()
        page.goto(path)
        return page

    def close(self) -> None:
        violations = [page.evaluate("window.violations ?? []") for page in self.context.pages]
        self.context.close()
        assert not self.complaints, self.complaints
        assert not any(violations), violations


def shown_round(page: Any) -> int:
    """The round of the sample on the page."""
    page.wait_for_selector("main[data-state=sample]")
    return int(page.text_content("#heading").removeprefix("Round ").replace(",", ""))


def press_on(page: Any, key: str) -> int:
    """Press a key that brings the next sample, and wait for it; the round of that one."""
    before = page.text_content("#heading")
    page.keyboard.press(key)
    page.wait_for_function("before => document.getElementById('heading').textContent !== before", arg=before)
    return shown_round(page)
