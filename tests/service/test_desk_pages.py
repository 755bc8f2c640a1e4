"""The desk in a real browser: text, images and tables are judged by keys, by two people, on desktop and phone."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the pages are tested by playwright: pip install playwright"
)
pillow = pytest.importorskip("PIL.Image", reason="images are made by Pillow: pip install pillow")

from browser import ARGUMENTS, CHROMIUM, DESKTOP, PHONE, Served, Watched, press_on, shown_round  # noqa: E402

import osamd  # noqa: E402
from osamd.service import auth, server  # noqa: E402
from osamd.service.folder import create, open_state  # noqa: E402
from osamd.service.schema import NamedClass, SampleColumn, Schema  # noqa: E402

expect = sync_api.expect
TOPICS = ["billing", "cancel", "complaint", "delivery", "invoice", "login", "outage", "praise", "price", "refund"]
TOPICS += ["return", "shipping", "spam", "warranty"]
MAIL = "Hello,\n\nmy parcel is late.\n\nYours, Ada <script>alert(1)</script>"


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("the pages are tested in Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A service of mails with fourteen classes, guidelines and second opinions, and tokens of two people."""
    folder = tmp_path_factory.mktemp("desk") / "state"
    columns = [SampleColumn(name=f"e{i}") for i in range(8)]
    rows = np.random.default_rng(0).normal(size=(70, 8))
    labels = [TOPICS[i % 14] for i in range(70)]
    learner = osamd.OSAMD.from_source(rows, labels, classes=TOPICS, sigma=1e9, seed=0)
    classes = [
        NamedClass(name=name, title=name.capitalize(), about="Nobody wrote it." * (name == "spam")) for name in TOPICS
    ]
    schema = Schema(title="Mail", columns=columns, classes=classes, guidelines="What do they want first?\n\nOnly that.")
    create(folder, learner, schema=schema, second_opinion=1.0)
    log = server.open_log(open_state(folder), None)
    log.make_tables()
    tokens = {name: auth.make_token(log, name, "annotator") for name in ("ann", "bob")}
    shop = auth.make_token(log, "shop", "client")
    log.close()
    served = Served(folder, shop)
    served.wait()
    yield served, tokens
    served.stop()


def send(served, number, **display):
    """Samples with something for people to see; their rounds."""
    generator = np.random.default_rng(5)
    samples = [{"features": generator.normal(size=8).tolist(), "display": display} for _ in range(number)]
    return [one["round"] for one in served.call("POST", "/v1/samples", {"samples": samples})["decisions"]]


def person(browser, desk, name, **settings):
    """Somebody who has logged in."""
    served, tokens = desk
    watched = Watched(browser, served.url, **{"viewport": DESKTOP, **settings})
    page = watched.open("/login")
    page.evaluate(
        "token => fetch('/login', {method: 'POST', headers: {'content-type': 'application/json'},"
        " body: JSON.stringify({token})})",
        tokens[name],
    )
    page.goto("/label")
    return watched, page


def image():
    held = io.BytesIO()
    pillow.new("RGB", (60, 40), (200, 30, 30)).save(held, "PNG")
    return {"base64": base64.b64encode(held.getvalue()).decode()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_text_with_fourteen_classes_is_readable_and_nothing_is_off_screen(browser, desk, size, scheme):
    send(desk[0], 3, text=MAIL, link="https://example.org/17", fields={"received": "2026-05-06"})
    watched, page = person(browser, desk, "ann", viewport=size, color_scheme=scheme)
    shown_round(page)
    assert page.locator(".text").inner_text() == MAIL
    expect(page.locator(".link a")).to_have_attribute("rel", "noopener noreferrer")
    expect(page.locator("#opinion")).to_be_hidden()
    assert page.locator(".guessed").count() == 0
    boxes = [choice.bounding_box() for choice in page.locator(".choice").all()]
    assert len(boxes) == 14
    assert all(box["y"] >= 0 and box["y"] + box["height"] <= size["height"] for box in boxes)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    watched.close()


def test_an_image_zooms_and_goes_away_by_a_key(browser, desk):
    send(desk[0], 1, image=image())
    watched, page = person(browser, desk, "ann")
    while page.locator(".photo").count() == 0:
        press_on(page, "1")
    picture = page.locator(".photo img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 60
    page.click(".photo")
    expect(page.locator("#zoom")).to_be_visible()
    before = page.text_content("#heading")
    page.keyboard.press("1")  # no answer while one looks
    assert page.text_content("#heading") == before
    page.keyboard.press("Escape")
    expect(page.locator("#zoom")).to_be_hidden()
    watched.close()


def test_the_guess_is_shown_by_choice_and_the_choice_is_kept(browser, desk):
    send(desk[0], 2, text=MAIL)
    watched, page = person(browser, desk, "ann")
    shown_round(page)
    page.keyboard.press("g")
    expect(page.locator("#opinion")).to_be_visible()
    assert page.locator(".guessed").count() == 1
    page.reload()
    shown_round(page)
    expect(page.locator("#opinion")).to_be_visible()
    page.keyboard.press("g")
    expect(page.locator("#opinion")).to_be_hidden()
    watched.close()


def test_a_class_is_found_by_typing_and_answers_by_no_class_have_keys(browser, desk):
    served, _ = desk
    send(served, 6, text=MAIL)
    watched, page = person(browser, desk, "ann")
    first = shown_round(page)
    page.keyboard.press("/")
    page.keyboard.type("refu")
    assert page.locator(".choice:visible").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_function("n => document.getElementById('heading').textContent !== n", arg=f"Round {first}")
    second = shown_round(page)
    third = press_on(page, "n")
    press_on(page, "d")
    page.keyboard.press("h")
    told = page.locator("#own")
    expect(told).to_contain_text("None of these")
    expect(told).to_contain_text("Don\u2019t know")
    page.keyboard.press("Escape")
    page.goto("/dashboard")  # which sends the staged answer
    page.goto("/label")
    shown_round(page)
    page.keyboard.press("h")
    line = page.locator("#own li", has_text=f"Round {first}")
    expect(line).to_contain_text("Refund")
    line.locator("select").select_option(label="Spam")
    expect(page.locator("#own-note")).to_contain_text("cannot unlearn")
    expect(line).to_contain_text("Spam (correction)")
    assert len({first, second, third}) == 3
    watched.close()


def test_guidelines_are_on_the_page(browser, desk):
    watched, page = person(browser, desk, "ann")
    page.click("#guide")
    expect(page.locator("#guidelines")).to_contain_text("What do they want first?")
    expect(page.locator("#guidelines")).to_contain_text("Nobody wrote it.")
    watched.close()


def test_two_people_judge_the_same_samples_by_keys_and_agreement_is_on_the_dashboard(browser, desk):
    served, _ = desk
    before = served.status()["second_opinions"]["number"]
    rounds = set(send(served, 3, text=MAIL))
    seen = {"ann": set(), "bob": set()}
    for name in ("ann", "bob"):
        watched, page = person(browser, desk, name)
        page.wait_for_selector("main[data-state=sample], main[data-state=empty]")
        while page.get_attribute("#page", "data-state") == "sample":
            seen[name].add(shown_round(page))
            heading = page.text_content("#heading")
            page.keyboard.press("3")
            page.wait_for_function("n => document.getElementById('heading').textContent !== n", arg=heading)
            page.wait_for_selector("main[data-state=sample], main[data-state=empty]")
        page.goto("/dashboard")
        watched.close()
    assert rounds <= seen["ann"] & seen["bob"]
    watched, page = person(browser, desk, "ann")
    page.goto("/dashboard")
    expect(page.locator("#agreement")).to_have_text(
        re.compile(r"^Two people agree on \d+ % \(\d+ to \d+ %\) of \d+\.$")
    )
    expect(page).to_have_title("Dashboard · Mail")
    assert served.status()["second_opinions"]["number"] >= before + 3
    watched.close()
