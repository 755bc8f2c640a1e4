"""Tokens, logins and roles: each lets people and programs do what it should, and nothing else."""

from __future__ import annotations

import json
import logging
import re
import time

import pytest
import sqlalchemy as sql
from http_cases import JSON, Web, ask, small_state

from osamd.errors import InputError
from osamd.service import auth, guard, server
from osamd.service import log as logs
from osamd.service.log import Log

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@pytest.fixture
def web(tmp_path, monkeypatch):
    """A service with a token of each role; what is revoked is noticed at once."""
    monkeypatch.setattr(auth, "_SEEN_FOR", -1.0)
    with Web(small_state(tmp_path / "state"), may_open=False) as started:
        started.client = auth.make_token(started.log, "shop", "client")
        started.annotator = auth.make_token(started.log, "anna", "annotator")
        yield started


@pytest.fixture
def open_web(tmp_path, monkeypatch):
    monkeypatch.setattr(auth, "_SEEN_FOR", -1.0)
    with Web(small_state(tmp_path / "state"), hosts=LOCAL) as started:
        yield started


def bearer(token):
    return [("authorization", f"Bearer {token}")]


def logged_in(web, token):
    answer = web.post("/login", {"token": token})
    assert answer.status == 200
    return [("cookie", str(answer.header("set-cookie")).partition(";")[0])]


def operations(app):
    """Every route that the app has, by its description and by its routes, so that none can be forgotten."""
    document = app.openapi()
    for path, methods in document["paths"].items():
        for method in methods:
            yield method.upper(), re.sub(r"\{\w+\}", "0", path)


# With tokens.


def test_every_route_of_v1_needs_a_token(web):
    routes = [(method, path) for method, path in operations(web.app) if path.startswith("/v1") or path == "/metrics"]
    assert len(routes) >= 12
    for method, path in routes:
        for headers in (
            [],
            bearer("osamd_wrong"),
            bearer(""),
            [("cookie", f"{auth.COOKIE}=wrong")],
            [("authorization", "Basic YTpi")],
        ):
            for body in (b"{}", b'{"features": [1, 2, 3]}', b"no json"):
                kind = [("content-type", guard.TYPES.get(path, "application/json"))]
                answer = web.send(method, path, [*kind, *headers], body if method == "POST" else b"")
                assert (answer.status, answer.code) == (401, "unauthorised"), (method, path)
                assert answer.header("www-authenticate") == "Bearer"
    assert web.engine.status()["seq"] == 0


def test_no_route_is_missing_from_the_description(web):
    """So that the walk above meets all: what is not described is a page, an asset or the description."""

    def paths(routes):
        for route in routes:
            inner = getattr(route, "original_router", None)
            if inner is not None:
                yield from paths(inner.routes)
            elif hasattr(route, "path"):
                yield route.path, getattr(route, "include_in_schema", False)

    hidden = {path for path, described in paths(web.app.routes) if not described}
    assert hidden == {"/", "/{page}", "/assets/{name}", "/openapi.json"}


def test_roles_are_kept(web):
    client, annotator = bearer(web.client), bearer(web.annotator)
    sample = {"features": [1, 2, 3]}
    assert web.post("/v1/samples", sample, client).status == 200
    assert web.post("/v1/samples", sample, annotator).code == "forbidden"
    for_annotators = [
        ("GET", "/v1/queries", None),
        ("POST", "/v1/queries/claim", {"holder": "a"}),
        ("POST", "/v1/queries/expire", {"older_than": 5}),
        ("POST", "/v1/queries/0/skip", {"holder": "a"}),
        ("POST", "/v1/queries/0/expire", {}),
        ("GET", "/v1/events", None),
    ]
    for method, path, body in for_annotators:
        answer = web.send(method, path, [*JSON, *client], json.dumps(body).encode())
        assert (answer.status, answer.code) == (403, "forbidden"), path
        if path != "/v1/events":
            assert web.send(method, path, [*JSON, *annotator], json.dumps(body).encode()).status in (200, 409)
    for who in (client, annotator):
        assert web.get("/v1/status", who).status == 200
        assert web.get("/metrics", who).status == 200
        assert web.post("/v1/labels", {"round": 10**6, "label": "cat"}, who).code == "unknown"


def test_a_revoked_token_and_its_logins_stop_working(web):
    cookie = logged_in(web, web.annotator)
    assert web.get("/v1/status", cookie).status == web.get("/v1/status", bearer(web.annotator)).status == 200
    auth.revoke_token(web.log, "anna")
    assert web.get("/v1/status", cookie).status == web.get("/v1/status", bearer(web.annotator)).status == 401
    assert web.post("/login", {"token": web.annotator}).code == "unauthorised"
    assert web.get("/v1/status", bearer(web.client)).status == 200
    auth.make_token(web.log, "anna", "annotator")  # the name again is another person
    assert web.get("/v1/status", cookie).status == 401


def test_what_others_can_reach_stays_shut_when_its_last_token_is_revoked(web):
    auth.revoke_token(web.log, "anna")
    auth.revoke_token(web.log, "shop")
    assert web.get("/v1/status").status == 401
    assert web.post("/v1/samples", {"features": [1, 2, 3]}).status == 401


def test_an_open_service_shuts_as_soon_as_there_is_a_token(open_web):
    assert open_web.get("/v1/status").status == 200
    token = auth.make_token(open_web.log, "anna", "annotator")
    assert open_web.get("/v1/status").status == 401
    assert open_web.get("/v1/status", bearer(token)).status == 200


def test_tokens_are_compared_in_constant_time_and_all_of_them(web, monkeypatch):
    compared = []
    real = auth.hmac.compare_digest
    monkeypatch.setattr(auth.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    assert web.get("/v1/status", bearer(web.client)).status == 200
    assert len(compared) == 2
    assert {given for given, _ in compared} == {auth.digest(web.client)}


def test_tokens_and_cookies_are_stored_as_digests_alone(web):
    cookie = logged_in(web, web.annotator)
    secret = cookie[0][1].partition("=")[2]
    with web.log.reading() as connection:
        kept = [str(row) for table in logs.tables.tables.values() for row in connection.execute(sql.select(table))]
    assert any(auth.digest(web.annotator) in row for row in kept)
    assert any(auth.digest(secret) in row for row in kept)
    files = b"".join(path.read_bytes() for path in web.engine.state.folder.iterdir())
    for hidden in (web.client, web.annotator, secret):
        assert hidden not in "".join(kept)
        assert hidden.encode() not in files
        assert len(hidden) >= 43  # 32 bytes of chance


@pytest.mark.parametrize(
    ("name", "role"),
    [("", "client"), ("a b", "client"), ("a/b", "client"), ("a" * 65, "client"), ("ok", "root"), ("shop", "client")],
)
def test_tokens_of_odd_names_or_roles_are_not_made(web, name, role):
    with pytest.raises(InputError, match=r"`make_token\((name|role)="):
        auth.make_token(web.log, name, role)


def test_a_token_that_is_not_there_cannot_be_revoked(web):
    with pytest.raises(InputError, match="there is no such token"):
        auth.revoke_token(web.log, "nobody")
    assert auth.token_names(web.log) == [("anna", "annotator"), ("shop", "client")]


# Logins.


def test_the_cookie_of_a_login_is_for_this_service_alone(web):
    answer = web.post("/login", {"token": web.annotator})
    assert answer.json() == {"name": "anna", "roles": ["annotator"]}
    flags = str(answer.header("set-cookie")).lower().split("; ")[1:]
    assert {"httponly", "samesite=strict", "path=/", f"max-age={int(auth.SESSION_SECONDS)}"} <= set(flags)
    assert "secure" not in flags
    assert web.annotator not in answer.body.decode() + str(answer.headers)


def test_the_cookie_is_secure_where_the_service_speaks_https(web, tmp_path):
    async def over_https(scope, receive, send):
        await web.app(scope | {"scheme": "https"}, receive, send)

    body = json.dumps({"token": web.annotator}).encode()
    answer = web.run(ask(over_https, "POST", "/login", JSON, [body]))
    assert "secure" in str(answer.header("set-cookie")).lower().split("; ")
    with Web(small_state(tmp_path / "behind-a-proxy"), secure_cookie=True, may_open=False) as other:
        token = auth.make_token(other.log, "anna", "annotator")
        assert "secure" in str(other.post("/login", {"token": token}).header("set-cookie")).lower().split("; ")


def test_a_login_ends_by_logging_out_and_by_itself(web, monkeypatch):
    cookie = logged_in(web, web.annotator)
    other = logged_in(web, web.annotator)
    assert web.get("/v1/queries", cookie).status == 200
    gone = web.post("/logout", {}, cookie)
    assert gone.status == 200
    assert "max-age=0" in str(gone.header("set-cookie")).lower()
    assert web.get("/v1/queries", cookie).status == 401
    assert web.get("/v1/queries", other).status == 200
    later = time.time() + auth.SESSION_SECONDS + 1
    monkeypatch.setattr(auth.time, "time", lambda: later)
    assert web.get("/v1/queries", other).status == 401
    logged_in(web, web.annotator)  # which forgets those that are over
    assert web.facts()["rows"]["sessions"] == 1


def test_logging_out_without_a_login_writes_nothing(web, monkeypatch):
    monkeypatch.setattr(web.log, "writing", lambda: pytest.fail("it wrote"))
    assert web.post("/logout", {}, [("cookie", f"{auth.COOKIE}=nobody")]).status == 200
    assert web.post("/logout", {}).status == 200
    assert web.post("/login", {"token": "nobody"}).status == 401


def test_a_wrong_token_is_not_made_good_by_a_cookie(web):
    cookie = logged_in(web, web.annotator)
    assert web.get("/v1/status", [*cookie, *bearer("wrong")]).status == 401


# Other sites, through somebody's browser.


@pytest.mark.parametrize(
    "headers",
    [
        [("origin", "http://evil.example")],
        [("origin", "http://localhost:9999")],
        [("origin", "http://localhost.evil.example")],
        [("origin", "null")],
        [("origin", "null"), ("host", "")],
        [("origin", "")],
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site")],
        [("sec-fetch-site", "cross-site"), ("origin", "http://localhost")],
        [("sec-fetch-site", "same-origin"), ("origin", "http://evil.example")],
    ],
)
def test_another_site_cannot_command_with_somebodys_cookie(web, headers):
    cookie = logged_in(web, web.annotator)
    before = web.facts()
    for path, body in (
        ("/v1/labels", {"round": 0, "label": "cat"}),
        ("/v1/queries/claim", {"holder": "a"}),
        ("/logout", {}),
        ("/login", {"token": web.client}),
    ):
        answer = web.post(path, body, [*cookie, *headers])
        assert (answer.status, answer.code) == (403, "cross-site")
    assert web.facts() == before


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_a_form_of_another_site_cannot_command(web, kind):
    """These three kinds are what a browser sends elsewhere without asking first."""
    cookie = logged_in(web, web.annotator)
    headers = [*cookie, *([] if kind is None else [("content-type", kind)])]
    answer = web.send("POST", "/v1/queries/claim", headers, b'{"holder": "a"}')
    assert (answer.status, answer.code) == (415, "unsupported-media-type")


def test_no_other_site_is_allowed_to_read(web):
    for method in ("GET", "OPTIONS"):
        asked = [("origin", "http://evil.example"), ("access-control-request-method", "POST"), *bearer(web.client)]
        answer = web.send(method, "/v1/status", asked)
        assert not [name for name, _ in answer.headers if name.startswith("access-control")]
        assert answer.header("cross-origin-resource-policy") == "same-origin"


def test_our_own_pages_may_command(web):
    cookie = logged_in(web, web.annotator)
    for headers in (
        [("host", "localhost:8000"), ("origin", "http://localhost:8000"), ("sec-fetch-site", "same-origin")],
        [("host", "[::1]:8000"), ("origin", "http://[::1]:8000")],
        [("host", "osamd.example"), ("origin", "https://osamd.example"), ("sec-fetch-site", "same-origin")],
        [],
    ):
        assert web.post("/v1/queries/claim", {"holder": "a"}, [*cookie, *headers]).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[::1",
        "",
        "localhost@evil.example",
        "\xe9",
        "192.168.0.7",
        "a" * 300,
        "localhost:80/evil",
    ],
)
def test_an_open_service_answers_to_names_of_this_machine_alone(open_web, host):
    for method, path in (
        ("GET", "/v1/status"),
        ("GET", "/label"),
        ("GET", "/openapi.json"),
        ("POST", "/v1/samples"),
        ("GET", "/healthz"),
    ):
        answer = open_web.send(method, path, [*JSON, ("host", host)], b'{"features": [1, 2, 3]}')
        assert (answer.status, answer.code) == (403, "cross-site")
    assert open_web.engine.status()["rounds"] == 0


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "[::1]"]
)
def test_an_open_service_is_called_by_the_names_of_this_machine(open_web, host):
    assert open_web.get("/v1/status", [("host", host)]).status == 200


# Where it listens.


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.1"])
def test_without_tokens_it_does_not_listen_for_others(tmp_path, host):
    state = small_state(tmp_path / "state")
    with pytest.raises(InputError, match=r"osamd token|cannot listen there"):
        server.serve(state, host=host, port=0, ready=lambda url: pytest.fail("it listens"))


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
        ("localhost.example.org", False),
        ("127.0.0.1.nip.io", False),
    ],
)
def test_what_is_this_machine(host, local):
    assert server.is_loopback(host) is local


@pytest.mark.parametrize(
    ("host", "token", "shut"), [("127.0.0.1", False, False), ("127.0.0.1", True, True), ("0.0.0.0", True, True)]
)
def test_the_server_makes_the_app_open_only_here_and_only_without_tokens(tmp_path, monkeypatch, host, token, shut):
    state, made = small_state(tmp_path / "state"), {}
    if token:
        log = Log(state.log_file)
        log.open(state.identity)
        auth.make_token(log, "anna", "annotator")
        log.close()

    class Stopped(Exception):
        pass

    def make_app(engine, log, **options):
        made.update(options)
        raise Stopped

    monkeypatch.setattr(server, "make_app", make_app)
    with pytest.raises(Stopped):
        server.serve(state, host=host, port=0)
    assert made["may_open"] is not shut
    assert (made["hosts"] is None) is shut


# What every answer has, and what none has.


def test_every_answer_has_the_headers_of_safety(web):
    cookie = logged_in(web, web.annotator)
    answers = [
        web.send(method, path, [*JSON, *who], b"{}")
        for method, path in operations(web.app)
        for who in ([], bearer(web.client))
    ]
    answers += [
        web.get(path, cookie)
        for path in ("/", "/label", "/dashboard", "/login", "/openapi.json", "/nothing", "/assets/style.css")
    ]
    answers += [
        web.send("PUT", "/v1/samples", JSON),
        web.send("POST", "/v1/samples"),
        web.post("/v1/samples", {}, [("origin", "x")]),
    ]
    answers += [web.send("POST", "/login", [*JSON, ("content-length", "9" * 9)], b"")]
    assert {200, 307, 401, 403, 404, 405, 413, 415, 422} <= {answer.status for answer in answers}
    for answer in answers:
        for name, value in guard.HEADERS.items():
            assert [told for known, told in answer.headers if known == name] == [value], (answer.status, name)
        assert answer.header("content-security-policy") == CSP
        assert answer.header("server") is None
        assert answer.header("x-powered-by") is None


def test_pages_keep_to_their_own_policy(web):
    for page in ("label", "dashboard", "login"):
        text = web.get(f"/{page}").body.decode()
        assert not re.search(
            r"<script(?![^>]*src=)[^>]*>|\son\w+=|style=|<style|javascript:|https?://(?!www\.w3\.org)", text
        )


def test_no_secret_is_told_or_logged(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(auth, "_SEEN_FOR", -1.0)
    told = []
    with Web(small_state(tmp_path / "state"), may_open=False) as web:
        token = auth.make_token(web.log, "anna", "annotator")
        cookie = logged_in(web, token)
        secret = cookie[0][1].partition("=")[2]
        for headers in (bearer(token), bearer(token + "x"), cookie, [("cookie", cookie[0][1] + "x")]):
            for path in ("/v1/status", "/v1/samples", "/nothing", "/v1/queries?limit=x", "/metrics"):
                told.append(web.send("GET", path, headers))
                told.append(web.send("POST", path, [*JSON, *headers], b"{"))
        told.append(web.post("/login", {"token": token, "extra": token}))
        told.append(web.post("/login", {"token": [token]}))
        told.append(web.post("/login", {"token": token + "x"}))
        told.append(web.post("/login", token))
        monkeypatch.setattr(web.engine, "status", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            web.get("/v1/status", bearer(token))
    shown = "".join(f"{answer.headers} {answer.body!r}" for answer in told) + caplog.text
    assert "a request failed" in caplog.text
    assert token not in shown
    assert secret not in shown


def test_the_password_of_a_database_is_not_told(caplog):
    caplog.set_level(logging.DEBUG)
    for url in (
        "postgresql://anna:hunter2secret@127.0.0.1:1/none",
        "postgresql+nodriver://anna:hunter2secret@127.0.0.1:1/none",
        "mysql://anna:hunter2secret@127.0.0.1/none",
        "postgresql://anna:hunter2secret@127.0.0.1:notaport/none",
        "://anna:hunter2secret@",
    ):
        with pytest.raises(InputError) as refused:
            Log(url).open("x")
        assert "hunter2secret" not in str(refused.value) + caplog.text
