"""The alarm is told to a webhook: once per change, by a thread that nobody waits for, until it was heard."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from http_cases import Web, until

import osamd
from osamd.cli.app import main
from osamd.service import alarm as alarms
from osamd.service.alarm import Alarm
from osamd.service.folder import create


class Receiver:
    """Somebody who is told; `refusing` so many times at first."""

    def __init__(self, refusing: int = 0) -> None:
        self.heard: list[dict] = []
        self.refusing = refusing
        self.silent = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if receiver.silent.is_set():
                    return
                refused = receiver.refusing > 0
                receiver.refusing -= refused
                receiver.heard += [] if refused else [body]
                self.send_response(503 if refused else 200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/secret-of-the-hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver():
    started = Receiver()
    yield started
    started.close()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(alarms, "FIRST_RETRY", 0.01)


class Health:
    """What a service would tell of itself."""

    def __init__(self) -> None:
        self.state, self.looks = "unknown", 0

    def __call__(self):
        self.looks += 1
        health = {"state": self.state, "why": "because", "remedy": "label more"}
        recent = {"value": 0.5, "low": 0.4, "high": 0.6, "level": 0.9, "labels": 40}
        return {"health": health, "rounds": 10, "pending": 2, "recent": recent}


def alarm_of(receiver, tmp_path, health):
    return Alarm(receiver.url, "Pumps", tmp_path / "alarm.json", health, look_every=0.01)


def seen(health, alarm):
    """Wait until a look after this moment is over."""
    before = health.looks
    alarm.look()
    until(lambda: health.looks > before, "it looks again")


def test_each_change_is_told_once(receiver, tmp_path):
    health = Health()
    alarm = alarm_of(receiver, tmp_path, health)
    alarm.start()
    for state in ("fine", "alarm", "alarm", "unknown", "fine", "alarm"):
        health.state = state
        for _ in range(3):
            seen(health, alarm)
    until(lambda: len(receiver.heard) == 3, "all changes are told")
    alarm.stop()
    assert [one["event"] for one in receiver.heard] == ["alarm", "alarm-over", "alarm"]
    assert receiver.heard[0]["stream"] == "Pumps"
    assert receiver.heard[0]["health"] == {"state": "alarm", "why": "because", "remedy": "label more"}
    assert receiver.heard[0]["recent"]["low"] == 0.4


def test_a_restart_tells_nothing_again_and_what_changed_meanwhile(receiver, tmp_path):
    health = Health()
    for state, told in (("alarm", 1), ("alarm", 1), ("fine", 2)):
        health.state = state
        alarm = alarm_of(receiver, tmp_path, health)
        alarm.start()
        seen(health, alarm)
        until(lambda told=told: len(receiver.heard) == told, "it is told")
        alarm.stop()
    assert [one["event"] for one in receiver.heard] == ["alarm", "alarm-over"]


@pytest.mark.usefixtures("quick")
def test_it_is_tried_again_where_it_was_refused_and_the_secret_is_not_in_the_log(receiver, tmp_path, caplog):
    receiver.refusing = 3
    health = Health()
    alarm = alarm_of(receiver, tmp_path, health)
    alarm.start()
    health.state = "alarm"
    alarm.look()
    until(lambda: receiver.heard, "it is told")
    until(lambda: not alarm.pending, "it is known to be told")
    alarm.stop()
    assert len(receiver.heard) == 1
    assert alarm.failures == 3
    assert "it answers 503" in caplog.text
    assert "secret-of-the-hook" not in caplog.text


@pytest.mark.usefixtures("quick")
def test_an_alarm_that_is_over_before_it_could_be_told_is_not_told(receiver, tmp_path):
    receiver.refusing = 10**9
    health = Health()
    health.state = "alarm"
    alarm = alarm_of(receiver, tmp_path, health)
    alarm.start()
    until(lambda: alarm.failures > 1, "it is tried")
    health.state = "fine"
    seen(health, alarm)
    until(lambda: not alarm.pending, "it has nothing to tell")
    receiver.refusing = 0
    seen(health, alarm)
    alarm.stop()
    assert receiver.heard == []


def test_a_receiver_that_never_answers_holds_up_neither_samples_nor_the_end(receiver, tmp_path):
    """The service of a learner that always decides for one class, which labels then show to be wrong."""
    receiver.silent.set()
    with Web(biased(tmp_path / "state"), alarm_webhook="http://127.0.0.1:9/nobody") as web:
        until(lambda: alarmed(web), "health goes to alarm")
        until(lambda: metric(web, "osamd_alarm_webhook_failures_total") >= 1, "it is tried")
        assert metric(web, "osamd_alarm") == 1
        assert metric(web, "osamd_alarm_webhook_pending") == 1
        assert web.post("/v1/samples", {"features": [0.1, 0.2]}).status == 200


def test_the_service_tells_its_own_alarm(receiver, tmp_path):
    with Web(biased(tmp_path / "state"), alarm_webhook=receiver.url) as web:
        until(lambda: alarmed(web), "health goes to alarm")
        until(lambda: receiver.heard, "the alarm is told")
        assert receiver.heard[0]["event"] == "alarm"
        assert receiver.heard[0]["health"]["why"] == web.get("/v1/status").json()["health"]["why"]
        until(lambda: metric(web, "osamd_alarm_webhook_pending") == 0, "it is told")


def biased(folder):
    """A learner that never moves, and decides for the class that is wrong more often than not."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 2)) + np.array([3.0, 0.0])
    learner = osamd.OSAMD.from_source(rows, ["a"] * 58 + ["b"] * 2, method="osamd", sigma=1e9, eta=1e-9, seed=0)
    return create(folder, learner)


def alarmed(web):
    """Send some samples whose label is the other class, and say whether the alarm is raised."""
    rows = np.random.default_rng(1).normal(size=(100, 2)) + np.array([3.0, 0.0])
    told = web.post("/v1/samples", {"samples": [{"features": row} for row in rows.tolist()]}).json()["decisions"]
    labels = [{"round": one["round"], "label": "b"} for one in told if one["query"]]
    web.post("/v1/labels", {"labels": labels})
    return web.get("/v1/status").json()["health"]["state"] == "alarm"


def metric(web, name):
    lines = web.get("/metrics").body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def test_an_address_that_is_none_is_refused_in_one_sentence(tmp_path, capsys):
    assert main(["serve", "--dir", str(tmp_path), "--alarm-webhook", "hooks.example.org"]) == 2
    assert "https://hooks.example.org/osamd" in capsys.readouterr().err
