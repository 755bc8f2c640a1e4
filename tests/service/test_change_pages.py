"""In a real browser: a class that is added while people label can be chosen at once; the dashboard says the budget."""

from __future__ import annotations

import numpy as np
import pytest

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the pages are tested by playwright: pip install playwright"
)

from browser import ARGUMENTS, CHROMIUM, DESKTOP, Served, Watched, shown_round  # noqa: E402

import osamd  # noqa: E402
from osamd.service.folder import create  # noqa: E402

expect = sync_api.expect


@pytest.fixture
def served(tmp_path):
    """A service whose learner asks for most labels, and takes in classes."""
    rows = np.random.default_rng(0).normal(size=(60, 3))
    learner = osamd.OSAMD.from_source(rows, ["cat", "dog"] * 30, budget=1.0, floor=1.0)
    create(tmp_path / "state", learner)
    started = Served(tmp_path / "state")
    started.wait()
    yield started
    started.stop()


def test_a_new_class_is_on_the_label_page_at_once_and_the_dashboard_knows_the_budget(served):
    if CHROMIUM is None:
        pytest.skip("the pages are tested in Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        rows = np.random.default_rng(1).normal(size=(40, 3)).tolist()
        decided = served.call("POST", "/v1/samples", {"samples": [{"features": row} for row in rows]})["decisions"]
        asked = [one["round"] for one in decided if one["query"]]
        watched = Watched(browser, served.url, viewport=DESKTOP)
        page, board = watched.open("/label"), watched.open("/dashboard")
        first = shown_round(page)
        assert page.locator(".choice").count() == 2
        served.call("POST", "/v1/classes", {"name": "elk", "title": "Elk", "about": "With antlers."})
        expect(page.locator(".choice")).to_have_count(3)
        expect(page.locator("#guide")).to_be_visible()
        page.keyboard.press("3")
        page.wait_for_function("() => document.getElementById('answered').textContent === '1'")
        served.call("POST", "/v1/budget", {"budget": 0.5})
        expect(board.get_by_text("budget 50.0 % since round 40")).to_be_visible()
        watched.close()
        browser.close()
    assert first in asked
    assert served.label_of(first, ["cat", "dog", "elk"]) == "elk"
