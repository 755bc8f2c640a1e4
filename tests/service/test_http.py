"""Every route and every refusal of the service, asked in this process; every answer is held against /openapi.json."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from engine_cases import Clock, row
from http_cases import JSON, Reply, Served, ServedHere, Web, ask, small_state, until

from osamd.service import access, auth, bodies, connections, sse, writer
from osamd.service.database import StorageError

jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="it comes with schemathesis: pip install 'osamd[test]'")


_DESCRIPTIONS: list[dict[str, Any]] = []


def _description(app: Any) -> dict[str, Any]:
    """It is the same for all."""
    if not _DESCRIPTIONS:
        _DESCRIPTIONS.append(app.openapi())
    return _DESCRIPTIONS[0]


class Described(Web):
    """Holds every answer against the description of the service."""

    def send(self, method, target, headers=(), body=b"") -> Reply:
        answer = super().send(method, target, headers, body)
        document = _description(self.app)
        for path, operations in document["paths"].items():
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))
            if re.fullmatch(pattern, target.partition("?")[0]) and method.lower() in operations:
                described = operations[method.lower()]["responses"]
                assert str(answer.status) in described, f"{method} {target} may not answer {answer.status}"
                kind = (answer.header("content-type") or "").partition(";")[0]
                schema = described[str(answer.status)]["content"][kind].get("schema", {})
                if kind == "application/json":
                    whole = schema | {"components": document["components"]}
                    jsonschema_rs.validator_for(whole).validate(answer.json())
        return answer


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def web(state, clock):
    with Described(state, clock=clock) as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with ServedHere(small_state(tmp_path_factory.mktemp("http") / "state")) as started:
        yield started


def test_the_description_is_a_valid_openapi_document(web):
    from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

    document = web.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    OPENAPI_31_VALIDATOR.validate(document)
    text = json.dumps(document)
    for name in re.findall(r'"\$ref": "#/components/schemas/(\w+)"', text):
        assert name in document["components"]["schemas"]
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


# Samples.


def test_a_sample_gets_a_decision(web):
    answer = web.post("/v1/samples", {"features": [1.0, 0.5, 0.25]})
    told = answer.json()
    assert (answer.status, told["round"], told["id"]) == (200, 0, None)
    assert told["label"] in ("cat", "dog")
    assert abs(sum(told["probabilities"].values()) - 1.0) < 1e-9


def test_features_by_name_are_those_by_place(web):
    by_place = web.post("/v1/samples", {"features": [1, 2.5, -3], "id": "a"}).json()
    again = web.post("/v1/samples", {"features": {"x3": -3.0, "x1": 1.0, "x2": 2.5}, "id": "a"}).json()
    assert again == by_place


def test_a_sample_sent_again_is_answered_as_before_and_counted_once(web):
    first = web.post("/v1/samples", {"features": [1.0, 2.0, 3.0], "id": "order-1"})
    web.post("/v1/samples", {"features": [4.0, 5.0, 6.0]})
    assert web.post("/v1/samples", {"features": [1.0, 2.0, 3.0], "id": "order-1"}).body == first.body
    assert web.get("/v1/status").json()["rounds"] == 2


def test_an_id_with_other_features_is_refused(web):
    web.post("/v1/samples", {"features": [1.0, 2.0, 3.0], "id": "order-1"})
    before = web.facts()
    answer = web.post("/v1/samples", {"features": [1.0, 2.0, 3.5], "id": "order-1"})
    assert (answer.status, answer.code) == (409, "id-reused")
    assert web.facts() == before


def test_one_id_for_two_samples_of_a_batch_is_refused_and_nothing_is_done(web):
    before = web.facts()
    batch = [{"features": [1.0, 2.0, 3.0], "id": "a"}, {"features": [1.0, 2.0, 4.0], "id": "a"}]
    answer = web.post("/v1/samples", {"samples": batch})
    assert (answer.status, answer.code) == (409, "id-reused")
    assert web.facts() == before


def test_a_batch_is_decided_in_its_order_with_repetitions_within(web):
    batch = [{"features": row(i).tolist(), "id": f"n{i % 5}" if i % 5 == i else None} for i in range(8)]
    batch.append(batch[0])
    told = web.post("/v1/samples", {"samples": batch}).json()["decisions"]
    assert [one["round"] for one in told] == [*range(8), 0]
    assert told[8] == told[0]
    assert web.get("/v1/status").json()["rounds"] == 8


def test_of_a_batch_with_a_bad_sample_nothing_is_done_and_its_place_is_told(web):
    before = web.facts()
    good = {"features": [1.0, 2.0, 3.0]}
    answer = web.post("/v1/samples", {"samples": [good, good, good, {"features": [1.0]}]})
    assert (answer.status, answer.code) == (422, "invalid")
    assert answer.json()["error"]["where"] == "body.samples.3.features"
    answer = web.post("/v1/samples", {"samples": [good, {"features": [1.0, {}, 3.0]}]})
    assert answer.json()["error"]["where"] == "body.samples.1.features"
    assert web.facts() == before


def test_a_batch_above_the_limit_is_too_large(tmp_path):
    with Described(small_state(tmp_path / "state", limits={"max_batch": 3})) as web:
        sample = {"features": [1.0, 2.0, 3.0]}
        assert web.post("/v1/samples", {"samples": [sample] * 3}).status == 200
        answer = web.post("/v1/samples", {"samples": [sample] * 4})
        assert (answer.status, answer.code) == (413, "too-large")
        answer = web.post("/v1/labels", {"labels": [{"round": 0, "label": "cat"}] * 4})
        assert (answer.status, answer.code) == (413, "too-large")
        assert web.get("/v1/status").json()["rounds"] == 3


WRONG_SAMPLES = [
    ({}, "body.features"),
    ({"features": None}, "body.features"),
    ({"features": "1,2,3"}, "body.features"),
    ({"features": 5}, "body.features"),
    ({"features": []}, "body.features"),
    ({"features": [1, 2]}, "body.features"),
    ({"features": [1, 2, 3, 4]}, "body.features"),
    ({"features": [1, 2, "3"]}, "body.features"),
    ({"features": [1, 2, None]}, "body.features"),
    ({"features": [1, 2, True]}, "body.features"),
    ({"features": [1, 2, [3]]}, "body.features"),
    ({"features": [1, 2, 10**400]}, "body.features"),
    ({"features": [1, 2, 1e101]}, "body.features"),
    ({"features": {}}, "body.features"),
    ({"features": {"x1": 1, "x2": 2}}, "body.features"),
    ({"features": {"x1": 1, "x2": 2, "x3": 3, "x4": 4}}, "body.features"),
    ({"features": {"x1": 1, "x2": 2, "x3": "a" * 1001}}, "body.features"),
    ({"features": {"x1": 1, "x2": 2, "x" * 201: 3}}, "body.features"),
    ({"features": [1, 2, 3], "id": ""}, "body.id"),
    ({"features": [1, 2, 3], "id": "a b"}, "body.id"),
    ({"features": [1, 2, 3], "id": "a" * 129}, "body.id"),
    ({"features": [1, 2, 3], "id": "é"}, "body.id"),
    ({"features": [1, 2, 3], "id": "a\n"}, "body.id"),
    ({"features": [1, 2, 3], "id": 5}, "body.id"),
    ({"features": [1, 2, 3], "weight": 5}, "body.weight"),
    ({"features": [1, 2, 3], "id": None, "display": None, "weight": 5}, "body"),
    ({"samples": []}, "body.samples"),
    ({"samples": {}}, "body.samples"),
    ({"samples": [[1, 2, 3]]}, "body.samples.0"),
    ({"samples": None}, "body.samples"),
    ([], "body"),
    ("features", "body"),
    (None, "body"),
    (1, "body"),
]


@pytest.mark.parametrize(("body", "where"), WRONG_SAMPLES, ids=lambda value: str(value)[:40])
def test_a_sample_of_another_shape_is_refused_where_it_is_wrong(web, body, where):
    answer = web.post("/v1/samples", body)
    assert (answer.status, answer.code, answer.json()["error"]["where"]) == (422, "invalid", where)
    assert answer.json()["error"]["message"].endswith(".")


# Labels.


def test_a_label_by_round_and_by_id_is_learned_once(web):
    for number in range(100):
        told = web.post("/v1/samples", {"features": row(number).tolist(), "id": f"order-{number}"}).json()
        if told["query"]:
            break
    before = web.get("/v1/status").json()["told"]
    first = web.post("/v1/labels", {"id": told["id"], "label": "cat", "holder": "tab-1"})
    assert first.json() == {"round": told["round"], "label": "cat", "status": "learned"}
    for by in ({"id": told["id"]}, {"round": told["round"]}):
        assert web.post("/v1/labels", by | {"label": "cat"}).json()["status"] == "repeated"
        other = web.post("/v1/labels", by | {"label": "dog"})
        assert (other.status, other.code) == (409, "answered")
    assert web.get("/v1/status").json()["told"] == before + 1


def test_a_label_that_was_not_asked_for_is_refused(web):
    sent = web.no_query()
    before = web.facts()
    answer = web.post("/v1/labels", {"round": sent, "label": "cat"})
    assert (answer.status, answer.code) == (409, "not-asked")
    assert web.facts() == before


def test_labels_of_what_is_not_there_are_refused(web):
    number = web.queries(1)[0]
    assert web.post("/v1/labels", {"round": 10**6, "label": "cat"}).code == "unknown"
    assert web.post("/v1/labels", {"id": "nobody", "label": "cat"}).code == "unknown"
    assert web.post("/v1/labels", {"round": 10**6, "label": "cat"}).status == 404
    for label in ("bird", "", 0, 1.5, "CAT"):
        answer = web.post("/v1/labels", {"round": number, "label": label})
        assert (answer.status, answer.code, answer.json()["error"]["where"]) == (422, "no-such-class", "body.label")


def test_of_a_batch_of_labels_each_has_its_outcome(web):
    first, second = web.queries(2)[:2]
    labels = [
        {"round": first, "label": "cat"},
        {"round": first, "label": "cat"},
        {"round": first, "label": "dog"},
        {"round": 10**6, "label": "dog"},
        {"round": second, "label": "dog"},
    ]
    told = web.post("/v1/labels", {"labels": labels}).json()["outcomes"]
    assert [one.get("status") or one["error"]["code"] for one in told] == [
        "learned",
        "repeated",
        "answered",
        "unknown",
        "learned",
    ]


WRONG_LABELS = [
    ({"label": "cat"}, "body"),
    ({"round": 0, "id": "a", "label": "cat"}, "body"),
    ({"round": 0}, "body.label"),
    ({"round": -1, "label": "cat"}, "body.round"),
    ({"round": 2**53, "label": "cat"}, "body.round"),
    ({"round": "0", "label": "cat"}, "body.round"),
    ({"round": True, "label": "cat"}, "body.round"),
    ({"round": 0.5, "label": "cat"}, "body.round"),
    ({"round": 0, "label": None}, "body.label"),
    ({"round": 0, "label": True}, "body.label"),
    ({"round": 0, "label": ["cat"]}, "body.label"),
    ({"round": 0, "label": "c" * 201}, "body.label"),
    ({"round": 0, "label": "cat", "holder": ""}, "body.holder"),
    ({"round": 0, "label": "cat", "sure": 1}, "body.sure"),
    ({"labels": []}, "body.labels"),
    ({"labels": [{"label": "cat"}]}, "body.labels.0"),
    ({"labels": [{"round": 0, "label": "cat"}, {"round": 0, "label": {}}]}, "body.labels.1.label"),
]


@pytest.mark.parametrize(("body", "where"), WRONG_LABELS, ids=lambda value: str(value)[:40])
def test_a_label_of_another_shape_is_refused_where_it_is_wrong(web, body, where):
    web.queries(1)
    before = web.facts()
    answer = web.post("/v1/labels", body)
    assert (answer.status, answer.code, answer.json()["error"]["where"]) == (422, "invalid", where)
    assert web.facts() == before


# Queries.


def test_queries_come_oldest_first_or_least_certain_first_and_skipped_ones_last(web):
    waiting = web.queries(4)
    assert waiting == sorted(waiting)
    told = web.get("/v1/queries?order=valuable&limit=2").json()
    assert (len(told["queries"]), told["pending"]) == (2, len(waiting))
    margins = [query["margin"] for query in web.get("/v1/queries?order=valuable&limit=1000").json()["queries"]]
    assert margins == sorted(margins)
    skipped = web.post(f"/v1/queries/{waiting[0]}/skip", {"holder": "me"})
    assert skipped.json() == {"round": waiting[0], "status": "skipped"}
    last = web.get("/v1/queries?limit=1000").json()["queries"][-1]
    assert (last["round"], last["skips"]) == (waiting[0], 1)
    assert [one["name"] for one in last["features"]] == ["x1", "x2", "x3"]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=", "order=best", "order=", "limit=1e1"])
def test_a_list_of_queries_that_cannot_be_had_is_refused(web, query):
    answer = web.get(f"/v1/queries?{query}")
    assert (answer.status, answer.code) == (422, "invalid")
    assert answer.json()["error"]["where"].startswith("query.")


def test_a_claim_is_for_one_person_until_it_lapses(web, clock):
    waiting = web.queries(2)
    claim = {"holder": "tab-a", "lease": 60}
    mine = web.post("/v1/queries/claim", claim).json()["queries"][0]
    assert (mine["round"], mine["held"], mine["lease_until"]) == (waiting[0], True, clock.now + 60)
    assert web.post("/v1/queries/claim", claim).json()["queries"][0]["round"] == mine["round"]
    yours = web.post("/v1/queries/claim", {"holder": "tab-b", "lease": 60}).json()["queries"][0]
    assert yours["round"] != mine["round"]
    held = web.post(f"/v1/queries/{mine['round']}/skip", {"holder": "tab-b"})
    assert (held.status, held.code) == (409, "held")
    assert web.get("/v1/status").json()["held"] == 2
    clock.now += 61
    assert web.get("/v1/status").json()["held"] == 0
    assert web.post("/v1/queries/claim", {"holder": "tab-b"}).json()["queries"][0]["round"] == mine["round"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"holder": ""},
        {"holder": "a b"},
        {"holder": "a" * 65},
        {"holder": "a", "limit": 0},
        {"holder": "a", "limit": 101},
        {"holder": "a", "limit": "5"},
        {"holder": "a", "limit": True},
        {"holder": "a", "lease": 4.9},
        {"holder": "a", "lease": 3601},
        {"holder": "a", "lease": "60"},
        {"holder": "a", "order": "best"},
        {"holder": "a", "more": 1},
        [],
    ],
)
def test_a_claim_of_another_shape_is_refused(web, body):
    web.queries(1)
    before = web.facts()
    answer = web.post("/v1/queries/claim", body)
    assert (answer.status, answer.code) == (422, "invalid")
    assert web.facts() == before


def test_an_expired_query_takes_no_label_and_no_skip(web):
    number = web.queries(1)[0]
    assert web.post(f"/v1/queries/{number}/expire", {}).json() == {"round": number, "status": "expired"}
    assert web.post(f"/v1/queries/{number}/expire", {}).json() == {"round": number, "status": "repeated"}
    for path, body in (
        (f"/v1/queries/{number}/skip", {"holder": "a"}),
        ("/v1/labels", {"round": number, "label": "cat"}),
    ):
        answer = web.post(path, body)
        assert (answer.status, answer.code) == (409, "expired")


def test_an_answered_query_cannot_be_skipped_or_expired(web):
    number = web.queries(1)[0]
    web.post("/v1/labels", {"round": number, "label": "cat"})
    for path, body in ((f"/v1/queries/{number}/skip", {"holder": "a"}), (f"/v1/queries/{number}/expire", {})):
        answer = web.post(path, body)
        assert (answer.status, answer.code) == (409, "answered")


def test_queries_that_are_not_there_cannot_be_skipped_or_expired(web):
    sent = web.no_query()
    for number, code, status in ((sent, "not-asked", 409), (10**6, "unknown", 404)):
        for path, body in ((f"/v1/queries/{number}/skip", {"holder": "a"}), (f"/v1/queries/{number}/expire", {})):
            answer = web.post(path, body)
            assert (answer.status, answer.code) == (status, code)


def test_old_queries_are_given_up_together(web):
    waiting = web.queries(5)
    rounds = web.get("/v1/status").json()["rounds"]
    old = [number for number in waiting if rounds - 1 - number > 3]
    assert web.post("/v1/queries/expire", {"older_than": 3}).json() == {"expired": len(old)}
    assert web.post("/v1/queries/expire", {"older_than": 3}).json() == {"expired": 0}
    for body in ({}, {"older_than": -1}, {"older_than": "3"}, {"older_than": 1.5}, {"older_than": 2**60}):
        assert web.post("/v1/queries/expire", body).code == "invalid"


# How it stands.


def test_how_it_stands_before_the_first_sample_and_after_some(web):
    new = web.get("/v1/status").json()
    assert (new["rounds"], new["asked"], new["seq"], new["accuracy"]["value"]) == (0, 0, 0, None)
    web.queries(3)
    web.label_all()
    told = web.get("/v1/status").json()
    assert told["told"] == told["asked"] == told["today"]["told"] > 0
    assert told["pending"] == 0
    assert told["seq"] == told["rounds"] + told["told"]


def test_history_has_a_point_every_hundred_rounds_thinned_as_asked(web):
    assert web.get("/v1/history").json() == {"points": [], "classes": ["cat", "dog"]}
    for _ in range(5):
        web.post("/v1/samples", {"samples": [{"features": row(i).tolist()} for i in range(100)]})
    points = web.get("/v1/history").json()["points"]
    assert [point["round"] for point in points] == [100, 200, 300, 400, 500]
    assert [point["round"] for point in web.get("/v1/history?points=3").json()["points"]] == [100, 300, 500]
    for number in ("1", "0", "5001", "x", "-1"):
        assert web.get(f"/v1/history?points={number}").code == "invalid"


def test_the_schema_tells_what_samples_and_classes_are(web):
    told = web.get("/v1/schema").json()
    assert (told["features"], told["image"]) == (3, None)
    assert [one["name"] for one in told["classes"]] == ["cat", "dog"]
    assert [one["name"] for one in told["columns"]] == ["x1", "x2", "x3"]


def test_health_and_metrics(web):
    web.queries(1)
    assert web.get("/healthz").json() == {"status": "ok"}
    text = web.get("/metrics").body.decode()
    rounds = web.get("/v1/status").json()["rounds"]
    assert f"osamd_rounds_total {float(rounds)}" in text
    assert 'route="' in text
    web.get("/no/such/" + "x" * 50)
    assert "xxxx" not in web.get("/metrics").body.decode()


def test_pages_and_assets_are_there(web):
    assert (web.get("/").status, web.get("/").header("location")) == (307, "/dashboard")
    for page in ("label", "dashboard", "login"):
        answer = web.get(f"/{page}")
        assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")
        for name in re.findall(r'(?:src|href)="(/assets/[^"]+)"', answer.body.decode()):
            assert web.get(name).status == 200
    assert web.get("/favicon.ico").status == 307


# What is no route, and what no route should see.


@pytest.mark.parametrize(
    "target",
    ["/v1", "/v2/status", "/v1/status/", "/docs", "/redoc", "/assets/", "/assets/x.js", "/x", "//", "/v1/queries/1"],
)
def test_nothing_is_told_as_such(web, target):
    answer = web.get(target)
    assert (answer.status, answer.code) == (404, "not-found")
    assert answer.header("location") is None


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"])
def test_a_method_that_is_not_for_a_path_is_told_as_such(web, method):
    answer = web.send(method, "/v1/samples", JSON, b"{}")
    assert (answer.status, answer.code, answer.header("allow")) == (405, "method-not-allowed", "POST")


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"features": [1,2,3', b"features=1", b"\xff\xfe", b"\xef\xbb\xbf{}", b"nul"]
)
@pytest.mark.parametrize("path", ["/v1/samples", "/v1/labels", "/v1/queries/claim", "/login"])
def test_what_is_no_json_is_told_as_such(web, path, body):
    answer = web.send("POST", path, JSON, body)
    assert (answer.status, answer.code) == ((422, "invalid") if body == b"" else (400, "malformed-json"))


@pytest.mark.parametrize(
    "kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "json"]
)
def test_a_body_of_another_kind_is_refused(web, kind):
    headers = [] if kind is None else [("content-type", kind)]
    answer = web.send("POST", "/v1/samples", headers, b'{"features": [1, 2, 3]}')
    assert (answer.status, answer.code) == (415, "unsupported-media-type")
    assert web.get("/v1/status").json()["rounds"] == 0


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON", "application/json; charset=utf-8"])
def test_json_goes_by_any_of_its_spellings(web, kind):
    assert web.send("POST", "/v1/samples", [("content-type", kind)], b'{"features": [1, 2, 3]}').status == 200


def test_a_body_that_is_too_large_is_refused_by_its_header_and_by_its_bytes(web, monkeypatch):
    monkeypatch.setattr(bodies, "LARGEST_BODY", 2**20)
    monkeypatch.setattr(access, "LARGEST_BODY", 2**20)
    before = web.facts()
    for length in (str(2**22 + 1), "9" * 30, "-1", "x", "1e3"):
        answer = web.send("POST", "/v1/samples", [*JSON, ("content-length", length)], b"{}")
        assert (answer.status, answer.code, answer.header("connection")) == (413, "too-large", "close")
    for number in (5, 16, 100):
        parts = [b" " * 2**18] * number  # as chunks come: no length is told
        answer = web.run(ask(web.app, "POST", "/v1/samples", JSON, parts))
        assert (answer.status, answer.code) == (413, "too-large")
    answer = web.run(ask(web.app, "POST", "/v1/samples", [*JSON, ("content-length", "5")], parts))
    assert (answer.status, answer.code) == (413, "too-large")
    assert web.facts() == before


def test_who_sends_too_much_is_told_so_before_the_connection_ends(served):
    for size in (9 * 2**20, 30 * 2**20):
        answer = served.send("POST", "/v1/samples", JSON, b" " * size)
        assert (answer.status, answer.code) == (413, "too-large")
    assert served.send("POST", "/v1/samples", [("content-type", "text/plain")], b" " * 2**20).status == 415
    assert served.send("POST", "/v1/samples", JSON, b'{"features": [1, 2, 3]}' + b" " * (8 * 2**20 - 30)).status == 200


def test_a_connection_on_which_nothing_comes_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "SLOWEST_HEAD", 0.05)
    with ServedHere(small_state(tmp_path / "state")) as served:
        for begun in (b"", b"GET /v1/sta", b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\n"):
            with served.connect() as connection:
                connection.sendall(begun)
                assert connection.recv(1000) == b""
        with served.connect() as connection:  # after an answer too
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /heal")
            answer = b""
            while part := connection.recv(1000):
                answer += part
            assert answer.startswith(b"HTTP/1.1 200 OK")
        with served.connect() as connection:  # but not one that is being answered
            connection.sendall(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            rounds = 0
            while rounds < 3:
                told = connection.recv(65536)
                assert told
                rounds += told.count(b"event: status")
                served.post("/v1/samples", {"features": [1, 2, 3]})


def test_a_body_in_parts_is_read_whole(web):
    parts = [b'{"feat', b'ures": [1,', b" 2, 3]}"]
    assert web.run(ask(web.app, "POST", "/v1/samples", JSON, parts)).status == 200


def test_a_body_that_breaks_off_does_nothing_even_where_it_is_whole_json(web):
    before = web.facts()
    answer = web.run(ask(web.app, "POST", "/v1/samples", JSON, [b'{"features": [1, 2, 3]}'], ends=False))
    assert answer.status == 0
    assert web.facts() == before


def test_a_body_that_does_not_come_is_given_up(web, monkeypatch):
    monkeypatch.setattr(bodies, "SLOWEST_BODY", 0.05)

    async def never():
        sent = []

        async def receive():
            await asyncio.Event().wait()

        async def send(message):
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/samples", "headers": headers}
        await web.app(scope, receive, send)
        return sent

    start, body = web.run(never())
    assert start["status"] == 408
    assert json.loads(body["body"])["error"]["code"] == "timeout"


def test_a_large_body_of_many_faults_is_refused_as_soon_as_the_first_is_found(web, monkeypatch):
    """Bodies of a megabyte with some hundred thousand faults: pydantic's list of all of them would take a minute."""
    seen = []
    from osamd.service import refusals

    told = refusals._on_invalid

    async def counted(request, error):
        seen.append(len(error.errors()))
        return await told(request, error)

    monkeypatch.setitem(web.app.exception_handlers, refusals.RequestValidationError, counted)
    many = 100_000
    bodies = [
        b'{"features":[' + b",".join([b"{}"] * many) + b"]}",
        b'{"features":{' + b",".join(b'"%d":[]' % i for i in range(many)) + b"}}",
        b'{"samples":[' + b",".join([b"{}"] * many) + b"]}",
        b'{"samples":[' + b",".join([b'{"features":[[],[]]}'] * (many // 2)) + b"]}",
        b"{" + b",".join(b'"%d":0' % i for i in range(many)) + b"}",
        b'{"samples":[{' + b",".join(b'"%d":0' % i for i in range(many)) + b"}]}",
        b'{"samples":[],' + b",".join(b'"%d":0' % i for i in range(many)) + b"}",
    ]
    web.app.middleware_stack = None
    for body in bodies:
        assert web.send("POST", "/v1/samples", JSON, body).code == "invalid"
    for path in ("/v1/labels", "/v1/queries/claim", "/v1/queries/expire", "/v1/queries/1/skip", "/v1/corrections"):
        assert web.send("POST", path, JSON, bodies[4]).code == "invalid"
    assert web.send("POST", "/login", JSON, bodies[4]).code == "too-large"
    assert len(seen) == len(bodies) + 5
    assert max(seen) <= 5


# Overload and loss of the log.


def test_what_is_too_much_is_refused_at_once_and_the_rest_is_done(web, monkeypatch):
    monkeypatch.setattr(writer, "MOST_WAITING", 8)
    entered, go = threading.Event(), threading.Event()

    def busy():
        entered.set()
        assert go.wait(60)

    with ThreadPoolExecutor(40) as pool:
        first = pool.submit(web.run, web.engine.do(busy))
        assert entered.wait(60)
        sent = [pool.submit(web.post, "/v1/samples", {"features": row(i).tolist()}) for i in range(30)]
        until(lambda: sum(one.done() for one in sent) >= 22, "those beyond the limit are refused while it is busy")
        refused = [one.result() for one in sent if one.done()]
        assert {(one.status, one.code, one.header("retry-after")) for one in refused} == {(503, "overloaded", "1")}
        assert web.get("/healthz").status == 200  # nobody else waits for it
        go.set()
        first.result()
        answers = [one.result() for one in sent]
    assert sorted(one.status for one in answers) == [200] * 8 + [503] * 22
    assert sorted(one.json()["round"] for one in answers if one.status == 200) == list(range(8))


def answered(connection) -> bool:
    connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
    told = b""
    while not told.endswith(b"}"):
        told += (part := connection.recv(65536))
        if not part:
            break
    assert told.startswith(b"HTTP/1.1 200"), told
    return True


def test_one_connection_too_many_takes_the_place_of_the_one_that_idles_longest(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 4)
    with ServedHere(small_state(tmp_path / "state")) as served, ExitStack() as idle:
        idling = [idle.enter_context(served.connect()) for _ in range(4)]
        assert all(map(answered, idling))
        assert answered(idling[0])  # so that the second is now the one that idles longest
        assert served.post("/v1/samples", {"features": [1, 2, 3]})["round"] == 0
        assert idling[1].recv(10) == b""
        assert all(answered(idling[i]) for i in (0, 2, 3))


def test_one_connection_too_many_is_refused_where_all_are_being_answered(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 4)
    with ServedHere(small_state(tmp_path / "state")) as served, ExitStack() as busy:
        listening = [busy.enter_context(served.connect()) for _ in range(4)]
        for connection in listening:
            connection.sendall(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        answer = served.send("POST", "/v1/samples", JSON, b'{"features": [1, 2, 3]}')
        assert (answer.status, answer.code, answer.header("retry-after")) == (503, "overloaded", "1")
        assert answer.header("x-content-type-options") == "nosniff"
        listening[1].close()
        until(lambda: served.send("GET", "/healthz").status == 200, "there is room again")
        assert served.get("/v1/status")["rounds"] == 0


def test_one_listener_too_many_is_refused(web, monkeypatch):
    monkeypatch.setattr(sse, "MOST_LISTENERS", 0)
    answer = web.get("/v1/events")
    assert (answer.status, answer.code, answer.header("retry-after")) == (503, "overloaded", "1")


def test_a_log_that_cannot_be_written_is_told_and_comes_back(web, monkeypatch):
    web.queries(1)
    rounds = web.get("/v1/status").json()["rounds"]
    real = web.log.transaction

    def broken():
        raise StorageError("disk full: /secret/place")

    monkeypatch.setattr(web.log, "transaction", broken)
    answer = web.post("/v1/samples", {"features": [1, 2, 3]})
    assert (answer.status, answer.code, answer.header("retry-after")) == (503, "storage", "1")
    assert b"secret" not in answer.body
    health = web.get("/healthz")
    assert (health.status, health.code) == (503, "storage")
    assert web.get("/v1/status").status == 503
    monkeypatch.setattr(web.log, "transaction", real)
    answer = web.post("/v1/samples", {"features": [1, 2, 3]})
    assert (answer.status, answer.json()["round"]) == (200, rounds)
    assert web.get("/healthz").status == 200


def test_a_fault_of_ours_is_told_without_its_inside(web, monkeypatch, caplog):
    def fault():
        raise RuntimeError("inside of the service")

    monkeypatch.setattr(web.engine, "status", fault)

    async def asked():
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {"type": "http", "method": "GET", "path": "/v1/status", "query_string": b"", "headers": []}
        with pytest.raises(RuntimeError, match="inside"):  # for the server's own log
            await web.app(scope, receive, send)
        return sent

    start, body = web.run(asked())
    assert start["status"] == 500
    assert json.loads(body["body"])["error"]["code"] == "internal"
    assert b"inside" not in body["body"]
    assert dict(start["headers"])[b"x-content-type-options"] == b"nosniff"


def test_sqlite_and_postgresql_are_the_same_from_outside(state, log_url, clock):
    with Described(state, url=log_url, clock=clock, may_open=False) as web:
        client = [("authorization", f"Bearer {auth.make_token(web.log, 'shop', 'client')}")]
        token = auth.make_token(web.log, "anna", "annotator")
        cookie = str(web.post("/login", {"token": token}).header("set-cookie")).partition(";")[0]
        anna = [("cookie", cookie)]
        samples = [{"features": row(i).tolist(), "id": f"s{i}"} for i in range(120)]
        told = web.post("/v1/samples", {"samples": samples}, client).json()["decisions"]
        asked = [one["round"] for one in told if one["query"]]
        assert web.post("/v1/samples", samples[7], client).json() == told[7]
        assert web.post("/v1/samples", {"features": [0, 0, 0], "id": "s7"}, client).code == "id-reused"
        held = web.post("/v1/queries/claim", {"holder": "a"}, anna).json()["queries"][0]["round"]
        assert held == asked[0]
        assert web.post(f"/v1/queries/{held}/skip", {"holder": "a"}, anna).status == 200
        assert web.post("/v1/labels", {"id": f"s{asked[1]}", "label": "dog"}, anna).json()["status"] == "learned"
        assert web.post("/v1/labels", {"round": asked[1], "label": "cat"}, anna).code == "answered"
        assert web.post(f"/v1/queries/{held}/expire", {}, anna).json()["status"] == "expired"
        assert len(web.get("/v1/history", anna).json()["points"]) == 1
        status = web.get("/v1/status", anna).json()
        assert (status["rounds"], status["told"], status["expired"]) == (120, 1, 1)
        parts = web.app.state.parts

        async def heard():
            stream = sse.stream(web.engine, web.log, parts.bell, 0, lambda: "{}")
            found = [await anext(stream) for _ in range(2)]
            await stream.aclose()
            return found[1]

        numbers = [int(number) for number in re.findall(r"^id: (\d+)$", web.run(heard()), re.MULTILINE)]
        assert numbers == sorted(numbers)
        assert len(numbers) == len(asked) + 4
        assert web.post("/logout", {}, anna).status == 200
        assert web.get("/v1/queries", anna).status == 401


# Many at once.


def test_sixteen_clients_at_once_get_rounds_that_are_unique_and_consecutive(tmp_path):
    with Served(small_state(tmp_path / "state")) as served:

        def one(client: int) -> list[int]:
            rounds = []
            for i in range(12):
                told = served.post("/v1/samples", {"features": row(100 * client + i).tolist(), "id": f"{client}-{i}"})
                again = served.post("/v1/samples", {"features": row(100 * client + i).tolist(), "id": f"{client}-{i}"})
                assert again == told
                if told["query"]:
                    outcome = served.post("/v1/labels", {"id": told["id"], "label": "cat"})
                    assert outcome == {"round": told["round"], "label": "cat", "status": "learned"}
                rounds.append(told["round"])
                assert served.get("/v1/status")["rounds"] > told["round"]
            assert rounds == sorted(rounds)
            return rounds

        with ThreadPoolExecutor(16) as pool:
            rounds = [number for told in pool.map(one, range(16)) for number in told]
        assert sorted(rounds) == list(range(16 * 12))
        status = served.get("/v1/status")
        assert (status["rounds"], status["pending"]) == (192, 0)
        assert status["seq"] == status["rounds"] + status["told"]
        assert served.end() == 0
    assert served.errors == ""


def test_of_sixteen_who_answer_one_query_at_once_one_is_first(web):
    for number in web.queries(4)[:4]:
        with ThreadPoolExecutor(16) as pool:
            labels = [{"round": number, "label": "cat" if i % 2 else "dog"} for i in range(16)]
            answers = list(pool.map(lambda label: web.post("/v1/labels", label), labels))
        told = [one.json().get("status") or one.code for one in answers]
        assert told.count("learned") == 1
        assert told.count("repeated") == 7
        assert told.count("answered") == 8
