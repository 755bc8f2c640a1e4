"""Three streams in a real browser: mails, pictures and records, each labelled by keys by two people, on desktop and
phone, in light and dark. With OSAMD_SCREENSHOTS=FOLDER in the environment, what they see is kept there."""

from __future__ import annotations

import base64
import io
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the pages are tested by playwright: pip install playwright"
)
pillow = pytest.importorskip("PIL.Image", reason="images are made by Pillow: pip install pillow")

from browser import ARGUMENTS, CHROMIUM, DESKTOP, PHONE, Served, Watched, shown_round  # noqa: E402

import osamd  # noqa: E402
from osamd.service import auth, server  # noqa: E402
from osamd.service.folder import create, open_state  # noqa: E402
from osamd.service.schema import NamedClass, SampleColumn, Schema  # noqa: E402

expect = sync_api.expect
ROUNDS = 6
LOOKS = [("ann", DESKTOP, "light"), ("bob", PHONE, "dark"), ("ann", PHONE, "light"), ("bob", DESKTOP, "dark")]
"""The person, the size of the screen, and the colours."""
SCREENSHOTS = os.environ.get("OSAMD_SCREENSHOTS")


class Task(NamedTuple):
    """A stream to label."""

    title: str
    classes: list[str]
    columns: list[SampleColumn]
    sample: Any
    """The features and the display of the sample of this number."""


def mail(number: int) -> dict[str, Any]:
    texts = [
        "Hello,\n\nmy parcel should have come on Monday, and the page says that it is still on its way. Could you"
        " please find out where it is?\n\nYours sincerely,\nAda",
        "The invoice of March lists the same item twice. Please send a new one.\n\nBest wishes\nTom",
        "Thank you for the quick help on the phone yesterday! All works again.",
    ]
    fields = {"received": "2026-05-06 07:08", "language": "en", "attachments": number % 3}
    shown = {"text": texts[number % 3], "fields": fields, "link": f"https://example.org/tickets/{number}"}
    return {"features": np.random.default_rng(number).normal(size=8).tolist(), "display": shown}


def picture(number: int) -> dict[str, Any]:
    """A pump as a drawing: a dark disc that is cracked or not."""
    across, down = np.meshgrid(np.linspace(-1, 1, 320), np.linspace(-1, 1, 240))
    disc = across**2 + down**2 < 0.5
    shade = np.where(disc, 90, 215) + 12 * np.sin(9 * across + number)
    if number % 2:
        shade = np.where(disc & (np.abs(across - 0.4 * np.sin(5 * down)) < 0.03), 250, shade)
    held = io.BytesIO()
    pillow.fromarray(shade.clip(0, 255).astype(np.uint8)).save(held, "PNG")
    shown = {
        "image": {"base64": base64.b64encode(held.getvalue()).decode()},
        "fields": {"camera": f"line {number % 4}"},
    }
    return {"features": np.random.default_rng(number).normal(size=8).tolist(), "display": shown}


def record(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    names = ["temperature", "vibration", "pressure", "flow"]
    values: dict[str, Any] = {name: round(float(rng.normal(20, 4)), 2) for name in names}
    values |= {"line": "abc"[number % 3], "night": bool(number % 2)}
    return {"features": values | {"remark": "Rattles when the valve opens."}}


EMBEDDED = [SampleColumn(name=f"e{i + 1}") for i in range(8)]
NUMBERS = [("temperature", "°C"), ("vibration", "mm/s"), ("pressure", "bar"), ("flow", "l/s")]
RECORD = [SampleColumn(name=name, unit=unit, fill=0.0) for name, unit in NUMBERS]
RECORD += [
    SampleColumn(name="line", kind="categorical", categories=["a", "b", "c"]),
    SampleColumn(name="night", kind="boolean"),
]
TASKS = {
    "text": Task("What do they want?", ["delivery", "invoice", "praise", "complaint", "login"], EMBEDDED, mail),
    "image": Task("Is the disc cracked?", ["whole", "cracked"], EMBEDDED, picture),
    "table": Task("State of the pump", ["good", "faulty", "off"], RECORD, record),
}


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("the pages are tested in Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


def served(folder: Path, task: Task) -> tuple[Served, dict[str, str]]:
    """The service of a task, which asks for all labels and each of two people, and the tokens of these."""
    width = sum(column.width for column in task.columns)
    rows = np.random.default_rng(0).normal(size=(60, width))
    labels = [task.classes[i % len(task.classes)] for i in range(60)]
    learner = osamd.OSAMD.from_source(rows, labels, classes=task.classes, sigma=1e9, seed=0)
    named = [NamedClass(name=name, title=name.capitalize()) for name in task.classes]
    ignored = ["remark"] if task.columns is RECORD else []
    schema = Schema(
        title=task.title, columns=task.columns, classes=named, ignored=ignored, guidelines="Trust your eyes."
    )
    create(folder, learner, schema=schema, second_opinion=1.0, wild=None)
    log = server.open_log(open_state(folder), None)
    log.make_tables()
    tokens = {name: auth.make_token(log, name, "annotator") for name in ("ann", "bob")}
    shop = auth.make_token(log, "shop", "client")
    log.close()
    started = Served(folder, shop)
    started.wait()
    return started, tokens


def labelled(browser: Any, service: Served, token: str, size: Any, scheme: str, kept: str) -> dict[int, int]:
    """Label all that waits, by keys alone; the key for each round."""
    watched = Watched(browser, service.url, viewport=size, color_scheme=scheme)
    page = watched.open("/login")
    page.locator("#token").fill(token)
    page.keyboard.press("Enter")
    page.wait_for_url("**/dashboard")
    page.goto("/label")
    page.wait_for_selector("main[data-state=sample], main[data-state=empty]")
    pressed: dict[int, int] = {}
    while page.get_attribute("#page", "data-state") == "sample":
        number = shown_round(page)
        if not pressed:
            _look(page, size, f"{kept}-label")
        heading, key = page.text_content("#heading"), 1 + number % 2
        pressed[number] = key
        page.keyboard.press(str(key))
        page.wait_for_function("n => document.getElementById('heading').textContent !== n", arg=heading)
        page.wait_for_selector("main[data-state=sample], main[data-state=empty]")
    page.goto("/dashboard")  # the last answer is sent as the page goes
    expect(page.locator("#rounds")).to_have_text(re.compile(r"\d"))
    expect(page.locator("#charts")).to_contain_text("Too few labels yet")  # the charts are drawn
    _look(page, size, f"{kept}-dashboard")
    watched.close()
    return pressed


def _look(page: Any, size: Any, name: str) -> None:
    """Nothing is wider than the screen; and a picture of it, where one is wanted."""
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    if SCREENSHOTS:
        page.screenshot(path=str(Path(SCREENSHOTS) / f"{name}.png"))


@pytest.mark.parametrize("kind", TASKS)
def test_a_stream_is_labelled_by_keys_by_two_people_on_desktop_and_phone_in_light_and_dark(browser, tmp_path, kind):
    task = TASKS[kind]
    service, tokens = served(tmp_path / "state", task)
    try:
        for turn in range(2):  # once each way: who answers first looks at a desktop, and then at a phone
            samples = [task.sample(turn * ROUNDS + i) for i in range(ROUNDS)]
            told = service.call("POST", "/v1/samples", {"samples": samples})["decisions"]
            rounds = {one["round"] for one in told}
            for name, size, scheme in LOOKS[2 * turn : 2 * turn + 2]:
                device = "desktop" if size is DESKTOP else "phone"
                kept = f"{kind}-{device}-{scheme}"
                assert set(labelled(browser, service, tokens[name], size, scheme, kept)) == rounds, (name, turn)
        status = service.status()
        assert status["told"] == 2 * ROUNDS
        assert status["second_opinions"]["number"] == 2 * ROUNDS
        assert status["second_opinions"]["share"] == 1.0
    finally:
        service.stop()
