"""Old events are archived and a person's data is erased; the log goes on explaining the learner."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sqlalchemy as sql
from engine_cases import Clock, Service, bits, linear_state, module_state, row
from http_cases import ServedHere, Web

from osamd.cli.app import main
from osamd.errors import InputError
from osamd.service import auth, retention
from osamd.service import log as logs
from osamd.service.database_tables import events
from osamd.service.exporting import back_up
from osamd.service.fold import folded
from osamd.service.labels_out import rows
from osamd.service.replay import replay

DAY = 86_400.0


def archived(service, before):
    """Archive all that is older than a moment, as the route does; the file and what it holds."""
    from pyarrow import parquet

    old = service.do("archivable", before)
    place, number = retention.write_archive(service.log, old, service.state.folder / "archive")
    assert service.do("drop_archived", old, place.name, "ann") == number
    return place, parquet.read_table(place).to_pylist()


def same_after_a_kill(service):
    """What is served is what a new process makes of the log, and it goes on."""
    live = bits(service.learner)
    assert bits(folded(service.state, service.log).learner) == live
    service.kill()
    again = service.again()
    with again:
        assert bits(again.learner) == live
        again.send(*range(5000, 5010))
        assert bits(folded(again.state, again.log).learner) == bits(again.learner)
        return again.engine.status()


# Archives


@pytest.mark.parametrize("make", [linear_state, module_state])
def test_old_events_move_to_parquet_and_the_log_explains_the_learner(make, tmp_path, log_url):
    state = make(tmp_path / "state", budget=0.5)
    clock = Clock()
    with Service(state, log_url, clock) as service:
        service.send(*range(40), ids=True)
        waiting = service.ask(2)
        service.tell((waiting[0], 0))
        service.do("change_budget", {"budget": 0.4}, "ann")
        clock.now += 10 * DAY
        service.send(*range(100, 130))
        before = {event.seq: event for event in service.events}
        _, moved = archived(service, clock.now - DAY)
        left = {event.seq for event in service.events}
        assert len(moved) >= 20
        assert {one["seq"] for one in moved} | left == {*before, max(left)}
        assert not {one["seq"] for one in moved} & left
        first = moved[0]
        assert first["features"] == np.frombuffer(before[first["seq"]].features).tolist()
        assert [event.kind for event in service.events if event.kind in ("budget", "archive")] == ["budget", "archive"]
        for number in [one.event.round for one in service.engine.queries()]:
            assert service.tell((number, 1)) == ["learned"]
        same_after_a_kill(service)


def test_a_round_whose_label_is_newer_stays_whole(tmp_path, log_url):
    clock = Clock()
    with Service(linear_state(tmp_path / "state", budget=0.5), log_url, clock) as service:
        number = service.ask(1)[0]
        clock.now += 10 * DAY
        service.tell((number, 0))
        _, moved = archived(service, clock.now - DAY)
        assert number not in {one["round"] for one in moved}
        told = list(rows(service.state, service.log, service.engine))
        assert [one["round"] for one in told] == [number]


def test_what_needs_the_whole_log_says_that_it_is_archived(tmp_path, log_url):
    clock = Clock()
    state = linear_state(tmp_path / "state", budget=0.5)
    with Service(state, log_url, clock) as service:
        service.send(*range(30))
        clock.now += 10 * DAY
        service.send(30)
        archived(service, clock.now - DAY)
        with pytest.raises(InputError, match="was archived or erased up to event"):
            replay(state, service.log)
        with service.log.writing() as connection:
            connection.execute(sql.delete(logs.snapshots))
        with pytest.raises(InputError, match="no snapshot after it can be used; restore a backup"):
            folded(state, service.log)


def test_a_backup_of_an_archived_log_can_be_served(tmp_path):
    clock = Clock()
    state = linear_state(tmp_path / "state", budget=0.5)
    with Service(state, state.log_file, clock) as service:
        service.send(*range(30))
        clock.now += 10 * DAY
        service.send(30)
        archived(service, clock.now - DAY)
        assert bits(back_up(state.folder, None, tmp_path / "copy")) == bits(service.learner)


def test_nothing_old_moves_nothing(tmp_path):
    with Web(linear_state(tmp_path / "state", budget=0.5)) as web:
        web.queries(2)
        assert web.post("/v1/archive", {"older_than_days": 30}).json() == {"events": 0, "file": None}
        told = web.post("/v1/archive", {"older_than_days": 0}).json()
        assert told["events"] > 0
        assert (tmp_path / "state" / "archive" / told["file"]).stat().st_mode & 0o777 == 0o600
        assert web.post("/v1/archive", {"older_than_days": -1}).status == 422


# Erasing


def test_a_sample_is_erased_with_all_that_was_shown_of_it(tmp_path):
    state = linear_state(tmp_path / "state", budget=0.5)
    with Web(state) as web:
        secret = "a-most-unusual-text"
        for number in range(30):
            sample = {"id": f"person-{number}-7c1e", "features": row(number).tolist(), "display": {"text": secret}}
            assert web.post("/v1/samples", sample).status == 200
        waiting = web.get("/v1/queries").json()["queries"]
        answered, open_one = waiting[0], waiting[1]
        web.post("/v1/labels", {"round": answered["round"], "label": "cat"})
        ids = [f"person-{number}-7c1e" for number in range(30)]
        told = web.post("/v1/erase", {"ids": ids}).json()
        assert told == {"samples": 30, "answers": 0}
        assert web.get("/v1/status").json()["pending"] == 0
        assert web.post("/v1/labels", {"round": open_one["round"], "label": "cat"}).code == "expired"
        assert list(rows(state, web.log, web.engine)) == []
        assert web.post("/v1/erase", {"ids": ids[:1]}).code == "unknown"
        held = [path for path in state.folder.iterdir() if path.name.startswith("log.sqlite")]
        for path in held:
            content = path.read_bytes()
            assert b"-7c1e" not in content
            assert secret.encode() not in content
            assert row(3).tobytes() not in content
        kept = bits(web.engine._live.learner)
        assert bits(folded(state, web.log).learner) == kept
        event = [event for event in web.log.all_since(0) if event.kind == "erase"][-1]
        assert json.loads(event.body or "") == told
        again = web.post("/v1/samples", {"id": ids[0], "features": row(0).tolist()}).json()
        assert again["round"] == 30


def test_all_answers_of_a_labeller_are_erased(tmp_path, log_url):
    state = linear_state(tmp_path / "state", limits={"second_opinion": 1.0}, budget=0.5)
    with Service(state, log_url) as service:
        rounds = service.ask(6)
        service.do("claim", "anna/tab", "oldest", 1, 60.0)
        service.do("answer", [(rounds[0], 0, "anna/tab"), (rounds[1], 1, "annabel/tab")])
        service.do("answer", [(rounds[1], 1, "anna/tab")])
        service.do("unsure", rounds[2], "anna/tab")
        told = service.do("erase", [], [], "anna", "admin")
        assert told == {"samples": 0, "answers": 4}
        signed = {event.who for event in service.events if event.who}
        assert signed == {"annabel/tab", "admin", retention.ERASED}
        assert [one["who"] for one in rows(state, service.log, service.engine)] == ["annabel/tab"]
        answer = service.do("answer", [(rounds[0], 1, "bob")])[0]
        assert "an answer that was erased" in answer.message
        status = same_after_a_kill(service)
        assert status["told"] == 2
        with service.again() as again:
            assert all(one.holder is None for one in again.engine.queries())


def test_erasing_goes_through_kills_and_later_snapshots(tmp_path, log_url, monkeypatch):
    from osamd.service import engine as engines

    monkeypatch.setattr(engines, "SNAPSHOT_EVERY", 10)
    with Service(linear_state(tmp_path / "state", budget=0.5), log_url) as service:
        service.send(*range(25), ids=True)
        service.do("erase", ["id-3"], [24], None, "admin")
        service.send(*range(30, 60), ids=True)
        service.do("erase", ["id-33"], [], None, "admin")
        blank = {event.round for event in service.events if event.kind == "sample" and event.features is None}
        assert blank == {3, 24, 28}
        same_after_a_kill(service)


def test_only_admins_erase_and_archive(tmp_path):
    with Web(linear_state(tmp_path / "state")) as web:
        tokens = {role: auth.make_token(web.log, role, role) for role in auth.ROLES}
        for role, token in tokens.items():
            bearer = [("authorization", f"Bearer {token}")]
            fine = 200 if role == "admin" else 403
            assert web.post("/v1/archive", {"older_than_days": 1}, bearer).status == fine
            assert web.post("/v1/erase", {"labeller": "anna"}, bearer).status == fine
        assert web.post("/v1/erase", {}, bearer).status in (403, 422)


def test_the_commands_speak_to_a_running_service(tmp_path, capsys):
    with ServedHere(linear_state(tmp_path / "state", budget=0.5)) as served:
        for number in range(20):
            served.post("/v1/samples", {"id": f"s{number}", "features": row(number).tolist()})
        assert main(["erase", "--url", served.url, "--id", "s1", "--round", "5"]) == 0
        assert "Erased 2 samples and 0 answers." in capsys.readouterr().out
        assert main(["erase", "--url", served.url]) == 2
        assert main(["archive", "--url", served.url, "--days", "0"]) == 0
        assert "events to archive/events-to-" in capsys.readouterr().out
        assert main(["archive", "--url", served.url, "--days", "30"]) == 0
        assert "No event is that old." in capsys.readouterr().out


def test_events_that_say_what_a_stream_is_are_never_archived(tmp_path, log_url):
    clock = Clock()
    state = linear_state(tmp_path / "state", method="osamd-preset", sigma=None, budget=0.5)
    with Service(state, log_url, clock) as service:
        service.send(*range(20))
        service.do("add_class", {"name": "elk"}, "ann")
        clock.now += 10 * DAY
        service.send(*range(20, 40))
        archived(service, clock.now - DAY)
        assert logs.schema_by(service.log, state.schema).classes[-1].name == "elk"
        with service.log.reading() as connection:
            assert connection.execute(sql.select(sql.func.min(events.c.seq))).scalar_one() > 1
        same_after_a_kill(service)


def test_two_archives_at_once_lose_nothing(tmp_path, log_url):
    clock = Clock()
    with Service(linear_state(tmp_path / "state", budget=0.5), log_url, clock) as service:
        service.send(*range(30))
        clock.now += 10 * DAY
        service.send(30)
        folder = service.state.folder / "archive"
        one, other = (service.do("archivable", clock.now - DAY) for _ in range(2))
        place, number = retention.write_archive(service.log, one, folder)
        again, _ = retention.write_archive(service.log, other, folder)
        assert service.do("drop_archived", one, place.name, "ann") == number
        assert service.do("drop_archived", other, again.name, "bob") == 0
        assert retention.write_archive(service.log, other, folder)[1] == 0
        assert {path.name for path in folder.iterdir()} == {place.name, again.name}


def test_a_start_learner_that_says_no_classes_is_refused_in_a_sentence(tmp_path):
    from osamd.learner import saving
    from osamd.service.folder import START, open_state

    state = linear_state(tmp_path / "state")
    arrays, content = saving.read(state.folder / START)
    del content["classes"]
    saving.write(state.folder / START, saving.Saved(arrays, content))
    with pytest.raises(InputError, match="the learner's None"):
        open_state(state.folder)
