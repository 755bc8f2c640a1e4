"""Server-sent events, from a server of its own: in order, without loss, and no listener harms another."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator
from typing import Any, NamedTuple

import pytest
from http_cases import Asked, Served, ServedHere, Web, parsed, small_state, until

from osamd.service import auth, sse
from osamd.service.log import Log

KINDS = ("query", "label", "expire", "skip", "claim")


class Message(NamedTuple):
    """One event."""

    kind: str
    id: int | None
    data: Any


class Listener:
    """A connection to /v1/events."""

    def __init__(self, served: Asked, after: object = None, token: str | None = None, small: bool = False) -> None:
        self.socket = socket.socket()
        if small:  # so that what is not read stops the sender soon
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", served.port))
        lines = ["GET /v1/events HTTP/1.1", "host: localhost"]
        lines += [] if after is None else [f"last-event-id: {after}"]
        lines += [] if token is None else [f"authorization: Bearer {token}"]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self.ended = False
        self._file = self.socket.makefile("rb")
        self._messages = self._read()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._messages.close()
        self._file.close()
        self.socket.close()

    def next(self, *kinds: str) -> Message:
        """The next message of these kinds."""
        return next(message for message in self._messages if not kinds or message.kind in kinds)

    def upto(self, seq: int) -> list[Message]:
        """What comes until the status tells of this event, but for the status."""
        found = []
        for message in self._messages:
            if message.kind == "status" and message.data["seq"] >= seq:
                return found
            if message.kind in KINDS:
                found.append(message)
        raise AssertionError("the connection ended")

    def rest(self) -> list[Message]:
        return list(self._messages)

    def _read(self) -> Generator[Message, None, None]:
        file = self._file
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += file.readline()
        self.head = parsed(head)
        assert self.head.status == 200, file.read(500)
        fields: dict[str, str] = {}
        while size := int(file.readline() or b"0", 16):
            for line in file.read(size + 2)[:-2].decode().split("\n"):
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "event" in fields:
                    number = int(fields["id"]) if "id" in fields else None
                    yield Message(fields["event"], number, json.loads(fields["data"]))
                    fields = {}
                else:
                    fields = {}
        self.ended = True


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with ServedHere(small_state(tmp_path_factory.mktemp("events") / "state")) as started:
        yield started


def ask_for(served: Asked, number: int) -> list[int]:
    """Send samples until so many of them are queries; their rounds."""
    rounds = []
    for i in range(1000):
        if len(rounds) == number:
            return rounds
        told = served.post("/v1/samples", {"features": [0.1 * (i % 7), 0.2, -0.1 * (i % 3)]})
        if told["query"]:
            rounds.append(told["round"])
    raise AssertionError("too few samples are queries")


def all_kinds(served: Asked) -> list[tuple[str, int]]:
    """Do one thing of every kind; what is to be told of it."""
    first, second = ask_for(served, 2)
    served.post("/v1/labels", {"round": first, "label": "dog"})
    done = [("query", first), ("query", second), ("label", first)]
    held = served.post("/v1/queries/claim", {"holder": "tab", "limit": 1})["queries"][0]["round"]
    served.post(f"/v1/queries/{held}/skip", {"holder": "tab"})
    served.post(f"/v1/queries/{held}/expire", {})
    return [*done, ("claim", held), ("skip", held), ("expire", held)]


def seq(served: Asked) -> int:
    return int(served.get("/v1/status")["seq"])


def test_how_it_stands_comes_at_once(served):
    with Listener(served) as listener:
        told = listener.next()
        assert (told.kind, told.id) == ("status", None)
        status = served.get("/v1/status")
        assert told.data == status
        assert listener.head.header("content-type") == "text/event-stream; charset=utf-8"
        assert listener.head.header("cache-control") == "no-store"
        assert listener.head.header("x-content-type-options") == "nosniff"


def test_all_that_happens_to_queries_comes_in_order_with_its_number(served):
    with Listener(served) as listener:
        listener.next("status")
        done = all_kinds(served)
        told = listener.upto(seq(served))
    assert [(one.kind, one.data["round"]) for one in told] == done
    numbers = [one.id for one in told]
    assert numbers == sorted(set(numbers))
    assert all(one.data["seq"] == one.id and one.data["at"] > 1e9 for one in told)
    assert [one.data.get("label") for one in told if one.kind == "label"] == ["dog"]


def test_one_that_comes_again_goes_on_where_it_was_without_loss_or_repetition(served):
    start = seq(served)
    for _ in range(3):
        all_kinds(served)
    end = seq(served)
    with Listener(served, after=start) as listener:
        whole = listener.upto(end)
    assert [one.kind for one in whole].count("expire") == 3
    for i, one in enumerate(whole):
        with Listener(served, after=one.id) as listener:
            assert listener.upto(end) == whole[i + 1 :]


def test_from_the_first_event_on_what_comes_is_what_the_log_holds(served):
    all_kinds(served)
    with Listener(served, after=0) as listener:
        told = listener.upto(seq(served))
    log = Log(served.state.log_file)
    held = [event for event in log.since(0) if event.kind != "sample" or event.query]
    log.close()
    assert [one.id for one in told] == [event.seq for event in held]


@pytest.mark.parametrize("after", ["999999999", "-1", "x", "1e3", "9" * 40, "", "0x10", "1 2"])
def test_a_number_that_is_none_of_ours_loses_nothing_from_now_on(served, after):
    with Listener(served, after=after) as listener:
        listener.next("status")
        (number,) = ask_for(served, 1)
        assert number in [one.data["round"] for one in listener.upto(seq(served))]


def test_a_status_comes_at_most_four_times_a_second_however_much_happens(served):
    with Listener(served) as listener:
        start = listener.next("status").data["rounds"]
        for _ in range(40):
            served.post("/v1/samples", {"features": [1, 2, 3]})
        statuses = 0
        while listener.next("status").data["rounds"] < start + 40:
            statuses += 1
    assert statuses < 40


def test_a_slow_reader_harms_nobody(served):
    """It asks for all events again and again reads nothing: its own connection waits, and no other."""
    with Listener(served, after=0, small=True), Listener(served, after=0, small=True), Listener(served) as quick:
        quick.next("status")
        done = []
        for _ in range(5):
            done += all_kinds(served)
        assert [(one.kind, one.data["round"]) for one in quick.upto(seq(served))] == done
    assert served.get("/healthz") == {"status": "ok"}


def test_a_closed_connection_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(sse, "MOST_LISTENERS", 3)
    with ServedHere(small_state(tmp_path / "state")) as served:
        for _ in range(4):
            listening = [Listener(served) for _ in range(3)]
            for one in listening:
                one.next("status")
            refused = served.send("GET", "/v1/events")
            assert (refused.status, refused.code, refused.header("retry-after")) == (503, "overloaded", "1")
            for one in listening:
                one.close()

            until(lambda: _all_free(served, 3), "all places are free again")


def _all_free(served: Asked, number: int) -> bool:
    tried = [Listener(served) for _ in range(number)]
    try:
        return all(one.next("status") for one in tried)
    except AssertionError:
        return False
    finally:
        for one in tried:
            one.close()


def test_who_is_revoked_is_told_no_more(tmp_path, monkeypatch):
    state = small_state(tmp_path / "state")
    log = Log(state.log_file)
    log.open(state.identity)
    token, client = auth.make_token(log, "anna", "annotator"), auth.make_token(log, "shop", "client")
    log.close()
    monkeypatch.setattr(auth, "_SEEN_FOR", -1.0)
    monkeypatch.setattr(sse, "LONGEST", 0.05)
    monkeypatch.setattr(sse, "SHORTEST", 0.01)
    with ServedHere(state) as served:
        assert served.send("GET", "/v1/events").status == 401
        assert served.send("GET", "/v1/events", [("authorization", f"Bearer {client}")]).status == 403
        with Listener(served, token=token) as listener:
            listener.next("status")
            log = Log(state.log_file)
            auth.revoke_token(log, "anna")
            log.close()
            listener.rest()
            assert listener.ended


def test_ending_the_service_ends_all_listeners_properly(tmp_path):
    with Served(small_state(tmp_path / "state")) as served, Listener(served) as first, Listener(served) as second:
        first.next("status")
        second.next("status")
        assert served.end() == 0
        for one in (first, second):
            one.rest()
            assert one.ended
    assert served.errors == ""


def test_ending_the_service_does_not_wait_for_a_reader_that_does_not_read(tmp_path):
    with Served(small_state(tmp_path / "state")) as served:
        batch = {"samples": [{"features": [0.1, 0.2, 0.3]}] * 1000}
        for _ in range(10):
            served.post("/v1/samples", batch)
        with Listener(served, after=0, small=True):
            assert served.get("/healthz") == {"status": "ok"}
            assert served.end() == 0


def test_a_silent_stream_says_something_now_and_then(tmp_path, monkeypatch):
    """So that a connection that is gone is found out."""
    monkeypatch.setattr(sse, "LONGEST", 0.01)
    monkeypatch.setattr(sse, "SHORTEST", 0.001)
    with Web(small_state(tmp_path / "state")) as web:
        parts = web.app.state.parts

        async def some():
            told = sse.stream(web.engine, web.log, parts.bell, None, lambda: "{}")
            found = [await anext(told) for _ in range(4)]
            assert parts.bell.listeners == 1
            await told.aclose()
            return found

        assert web.run(some()) == ["retry: 2000\n\n"] + ["event: status\ndata: {}\n\n"] * 3
        assert parts.bell.listeners == 0
