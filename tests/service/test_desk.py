"""The desk for real work: what people see, what they can answer, second opinions, corrections, looking back."""

from __future__ import annotations

import base64

import pytest
from engine_cases import Service, bits, linear_state, row
from http_cases import Web, small_state

import osamd
from osamd.service import auth
from osamd.service.desk import MOST_CHECKS, Refusal
from osamd.service.display import LARGEST_MEDIA
from osamd.service.folder import create
from osamd.service.schema import NamedClass, SampleColumn, Schema

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
WAV = b"RIFF\x24\x00\x00\x00WAVE" + bytes(40)
SAMPLE = [0.1, 0.2, 0.3]


def encoded(content):
    return {"base64": base64.b64encode(content).decode()}


@pytest.fixture
def web(tmp_path):
    """A service that asks for every label."""
    with Web(small_state(tmp_path / "state", sigma=1e9, method="osamd")) as started:
        yield started


@pytest.fixture
def table(tmp_path):
    """A service of a table with a number, a category, and columns that the model does not use."""
    columns = [
        SampleColumn(name="amount", unit="EUR", fill=3.0),
        SampleColumn(name="country", kind="categorical", categories=["de", "fr"]),
    ]
    classes = [NamedClass(name="no"), NamedClass(name="yes")]
    learner = osamd.OSAMD(features=3, classes=["no", "yes"], method="osamd", sigma=1e9)
    schema = Schema(title="Fraud", columns=columns, classes=classes, ignored=["note", "date"])
    with Web(create(tmp_path / "table", learner, schema=schema)) as started:
        yield started


def the_query(web):
    return web.get("/v1/queries").json()["queries"][-1]


# What people see.


def test_raw_values_are_shown_as_they_were_sent(table):
    sent = {"amount": None, "country": "pt", "note": "called twice", "date": "2026-05-06"}
    assert table.post("/v1/samples", {"features": sent}).status == 200
    told = {one["name"]: (one["value"], one["used"]) for one in the_query(table)["features"]}
    assert told == {
        "amount": (None, True),
        "country": ("pt", True),
        "note": ("called twice", False),
        "date": ("2026-05-06", False),
    }
    assert the_query(table)["display"] is None


def test_raw_values_outlive_a_restart_and_are_kept_for_queries_alone(tmp_path):
    state = linear_state(tmp_path / "state")
    with Web(state) as web:
        for number in range(40):
            web.post("/v1/samples", {"features": row(number).tolist(), "display": {"text": f"sample {number}"}})
        before = web.get("/v1/queries?limit=1000").json()["queries"]
        assert 0 < len(before) < 40
    with Web(state) as web:
        after = web.get("/v1/queries?limit=1000").json()["queries"]
        assert after == before
        assert [one["display"]["text"] for one in after] == [f"sample {one['round']}" for one in after]


def test_what_is_shown_is_not_learned_from(web):
    plain = [web.post("/v1/samples", {"features": SAMPLE}).json() for _ in range(2)]
    shown = web.post("/v1/samples", {"features": SAMPLE, "display": {"text": "look", "fields": {"a": 1}}}).json()
    assert shown["margin"] == plain[1]["margin"] == plain[0]["margin"]  # nothing was told in between


def test_an_image_a_sound_and_a_link_are_served_to_those_who_label(web):
    display = {"image": encoded(PNG), "audio": encoded(WAV), "link": "https://example.org/a?b=1", "text": "hear"}
    assert web.post("/v1/samples", {"features": SAMPLE, "display": display}).status == 200
    seen = the_query(web)["display"]
    assert seen["link"] == display["link"]
    for place, content, kind in (("image", PNG, "image/png"), ("audio", WAV, "audio/wav")):
        answer = web.get(f"/{seen[place]}")
        assert (answer.status, answer.body, answer.header("content-type")) == (200, content, kind)
        assert answer.header("content-security-policy") == "default-src 'none'; sandbox"
    assert web.get("/v1/queries/99/image").code == "not-found"


@pytest.mark.parametrize(
    ("display", "where"),
    [
        ({"image": encoded(b"<svg onload=alert(1)>")}, "body.display.image"),
        ({"image": encoded(WAV)}, "body.display.image"),
        ({"audio": encoded(PNG)}, "body.display.audio"),
        ({"image": {"base64": "%%%"}}, "body.display.image"),
        ({"image": {}}, "body.display.image"),
        ({"image": {"file": "../secret.png"}}, "body.display.image"),
        ({"image": {"file": "/etc/passwd"}}, "body.display.image.file"),
        ({"link": "javascript:alert(1)"}, "body.display.link"),
        ({"text": "a" * 100_001}, "body.display.text"),
        ({"fields": {"a": [1]}}, "body.display.fields"),
        ({"sound": 1}, "body.display.sound"),
    ],
)
def test_a_display_of_another_shape_is_refused_where_it_is_wrong(web, display, where):
    answer = web.post("/v1/samples", {"features": SAMPLE, "display": display})
    assert (answer.status, answer.code) == (422, "invalid")
    assert answer.json()["error"]["where"].startswith(where)
    assert web.get("/v1/status").json()["rounds"] == 0


def test_an_image_is_not_larger_than_its_limit(web):
    answer = web.post("/v1/samples", {"features": SAMPLE, "display": {"image": encoded(PNG + bytes(LARGEST_MEDIA))}})
    assert (answer.status, answer.code) == (422, "invalid")


def test_images_are_served_from_the_folder_of_media_and_from_nowhere_else(web, tmp_path):
    folder = web.engine.state.media_folder
    (folder / "cats").mkdir(parents=True)
    (folder / "cats" / "1.png").write_bytes(PNG)
    (folder / "page.html").write_text("<script>alert(1)</script>")
    (tmp_path / "secret.png").write_bytes(PNG)
    (folder / "out.png").symlink_to(tmp_path / "secret.png")
    found = {}
    for name in ("cats/1.png", "page.html", "out.png", "gone.png"):
        told = web.post("/v1/samples", {"features": SAMPLE, "display": {"image": {"file": name}}}).json()
        found[name] = web.get(f"/v1/queries/{told['round']}/image").status
    assert found == {"cats/1.png": 200, "page.html": 404, "out.png": 404, "gone.png": 404}


# Answers by no class.


def test_who_cannot_tell_is_not_asked_again_and_after_enough_of_them_nobody(tmp_path):
    with Service(linear_state(tmp_path / "state", limits={"most_unsure": 2}), tmp_path / "log.sqlite") as service:
        (waiting,) = service.ask(1)
        assert service.do("unsure", waiting, "ann/tab1") == "unsure"
        assert service.do("claim", "ann/tab2", "oldest", 5, 60.0) == []
        service.kill()
        with service.again() as after:
            assert after.do("claim", "ann/tab2", "oldest", 5, 60.0) == []
            assert [one.event.round for one in after.do("claim", "bob/tab", "oldest", 5, 60.0)] == [waiting]
            assert after.tried("unsure", waiting, "cid/tab") == "held"
            assert after.do("unsure", waiting, "bob/tab") == "expired"
            assert after.tell((waiting, 0)) == ["expired"]
            after.agrees()


def test_none_of_these_ends_a_query_without_a_label(service):
    first, second = service.ask(2)
    service.do("none", first, "ann/tab")
    assert service.learner.expired == 1
    assert service.tell((first, 0), (second, 0)) == ["answered", "learned"]
    assert service.tried("none", first, "ann/tab") == "answered"
    assert service.tried("none", second, "ann/tab") == "answered"
    service.kill()
    with service.again() as after:
        assert [event.kind for event in after.events if event.kind in ("none", "label", "expire")] == ["none", "label"]
        after.agrees()


# Second opinions.


def test_a_share_of_the_samples_is_judged_by_a_second_person_and_agreement_is_told(tmp_path):
    state = linear_state(tmp_path / "state", limits={"second_opinion": 1.0})
    with Service(state, tmp_path / "log.sqlite") as service:
        rounds = service.ask(4)
        for number in rounds:
            assert service.do("answer", [(number, 0, "ann/tab")])[0].status == "learned"
        before = service.learner.told
        assert service.do("claim", "ann/other", "oldest", 9, 60.0) == []  # not herself
        service.kill()
        with service.again() as after:
            claimed = after.do("claim", "bob/tab", "oldest", 9, 60.0)
            assert [one.event.round for one in claimed] == rounds
            given = [after.do("answer", [(n, int(i == 3), "bob/tab")])[0].status for i, n in enumerate(rounds)]
            assert given == ["second"] * 4
            assert after.learner.told == before
            told = after.engine.status()["second_opinions"]
            assert (told["number"], told["agreed"], told["share"]) == (4, 3, 0.75)
            assert told["kappa"] == 0.0  # the first person gave one class alone, so it is no better than chance
            assert after.do("answer", [(rounds[0], 0, "cid/tab")])[0].status == "repeated"
            after.agrees()
            after.stop()
            with after.again() as later:
                assert later.engine.status()["second_opinions"] == told
                assert later.do("claim", "cid/tab", "oldest", 9, 60.0) == []


def test_second_opinions_are_asked_for_a_share_and_wait_in_bounded_number(tmp_path):
    state = linear_state(tmp_path / "state", sigma=1e9, method="osamd", limits={"second_opinion": 0.5})
    with Service(state, tmp_path / "log.sqlite") as service:
        events = service.send(*range(600))
        service.do("answer", [(event.round, 0, "ann/tab") for event in events])
        assert len(service.engine._desk.checks) == MOST_CHECKS
        chosen = [event.round for event in events if service.engine._desk._chosen(event.round)]
        assert 250 < len(chosen) < 350  # 300 expected, with a standard deviation of 12
        assert list(service.engine._desk.checks) == chosen[-MOST_CHECKS:]


def test_without_second_opinions_the_first_answer_stands(service):
    (waiting,) = service.ask(1)
    assert service.tell((waiting, 0)) == ["learned"]
    assert [one.code for one in service.do("answer", [(waiting, 1, "bob/tab")])] == ["answered"]


# Corrections, and looking back.


def test_a_correction_is_an_event_and_the_learner_keeps_what_it_learned(service):
    first, second = service.ask(2)
    with pytest.raises(Refusal, match="is still pending"):
        service.do("correct", first, 1, "ann")
    service.tell((first, 0))
    before = bits(service.learner)
    assert service.do("correct", first, 1, "ann").status == "corrected"
    assert bits(service.learner) == before
    service.do("expire", second)
    assert service.do("correct", second, 1, "ann").status == "corrected"
    assert service.tried("correct", 10**6, 1, "ann") == "unknown"
    service.agrees()


def test_people_see_their_own_answers_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(auth, "_SEEN_FOR", -1.0)
    with Web(small_state(tmp_path / "state", sigma=1e9, method="osamd"), may_open=False) as web:
        tokens = {name: auth.make_token(web.log, name, "annotator") for name in ("ann", "ann2")}
        shop = [("authorization", f"Bearer {auth.make_token(web.log, 'shop', 'client')}")]
        ann, other = ([("authorization", f"Bearer {tokens[name]}")] for name in ("ann", "ann2"))
        for _ in range(4):
            web.post("/v1/samples", {"features": SAMPLE}, shop)
        web.post("/v1/labels", {"round": 0, "label": "cat", "holder": "tab"}, ann)
        web.post("/v1/labels", {"round": 1, "label": "dog"}, other)
        web.post("/v1/queries/2/none", {"holder": "tab"}, ann)
        web.post("/v1/queries/3/unsure", {"holder": "tab"}, ann)
        corrected = web.post("/v1/corrections", {"round": 0, "label": "dog", "holder": "tab"}, ann)
        assert corrected.json() == {"round": 0, "label": "dog", "status": "corrected"}
        told = [(one["round"], one["kind"], one["label"]) for one in web.get("/v1/answers", ann).json()["answers"]]
        assert told == [(0, "correct", "dog"), (3, "unsure", None), (2, "none", None), (0, "label", "cat")]
        assert [one["round"] for one in web.get("/v1/answers", other).json()["answers"]] == [1]


# Health in one word.


def test_health_is_never_fine_without_evidence(service):
    assert service.engine.status()["health"]["state"] == "unknown"
    service.send(*range(150))
    assert service.engine.status()["health"]["state"] == "unknown"
    labels = [(one.event.round, min(one.event.round % 3, 1)) for one in service.engine.queries()]
    assert len(labels) > 20
    service.tell(*labels)
    status = service.engine.status()["health"]
    assert status["state"] == ("alarm" if status["collapsed"] else "fine")
