"""Samples as Arrow: decided as those in JSON are, and refused in a sentence where they are not as the schema says."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from engine_cases import row
from http_cases import ServedHere, Web, small_state

import osamd
from osamd.client import Client, ServiceError
from osamd.service.arrow import MEDIA_TYPE, samples
from osamd.service.folder import create
from osamd.service.schema import NamedClass, SampleColumn, Schema

pa = pytest.importorskip("pyarrow", reason="Arrow needs pyarrow: pip install 'osamd[tables]'")
ARROW = [("content-type", MEDIA_TYPE)]


def stream(table):
    held = pa.BufferOutputStream()
    with pa.ipc.new_stream(held, table.schema) as out:
        out.write_table(table)
    return held.getvalue().to_pybytes()


def lists(rows):
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(rows)), len(rows[0]) if rows else 3)


def test_arrow_and_json_are_decided_alike(tmp_path):
    rows = [row(n).tolist() for n in range(60)]
    with Web(small_state(tmp_path / "json")) as web:
        samples = [{"features": one, "id": f"id-{n}"} for n, one in enumerate(rows)]
        told = web.post("/v1/samples", {"samples": samples}).json()["decisions"]
    ids = [f"id-{n}" for n in range(60)]
    by_name = {f"x{i + 1}": [one[i] for one in rows] for i in range(3)}
    for table in (pa.table({"id": ids, "features": lists(rows)}), pa.table(by_name | {"id": ids})):
        with Web(small_state(tmp_path / f"arrow{table.num_columns}")) as web:
            answer = web.send("POST", "/v1/samples/arrow", ARROW, stream(table))
            assert (answer.status, answer.header("content-type")) == (200, MEDIA_TYPE)
            found = pa.ipc.open_stream(answer.body).read_all().to_pylist()
            again = web.send("POST", "/v1/samples/arrow", ARROW, stream(table))
            assert again.body == answer.body  # by the ids
            assert web.get("/v1/status").json()["rounds"] == 60
        for one, other in zip(found, told, strict=True):
            assert {name: one[name] for name in ("round", "label", "margin", "query")} == {
                name: other[name] for name in ("round", "label", "margin", "query")
            }
            assert one["probability"] == other["probabilities"][one["label"]]
            assert one["error"] is None


def test_a_repeated_batch_and_samples_refused_inside_one_keep_their_places(tmp_path):
    """The answer is put together from samples that are new, known and refused."""
    rows = [row(n).tolist() for n in range(200)]
    rows[150] = [1e9] * 3
    ids = [f"id-{n}" if n % 2 else None for n in range(200)]

    def sent(web, chosen):
        table = pa.table({"id": [ids[n] for n in chosen], "features": lists([rows[n] for n in chosen])})
        answer = web.send("POST", "/v1/samples/arrow", ARROW, stream(table))
        return pa.ipc.open_stream(answer.body).read_all().to_pylist()

    with Web(small_state(tmp_path / "state")) as web:
        assert sent(web, []) == []
        first = sent(web, [1, 3, 5])
        found = sent(web, range(200))
        assert [found[n] for n in (1, 3, 5)] == first
        assert [one["error"] for one in found] == [None] * 150 + ["wild"] + [None] * 49
        assert found[150]["round"] is None
        rounds = [one["round"] for n, one in enumerate(found) if n not in (1, 3, 5, 150)]
        assert rounds == list(range(3, 199))
        assert any(one["query"] for one in found)
        assert [one for one in sent(web, range(1, 200, 2)) if one["round"] is not None] == found[1::2]


def test_categories_and_gaps_come_by_their_names(tmp_path):
    columns = [
        SampleColumn(name="amount", fill=3.0),
        SampleColumn(name="country", kind="categorical", categories=["de", "fr"]),
    ]
    learner = osamd.OSAMD(features=3, classes=["no", "yes"], method="osamd", sigma=1e9)
    classes = [NamedClass(name="no"), NamedClass(name="yes")]
    state = create(tmp_path / "state", learner, schema=Schema(columns=columns, classes=classes))
    with Web(state) as web:
        table = pa.table({"amount": pa.array([1.5, None]), "country": ["pt", "de"]})
        assert web.send("POST", "/v1/samples/arrow", ARROW, stream(table)).status == 200
        shown = [one["features"] for one in web.get("/v1/queries").json()["queries"]]
        assert [[one["value"] for one in features] for features in shown] == [[1.5, "pt"], [None, "de"]]
        refused = web.send("POST", "/v1/samples/arrow", ARROW, stream(pa.table({"features": lists([[1.0, 2.0, 3.0]])})))
        assert refused.code == "invalid"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing",
        stream(pa.table({"features": lists([[1.0, 2.0]])})),
        stream(pa.table({"features": lists([[1.0, np.nan, 2.0]])})),
        stream(pa.table({"features": pa.array([[1.0, 2.0, 3.0], None])})),
        stream(pa.table({"features": pa.array([[1.0, 2.0], [3.0, 4.0, 5.0, 6.0]])})),
        stream(pa.table({"features": ["a"]})),
        stream(pa.table({"x1": [1.0], "x2": [1.0]})),
        stream(pa.table({"id": ["a b"], "features": lists([[1.0, 2.0, 3.0]])})),
        stream(pa.table({"id": [5], "features": lists([[1.0, 2.0, 3.0]])})),
    ],
)
def test_what_is_not_as_the_schema_says_is_refused_and_nothing_is_done(tmp_path, body):
    with Web(small_state(tmp_path / "state")) as web:
        answer = web.send("POST", "/v1/samples/arrow", ARROW, body)
        assert (answer.status, answer.code) == (422, "invalid")
        assert web.get("/v1/status").json()["rounds"] == 0


def test_arrow_is_told_by_its_type_and_bounded_as_json_is(tmp_path):
    with Web(small_state(tmp_path / "state", limits={"max_batch": 5})) as web:
        body = stream(pa.table({"features": lists([[1.0, 2.0, 3.0]] * 6)}))
        assert web.send("POST", "/v1/samples/arrow", ARROW, body).code == "too-large"
        json = [("content-type", "application/json")]
        assert web.send("POST", "/v1/samples/arrow", json, body).code == "unsupported-media-type"
        assert web.send("POST", "/v1/samples", ARROW, body).code == "unsupported-media-type"


def test_the_client_sends_tables_and_frames(tmp_path):
    with ServedHere(small_state(tmp_path / "state")) as served, Client(served.url) as client:
        table = pa.table({f"x{i}": [1.0, 2.0] for i in (1, 2, 3)})
        assert client.decide_table(table)["round"].to_pylist() == [0, 1]
        assert client.decide_table(table.to_pandas())["round"].to_pylist() == [2, 3]
        with pytest.raises(ServiceError, match="invalid"):
            client.decide_table(pa.table({"x1": [1.0]}))


def test_dates_are_taken_as_json_would_send_them():
    dates = SampleColumn(name="at", kind="date", parts=["hour"])
    schema = Schema(columns=[dates], classes=[NamedClass(name=0), NamedClass(name=1)])
    table = pa.table({"at": [datetime.datetime(2024, 1, 1, 6), None]})
    batch = samples(stream(table), schema)
    assert batch.rows.round(12).tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert batch.displays[0].raw == {"at": "2024-01-01T06:00:00"}
