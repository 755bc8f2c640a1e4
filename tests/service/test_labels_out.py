"""Labels out, samples in: what people answered comes out whole, and the rows of a file go in once."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from http_cases import ServedHere, Web

import osamd
from osamd.cli.app import main
from osamd.client import Client
from osamd.service import sending
from osamd.service.folder import create
from osamd.service.schema import NamedClass, SampleColumn, Schema

SCHEMA = Schema(
    title="Fraud",
    columns=[
        SampleColumn(name="amount", unit="EUR", fill=3.0),
        SampleColumn(name="label", kind="boolean", fill=0.0),
        SampleColumn(name="country", kind="categorical", categories=["de", "fr"]),
    ],
    classes=[NamedClass(name="no"), NamedClass(name="yes")],
    ignored=["note"],
)


@pytest.fixture
def state(tmp_path):
    """A service that asks for every label, and has a column whose name is one of the export's own."""
    learner = osamd.OSAMD(features=4, classes=["no", "yes"], method="osamd", sigma=1e9)
    return create(tmp_path / "state", learner, schema=SCHEMA)


def fill(web):
    """Five queries: one answered, one by none, one corrected, one waiting, one expired."""
    for number in range(5):
        sample = {"amount": 1.5 * number, "label": True, "country": "pt", "note": "called, twice"}
        web.post("/v1/samples", {"features": sample, "id": f"order-{number}", "display": {"text": "Hello"}})
    web.post("/v1/labels", {"round": 0, "label": "yes", "holder": "tab"})
    web.post("/v1/queries/1/none", {"holder": "tab"})
    web.post("/v1/labels", {"round": 2, "label": "no"})
    web.post("/v1/corrections", {"round": 2, "label": "yes", "holder": "chief"})
    web.post("/v1/queries/4/expire", {})


def test_every_answered_query_comes_out_with_sample_decision_label_who_and_when(state):
    with Web(state) as web:
        fill(web)
        rows = [json.loads(line) for line in web.get("/v1/labels").body.splitlines()]
        decided = web.post(
            "/v1/samples", {"features": {"amount": 0, "label": True, "country": "pt"}, "id": "new"}
        ).json()
        assert set(decided["probabilities"]) == {"no", "yes"}
    assert [(row["round"], row["answer"], row["label"], row["learned"]) for row in rows] == [
        (0, "label", "yes", "yes"),
        (1, "none", None, None),
        (2, "corrected", "yes", "no"),
    ]
    first = rows[0]
    assert (first["id"], first["who"], first["amount"], first["country"]) == ("order-0", "local/tab", 0.0, "pt")
    assert (first["label_"], first["note"], first["text"]) == (True, "called, twice", "Hello")
    assert first["asked_at"] <= first["answered_at"]
    assert 0.0 < first["probability"] <= 1.0
    assert rows[2]["who"] == "local/chief"


def test_labels_go_on_after_the_last_one_known(state):
    with Web(state) as web:
        fill(web)
        first, *rest = [json.loads(line) for line in web.get("/v1/labels").body.splitlines()]
        again = web.get(f"/v1/labels?after={first['seq']}").body
        assert [json.loads(line) for line in again.splitlines()] == rest
        assert web.get("/v1/labels?after=-1").code == "invalid"
        assert web.get("/v1/labels?format=xml").code == "invalid"


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_the_command_and_the_route_tell_the_same(state, form, tmp_path, capsys):
    with Web(state) as web:
        fill(web)
        served = web.get(f"/v1/labels?format={form}").body
        place = tmp_path / f"labels.{form}"
        assert main(["export", str(state.folder), str(place), "--labels"]) == 0
        assert "3 labels" in capsys.readouterr().out
    if form == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        assert parquet.read_table(io.BytesIO(served)).equals(parquet.read_table(place))
        assert parquet.read_table(place).column("label").to_pylist() == ["yes", None, "yes"]
    else:
        assert place.read_bytes() == served
    if form == "csv":
        told = list(csv.DictReader(io.StringIO(served.decode())))
        assert [row["label"] for row in told] == ["yes", "", "yes"]


def test_no_labels_are_an_empty_table(state, tmp_path):
    with Web(state) as web:
        assert web.get("/v1/labels").body == b""
        assert web.get("/v1/labels?format=csv").body.startswith(b"seq,round,id,")
        assert web.get("/v1/labels?format=parquet").body.startswith(b"PAR1")
    assert main(["export", str(state.folder), str(tmp_path / "labels.txt"), "--labels"]) == 2


# Samples in.


def table_of(tmp_path, number):
    place = tmp_path / "today.csv"
    lines = [f"{i}.5,{'True' if i % 2 else 'False'},{['de', 'xx'][i % 2]},,extra\n" for i in range(number)]
    place.write_text("amount,label,country,note,unknown\n" + "".join(lines))
    return place


PLAIN = sending.SpecialColumns()


def test_the_rows_of_a_file_are_sent_as_the_table_has_them_and_once(state, tmp_path, capsys):
    place = table_of(tmp_path, 40)
    with ServedHere(state) as served:
        assert main(["send", str(place), "--url", served.url, "--batch", "7"]) == 0
        assert "Sent 40 rows: 40 labels are asked for." in capsys.readouterr().out
        query = served.get("/v1/queries?limit=2")["queries"][1]
        assert {one["name"]: one["value"] for one in query["features"]} == {
            "amount": 1.5,
            "label": True,
            "country": "xx",
            "note": None,
        }
        assert main(["send", str(place), "--url", served.url]) == 0
        assert "(40 of them earlier): 0 labels" in capsys.readouterr().out
        table_of(tmp_path, 45)  # rows are appended
        assert main(["send", str(place), "--url", served.url]) == 0
        place.with_name("today.csv.sent").unlink()  # and where that is lost, the ids see to it
        assert main(["send", str(place), "--url", served.url]) == 0
        assert served.get("/v1/status")["rounds"] == 45


def test_a_file_that_broke_off_goes_on_where_it_was(state, tmp_path, monkeypatch):
    place = table_of(tmp_path, 30)
    with ServedHere(state) as served, Client(served.url) as client:
        real, calls = client.decide_many, []

        def breaks(*arguments, **given):
            calls.append(1)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return real(*arguments, **given)

        monkeypatch.setattr(client, "decide_many", breaks)
        with pytest.raises(KeyboardInterrupt):
            sending.send(place, client, PLAIN, batch=7)
        sent = sending.send(place, client, sending.SpecialColumns(text="country"), batch=7)
        assert (sent.rows, sent.before, sent.asked) == (30, 14, 16)
        assert served.get("/v1/status")["rounds"] == 30
        assert client.queries(limit=100)[-1]["display"]["text"] == "xx"


def test_a_file_that_cannot_be_sent_is_one_sentence(state, tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_text("{no json\n")
    (tmp_path / "empty.csv").write_text("a,b\n")
    place = table_of(tmp_path, 3)
    with ServedHere(state) as served:
        for name, told in (
            ("bad.jsonl", "line 1: this is no JSON"),
            ("empty.csv", "it has no rows"),
            ("no.csv", "there is no such file"),
        ):
            assert main(["send", str(tmp_path / name), "--url", served.url]) == 2
            assert told in capsys.readouterr().err
        for option in ("--text", "--id"):
            assert main(["send", str(place), "--url", served.url, option, "nothing"]) == 2
            assert f"`{option} nothing`: there is no such column" in capsys.readouterr().err
        (tmp_path / "a.txt").write_text("amount,label\n1,2\n")
        assert main(["send", str(tmp_path / "a.txt"), "--url", served.url]) == 2
        assert "name it by --format csv" in capsys.readouterr().err
        assert main(["send", "-", "--url", served.url]) == 2
        assert "write the rows into one" in capsys.readouterr().err
    assert main(["send", str(place), "--url", "http://127.0.0.1:9"]) == 2
    assert "does not respond" in capsys.readouterr().err


def test_a_file_is_read_as_run_reads_it_with_its_delimiter_decimal_mark_and_encoding(state, tmp_path, capsys):
    place = tmp_path / "heute.csv"
    rows = "1.234,5;true;de;Müller\n?;false;fr;Weiß\nviel;true;de;\n"
    place.write_bytes(("amount;label;country;note\n" + rows).encode("cp1252"))
    with ServedHere(state) as served:
        command = ["send", str(place), "--url", served.url]
        assert main(command) == 2
        assert "give --encoding latin-1" in capsys.readouterr().err
        command += ["--encoding", "cp1252", "--decimal", ",", "--batch", "2"]
        assert main(command) == 2
        assert "row 3: the column 'amount' is 'viel'" in capsys.readouterr().err
        place.write_bytes(place.read_bytes().replace(b"viel", b"-7"))
        assert main(command) == 0
        assert "Sent 3 rows (2 of them earlier): 1 labels are asked for." in capsys.readouterr().out
        first, second, _ = served.get("/v1/queries")["queries"]
        sent = [{one["name"]: one["value"] for one in query["features"]} for query in (first, second)]
        assert sent == [
            {"amount": 1234.5, "label": True, "country": "de", "note": "Müller"},
            {"amount": None, "label": False, "country": "fr", "note": "Weiß"},
        ]


def test_the_client_reads_labels_and_corrects(state):
    with ServedHere(state) as served, Client(served.url) as client:
        rows = np.random.default_rng(0).normal(size=3)
        told = [client.decide({"amount": x, "label": 1, "country": "de"}, display={"text": "t"}) for x in rows]
        client.tell("yes", round=told[0]["round"])
        assert client.correct("no", round=told[0]["round"])["status"] == "corrected"
        assert [(row["label"], row["learned"], row["text"]) for row in client.labels()] == [("no", "yes", "t")]
