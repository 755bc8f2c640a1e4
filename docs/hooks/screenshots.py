"""The pictures of the service's pages and of the report: python docs/hooks/screenshots.py (Chromium and playwright).

The pictures of labelling on a phone are those that a test keeps: OSAMD_SCREENSHOTS=FOLDER pytest
tests/service/test_three_desks.py
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

import osamd
from osamd.cli.app import main
from osamd.client import Client
from osamd.service.demo import CLASSES, demo_state, samples
from osamd.service.folder import create
from osamd.service.schema import NamedClass, SampleColumn, Schema

FOLDER = Path(__file__).parent.parent / "figures"
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
LOOKS = {"": (DESKTOP, "light"), "-dark": (DESKTOP, "dark")}
WITH_PHONE = LOOKS | {"-phone": (PHONE, "light")}
ROUNDS, BATCH, WAITING = 8000, 20, 5
"""Rounds of the demo's stream, how many are sent at once, and how many queries wait for an answer."""
TOPICS = ["billing", "cancel", "complaint", "delivery", "invoice", "login", "outage", "praise", "price", "refund"]
TOPICS += ["return", "shipping", "spam", "warranty"]
MAIL = """Hello,

my parcel was supposed to arrive on 3 May. The tracking page has not changed since. Could you please tell me where it \
is?

The order was a gift, and it is late by now. If it cannot come this week, I would rather have my money back than wait \
any longer. I have been a customer for eleven years, and this is the third time.

Yours, Ada"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a service in a process of its own."""
    command = [sys.executable, "-m", "osamd", "serve", "--dir", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"at (http://\S+)", process.stdout.readline())
        assert found is not None
        yield found[1]
    finally:
        process.terminate()
        process.wait()


def play_demo(url: str) -> None:
    """The demo's stream, with answers that come some queries later."""
    generator, open_queries = np.random.default_rng(2), deque[tuple[int, str]]()
    with Client(url) as service:
        for first in range(0, ROUNDS, BATCH):
            rows, kinds = samples(BATCH, first, generator)
            decisions = service.decide_many(list(rows))
            open_queries += [
                (one["round"], CLASSES[kind]) for one, kind in zip(decisions, kinds, strict=True) if one["query"]
            ]
            while len(open_queries) > WAITING:
                number, label = open_queries.popleft()
                service.tell(label, round=number)


def mail_state(folder: Path) -> None:
    """A service of mails with fourteen classes."""
    generator = np.random.default_rng(0)
    labels = [TOPICS[i % len(TOPICS)] for i in range(70)]
    learner = osamd.OSAMD.from_source(generator.normal(size=(70, 16)), labels, classes=TOPICS, budget=0.05, seed=0)
    schema = Schema(
        title="Support mail",
        columns=[SampleColumn(name=f"e{i + 1}") for i in range(16)],
        classes=[NamedClass(name=name, title=name.capitalize()) for name in TOPICS],
        guidelines="What does the customer want first?",
    )
    create(folder, learner, schema=schema)


def send_mails(url: str) -> None:
    shown = {
        "text": MAIL,
        "link": "https://example.org/tickets/17",
        "fields": {"received": "2026-05-06 09:14", "language": "en"},
    }
    rows = np.random.default_rng(1).normal(size=(200, 16)).tolist()
    with Client(url) as service:
        service.decide_many(rows, ids=[f"mail-{i}" for i in range(200)], displays=[shown] * 200)


def look(browser: Browser, address: str, name: str, ready: str, looks: Any = LOOKS) -> None:
    """Pictures of a page in every look; the dashboard is longer than a screen."""
    for suffix, (size, scheme) in looks.items():
        context = browser.new_context(viewport=size, color_scheme=scheme)
        page: Page = context.new_page()
        page.goto(address)
        page.wait_for_selector(ready)
        page.wait_for_timeout(1500)  # the charts are drawn after the numbers
        page.screenshot(path=str(FOLDER / f"{name}{suffix}.png"), full_page=looks is WITH_PHONE and size is DESKTOP)
        context.close()


def drifting_pumps(path: Path) -> None:
    """A table whose two columns slowly trade places."""
    generator = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        table: Any = csv.writer(file)
        table.writerow(["temperature", "vibration", "pressure", "state"])
        for age in np.linspace(0.0, 1.0, 9000):
            faulty = generator.random() < 0.4
            centre = [20.0 + 6.0 * faulty + 18.0 * age, 1.0 + 2.0 * faulty - age, 5.0 - faulty]
            x = generator.normal(centre, [2.0, 0.7, 1.0])
            table.writerow([*(f"{value:.2f}" for value in x), "faulty" if faulty else "good"])


def report(browser: Browser, folder: Path) -> None:
    """The first screen of the report."""
    drifting_pumps(folder / "pumps.csv")
    main(["run", str(folder / "pumps.csv"), "--label", "state", "--budget", "5%", "--out", str(folder / "out")])
    page = browser.new_page(viewport={"width": 900, "height": 790})
    page.goto((folder / "out" / "report.html").as_uri())
    page.screenshot(path=str(FOLDER / "run-report.png"))
    page.close()


if __name__ == "__main__":
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as held:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        report(started, Path(held))
        demo_state(Path(held) / "demo")
        with served(Path(held) / "demo") as url:
            play_demo(url)
            look(started, f"{url}/label", "service-label", "main[data-state=sample]")
            look(started, f"{url}/dashboard", "service-dashboard", "#charts svg", WITH_PHONE)
        mail_state(Path(held) / "mail")
        with served(Path(held) / "mail") as url:
            send_mails(url)
            look(started, f"{url}/label", "service-desk-text", "main[data-state=sample]")
        started.close()
