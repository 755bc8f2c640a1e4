"""Admins change budget and classes of a stream while it runs, as events of its log."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sqlalchemy as sql
from engine_cases import Service, bits, linear_state, module_state, row
from http_cases import ServedHere, Web

from osamd.cli.app import main
from osamd.client import Client
from osamd.errors import InputError
from osamd.service import auth
from osamd.service import log as logs
from osamd.service.folder import open_state
from osamd.service.labels_out import rows
from osamd.service.log import Log
from osamd.service.replay import replay

PRESET = {"method": "osamd-preset", "sigma": None, "budget": 0.5}


@pytest.fixture
def preset(tmp_path):
    return linear_state(tmp_path / "state", **PRESET)


# The budget


def test_a_budget_holds_for_the_rounds_to_come_and_asked_goes_on_counting(preset, log_url):
    with Service(preset, log_url) as service:
        service.send(*range(100))
        before = service.engine.status()
        told = service.do("change_budget", {"budget": 0.1}, "ann")
        assert told["rate"] == 0.1
        changed = service.engine.status()["budget"]
        assert (changed["since"], changed["asked_before"]) == (100, before["asked"])
        service.send(*range(100, 300))
        now = service.engine.status()
        later = now["asked"] - before["asked"]
        assert 10 <= later <= 0.1 * 200
        assert now["budget"]["spent"] == later / 200
        event = next(event for event in service.events if event.kind == "budget")
        assert (event.who, json.loads(event.body or "")) == ("ann", {"budget": 0.1})
        service.agrees()


def test_max_labels_counts_the_labels_of_before(preset, log_url):
    with Service(preset, log_url) as service:
        service.send(*range(60))
        asked = service.learner.asked
        service.do("change_budget", {"max_labels": asked + 3}, "ann")
        service.send(*range(60, 200))
        assert service.learner.asked == asked + 3
        assert service.engine.status()["budget"]["left"] == 0
        service.do("change_budget", {"max_labels": None}, "ann")
        service.send(*range(200, 260))
        assert service.learner.asked > asked + 3
        service.agrees()


def test_queries_that_wait_are_answered_after_the_change_and_across_a_kill(preset, log_url):
    with Service(preset, log_url) as service:
        first = service.ask(3)[0]
        service.do("change_budget", {"budget": 0.2, "budget_window": 50}, "ann")
        assert service.tell((first, 0)) == ["learned"]
        service.kill()
        with service.again() as again:
            assert again.learner.limits[:2] == (0.2, 50)
            assert again.tell((first, 0)) == ["repeated"]
            again.send(*range(40))
            again.agrees()


def test_a_budget_that_cannot_be_is_refused_before_anything_changes(preset, log_url):
    with Service(preset, log_url) as service:
        service.send(*range(20))
        before = bits(service.learner), service.events
        for wrong in ({"budget": 0.01, "budget_window": 5}, {"budget": 2.0}, {"eta": 0.1}, {"seed": 3}):
            assert service.tried("change_budget", wrong, "ann") == "refused"
        assert (bits(service.learner), service.events) == before


def test_networks_change_their_budget_too(tmp_path, log_url):
    with Service(module_state(tmp_path / "state", budget=0.5), log_url) as service:
        service.send(*range(30))
        service.do("change_budget", {"budget": 0.2}, "ann")
        service.send(*range(30, 60))
        service.agrees()


def test_a_replay_follows_the_budget_unless_it_tries_another(preset, log_url):
    with Service(preset, log_url) as service:
        service.send(*range(80))
        service.do("change_budget", {"budget": 0.1}, "ann")
        for number in service.ask(2):
            service.tell((number, 0))
        service.send(*range(300, 400))
        asked = service.learner.asked
        before, same = replay(preset, service.log)
        assert (before.asked, same.asked) == (asked, asked)
        assert before.same == before.rounds
        _, tried = replay(preset, service.log, budget=0.5)
        assert tried.asked > asked


# Classes


def test_a_new_class_is_an_event_and_can_be_answered_at_once(preset, log_url):
    with Service(preset, log_url) as service:
        waiting = service.ask(3)
        assert service.do("add_class", {"name": "elk", "title": "Elk", "about": "With antlers."}, "ann") == [
            "cat",
            "dog",
            "elk",
        ]
        assert service.tell((waiting[0], 2)) == ["learned"]
        service.send(*range(50, 90))
        assert service.engine.schema.classes[2].about == "With antlers."
        service.agrees()
        service.stop()
        with service.again() as again:
            assert [one.name for one in again.engine.schema.classes] == ["cat", "dog", "elk"]
            again.tell((waiting[1], 2))
            again.agrees()
            told = list(rows(again.state, again.log, again.engine))
        assert [one["label"] for one in told] == ["elk", "elk"]
        assert told[0]["decision"] in ("cat", "dog")


@pytest.mark.parametrize(
    ("name", "said"), [("cat", "already"), ("nan", "missing value"), (7, "no such class"), (1.5, "a class is text")]
)
def test_what_is_no_new_class_is_refused(preset, tmp_path, name, said):
    with Web(preset) as web:
        reply = web.post("/v1/classes", {"name": name})
        assert (reply.status, reply.code) == (422, "refused")
        assert said in reply.json()["error"]["message"]
        assert [event.kind for event in web.log.all_since(0)] == []


@pytest.mark.parametrize("make", [linear_state, module_state])
def test_learners_that_cannot_take_in_classes_say_so(make, tmp_path):
    with Web(make(tmp_path / "state")) as web:
        reply = web.post("/v1/classes", {"name": "elk"})
        assert reply.status == 422
        assert "only the default learner of linear models can add classes" in reply.json()["error"]["message"]


def test_second_opinions_go_on_with_a_new_class(tmp_path, log_url):
    state = linear_state(tmp_path / "state", limits={"second_opinion": 1.0}, **PRESET)
    with Service(state, log_url) as service:
        number = service.ask(1)[0]
        service.do("add_class", {"name": "elk"}, "ann")
        service.do("answer", [(number, 2, "ann")])
        assert service.do("answer", [(number, 2, "bob")])[0].status == "second"
        assert service.engine.status()["second_opinions"]["agreed"] == 1
        service.agrees()


# Over HTTP, by the client and by the command


def test_only_admins_change_a_stream(preset):
    with Web(preset) as web:
        tokens = {role: auth.make_token(web.log, role, role) for role in auth.ROLES}
        for role, token in tokens.items():
            bearer = [("authorization", f"Bearer {token}")]
            assert web.post("/v1/budget", {"budget": 0.2}, bearer).status == (200 if role == "admin" else 403)
            assert web.post("/v1/classes", {"name": "elk"}, bearer).status == (200 if role == "admin" else 403)
        bearer = [("authorization", f"Bearer {tokens['admin']}")]
        assert web.post("/v1/samples", {"features": row(1).tolist()}, bearer).status == 403
        assert web.get("/v1/status", bearer).json()["budget"]["rate"] == 0.2
        assert [one["name"] for one in web.get("/v1/schema", bearer).json()["classes"]] == ["cat", "dog", "elk"]


def test_nothing_given_and_nonsense_are_refused(preset):
    with Web(preset) as web:
        for body in ({}, {"budget": 0}, {"budget": "much"}, {"max_labels": 0}, {"window": 3}):
            assert web.post("/v1/budget", body).status == 422
        assert web.engine.seq == 0


def test_the_client_and_the_command_change_a_running_service(preset, capsys):
    with ServedHere(preset) as served:
        with Client(served.url) as client:
            for number in range(30):
                client.decide(row(number).tolist())
            assert client.change_budget(budget=0.25, max_labels=100)["rate"] == 0.25
            assert client.add_class("elk", title="Elk")[-1] == "elk"
        assert main(["change", "--url", served.url, "--budget", "10%", "--max-labels", "none"]) == 0
        assert "The budget from round 30 on: 10 % of the labels" in capsys.readouterr().out
        assert main(["change", "--url", served.url, "--add-class", "yak"]) == 0
        assert "cat, dog, elk, yak" in capsys.readouterr().out
        assert main(["change", "--url", served.url]) == 2
        assert main(["change", "--url", served.url, "--max-labels", "many"]) == 2
        assert main(["change", "--url", served.url, "--add-class", "yak"]) == 2
        assert "already" in capsys.readouterr().err
        status = served.get("/v1/status")
        assert (status["budget"]["rate"], status["budget"]["max_labels"]) == (0.1, None)


# The log


def test_a_log_of_format_2_is_brought_to_this_one_and_goes_on(preset):
    with Service(preset, preset.log_file) as service:
        service.send(*range(30))
        before = bits(service.learner)
    log = Log(preset.log_file)
    with log.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE events DROP COLUMN body")
        connection.execute(sql.update(logs.about).where(logs.about.c.key == "format").values(value="2"))
    log.close()
    with Service(open_state(preset.folder), preset.log_file) as service:
        assert bits(service.learner) == before
        service.do("change_budget", {"budget": 0.3}, "ann")
        service.agrees()


def test_the_library_keeps_what_was_asked_when_it_is_remade():
    import osamd

    learner = osamd.OSAMD(features=2, budget=0.5)
    dice = np.random.default_rng(0)
    for _ in range(40):
        learner.tell(learner.ask(dice.normal(size=2)), 1)
    changed = learner.remade(budget=0.1, max_labels=learner.asked)
    assert (changed.asked, changed.counted) == (learner.asked, (0, 0))
    for _ in range(100):
        changed.tell(changed.ask(dice.normal(size=2)), 1)
    assert changed.asked == learner.asked
    assert osamd.OSAMD.from_bytes(changed.to_bytes()).counted == (100, 0)


def test_add_class_makes_room_ahead_of_the_first_label():
    import osamd

    learner = osamd.OSAMD(features=2, classes=["a", "b"], budget=0.5)
    decision = learner.ask([1.0, 2.0])
    learner.add_class("c")
    learner.tell(decision, "c")
    assert learner.classes == ["a", "b", "c"]
    assert set(learner.predict_proba([1.0, 2.0])) == {"a", "b", "c"}
    with pytest.raises(InputError, match="already"):
        learner.add_class("c")
    with pytest.raises(InputError, match="keeps the classes it was made for, 0, 1"):
        osamd.OSAMD(features=2, method="osamd").add_class("c")
