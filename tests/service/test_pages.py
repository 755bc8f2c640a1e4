"""The pages in a real browser, over the real service: labelling, undoing, sharing work, and the dashboard."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the pages are tested by playwright: pip install playwright"
)

from browser import (  # noqa: E402
    ARGUMENTS,
    CHROMIUM,
    DESKTOP,
    HOSTILE,
    PHONE,
    Served,
    Watched,
    hostile_columns,
    make_folder,
    plain_columns,
    press_on,
    shown_round,
)
from engine_cases import linear_state  # noqa: E402

from osamd.service import auth, server  # noqa: E402
from osamd.service.folder import open_state  # noqa: E402

CLASSES = ["calm", "gust", "storm"]
STATES = """() => {
  window.states = [];
  const page = document.getElementById("page");
  const note = () => window.states.push(page.dataset.state);
  new MutationObserver(note).observe(page, { attributeFilter: ["data-state"] });
}"""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
expect = sync_api.expect
expect.set_options(timeout=15_000)


def _token(folder, name, role):
    log = server.open_log(open_state(folder), None)
    log.make_tables()
    try:
        return auth.make_token(log, name, role)
    finally:
        log.close()


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    """An open service, and one with tokens and hostile names; both start at the same time."""
    open_folder, guarded_folder = (tmp_path_factory.mktemp(name) / "state" for name in ("open", "guarded"))
    make_folder(open_folder, CLASSES, plain_columns(30), "Weather")
    make_folder(guarded_folder, HOSTILE, hostile_columns(), HOSTILE[0])
    tokens = {role: _token(guarded_folder, role, role) for role in ("client", "annotator")}
    started = [Served(open_folder), Served(guarded_folder, tokens["client"])]
    for one in started:
        one.wait()
    yield *started, tokens
    for one in started:
        one.stop()


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("the pages are tested in Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def served(services):
    """The open service, with nothing waiting."""
    services[0].empty()
    return services[0]


@pytest.fixture
def visit(browser, served):
    """Opens contexts on the open service; in the end none of their pages may have complained."""
    opened = []

    def begin(**settings):
        opened.append(Watched(browser, served.url, **{"viewport": DESKTOP, **settings}))
        return opened[-1]

    yield begin
    for one in opened:
        one.close()


def test_twenty_samples_labelled_by_keys_move_the_numbers_of_the_dashboard(served, visit):
    told = served.status()["told"]
    rounds = served.ask(25)
    one = visit()
    dashboard = one.open("/dashboard")
    expect(dashboard.locator("#pending")).to_have_text("25")
    label = one.open("/label")
    seen = [shown_round(label)]
    label.evaluate(STATES)
    for i in range(20):
        seen.append(press_on(label, "123"[i % 3]))
    expect(label.locator("#answered")).to_have_text("20")
    assert seen == rounds[:21]  # the oldest first
    assert "empty" not in label.evaluate("window.states")  # not even for a moment
    label.goto("/dashboard")  # the answer that could still be taken back is sent as the page goes
    expect(dashboard.locator("#pending")).to_have_text("5")
    expect(dashboard.locator("#pending-about")).to_contain_text(f"{told + 20} told")
    expect(dashboard.locator("#accuracy")).to_have_text(re.compile(r"^\d+\.\d %$"))
    expect(dashboard.locator("#accuracy-about")).to_have_text(re.compile(r"^\d+ to \d+ %, from \d+ labels$"))
    expect(dashboard.locator("#accuracy-recent")).to_have_text(re.compile(r"^lately \d+\.\d % \(\d+ to \d+ %\)$"))
    title = served.call("GET", "/v1/schema")["title"]
    expect(dashboard).to_have_title(re.compile(rf"^(Dashboard|Alarm) · {re.escape(title)}$"))
    assert [served.label_of(round, CLASSES) for round in rounds[:20]] == [CLASSES[i % 3] for i in range(20)]


def test_undo_takes_an_answer_back_before_it_is_sent(served, visit):
    first, second, _ = served.ask(3)
    page = visit().open("/label")
    sent = []
    page.on("request", lambda request: sent.append(request.post_data_json) if "/v1/labels" in request.url else None)
    assert shown_round(page) == first
    assert press_on(page, "1") == second
    assert press_on(page, "u") == first
    expect(page.locator("#answered")).to_have_text("0")
    expect(page.locator("#note")).to_contain_text("Taken back")
    assert not sent
    press_on(page, "2")
    with page.expect_response("**/v1/labels"):
        press_on(page, "3")  # sends the answer before
    assert [(one["round"], one["label"]) for one in sent] == [(first, "gust")]
    assert served.label_of(first, CLASSES) == "gust"


def test_an_answer_is_sent_by_itself_after_five_seconds(served, visit):
    first, _ = served.ask(2)
    page = visit().open("/label")
    page.clock.install()
    page.reload()
    assert shown_round(page) == first
    with page.expect_response("**/v1/labels"):
        press_on(page, "1")
        page.clock.run_for(5_000)
    expect(page.locator("#undo")).to_have_attribute("aria-disabled", "true")
    page.keyboard.press("u")
    expect(page.locator("#note")).to_contain_text("has been sent")


def test_a_skipped_sample_goes_behind_the_others(served, visit):
    rounds = served.ask(3)
    page = visit().open("/label")
    assert shown_round(page) == rounds[0]
    assert press_on(page, "s") == rounds[1]
    assert press_on(page, "1") == rounds[2]
    assert press_on(page, "1") == rounds[0]
    expect(page.locator("#about")).to_contain_text("skipped once")


def test_a_skipped_sample_stays_behind_when_more_are_claimed_before_the_skip_is_confirmed(served, visit):
    rounds = served.ask(3)
    page = visit().open("/label")
    assert shown_round(page) == rounds[0]
    held = []
    page.route("**/skip", lambda route: held.append(route))
    assert press_on(page, "s") == rounds[1]
    page.evaluate(HIDE, False)  # a tab that comes back renews its claims
    confirmed = held[0].fetch()
    page.evaluate(HIDE, False)
    page.wait_for_timeout(300)
    with page.expect_response("**/claim"):
        held[0].fulfill(response=confirmed)
    assert press_on(page, "1") == rounds[2]
    assert press_on(page, "1") == rounds[0]


def test_a_reload_shows_the_same_sample(served, visit):
    rounds = served.ask(4)
    page = visit().open("/label")
    assert shown_round(page) == rounds[0]
    assert press_on(page, "1") == rounds[1]
    page.reload()
    assert shown_round(page) == rounds[1]
    expect(page.locator("#answered")).to_have_text("1")
    assert served.label_of(rounds[0], CLASSES) == "calm"


def test_two_people_at_once_never_get_the_same_sample(served, visit):
    rounds = served.ask(12)
    pages = [visit().open("/label") for _ in range(2)]
    with pages[0].context.expect_page() as copied:
        pages[0].evaluate("window.open('/label')")  # a copy of a tab begins with what the tab has stored
    pages.append(copied.value)
    seen = [{shown_round(page)} for page in pages]
    for _ in range(2):
        for page, rounds_of_page in zip(pages, seen, strict=True):
            rounds_of_page.add(press_on(page, "1"))
    assert sum(map(len, seen)) == len(set.union(*seen)) == 9
    assert set.union(*seen) <= set(rounds)


def test_the_empty_page_fills_by_itself(served, visit):
    page = visit().open("/label")
    expect(page.locator(".empty")).to_be_visible()
    expect(page.locator(".choice").first).to_have_attribute("aria-disabled", "true")
    (round,) = served.ask(1)
    assert shown_round(page) == round
    expect(page).to_have_title("(1) Label · Weather")


def test_answers_of_others_are_told_politely_and_the_page_goes_on(served, visit):
    rounds = served.ask(4)
    page = visit(expected="409").open("/label")
    assert shown_round(page) == rounds[0]
    served.call("POST", f"/v1/queries/{rounds[0]}/expire", {})
    expect(page.locator("#heading")).to_have_text(f"Round {rounds[1]}")
    expect(page.locator("#note")).to_contain_text("expired")
    press_on(page, "1")  # staged, and answered by somebody else in the meantime
    served.call("POST", f"/v1/queries/{rounds[1]}/expire", {})
    press_on(page, "2")
    expect(page.locator("#note")).to_contain_text("was not used")
    expect(page.locator("#answered")).to_have_text("1")


def test_hiding_the_page_sends_the_answer_and_coming_back_finds_what_others_took(served, visit):
    rounds = served.ask(4)
    page = visit().open("/label")
    assert shown_round(page) == rounds[0]
    press_on(page, "2")
    with page.expect_response("**/v1/labels"):
        page.evaluate(HIDE, True)
    assert served.label_of(rounds[0], CLASSES) == "gust"

    def without_the_shown(route):
        told = route.fetch().json()
        route.fulfill(json={"queries": [query for query in told["queries"] if query["round"] != rounds[1]]})

    page.route("**/v1/queries/claim", without_the_shown)
    page.evaluate(HIDE, False)
    expect(page.locator("#note")).to_contain_text(f"Round {rounds[1]} was given back")
    assert shown_round(page) == rounds[2]


def test_an_answer_outlives_a_lost_connection(served, visit):
    first, *_ = served.ask(3)
    page = visit(expected="ERR_FAILED").open("/label")
    shown_round(page)
    page.route("**/v1/labels", lambda route: route.abort())
    press_on(page, "3")
    press_on(page, "2")
    expect(page.locator("#note")).to_contain_text("Your answer is kept")
    page.unroute("**/v1/labels")
    expect(page.locator("#note")).to_contain_text("The connection is back")
    assert served.label_of(first, CLASSES) == "storm"


def test_the_keyboard_alone_is_enough(served, visit):
    rounds = served.ask(3)
    one = visit()
    page = one.open("/label")
    assert shown_round(page) == rounds[0]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the answers"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") in ("1Calm", "1Calmguess")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    press_on(page, "Enter")
    assert "Calm" in page.evaluate("document.activeElement.textContent")  # the focus stays for the next answer
    page.locator("#find").focus()
    page.keyboard.type("12")  # letters and digits typed into a box are no answers
    expect(page.locator(".features tbody tr:visible")).to_have_count(1)
    assert shown_round(page) == rounds[1]
    page.keyboard.press("Escape")
    assert press_on(page, "2") == rounds[2]


def test_charts_are_read_by_keys_and_in_words(visit):
    page = visit().open("/dashboard")
    page.route("**/v1/history*", lambda route: route.fulfill(json=_history(300, CLASSES)))
    page.reload()
    plot = page.locator("figure", has_text="Accuracy").first.get_by_role("slider")
    expect(plot).to_have_attribute("aria-valuetext", re.compile("Round 30,000"))
    plot.focus()
    page.keyboard.press("Home")
    expect(plot).to_have_attribute("aria-valuetext", re.compile("^Round 100.*all rounds \N{EN DASH}"))
    page.keyboard.press("PageUp")
    expect(plot).to_have_attribute(
        "aria-valuetext", re.compile(r"^Round 3,100.*all rounds 90\.0 % \(85\.0 % to 95\.0 %\)")
    )
    plot.hover(position={"x": 500, "y": 50})
    expect(page.locator("figure .when").first).not_to_have_text(re.compile("Round (3,100|30,000)"))
    assert page.locator("figure table").count() == page.locator("figure").count() == 7


@pytest.mark.parametrize("method", ["osamd-preset", "osamd"])
def test_what_the_preset_cannot_disagree_about_is_not_charted(method, browser, tmp_path):
    linear_state(tmp_path / "state", method=method, sigma=None)
    its = Served(tmp_path / "state")
    its.wait()
    try:
        one = Watched(browser, its.url, viewport=DESKTOP)
        page = one.open("/dashboard")
        expect(page.locator("#rounds")).to_have_text("0")
        shown = page.locator("figure", has_text="Teacher and student disagree")
        if method == "osamd":
            expect(shown).to_be_visible()
        else:
            expect(shown).to_be_hidden()
        one.close()
    finally:
        its.stop()


def _history(count, classes):
    """Points of a hundred rounds each; nothing is known at the first."""
    points = []
    for i in range(1, count + 1):
        known = {"accuracy": 0.9, "low": 0.85, "high": 0.95, "recent": 0.88, "margin": 0.5, "disagreement": 0.1}
        unknown = dict.fromkeys(known) | {"low": 0.0, "high": 1.0}
        counts = {"round": 100 * i, "at": 1.7e9 + i, "asked": 5 * i, "told": 4 * i, "expired": 0, "pending": i % 5}
        decided = [1 / len(classes)] * len(classes)
        points.append({**(unknown if i == 1 else known), **counts, "decided": decided})
    return {"points": points, "classes": classes}


@pytest.mark.parametrize(("points", "classes"), [(0, 2), (1, 2), (1, 60), (300, 60)])
def test_the_dashboard_draws_few_and_many_points_and_classes(points, classes, visit):
    page = visit().open("/login")
    history = _history(points, [f"class {i}" for i in range(classes)])
    page.route("**/v1/history*", lambda route: route.fulfill(json=history))
    with page.expect_response("**/v1/history*"):
        page.goto("/dashboard")
    expect(page.locator("figure", has_text="Class mix").locator("li")).to_have_count(2 if classes == 2 else 6)
    assert "NaN" not in page.content()


def test_an_image_is_drawn_pixel_by_pixel_and_many_classes_have_keys(served, visit):
    (round,) = served.ask(1)
    page = visit(expected="ERR_FAILED").open("/login")
    names = [f"species {i}" for i in range(60)]
    schema = {"title": "Many", "columns": None, "image": {"height": 2, "width": 3, "channels": 1}, "features": 6}
    schema |= {"guidelines": "", "show_guess": True}
    schema["classes"] = [{"name": name, "title": name, "about": ""} for name in names]
    query = {
        "round": round,
        "id": None,
        "asked_at": 0.0,
        "guess": names[40],
        "margin": None,
        "skips": 0,
        "features": None,
        "display": None,
        "second": False,
    }
    query["probabilities"] = dict.fromkeys(names, 1 / 60)
    query["image"] = {"height": 2, "width": 3, "channels": 1, "pixels": [0.0, 0.5, 1.0, 1.0, 0.0, 0.0]}
    page.route("**/v1/schema", lambda route: route.fulfill(json=schema))
    page.route("**/v1/queries/claim", lambda route: route.fulfill(json={"queries": [query]}))
    page.route("**/v1/events", lambda route: route.abort())
    page.goto("/label")
    shown_round(page)
    script = "c => [...c.getContext('2d').getImageData(0, 0, 3, 2).data].filter((_, i) => i % 4 === 0)"
    assert page.locator("canvas").evaluate(script) == [0, 128, 255, 255, 0, 0]
    assert page.locator(".choice").nth(40).is_visible()  # the guess is scrolled to
    keys = [choice.get_attribute("aria-keyshortcuts") for choice in page.locator(".choice").all()]
    assert keys[:11] == [*"123456789ab"]
    assert not set("usdngh") & set(keys[:29])
    assert keys[29:] == [None] * 31


def test_hostile_names_stay_text(browser, services):
    _, guarded, tokens = services
    guarded.ask(2)
    watched = Watched(browser, guarded.url, viewport=PHONE, expected="401")
    page = watched.open("/login?next=/label")
    page.fill("#token", tokens["annotator"])
    page.keyboard.press("Enter")
    shown_round(page)
    assert [choice.locator(".name").text_content() for choice in page.locator(".choice").all()] == HOSTILE
    assert [name.text_content() for name in page.locator(".features th[scope=row]").all()] == HOSTILE
    assert page.locator("td .unit").first.text_content() == "<b>m</b>"
    assert page.locator("#task").text_content() == HOSTILE[0]
    press_on(page, "3")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto("/dashboard")
    expect(page.locator("figure", has_text="Class mix").locator("li")).to_have_count(len(HOSTILE))
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    watched.close()


def test_people_log_in_with_a_token_and_come_back_to_where_they_were(browser, services):
    _, guarded, tokens = services
    watched = Watched(browser, guarded.url, viewport=DESKTOP, expected="401|403")
    page = watched.open("/label")
    page.wait_for_url("**/login?next=%2Flabel")
    expect(page.locator("#token")).to_be_focused()  # the browser does so a moment after the page has loaded
    page.keyboard.press("Enter")
    expect(page.locator("#error")).to_contain_text("Type or paste")
    page.fill("#token", "wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#error")).to_contain_text("not known")
    page.fill("#token", tokens["annotator"])
    page.keyboard.press("Enter")
    page.wait_for_url("**/label")
    expect(page.locator("#connection")).to_have_text("Live")
    page.click("#sign-out")
    page.wait_for_url("**/login")
    page.goto("/dashboard")
    page.wait_for_url("**/login?next=%2Fdashboard")
    watched.close()


def test_a_login_never_leads_to_another_site(visit):
    page = visit().open("/login")
    page.route(
        "**/login*", lambda route: route.fulfill(json={}) if route.request.method == "POST" else route.fallback()
    )
    for other in (
        "//evil.test/",
        "/\\evil.test",
        "https://evil.test/",
        "/\t/evil.test",
        "/.//evil.test",
        "javascript:1",
    ):
        page.goto(f"/login?next={quote(other, safe='')}")
        page.fill("#token", "any")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"^http://127\.0\.0\.1:\d+/dashboard$"), wait_until="commit")


@pytest.mark.parametrize("path", ["/label", "/dashboard", "/login"])
def test_a_phone_has_no_horizontal_scroll_and_buttons_for_thumbs(path, served, visit):
    served.ask(1)
    page = visit(viewport=PHONE, has_touch=True).open(path)
    if path == "/label":
        shown_round(page)
        for button in page.locator(".choice, .actions button").all():
            box = button.bounding_box()
            assert box["height"] >= 44
            assert PHONE["height"] / 2 < box["y"] <= PHONE["height"] - box["height"]  # in reach, and in sight
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    backgrounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        backgrounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert backgrounds == ["rgb(243, 245, 247)", "rgb(17, 21, 26)"]


def test_the_theme_that_was_chosen_stays(visit):
    page = visit(color_scheme="light").open("/dashboard")
    for _ in range(2):
        page.click("#theme")
    page.goto("/login")
    expect(page.locator("#theme")).to_have_attribute("aria-label", "Theme: dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 21, 26)"
