"""The log: one writer, numbers kept to the last bit, and one sentence for a database that is not its own."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

import pytest
import sqlalchemy as sql
from engine_cases import Service, linear_state
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from osamd.errors import InputError
from osamd.service import database_tables
from osamd.service import log as logs
from osamd.service.database import StorageError
from osamd.service.insertion import append
from osamd.service.log import Event, Log, Snapshot


def one_sentence(error):
    """What a user reads: one line, that ends as a sentence does, and shows no statement."""
    said = str(error.value)
    assert "\n" not in said
    assert said.endswith((".", "?"))
    assert "SELECT" not in said
    assert "INSERT" not in said
    return said


@pytest.fixture
def log(log_url):
    opened = Log(log_url)
    opened.open("me")
    yield opened
    opened.close()


def write(log, *events):
    with log.transaction() as connection:
        append(connection, events)


def events_of(**values):
    return st.fixed_dictionaries(values).map(lambda told: Event(**told))


reals = st.floats(allow_nan=False, allow_infinity=False, width=64)
whole = st.integers(0, 2**53 - 1)
samples = events_of(
    seq=st.just(0),
    at=reals,
    kind=st.just("sample"),
    round=whole,
    features=st.lists(reals, max_size=4).map(lambda row: struct.pack(f"{len(row)}d", *row)),
    draw=st.floats(0.0, 1.0, exclude_max=True),
    decision=st.integers(0, 2),
    pseudolabel=st.integers(0, 2),
    margin=st.floats(min_value=0.0, allow_infinity=False),
    probability=st.floats(0.0, 1.0),
    query=st.booleans(),
    withheld=st.sampled_from([None, "rate", "window", "max_labels"]),
    score=st.binary(max_size=24),
)
others = events_of(
    seq=st.just(0),
    at=reals,
    kind=st.sampled_from(["label", "expire", "claim", "skip"]),
    round=whole,
    label=st.none() | st.integers(0, 2),
    who=st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=100),
    until=st.none() | reals,
)


@settings(
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(given=st.lists(samples | others, min_size=1, max_size=8))
def test_events_come_back_to_the_last_bit(log, given):
    last = log.last()
    given = [event._replace(seq=last + 1 + i) for i, event in enumerate(given)]
    write(log, *given)
    found = log.since(last)
    assert found == given


def test_all_events_are_read_in_order_and_in_blocks(log, monkeypatch):
    write(log, *(Event(seq, 0.0, "skip", seq) for seq in range(7, 0, -1)))
    monkeypatch.setattr(Log.since, "__defaults__", (3,))
    assert [event.seq for event in log.all_since(0)] == list(range(1, 8))
    assert [event.seq for event in log.all_since(4)] == [5, 6, 7]
    assert log.last() == 7


def test_an_event_is_written_once(log):
    write(log, Event(1, 0.0, "skip", 0))
    with pytest.raises(StorageError):
        write(log, Event(2, 0.0, "skip", 0), Event(1, 0.0, "claim", 0))
    assert [(event.seq, event.kind) for event in log.all_since(0)] == [(1, "skip")]


def test_a_client_id_names_one_sample(log):
    write(log, Event(1, 0.0, "sample", 0, client_id="a"), Event(2, 0.0, "sample", 1), Event(3, 0.0, "sample", 2))
    with pytest.raises(StorageError):
        write(log, Event(4, 0.0, "sample", 3, client_id="a"))
    assert log.last() == 3


def test_client_ids_differ_by_their_capitals(log):
    write(log, Event(1, 0.0, "sample", 0, client_id="a"), Event(2, 0.0, "sample", 1, client_id="A"))
    with log.reading() as connection:
        assert [event.round for event in logs.of_clients(connection, ["A"])] == [1]


def test_many_rounds_are_looked_up_at_once(log):
    write(log, *(Event(n, 0.0, "sample", n, client_id=f"id-{n}") for n in range(1, 1301)))
    with log.reading() as connection:
        found = logs.of_rounds(connection, range(1300, 0, -1), ("sample",))
        assert [event.round for event in found] == list(range(1, 1301))
        assert len(logs.of_clients(connection, [f"id-{n}" for n in range(2000)])) == 1300
        assert logs.of_rounds(connection, [], ("sample",)) == []


def test_what_listeners_are_told_of_comes_in_order(log):
    write(
        log,
        Event(4, 0.0, "label", 1, label=1),
        Event(3, 0.0, "sample", 2, query=False),
        Event(2, 0.0, "claim", 1),
        Event(1, 0.0, "sample", 1, query=True),
        Event(5, 0.0, "skip", 9),
    )
    assert [(event.seq, event.kind) for event in log.notable(0, 4)] == [(1, "sample"), (2, "claim"), (4, "label")]
    assert [event.seq for event in log.notable(2, 5)] == [4, 5]


def test_the_last_snapshots_are_kept(log):
    for seq in (3, 5, 5, 9):
        with log.transaction() as connection:
            logs.keep_snapshot(connection, Snapshot(seq, "{}", bytes([seq])))
    assert log.snapshot() == Snapshot(9, "{}", b"\x09")
    with log.reading() as connection:
        assert sorted(connection.execute(sql.select(logs.snapshots.c.seq)).scalars()) == [5, 9]


def test_a_transaction_that_fails_is_undone_and_the_next_one_works(log):
    def write_and(then):
        with log.transaction() as connection:
            append(connection, [Event(1, 0.0, "skip", 0)])
            then(connection)

    with pytest.raises(StorageError):
        write_and(lambda connection: connection.exec_driver_sql("SELECT * FROM nothing_of_this_name"))
    assert log.last() == 0
    with pytest.raises(ZeroDivisionError):
        write_and(lambda _: 1 / 0)
    assert log.last() == 0
    write(log, Event(1, 0.0, "skip", 0))
    assert log.last() == 1


def test_tokens_are_written_beside_the_writer(log):
    with log.writing() as connection:
        connection.execute(sql.insert(database_tables.tokens), {"name": "ann", "role": "client", "digest": "0"})
    write(log, Event(1, 0.0, "skip", 0))
    with log.reading() as connection:
        assert connection.execute(sql.select(database_tables.tokens.c.name)).scalars().all() == ["ann"]


def test_a_second_service_on_the_same_log_is_refused(log, log_url):
    second = Log(log_url)
    with pytest.raises(InputError, match=r"in use by another service.*; stop that one first") as error:
        second.open("me")
    one_sentence(error)
    log.close()
    second.open("me")
    second.close()


def test_a_log_of_another_learner_is_refused(state, tmp_path, log_url):
    with Service(state, log_url) as service:
        service.send(1)
    other = linear_state(tmp_path / "other", seed=6)
    with pytest.raises(InputError, match="belongs to another learner") as error:
        Service(other, log_url).engine.start()
    one_sentence(error)
    with service.again() as again:  # which the refusal did not lock out
        assert again.learner.rounds == 1


def test_a_log_of_another_format_is_refused(log, log_url):
    with log.writing() as connection:
        connection.execute(sql.update(logs.about).where(logs.about.c.key == "format").values(value="99"))
    log.close()
    with pytest.raises(InputError, match=r"is of format 99, and this osamd writes format 3") as error:
        Log(log_url).open("me")
    one_sentence(error)


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://user:secret@host/name",
        "sqlite://",
        "sqlite:///:memory:",
        "postgresql+nodriver://user:secret@host/name",
        "postgresql://user:secret@host:port/name",
    ],
)
def test_an_address_that_cannot_be_used_is_one_sentence_without_its_password(url):
    with pytest.raises(InputError, match="database=") as error:
        Log(url)
    assert "secret" not in one_sentence(error)


def test_a_server_that_is_not_there_is_one_sentence_without_the_password():
    pytest.importorskip("psycopg")
    log = Log("postgresql://user:secret@127.0.0.1:1/name")
    with pytest.raises(InputError, match="cannot be used") as error:
        log.open("me")
    assert "secret" not in one_sentence(error)
    assert "secret" not in log.name


def test_a_file_that_is_no_database_is_one_sentence(tmp_path):
    place = tmp_path / "log.sqlite"
    place.write_bytes(b"this is no database, and long enough to be looked at as one" * 100)
    with pytest.raises(InputError, match=r"cannot be used \(file is not a database\)") as error:
        Log(place).open("me")
    one_sentence(error)


def test_a_folder_in_place_of_the_log_or_none_is_one_sentence(tmp_path):
    (tmp_path / "log.sqlite").mkdir()
    with pytest.raises(InputError, match="cannot be used") as error:
        Log(tmp_path / "log.sqlite").open("me")
    one_sentence(error)
    with pytest.raises(InputError, match="cannot be written") as error:
        Log(tmp_path / "no folder" / "log.sqlite").open("me")
    one_sentence(error)


def test_a_log_whose_pages_are_damaged_is_one_sentence(state):
    with Service(state, state.log_file) as service:
        service.send(*range(200))
    place = state.log_file
    data = bytearray(place.read_bytes())
    data[8192 : len(data) - 4096] = bytes(len(data) - 4096 - 8192)
    place.write_bytes(data)
    with pytest.raises(InputError) as error:
        Service(state, place).engine.start()
    one_sentence(error)
    with pytest.raises(InputError):  # and nobody is locked out
        Service(state, place).engine.start()


def test_sqlite_syncs_every_commit(tmp_path):
    log = Log(tmp_path / "log.sqlite")
    log.open("me")
    with log.transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    log.close()


def test_readers_of_sqlite_do_not_wait_for_the_writer(tmp_path):
    log = Log(tmp_path / "log.sqlite")
    log.open("me")
    with log.transaction() as connection:
        append(connection, [Event(1, 0.0, "skip", 0)])
        assert log.last() == 0
    assert log.last() == 1
    log.close()


def test_the_log_can_be_read_by_other_tools(state):
    """The columns are plain: anybody's SQLite reads them."""
    with Service(state, state.log_file) as service:
        service.send(1, 2)
    with sqlite3.connect(Path(state.log_file)) as plain:
        found = plain.execute("SELECT seq, kind, round FROM events ORDER BY seq").fetchall()
    plain.close()
    assert found == [(1, "sample", 0), (2, "sample", 1)]
