"""What operators meet: silent networks, other numbers of cores, full disks, wild samples, files of their own."""

from __future__ import annotations

import json
import stat
import threading
import time

import numpy as np
import pytest
import sqlalchemy as sql
from engine_cases import WIDTH, Service, bits, break_commits, linear_state, row
from http_cases import JSON, Served, Web, small_state
from silent_proxy import SilentProxy

import osamd
from benchmarks.service_strangers import strangers
from osamd.cli.app import main
from osamd.errors import InputError
from osamd.service import auth, bodies, engine, exporting, postgres, server, writer
from osamd.service import log as logs
from osamd.service.desk import Refusal
from osamd.service.engine import Engine
from osamd.service.folder import create, open_state
from osamd.service.inferred_schema import of_learner
from osamd.service.log import Log

# Another number of cores.


def wide_module():
    """A network whose sums depend on the number of torch's threads."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(300, 512), nn.LayerNorm(512), nn.GELU(), nn.Linear(512, 3))


@pytest.fixture
def threads():
    """Sets torch's number of threads, as another machine does by its cores."""
    torch = pytest.importorskip("torch", reason="networks need PyTorch: pip install 'osamd[deep]'")
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_a_network_that_was_killed_starts_on_another_number_of_cores(tmp_path, threads):
    from osamd.learner.network import NetworkOSAMD

    names = ["cat", "dog", "owl"]
    learner = NetworkOSAMD(wide_module(), classes=names, budget=0.3, seed=5)
    create(tmp_path / "state", learner, schema=of_learner(names, 300, "wide"), module="test_operators:wide_module")
    generator = np.random.default_rng(0)
    threads(2)
    with Service(open_state(tmp_path / "state"), tmp_path / "log.sqlite") as service:
        for number in range(30):
            (event,) = service.do("observe", [(None, generator.normal(size=300))])
            if event.query:
                service.tell((event.round, number % 3))
        before = service.events
        service.kill()
    threads(1)
    with service.again() as after:
        assert after.events == before


def otherwise(service, **values):
    """Let the log say something that does not come out here."""
    log = Log(service.log._url.render_as_string(hide_password=False))
    with log.writing() as connection:
        chosen = sql.update(logs.events).where(logs.events.c.kind == "sample")
        for seq, value in values.items():
            connection.execute(chosen.where(logs.events.c.seq == int(seq[1:])).values(**value))
    log.close()


def test_a_log_that_cannot_be_repeated_is_taken_as_it_is_written_where_one_says_so(service, caplog):
    service.send(*range(20))
    asked = [event for event in service.events if event.query]
    silent = next(event for event in service.events if event.kind == "sample" and not event.query)
    service.kill()
    otherwise(service, **{f"s{asked[0].seq}": {"query": False}, f"s{silent.seq}": {"query": True, "margin": 0.5}})
    with pytest.raises(InputError, match="osamd serve --as-written"):
        service.again().engine.start()
    again = service.again()
    again.engine.start(as_written=True)
    assert "2 decisions differ from those computed here, 1 of them pending queries" in caplog.text
    assert [one.event.round for one in again.engine.queries()] == [event.round for event in asked[1:]]
    assert [event.kind for event in again.events[-2:]] == ["expire", "accept"]
    again.send(30)
    before = bits(again.learner)
    again.kill()
    with again.again() as later:  # from now on it repeats
        assert bits(later.learner) == before
        assert later.tell((asked[1].round, 0), (asked[0].round, 0)) == ["learned", "not-asked"]


# A silent network.


@pytest.fixture
def quickly(monkeypatch):
    """Patience of fractions of seconds."""
    monkeypatch.setattr(postgres, "NO_ANSWER", 0.6)
    monkeypatch.setattr(postgres, "CONNECT", 1)
    monkeypatch.setitem(postgres.ARGUMENTS, "connect_timeout", 1)
    monkeypatch.setattr(writer, "RETRY", 0.05)


@pytest.fixture
def proxied(state, postgres, quickly):
    """A service behind a network that can fall silent, and the same database by another way."""
    direct = postgres.fresh()
    proxy = SilentProxy(postgres._folder)
    schema = direct.partition("&options=")[2]
    url = f"postgresql+psycopg://osamd@127.0.0.1:{proxy.port}/{postgres.database}?options={schema}"
    yield Service(state, url), proxy, direct
    proxy.close()


def test_a_silent_network_refuses_writes_in_time_and_the_end_comes(proxied):
    service, proxy, _ = proxied
    with service:
        waiting = service.ask(2)
        proxy.silent.set()
        assert service.tried("observe", [("a", row(1))]) == "storage"  # and does not wait for ever
        assert not service.engine.healthy
        with pytest.raises(Refusal, match="try again later"):
            service.engine.status()
        proxy.silent.clear()
        while service.tried("observe", [("a", row(1))]) == "storage":
            pass
        assert service.tell((waiting[0], 1)) == ["learned"]
        service.agrees()
        proxy.silent.set()
        service.stop()
        assert service.engine.failure


def test_the_lock_of_a_service_behind_a_silent_network_is_taken_over_and_it_writes_no_more(proxied, monkeypatch):
    service, proxy, direct = proxied
    with service:
        service.send(1, 2)
        proxy.silent.set()
        other = Service(open_state(service.state.folder), direct, service.clock)
        with pytest.raises(InputError, match=r"in use by another service \(it wrote \d+ s ago\)"):
            other.engine.start()
        monkeypatch.setattr(postgres, "SILENT", 0.0)
        other = Service(open_state(service.state.folder), direct, service.clock)
        with other:
            other.send(3)
            proxy.silent.clear()
            monkeypatch.setattr(postgres, "SILENT", 30.0)
            assert service.tried("observe", [(None, row(4))]) == "storage"
            assert service.tried("observe", [(None, row(4))]) == "storage"
            other.send(5)
            assert [event.round for event in other.events] == [0, 1, 2, 3]
            other.agrees()


def test_a_service_that_starts_while_the_one_before_it_ends_waits_for_its_lock(proxied):
    service, _, direct = proxied
    with service:
        service.send(1, 2)
        ending = threading.Timer(0.3, service.stop)
        ending.start()
        with Service(open_state(service.state.folder), direct, service.clock) as other:
            ending.join()
            other.send(3)
            assert [event.round for event in other.events] == [0, 1, 2]


def test_health_is_told_by_a_write(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "RETRY", 0.0)  # every look writes
    with Web(small_state(tmp_path / "state")) as web:
        assert web.get("/healthz").status == web.get("/readyz").status == web.get("/livez").status == 200
        with web.log.reading() as connection:
            told = connection.execute(sql.select(logs.about.c.value).where(logs.about.c.key == "probe")).scalar()
        assert abs(float(told) - time.time()) < 60.0
        break_commits(monkeypatch, web.log)
        assert web.get("/readyz").code == "storage"
        assert web.get("/livez").status == 200


def test_a_log_that_does_not_answer_is_not_ready_and_status_is_told_from_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("osamd.service.web.SLOWEST_PROBE", 0.05)
    monkeypatch.setattr(engine, "LOOK", 0.05)
    with Web(small_state(tmp_path / "state")) as web:
        web.queries(1)
        rounds = web.get("/v1/status").json()["rounds"]
        with web.engine._lock:  # the engine waits for its log so
            answer = web.get("/readyz")
            assert (answer.status, answer.code) == (503, "storage")
            assert web.get("/livez").status == 200
            assert web.get("/v1/status").json()["rounds"] == rounds
            assert b"osamd_last_commit_age_seconds" in web.get("/metrics").body


def test_a_log_that_nobody_writes_is_probed(state, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "PROBE", 0.02)
    monkeypatch.setattr(writer, "RETRY", 0.0)
    probed = threading.Event()
    monkeypatch.setattr(logs, "probe", lambda *_: probed.set())
    with Service(state, state.log_file):
        assert probed.wait(30.0)


# The end on a full disk.


def test_an_end_that_cannot_write_says_so(tmp_path):
    state = linear_state(tmp_path / "state")
    fill = (
        "from osamd.service import log as logs\n"
        "def full(*_): raise logs.SQLAlchemyError('disk full')\n"
        "logs.keep_snapshot = full\n"
    )
    with Served(state, fill) as served:
        served.post("/v1/samples", {"features": [1, 2, 3]})
        assert served.end() != 0
        assert "could not be written at the end" in served.errors
    with Service(open_state(state.folder), state.log_file) as after:
        assert after.learner.rounds == 1


# One wild sample.


def test_a_wild_sample_is_refused_and_told_and_does_not_ruin_the_model(tmp_path):
    state = linear_state(tmp_path / "state", method="osamd", standardise=True)
    with Service(state, state.log_file) as service:
        service.send(*range(120))
        before = bits(service.learner)
        (told,) = service.do("observe", [(None, np.array([0.1, -1e12, 0.2]))])
        assert isinstance(told, Refusal)
        assert told.code == "wild"
        assert "'x2' is -1e+12, and was never above" in told.message
        assert bits(service.learner) == before
        assert service.engine.status()["wild"]["count"] == 1
        service.send(*range(120, 130))
        service.kill()
        with service.again() as after:
            assert [one.code for one in after.do("observe", [(None, np.full(WIDTH, 1e9))])] == ["wild"]
            after.agrees()


def test_what_is_wild_is_known_from_the_source_and_can_be_allowed(tmp_path):
    from osamd.service import creating

    table = tmp_path / "t.csv"
    table.write_text("a,b,y\n" + "".join(f"{i % 7},{i % 3},{i % 2}\n" for i in range(50)))
    columns = {"classes": None, "drop": (), "categorical": ()}
    given = dict.fromkeys(("model", "module", "schema", "shape", "expire_after", "title"))
    state = creating.make(tmp_path / "s", source=str(table), label="y", columns=columns, settings={}, **given).state
    with Service(state, state.log_file) as service:
        assert service.do("observe", [(None, np.array([7e3, 1.0]))])[0].code == "wild"
        assert service.do("observe", [(None, np.array([5e3, 1.0]))])[0].round == 0
    config = json.loads((state.folder / "service.json").read_text()) | {"wild": None}
    (state.folder / "service.json").write_text(json.dumps(config))
    with service.again() as after:
        assert after.do("observe", [(None, np.array([7e9, 1.0]))])[0].round == 1


# Labels, leases and claims.


def test_labels_that_nobody_asked_for_take_none_of_the_engines_time(tmp_path, monkeypatch):
    with Web(small_state(tmp_path / "state")) as web:
        first, second = web.queries(2)
        assert web.post("/v1/labels", {"round": first, "label": "cat"}).status == 200
        silent = next(n for n in range(50) if n not in (first, second))

        def never(labels):
            raise AssertionError("the engine was asked")

        monkeypatch.setattr(web.engine, "answer", never)
        codes = [web.post("/v1/labels", {"round": n, "label": "dog"}).code for n in (first, silent, 10**6)]
        assert codes == ["answered", "not-asked", "unknown"]
        assert web.post("/v1/labels", {"round": first, "label": "cat"}).json()["status"] == "repeated"
        assert web.post("/v1/labels", {"id": "nobody", "label": "cat"}).code == "unknown"


def test_leases_go_by_a_clock_that_never_jumps(state):
    class Steady:
        now = 100.0

        def __call__(self):
            return self.now

    service, steady = Service(state, state.log_file), Steady()
    service.engine = Engine(state, service.log, service.clock, steady)
    with service:
        (waiting,) = service.ask(1)
        service.do("claim", "ann", "oldest", 1, 60.0)
        service.clock.now += 3600.0  # somebody sets the clock of the machine
        assert service.do("claim", "bob", "oldest", 1, 60.0) == []
        steady.now += 61.0
        assert [one.event.round for one in service.do("claim", "bob", "oldest", 1, 60.0)] == [waiting]


def test_a_claim_that_is_renewed_is_one_event(service, clock):
    service.ask(2)
    for _ in range(5):
        service.do("claim", "ann", "oldest", 2, 60.0)
        clock.now += 20.0
    assert [event.kind for event in service.events].count("claim") == 2
    assert service.engine.status()["held"] == 2


# Files and databases.


def test_files_and_folder_are_for_their_owner_alone(tmp_path):
    state = linear_state(tmp_path / "state")
    with Service(state, state.log_file) as service:
        service.send(1)
        assert stat.S_IMODE(state.folder.stat().st_mode) == 0o700
        found = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in state.folder.iterdir()}
        assert set(found.values()) == {"0o600"}
        assert {"log.sqlite", "log.sqlite-wal", "service.json", "start.safetensors"} <= set(found)


def test_init_syncs_what_it_writes(tmp_path, monkeypatch):
    synced = []
    real = osamd.service.folder.os.fsync
    monkeypatch.setattr(osamd.service.folder.os, "fsync", lambda handle: synced.append(handle) or real(handle))
    linear_state(tmp_path / "state")
    assert len(synced) == 4  # two files, their folder, and the one around it


def test_the_database_is_remembered_and_another_one_is_refused(state, postgres):
    url = postgres.fresh()
    with server.opened(state.folder, url) as (_, log):
        pass
    again = open_state(state.folder)
    assert again.config.database == log.place
    assert "osamd@" not in log.place
    with pytest.raises(InputError, match=r"the log of .* is in postgresql://.*; give it with database="):
        server.open_log(again, None)
    with pytest.raises(InputError, match="change `database` in"):
        server.open_log(again, postgres.fresh())
    server.open_log(again, url).close()


def test_a_database_that_could_not_be_used_is_not_remembered(state):
    with pytest.raises(InputError, match="cannot be used"), server.opened(state.folder, "postgresql://127.0.0.1:1/no"):
        pass
    assert open_state(state.folder).config.database is None


def test_a_service_that_has_a_log_in_its_folder_takes_no_database(state, postgres):
    with Service(state, state.log_file) as service:
        service.send(1)
    with pytest.raises(InputError, match="leave it as it was"):
        server.open_log(state, postgres.fresh())


def test_a_log_of_format_1_is_brought_to_format_2(state):
    with Service(state, state.log_file) as service:
        service.send(1, 2)
    log = Log(state.log_file)
    with log.writing() as connection:
        for index in logs.FORMAT_2:
            index.drop(connection)
        connection.execute(sql.update(logs.about).where(logs.about.c.key == "format").values(value="1"))
    log.close()
    with service.again() as after:
        assert after.learner.rounds == 2
        with after.log.reading() as connection:
            names = {one["name"] for one in sql.inspect(connection).get_indexes("events")}
            told = connection.execute(sql.select(logs.about.c.value).where(logs.about.c.key == "format")).scalar()
    assert {"by_kind", "by_person"} <= names
    assert told == logs.FORMAT


# Tokens.


def test_a_token_expires_and_says_when_it_was_last_used(tmp_path, monkeypatch):
    monkeypatch.setattr(auth, "_SEEN_FOR", -1.0)
    with Web(small_state(tmp_path / "state")) as web:
        token = auth.make_token(web.log, "shop", "client", days=1.0)
        bearer = [("authorization", f"Bearer {token}")]
        assert web.get("/v1/status", bearer).status == 200
        web.app.state.parts.door.write_use()
        (known,) = auth.token_list(web.log)
        assert abs(known.used - time.time()) < 60.0
        later = time.time() + 86_401.0
        monkeypatch.setattr(auth.time, "time", lambda: later)
        assert web.get("/v1/status", bearer).status == 401
        assert web.get("/v1/status").status == 401  # and the service does not open to everybody


def test_a_reader_reads_how_it_stands_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(auth, "_SEEN_FOR", -1.0)
    with Web(small_state(tmp_path / "state"), may_open=False) as web:
        bearer = [("authorization", f"Bearer {auth.make_token(web.log, 'prometheus', 'reader')}")]
        assert {web.get(path, bearer).status for path in ("/metrics", "/v1/status", "/v1/history", "/v1/schema")} == {
            200
        }
        assert {web.get(path, bearer).code for path in ("/v1/labels", "/v1/queries", "/v1/answers")} == {"forbidden"}
        assert web.post("/v1/labels", {"round": 0, "label": "cat"}, bearer).code == "forbidden"
        assert web.post("/v1/samples", {"features": [1, 2, 3]}, bearer).code == "forbidden"


def test_refused_tokens_are_told_to_the_operator_and_do_not_fill_the_disk(tmp_path, caplog):
    with Web(small_state(tmp_path / "state"), may_open=False) as web:
        for _ in range(250):
            assert web.get("/v1/status", [("authorization", "Bearer wrong")]).status == 401
        web.post("/login", {"token": "wrong"})
    told = [one.getMessage() for one in caplog.records if "was refused" in one.getMessage()]
    assert told == [f"a token from 127.0.0.1 was refused ({number} so far)" for number in (1, 100, 200)]
    assert "wrong" not in caplog.text


# Backups.


def test_a_backup_of_a_running_service_is_a_folder_to_serve(tmp_path, new_url, capsys):
    state, url = linear_state(tmp_path / "state"), new_url()
    (state.folder / "media").mkdir()
    (state.folder / "media" / "a.png").write_bytes(b"a")
    with Service(state, url) as service:
        waiting = service.ask(3)
        service.tell((waiting[0], 1))
        exporting.back_up(state.folder, url, tmp_path / "backup")
        before = bits(service.learner), service.events
        service.send(90)
    copy = open_state(tmp_path / "backup")
    with Service(copy, copy.log_file, service.clock) as restored:
        assert (bits(restored.learner), restored.events) == before
        assert [one.event.round for one in restored.engine.queries()] == waiting[1:]
    assert (tmp_path / "backup" / "media" / "a.png").read_bytes() == b"a"
    assert main(["restore", str(tmp_path / "backup"), str(tmp_path / "again")]) == 0
    assert main(["backup", str(tmp_path / "again"), str(tmp_path / "backup")]) == 2
    assert "is there already" in capsys.readouterr().err


# Strangers.


def resident(process) -> float:
    """MB of memory."""
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def guarded(tmp_path):
    """A service with a token, in a process of its own."""
    state = small_state(tmp_path / "state")
    log = server.open_log(state, None)
    log.make_tables()
    auth.make_token(log, "shop", "client")
    log.close()
    return Served(state)


def test_strangers_who_withhold_bodies_take_no_memory(tmp_path):
    head = b"POST /v1/samples HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += b"content-length: 8000000\r\n\r\n"
    with guarded(tmp_path) as served:
        before = resident(served.process.pid)
        strangers = [served.connect() for _ in range(250)]
        for one in strangers:
            one.sendall(head + b" " * 200_000)
        assert served.send("GET", "/livez").status == 200
        assert resident(served.process.pid) - before < 100.0
        for one in strangers:
            one.close()


def test_half_heads_of_one_address_starve_nobody(tmp_path):
    with Served(small_state(tmp_path / "state")) as served:
        half = []
        for _ in range(900):  # `python -m benchmarks --service` tries 1,500
            half.append(served.connect())
            half[-1].sendall(b"GET /v1/status HTTP/1.1\r\nhost: ")
        assert served.send("GET", "/v1/status").status == 200
        assert served.post("/v1/samples", {"features": [1, 2, 3]})["round"] == 0
        for one in half:
            one.close()


def test_answers_that_nobody_reads_starve_nobody(tmp_path):
    from osamd.service.schema import Image, NamedClass, Schema

    size = 28
    learner = osamd.OSAMD(features=size * size, classes=[0, 1], method="osamd", sigma=1e9)
    image = Image(height=size, width=size)
    schema = Schema(title="images", image=image, classes=[NamedClass(name=0), NamedClass(name=1)])
    state = create(tmp_path / "state", learner, schema=schema)
    rows = np.random.default_rng(0).random(size=(500, size * size)).round(3).tolist()
    with Served(state, "from osamd.service import connections\nconnections.SLOWEST_READER = 2.0") as served:
        for start in range(0, 500, 100):
            served.post("/v1/samples", {"samples": [{"features": row} for row in rows[start : start + 100]]})
        unread = [served.connect() for _ in range(60)]
        for one in unread:
            one.sendall(b"GET /v1/queries?limit=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert served.send("GET", "/v1/status").status == 200
        assert resident(served.process.pid) < 600.0  # and not sixty documents of five megabytes, made twice
        for one in unread:
            one.close()


def test_the_benchmark_of_strangers_tells_memory_and_the_longest_wait_of_others(tmp_path):
    told = strangers(tmp_path, bodies=20, heads=50, unread=5)
    assert (told["withheld_bodies"], told["half_heads"], told["unread_answers"]) == (20, 50, 5)
    assert told["memory_for_withheld_bodies_mb"] < 100.0
    for beside in ("withheld_bodies", "half_heads", "unread_answers"):
        assert 0.0 < told[f"wait_beside_{beside}_s"] < 60.0


def test_much_that_is_on_its_way_from_one_address_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bodies, "MOST_OF_ONE", 1000)
    with Web(small_state(tmp_path / "state")) as web:
        assert web.send("POST", "/v1/samples", JSON, b" " * 2000).code == "overloaded"
        assert web.post("/v1/samples", {"features": [1, 2, 3]}).status == 200
        assert not bodies._arriving
