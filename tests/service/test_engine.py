"""The engine: queries are shared and answered once, limits hold, and a log that fails is caught up with."""

from __future__ import annotations

import asyncio
import json
import threading

import numpy as np
import pytest
import sqlalchemy as sql
from engine_cases import WIDTH, Service, bits, break_commits, linear_state, row

from osamd.errors import InputError
from osamd.service import engine as engines
from osamd.service import log as logs
from osamd.service import writer
from osamd.service.database import StorageError
from osamd.service.desk import Refusal
from osamd.service.log import Log

DAY = 86_400.0


def rounds(waiting):
    return [one.event.round for one in waiting]


# Samples


def test_a_client_id_that_is_repeated_gets_the_recorded_decision(service):
    first = service.send(1, 2, 3, ids=True)
    assert service.send(2, ids=True) == [first[1]]
    assert service.send(3, 4, 1, ids=True)[::2] == [first[2], first[0]]
    assert service.learner.rounds == 4
    service.agrees()


@pytest.mark.parametrize("method", [{"sigma": None, "budget": 0.3}, {"sigma": 0.5}], ids=["default", "osamd"])
def test_a_batch_is_its_samples_one_by_one(tmp_path, method):
    """With queries that expire or are too many, values too large, ids that come again, and points of the history."""
    told, bit = [], []
    samples = [(f"id-{n % 70}" if n % 3 == 0 else None, row(n % 70 if n % 3 == 0 else n)) for n in range(240)]
    for wild in (150, 151, 180):
        samples[wild] = (None, 1e7 * row(wild))
    for name, size in (("single", 1), ("some", 7), ("whole", 240)):
        state = linear_state(
            tmp_path / name, limits={"expire_after": 25, "max_pending": 6}, **(method or {"sigma": None})
        )
        with Service(state, state.log_file) as service:
            outcomes = []
            for start in range(0, 240, size):
                outcomes += service.do("observe", samples[start : start + size])
            service.agrees()
            told.append(
                ([getattr(one, "code", one) for one in outcomes], service.events, service.waiting, service.points)
            )
            bit.append(bits(service.learner))
    assert told[0] == told[1] == told[2]
    assert bit[0] == bit[1] == bit[2]
    codes = [one for one in told[0][0] if isinstance(one, str)]
    assert codes == ["wild"] * 3
    assert {event.kind for event in told[0][1]} == {"sample", "expire"}


def test_a_client_id_that_is_repeated_inside_a_batch_is_one_round(service):
    once, again, other = service.send(1, 1, 2, ids=True)
    assert once == again
    assert (once.round, other.round) == (0, 1)
    assert service.learner.rounds == 2


def test_a_client_id_with_other_features_is_refused_before_any_change(service):
    service.send(1, ids=True)
    before = bits(service.learner), service.events
    assert service.tried("observe", [(None, row(7)), ("id-1", row(2))]) == "id-reused"
    assert service.tried("observe", [("new", row(7)), ("new", row(8))]) == "id-reused"
    assert (bits(service.learner), service.events) == before


def test_a_sample_the_model_can_make_nothing_of_is_refused_alone(service):
    service.ask(2)
    told = service.do("observe", [("a", row(1)), ("b", np.full(WIDTH, 1e308)), ("c", row(2)), ("b", row(3))][:3])
    assert [getattr(one, "code", "done") for one in told] == ["done", "refused", "done"]
    assert told[2].round == told[0].round + 1
    assert service.do("observe", [("b", row(3))])[0].round == told[2].round + 1
    service.agrees()


def test_what_is_refused_between_a_query_and_its_label_makes_no_difference(tmp_path, new_url):
    """The learner holds its last sample until it is told; a refused one comes between, and is not in the log."""
    state = linear_state(tmp_path / "state", classes=3, standardise=True)
    with Service(state, new_url()) as service:
        waiting = service.ask(3)
        service.do("observe", [(None, np.full(WIDTH, 1e300))])
        service.tell((waiting[-1], 1))
        service.send(50)
        service.agrees()


def test_samples_and_their_labels_may_come_in_one_transaction(service):
    """Groups of requests share a commit: what is not committed yet is known to those after it."""
    waiting = service.ask(1)

    async def together():
        engine = service.engine
        return await asyncio.gather(
            engine.do(engine.observe, [("a", row(1))]),
            engine.do(engine.observe, [("a", row(1))]),
            engine.do(engine.answer, [(waiting[0], 0, "ann"), (waiting[0], 0, "bob"), (waiting[0], 1, "bob")]),
            engine.do(engine.expire, waiting[0]),
            return_exceptions=True,
        )

    first, again, told, expired = asyncio.run(together())
    assert first == again
    assert [getattr(one, "status", None) or one.code for one in told] == ["learned", "repeated", "answered"]
    assert isinstance(expired, Refusal)
    assert expired.code == "answered"
    service.agrees()


def test_what_expired_in_the_same_transaction_takes_no_answer(tmp_path, new_url):
    """Rounds and expiries of a batch are kept as columns until the commit, and found there."""
    state = linear_state(tmp_path / "state", limits={"expire_after": 4})
    with Service(state, new_url()) as service:
        waiting = service.ask(1)

        async def together():
            engine = service.engine
            return await asyncio.gather(
                engine.do(engine.observe, [(None, row(n)) for n in range(100, 140)]),
                engine.do(engine.answer, [(waiting[0], 0, "ann")]),
                engine.do(engine.answer, [(number, 0, "ann") for number in range(140)]),
            )

        told, late, answers = asyncio.run(together())
        assert [one.code for one in late] == ["expired"]
        codes = [getattr(one, "code", None) or one.status for one in answers]
        asked = {one.round for one in told if one.query}
        for one in told:
            assert (codes[one.round] == "not-asked") == (one.round not in asked)
        assert {codes[number] for number in asked} == {"expired", "learned"}
        assert codes[-1] == "unknown"
        service.agrees()


# Labels


def test_each_query_is_answered_once_whatever_comes_late_twice_or_crossed(service):
    first, second, third = service.ask(3)
    assert service.tell((third, 1), (first, 0)) == ["learned", "learned"]
    assert service.tell((first, 0), (first, 1), (third, 1)) == ["repeated", "answered", "repeated"]
    assert service.do("expire", second) == "expired"
    assert service.do("expire", second) == "repeated"
    assert service.tell((second, 0)) == ["expired"]
    assert service.tried("expire", first) == "answered"
    assert service.tried("skip", second, "ann") == "expired"
    ended = [(event.round, event.kind, event.label) for event in service.events if event.kind in ("label", "expire")]
    assert ended == [(third, "label", 1), (first, "label", 0), (second, "expire", None)]
    assert (service.learner.told, service.learner.expired) == (2, 1)
    service.agrees()


def test_labels_of_two_threads_that_cross_are_answered_once(service):
    """Both answer all queries at once, each with a class of its own: every query takes one of the two."""
    waiting = service.ask(8)
    told: dict[int, list[str]] = {}
    ready = threading.Barrier(2)

    def person(label):
        ready.wait()
        told[label] = [service.tell((number, label))[0] for number in waiting]

    threads = [threading.Thread(target=person, args=(label,)) for label in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(sorted(pair) == ["answered", "learned"] for pair in zip(told[0], told[1], strict=True))
    labels = {event.round: event.label for event in service.events if event.kind == "label"}
    assert labels == {n: 0 if told[0][i] == "learned" else 1 for i, n in enumerate(waiting)}
    service.agrees()


def test_labels_by_client_id_and_of_what_was_not_asked(service):
    sent = service.send(*range(60), ids=True)
    query = next(one for one in sent if one.query)
    silent = next(one for one in sent if not one.query)
    assert service.tell((query.client_id, 1), (query.client_id, 1)) == ["learned", "repeated"]
    assert service.tell((silent.client_id, 1), ("nobody", 0), (99, 0)) == ["not-asked", "unknown", "unknown"]
    assert service.tried("skip", silent.round, "ann") == "not-asked"
    assert service.tried("expire", 99) == "unknown"


def test_a_label_for_a_sample_the_model_has_lost_is_refused_alone(service, monkeypatch):
    """The labels beside it are told, and their outcomes come."""
    first, second, third = service.ask(3)
    tell = type(service.learner).tell

    def lost(learner, decision, y=None):
        if decision == second:
            raise InputError("the scores are not finite.")
        tell(learner, decision, y)

    monkeypatch.setattr(type(service.learner), "tell", lost)
    assert service.tell((first, 0), (second, 0), (third, 0)) == ["learned", "refused", "learned"]
    monkeypatch.undo()
    assert rounds(service.engine.queries()) == [second]
    service.agrees()


# Queries are shared


def test_two_people_never_hold_the_same_query_while_a_lease_lives(service, clock):
    waiting = service.ask(5)
    ann = rounds(service.do("claim", "ann", "oldest", 2, 60.0))
    bob = rounds(service.do("claim", "bob", "oldest", 2, 60.0))
    assert (ann, bob) == (waiting[:2], waiting[2:4])
    clock.now += 59.9
    assert rounds(service.do("claim", "cid", "oldest", 5, 60.0)) == waiting[4:]
    assert service.engine.status()["held"] == 5


def test_leases_that_lapsed_are_free_again(service, clock):
    waiting = service.ask(3)
    service.do("claim", "ann", "oldest", 3, 60.0)
    assert service.do("claim", "bob", "oldest", 3, 60.0) == []
    clock.now += 60.0
    assert service.engine.status()["held"] == 0
    assert rounds(service.do("claim", "bob", "oldest", 3, 60.0)) == waiting


def test_ones_own_claims_come_first_and_are_prolonged(service, clock):
    waiting = service.ask(4)
    service.do("claim", "bob", "oldest", 1, 60.0)
    service.do("claim", "ann", "oldest", 1, 60.0)
    clock.now += 30.0
    found = service.do("claim", "ann", "valuable", 1, 60.0)
    assert rounds(found) == [waiting[1]]
    assert found[0].until == clock.now + 60.0
    assert rounds(service.do("claim", "ann", "oldest", 2, 60.0)) == waiting[1:3]


def test_claims_and_skips_outlive_a_kill(service):
    waiting = service.ask(4)
    service.do("claim", "ann", "oldest", 2, 60.0)
    service.do("skip", waiting[0], "ann")
    before = service.waiting
    service.kill()
    with service.again() as after:
        assert after.waiting == before
        assert rounds(after.do("claim", "bob", "oldest", 4, 60.0)) == [waiting[2], waiting[3], waiting[0]]


def test_queries_come_oldest_or_least_certain_first(service):
    waiting = service.ask(6)
    assert rounds(service.engine.queries("oldest")) == sorted(waiting)
    margins = [one.event.margin for one in service.engine.queries("valuable")]
    assert margins == sorted(margins)
    assert rounds(service.do("claim", "ann", "valuable", 2, 60.0)) == rounds(service.engine.queries("valuable")[:2])


def test_a_skipped_query_goes_last_and_is_free(service):
    first, second, third = service.ask(3)
    service.do("claim", "ann", "oldest", 3, 60.0)
    assert service.tried("skip", first, "bob") == "held"
    service.do("skip", first, "ann")
    service.do("skip", first, "bob")
    service.do("skip", second, "ann")
    assert rounds(service.engine.queries("oldest")) == [third, second, first]
    assert rounds(service.engine.queries("valuable")) == [third, second, first]
    assert rounds(service.do("claim", "bob", "oldest", 3, 60.0)) == [second, first]
    service.do("skip", second, "bob")
    assert rounds(service.do("claim", "bob", "oldest", 2, 60.0)) == [first, second]


def test_a_skipped_query_that_the_same_person_claims_again_still_comes_last(service):
    first, second, third = service.ask(3)
    service.do("claim", "ann", "oldest", 2, 60.0)
    service.do("skip", first, "ann")
    assert rounds(service.do("claim", "ann", "oldest", 3, 60.0)) == [second, third, first]
    assert rounds(service.do("claim", "ann", "oldest", 2, 60.0)) == [second, third]


# Limits, days and points


def test_more_queries_never_wait_the_oldest_expires_for_a_new_one(tmp_path, new_url):
    state = linear_state(tmp_path / "state", limits={"max_pending": 3})
    with Service(state, new_url()) as service:
        service.send(*range(40))
        asked = [event.round for event in service.events if event.query]
        expired = [event.round for event in service.events if event.kind == "expire"]
        assert len(asked) > 6
        assert expired == asked[:-3]
        assert rounds(service.engine.queries()) == asked[-3:]
        assert service.engine.status()["expired"] == len(expired)
        service.agrees()


def test_labels_are_awaited_for_expire_after_rounds(tmp_path, new_url):
    """As the learner itself does it, but by events in the log."""
    state = linear_state(tmp_path / "state", expire_after=4)
    assert state.config.expire_after == 4
    with Service(state, new_url()) as service:
        for number in range(30):
            service.send(number)
            assert all(number - one <= 5 for one in rounds(service.engine.queries()))
        events = service.events
        asked_at = {event.round: event.seq for event in events if event.query}
        for event in events:
            if event.kind == "expire":
                between = [one for one in events if one.kind == "sample" and one.round > event.round]
                assert len([one for one in between if one.seq < event.seq]) == 5
                assert asked_at[event.round] < event.seq
        service.agrees()


def test_labels_older_than_so_many_rounds_can_be_given_up(service):
    service.send(*range(20))
    waiting = rounds(service.engine.queries())
    old = [number for number in waiting if number < 20 - 1 - 8]
    assert service.do("expire_older", 8) == len(old)
    assert service.do("expire_older", 8) == 0
    assert rounds(service.engine.queries()) == waiting[len(old) :]


def test_today_counts_from_midnight(service, clock):
    clock.now = 20_000 * DAY - 1.0
    waiting = service.ask(2)
    before = service.engine.status()["today"]
    assert (before["rounds"], before["asked"], before["told"]) == (service.learner.rounds, 2, 0)
    clock.now += 1.0
    assert service.engine.status()["today"]["rounds"] == 0
    service.tell((waiting[0], 0))
    service.send(70)
    today = service.engine.status()["today"]
    assert (today["rounds"], today["told"]) == (1, 1)
    service.kill()
    with service.again() as after:
        assert after.engine.status()["today"] == today


def test_todays_share_of_the_budget_is_told(tmp_path, new_url):
    state = linear_state(tmp_path / "state", budget=0.25, sigma=50.0, max_labels=8)
    with Service(state, new_url()) as service:
        service.send(*range(40))
        status = service.engine.status()
        asked = status["asked"]
        assert asked <= 8
        assert status["budget"]["left"] == min(10 - asked, 8 - asked)
        service.clock.now += DAY
        service.send(*range(40, 52))
        status = service.engine.status()
        assert status["today"]["left"] == min(max(0, 3 - status["today"]["asked"]), 8 - status["asked"])


def test_a_point_of_the_history_every_hundred_rounds(service):
    service.send(*range(99))
    assert service.points == []
    service.send(*range(99, 250))
    points = [json.loads(body) for body in service.points]
    assert [point["round"] for point in points] == [100, 200]
    decisions = [event.decision for event in service.events if event.kind == "sample"]
    shares = [decisions[at : at + 100].count(0) / 100 for at in (0, 100)]
    assert [point["decided"][0] for point in points] == shares
    assert points[1]["at"] == service.clock.now


def test_shares_of_a_point_count_what_was_decided_before_a_kill(service):
    service.send(*range(0, 180, 3))  # all of the same class
    service.kill()
    with service.again() as after:
        after.send(*range(1, 121, 3))
        decisions = [event.decision for event in after.events if event.kind == "sample"]
        (point,) = map(json.loads, after.points)
        assert point["decided"][0] == decisions.count(0) / 100
        assert decisions[:60].count(0) / 60 != decisions[60:].count(0) / 40


def test_the_history_is_thinned_evenly_and_ends_with_the_last_point(service):
    told = [{"round": 100 * (i + 1), "body": str(i)} for i in range(101)]
    with service.log.transaction() as connection:
        connection.execute(sql.insert(logs.points), told)
    assert service.log.points(101) == [str(i) for i in range(101)]
    assert service.log.points(100) == [str(i) for i in range(0, 101, 2)]
    assert service.log.points(2) == ["49", "100"]


def test_snapshots_are_kept_every_so_many_events_and_at_a_stop(state, new_url, monkeypatch):
    monkeypatch.setattr(engines, "SNAPSHOT_EVERY", 10)
    with Service(state, new_url()) as service:
        for number in range(25):
            service.send(number)
        kept = service.log.snapshot()
        with service.log.reading() as connection:
            seqs = list(connection.execute(sql.select(logs.snapshots.c.seq).order_by(logs.snapshots.c.seq)).scalars())
        assert len(seqs) == logs.SNAPSHOTS_KEPT
        assert all(seq % 10 == 0 for seq in seqs)
        last = service.engine.seq
        service.stop()
    assert kept.seq == seqs[-1]
    again = Log(service.log._url.render_as_string(hide_password=False))
    assert again.snapshot().seq == last
    again.close()


# A log that fails


def test_a_commit_that_fails_is_refused_as_storage_and_nothing_was_done(service, monkeypatch):
    waiting = service.ask(3)
    before = bits(service.learner), service.events, service.waiting
    break_commits(monkeypatch, service.log)
    assert service.tried("observe", [("a", row(1))]) == "storage"
    assert not service.engine.healthy or bits(service.learner) == before[0]
    assert service.events == before[1]
    assert service.tell((waiting[0], 0)) == ["learned"]
    assert service.engine.healthy
    assert service.do("observe", [("a", row(1))])[0].seq == before[1][-1].seq + 2
    service.agrees()


def test_a_commit_whose_answer_was_lost_is_counted_once(service, monkeypatch):
    """The connection breaks between the commit and its answer: who sends it again gets what is in the log."""
    waiting = service.ask(1)
    writer = service.log._writer
    assert writer is not None
    commit = writer._commit_impl

    def commit_and_break():
        commit()
        raise sql.exc.OperationalError("COMMIT", {}, Exception("the connection is lost"))

    monkeypatch.setattr(writer, "_commit_impl", commit_and_break)
    before = len(service.events)
    with pytest.raises(Refusal, match="with the same id"):
        service.do("observe", [("a", row(1))])
    recorded = service.events[-1]
    assert service.do("observe", [("a", row(1))]) == [recorded]
    assert len(service.events) == before + 1
    assert service.tell((waiting[0], 1)) == ["learned"]
    service.agrees()


def test_why_the_log_failed_is_told_to_the_operator(service, monkeypatch, caplog):
    service.ask(1)
    break_commits(monkeypatch, service.log)
    assert service.tried("observe", [(None, row(1))]) == "storage"
    assert "no space left" in caplog.text


def test_a_listener_that_fails_stops_nothing(service):
    """As a loop that was closed does."""

    def closed():
        raise RuntimeError("Event loop is closed")

    service.engine.changed = closed
    assert service.send(1)[0].round == 0
    assert service.send(2)[0].round == 1


def test_all_that_shared_the_failed_commit_are_refused(service, monkeypatch):
    waiting = service.ask(2)
    before = service.events
    break_commits(monkeypatch, service.log)

    async def together():
        engine = service.engine
        with engine._lock:  # so that all of them wait, and come in one group
            asked = [
                asyncio.ensure_future(engine.do(engine.observe, [(None, row(1))])),
                asyncio.ensure_future(engine.do(engine.answer, [(waiting[0], 0, "ann")])),
                asyncio.ensure_future(engine.do(engine.claim, "ann", "oldest", 2, 60.0)),
            ]
            await asyncio.sleep(0)
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(together())
    assert [isinstance(one, Refusal) and one.code for one in found].count("storage") >= 1
    done = [one for one in found if not isinstance(one, Refusal)]
    service.send(1)
    assert len(service.events) == len(before) + sum(len(one) for one in done) + 1
    service.agrees()


def test_a_full_disk_is_survived(tmp_path):
    """SQLite may use no page more; the service says so, and goes on once there is room."""
    state = linear_state(tmp_path / "state")
    with Service(state, state.log_file) as service:
        service.send(*range(50))
        before = bits(service.learner)
        assert service.log._writer is not None
        service.log._writer.exec_driver_sql("PRAGMA max_page_count=1")
        service.log._writer.commit()
        assert service.tried("observe", [(None, row(n)) for n in range(500)]) == "storage"
        service.do("observe", [])
        assert bits(service.learner) == before
        service.send(*range(500))
        service.agrees()


def test_the_engine_recovers_before_anybody_asks_again(service, monkeypatch):
    """A balancer sends nothing to a service that is not healthy, so that must not wait for a request."""
    monkeypatch.setattr(writer, "RETRY", 0.01)
    healthy = threading.Event()
    rebuild = service.engine._rebuild

    def rebuilt():
        rebuild()
        healthy.set()

    service.ask(1)
    monkeypatch.setattr(service.engine, "_rebuild", rebuilt)
    break_commits(monkeypatch, service.log)
    assert service.tried("observe", [(None, row(1))]) == "storage"
    assert healthy.wait(60.0)
    assert service.tried("observe", []) == []
    assert service.engine.healthy
    service.agrees()


def test_a_fault_in_one_request_leaves_the_learner_equal_to_the_log(service):
    """Whatever goes wrong half way: the whole group is undone."""
    service.ask(2)
    before = service.events

    def faulty():
        service.engine.observe([(None, row(1))])
        raise ZeroDivisionError("a fault of our own")

    with pytest.raises(ZeroDivisionError):
        asyncio.run(service.engine.do(faulty))
    service.send(5)
    assert len(service.events) == len(before) + 1
    service.agrees()


def test_a_listener_is_told_of_no_event_before_its_commit(service):
    """A reader of the log up to `seq` must find all of it there."""
    found = []

    def at_commit(connection):
        found.append(service.engine.seq)

    sql.event.listen(service.log._writers, "commit", at_commit)
    service.send(1)
    service.send(2, 3)
    assert [seq for seq in found if seq] == [1]
    assert service.engine.seq == service.log.last()


def test_what_a_failed_commit_played_is_not_told_of_as_status(service, monkeypatch):
    """The next group reaches the same number of events with others: it must not be answered from memory."""
    waiting = service.ask(2)
    break_commits(monkeypatch, service.log)
    known = []

    class Watched:
        """A lock after whose release somebody asks at once."""

        def __init__(self, lock):
            self._lock = lock

        def acquire(self, timeout):
            return self._lock.acquire(timeout=timeout)

        def release(self):
            self._lock.release()

        def __enter__(self):
            return self._lock.__enter__()

        def __exit__(self, *error):
            self._lock.__exit__(*error)
            if not known and threading.current_thread() is service.engine._thread:
                known.append(None)
                try:
                    known.append(service.engine.status())
                except Refusal as refusal:
                    known.append(refusal.code)

    service.engine._lock = Watched(service.engine._lock)
    assert service.tried("expire", waiting[0]) == "storage"
    assert service.tell((waiting[1], 0)) == ["learned"]
    assert service.engine.status()["told"] == 1
    assert known[1] == "storage"


def test_a_lost_connection_to_postgresql_is_made_again_with_the_lock(state, postgres):
    with Service(state, postgres.fresh()) as service:
        service.ask(3)
        before = bits(service.learner), service.events
        ended = postgres.do(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database ="
            f" (SELECT oid FROM pg_database WHERE datname = '{postgres.database}')"
        )
        assert ended == [(True,)]
        assert service.tried("observe", [("a", row(1))]) == "storage"
        service.do("observe", [])
        assert (bits(service.learner), service.events) == before
        assert len(service.send(4, 5)) == 2
        service.agrees()
        with pytest.raises(InputError, match="in use by another service"):
            service.again().engine.start()


def test_a_lock_that_another_service_took_meanwhile_is_a_matter_of_storage(state, postgres):
    """The connection is lost and another service starts: this one writes nothing more, and says 503 and not 422."""
    with Service(state, postgres.fresh()) as service:
        service.ask(1)
        writer = service.log._writer
        assert writer is not None
        writer.invalidate()
        with service.again() as other:
            other.send(1, 2)
            assert service.tried("observe", [("a", row(1))]) == "storage"
            other.send(3)
        assert len(service.send(4)) == 1
        assert service.events[-1].seq == len(service.events)
        service.agrees()


def test_postgresql_may_restart_beneath_the_service(state, postgres):
    with Service(state, postgres.fresh()) as service:
        service.ask(2)
        postgres.restart()
        outcomes = [service.tried("observe", [(f"id-{n}", row(n))]) for n in range(3)]
        assert outcomes[0] == "storage"
        assert outcomes[-1] != "storage"
        service.agrees()


def test_a_log_that_cannot_be_read_at_the_start_is_one_sentence(state, log_url, monkeypatch):
    service = Service(state, log_url)

    def unreadable(*_):
        raise StorageError("disk I/O error")

    monkeypatch.setattr(service.log, "since", unreadable)
    with pytest.raises(InputError, match="cannot be read"):
        service.engine.start()


def test_a_log_that_computes_otherwise_is_one_sentence(service):
    service.send(1, 2, 3)
    service.kill()
    log = Log(service.log._url.render_as_string(hide_password=False))
    with log.writing() as connection:
        connection.execute(sql.update(logs.events).where(logs.events.c.seq == 2).values(margin=1.25))
    log.close()
    with pytest.raises(InputError, match="event 2 of the log cannot be reproduced"):
        service.again().engine.start()


def test_too_many_requests_that_wait_are_refused(service, monkeypatch):
    monkeypatch.setattr(writer, "MOST_WAITING", 0)
    assert service.tried("observe", [(None, row(1))]) == "overloaded"
    monkeypatch.undo()
    assert len(service.send(1)) == 1


def test_an_asker_who_has_gone_does_not_stop_the_engine(service):
    """Its loop is closed when the answer comes."""
    loop = asyncio.new_event_loop()
    with service.engine._lock:
        task = loop.create_task(service.engine.do(service.engine.observe, [(None, row(1))]))
        loop.run_until_complete(asyncio.sleep(0))
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()
    assert service.send(2)[0].round == 1
