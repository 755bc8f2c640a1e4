"""Requests that nobody should send: none is answered by 500, none changes anything, none leaves anything behind."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from contextlib import suppress

import pytest
from http_cases import Served, ServedHere, Web, parsed, small_state

from benchmarks import service_fuzz
from benchmarks.service_fuzz import Attempt
from osamd.service import auth

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
REFUSED = {400, 401, 403, 404, 405, 409, 413, 415, 422}


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    """A service with queries that wait, labels, an expiry and a claim."""
    with Web(small_state(tmp_path_factory.mktemp("fuzz") / "state"), hosts=LOCAL) as started:
        started.no_query()
        started.queries(3)
        started.post("/v1/queries/claim", {"holder": "somebody"})
        yield started


def test_two_thousand_hostile_requests_change_nothing(web):
    def client(attempt: Attempt) -> int:
        answer = web.send(attempt.method, attempt.target, attempt.headers, attempt.body)
        assert answer.header("x-content-type-options") == "nosniff", attempt.short
        assert answer.status not in service_fuzz.HARMLESS or attempt.method in ("GET", "HEAD"), attempt.short
        if answer.status >= 400 and attempt.method != "HEAD":
            assert set(answer.json()["error"]) == {"code", "message", "where"}, attempt.short
            assert len(answer.body) < 2000, attempt.short
        return answer.status

    before = web.facts()
    found = service_fuzz.hostile(client, 2000, seed=1)
    assert sum(found.values()) == 2000
    assert set(found) <= REFUSED | service_fuzz.HARMLESS, found
    assert len(set(found) & REFUSED) >= 8, "the attempts are of many kinds"
    assert web.facts() == before


def test_hostile_requests_leave_nothing_in_memory(web):
    def client(attempt: Attempt) -> int:
        return web.send(attempt.method, attempt.target, attempt.headers, attempt.body).status

    service_fuzz.hostile(client, 300, seed=2)
    tracemalloc.start()
    gc.collect()
    start = tracemalloc.get_traced_memory()[0]
    service_fuzz.hostile(client, 600, seed=3)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - start
    tracemalloc.stop()
    # The attempts hold some 20 MB; what stays is what Python's own caches keep.
    assert grown < 600 * 500


def test_with_tokens_hostile_requests_get_nowhere(tmp_path):
    state = small_state(tmp_path / "state")
    with Web(state, may_open=False) as web:
        auth.make_token(web.log, "anna", "annotator")
        before, seen = web.facts(), Counter()

        def client(attempt: Attempt) -> int:
            answer = web.send(attempt.method, attempt.target, attempt.headers, attempt.body)
            if attempt.target.startswith("/v1"):
                seen[answer.status] += 1
            return answer.status

        found = service_fuzz.hostile(client, 500, seed=4)
        assert set(found) <= REFUSED | service_fuzz.HARMLESS
        assert 200 not in seen
        assert web.facts() == before


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "%2e%2e%2fservice.json", "..%5c..%5cx", "%00", "label.html", "style.css%00.js"]
)
def test_no_path_reaches_the_file_system(web, name):
    for target in (f"/assets/{name}", f"/{name}", f"/assets/../{name}", f"//{name}"):
        answer = web.get(target)
        assert (answer.status, answer.code) == (404, "not-found")


def test_numbers_at_the_edge_of_what_is_allowed_are_answered_and_never_by_500(tmp_path):
    with Web(small_state(tmp_path / "state", classes=3)) as web:
        edges = [1e100, -1e100, 1e-320, -0.0, 0.0, 1e99, 3.0]
        for i in range(60):
            features = [edges[(i * step + i // 7) % 7] for step in (1, 2, 3)]
            answer = web.post("/v1/samples", {"features": features})
            assert answer.status in (200, 422), answer
            if answer.status == 200 and answer.json()["query"]:
                told = web.post("/v1/labels", {"round": answer.json()["round"], "label": ["cat", "dog", "owl"][i % 3]})
                assert told.status in (200, 422)
            for path in ("/v1/status", "/v1/queries?limit=5", "/metrics", "/v1/history", "/healthz"):
                assert web.get(path).status == 200


RAW = {
    "garbage": b"\x00\xff\x16\x03\x01\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + b"\x00" * 100 + b"\r\n\r\n",
    "no host": b"GET /v1/status HTTP/1.1\r\n\r\n",
    "half an address": b"GET /v1/status HTTP/1.1\r\nhost: [::1\r\n\r\n",
    "another host": b"GET /v1/status HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    "absolute": b"GET http://evil.example/v1/status HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    "bad length": b"POST /v1/samples HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n{}",
    "two lengths": b"POST /v1/samples HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 40\r\n\r\n{}",
    "smuggled": b"POST /v1/samples HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n"
    b"transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/status HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "bad chunk": b"POST /v1/samples HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "line in a header": b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\nx: a\rb\r\n\r\n",
    "CONNECT": b"CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example\r\n\r\n",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with ServedHere(small_state(tmp_path_factory.mktemp("raw") / "state")) as started:
        yield started


@pytest.mark.parametrize("name", RAW)
def test_what_is_hardly_http_is_refused_and_does_nothing(served, name):
    answer = served.raw(RAW[name])
    if answer:
        assert parsed(answer).status in (400, 403)
    assert served.get("/v1/status")["seq"] == 0


def test_a_head_without_end_is_cut_off(served):
    with served.connect() as connection:
        connection.sendall(b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\n")
        sent = 0
        try:
            while sent < 2**26:
                sent += connection.send(b"x-flood: " + b"a" * 4000 + b"\r\n")
        except (ConnectionResetError, BrokenPipeError):
            pass
    assert sent < 2**25
    assert served.get("/healthz") == {"status": "ok"}


def test_a_body_that_breaks_off_on_the_wire_does_nothing(served):
    head = b"POST /v1/samples HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    body = b'{"features": [1, 2, 3]}'
    served.raw(head + b"content-length: 400\r\n\r\n" + body)
    served.raw(head + b"transfer-encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n" % (len(body), body))
    assert served.get("/v1/status")["seq"] == 0


def test_schemathesis_finds_nothing(tmp_path):
    """Requests that are made from /openapi.json, valid ones and others, with a fixed seed."""
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis import GenerationMode
    from schemathesis import checks as known
    from schemathesis.config import SchemathesisConfig

    checks = [
        known.not_a_server_error,
        known.status_code_conformance,
        known.content_type_conformance,
        known.response_headers_conformance,
        known.response_schema_conformance,
        known.negative_data_rejection,
        known.allow_header_conformance,
        known.unsupported_method,
    ]
    with Served(small_state(tmp_path / "state")) as served:
        for i in range(5):
            served.post("/v1/samples", {"features": [0.1 * i, 0.2, 0.3], "id": f"s{i}"})
        document = served.get("/openapi.json")
        for operations in document["paths"].values():
            for operation in operations.values():
                operation.pop("security", None)  # this one is open; who may do what is another test
        refusals = ["4xx"]  # a body too large is refused as such (413), which is not among schemathesis' own
        settled = SchemathesisConfig.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": refusals}}})
        described = schemathesis.openapi.from_dict(document, config=settled)
        tried = 0
        for found in described.get_all_operations():
            operation = found.ok()
            if operation.path == "/v1/events":  # it does not end
                continue
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                cases = operation.as_strategy(generation_mode=mode)

                @seed(7)
                @settings(
                    max_examples=12,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
                @given(case=cases)
                def holds(case):
                    nonlocal tried
                    tried += 1
                    case.call_and_validate(base_url=served.url, checks=checks)

                with suppress(Unsatisfiable):  # there is nothing to send that is wrong
                    holds()
        assert tried > 150
        assert served.end() == 0
    assert "Traceback" not in served.errors
