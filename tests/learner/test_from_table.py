"""A learner from a labelled table: frames of every kind, its encoder in its file, samples by name, and batches."""

import datetime
import json
import math

import numpy as np
import pytest

import osamd
from osamd.errors import InputError
from osamd.learner import saving

RNG = np.random.default_rng(0)
pandas = pytest.importorskip("pandas", reason="tables in memory need the extra tables")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")


def columns(count=200):
    """Columns of every kind, with missing values."""
    y = RNG.integers(0, 2, count)
    start = datetime.datetime(2024, 3, 1)
    return {
        "size": [None if i % 9 == 4 else float(x) for i, x in enumerate(RNG.normal(size=count) + 3.0 * y)],
        "colour": [None if i % 7 == 3 else ["red", "green", "blue"][i % 3] for i in range(count)],
        "open": [bool(one) for one in RNG.integers(0, 2, count)],
        "at": [start + datetime.timedelta(hours=5 * i) for i in range(count)],
        "id": list(range(count)),
        "kind": [["ham", "spam"][k] for k in y],
    }


COLUMNS = columns()
FRAMES = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "Arrow": pyarrow.table}
SAMPLE = {"size": 3.2, "colour": "red", "open": True, "at": "2024-05-01 06:00", "id": 7}


def learner(**settings):
    return osamd.OSAMD.from_table(FRAMES["pandas"](COLUMNS), "kind", **{"budget": 0.2, **settings})


def test_every_kind_of_frame_makes_the_same_learner():
    made = [osamd.OSAMD.from_table(make(COLUMNS), "kind", budget=0.2) for make in FRAMES.values()]
    assert made[0].classes == ["ham", "spam"]
    assert made[0].features[:3] == ["size", "colour=(missing)", "colour=blue"]
    assert "id" not in made[0].features
    first = made[0]._saved()
    for other in (one._saved() for one in made[1:]):
        assert other.content == first.content
        assert all(np.array_equal(other.arrays[name], array, equal_nan=True) for name, array in first.arrays.items())


def test_a_file_and_a_pandas_table_with_categories_make_it_too(tmp_path):
    frame = pandas.DataFrame(COLUMNS)
    frame.to_csv(tmp_path / "table.csv", index=False)
    from_file = osamd.OSAMD.from_table(tmp_path / "table.csv", "kind")
    frame["colour"] = frame["colour"].astype("category")
    frame["kind"] = frame["kind"].astype("category")
    typed = osamd.OSAMD.from_table(frame, "kind")
    for sample in (SAMPLE, SAMPLE | {"colour": None, "size": None}):
        assert from_file.predict_proba(sample) == typed.predict_proba(sample)


@pytest.mark.parametrize("kind", FRAMES)
def test_ask_takes_a_dictionary_or_a_frame_of_one_row(kind):
    held = learner()
    frame = FRAMES[kind](COLUMNS)
    for i in (0, 3, 4, 50):
        row = {name: values[i] for name, values in COLUMNS.items()}
        one = frame[i : i + 1] if kind != "Arrow" else frame.slice(i, 1)
        assert held.peek(row).score == held.peek(one).score
    decision = held.ask(SAMPLE)
    held.tell(decision, "spam")
    with pytest.raises(InputError, match="x is a table of 200 rows; give one row at a time"):
        held.ask(frame)


def test_unknown_categories_give_zeros_and_missing_values_are_filled():
    held = learner()
    blank = dict.fromkeys(SAMPLE)
    assert held.peek(blank | {"colour": "violet"}).score == held.peek(blank | {"colour": "pink"}).score
    known = [size for size in COLUMNS["size"] if size is not None]
    filled = held.peek(SAMPLE | {"size": float(np.mean(known))}).score
    assert held.peek(SAMPLE | {"size": None}).score == pytest.approx(filled)
    assert held.peek(SAMPLE | {"size": math.nan}).score == held.peek(SAMPLE | {"size": None}).score
    with pytest.raises(InputError, match=r"`ask\(x=.*: x has no 'colour'; give every column"):
        held.ask({name: value for name, value in SAMPLE.items() if name != "colour"})
    with pytest.raises(InputError, match=r"`predict\(x=.*: 'size' is 'large'; give a number, or None"):
        held.predict(SAMPLE | {"size": "large"})


def test_the_encoder_is_saved_with_the_learner(tmp_path):
    held = learner()
    for i in range(20):
        decision = held.ask(SAMPLE | {"size": float(i % 5)})
        held.tell(decision, ["ham", "spam"][i % 5 > 2] if decision.query else None)
    held.save(tmp_path / "learner.osamd")
    for again in (osamd.OSAMD.load(tmp_path / "learner.osamd"), held.copy(), held.remade(budget=0.1)):
        assert again.features == held.features
        assert again.predict_proba(SAMPLE) == held.predict_proba(SAMPLE)
    assert osamd.OSAMD.load(tmp_path / "learner.osamd")._saved().content == held._saved().content


def test_a_learner_without_an_encoder_is_saved_as_before():
    plain = osamd.OSAMD(features=["a", "b"])
    assert plain.encoder is None
    assert "encoder" not in plain._saved().content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda encoder: encoder["columns"].pop(), "other features than its model"),
        (lambda encoder: encoder["columns"][0].update(kind="magic"), "kind of column 'size' is unknown"),
        (lambda encoder: encoder["columns"][0].update(fill="nan"), "size"),
        (lambda encoder: encoder["columns"][1].update(categories=[1, 2, 3, 4]), "are no texts"),
        (lambda encoder: encoder["columns"][3].update(parts=["hour", "moon"]), "parts of column 'at' are unknown"),
        (lambda encoder: encoder.update(columns="all"), "must be a list"),
        (lambda encoder: encoder.pop("label"), "has no label"),
    ],
)
def test_a_file_with_another_encoder_is_refused_in_a_sentence(change, words):
    arrays, content = learner(keep=["id"])._saved()
    content = json.loads(json.dumps(content))
    change(content["encoder"])
    with pytest.raises(InputError, match=words):
        osamd.OSAMD.from_bytes(saving.packed(saving.Saved(arrays, content)))


def test_batches_are_predicted_as_their_rows_are():
    held = learner()
    rows = [{name: values[i] for name, values in COLUMNS.items()} for i in range(200)]
    one_by_one = [held.predict(row) for row in rows]
    shares = np.array([list(held.predict_proba(row).values()) for row in rows])
    batches = [rows, *(make(COLUMNS) for make in FRAMES.values())]
    for batch in batches:
        assert held.predict(batch).tolist() == one_by_one
        assert np.array_equal(held.predict_proba(batch), shares)
    encoded = np.array([held.encoder.row(row) for row in rows])
    assert held.predict(encoded).tolist() == one_by_one
    assert held.predict(encoded.tolist()).tolist() == one_by_one
    assert held.predict(encoded[:0]).tolist() == []
    assert held.predict_proba(encoded[:0]).shape == (0, 2)
    assert held.rounds == 0


def test_frames_are_taken_by_a_learner_with_names_and_no_encoder_too():
    frame = pandas.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]})
    held = osamd.OSAMD.from_source(frame, [0, 0, 1, 1])
    assert held.ask(frame[2:3]).score == held.peek({"a": 2.0, "b": 1.0}).score
    assert held.predict(frame).tolist() == held.predict(frame.to_numpy()).tolist()
    fresh = osamd.OSAMD()
    fresh.ask(polars.DataFrame({"a": [1.0], "b": [2.0]}))
    assert fresh.features == ["a", "b"]


def test_labels_are_the_values_of_their_column():
    features = {"x": RNG.normal(size=80).tolist()}
    forty = list(range(40)) * 2
    for given, classes in (
        ([True, False] * 40, [False, True]),
        ([0.0, 1.0] * 40, [0, 1]),
        (forty, list(range(40))),
        (["ä", "ß"] * 40, ["ß", "ä"]),
    ):
        for make in FRAMES.values():
            held = osamd.OSAMD.from_table(make(features | {"y": given}), "y")
            assert sorted(held.classes, key=str) == sorted(classes, key=str)
            decision = held.ask({"x": 0.5})
            assert type(decision.label) is type(classes[0])
            held.tell(decision, given[0])
            assert osamd.OSAMD.from_bytes(held.to_bytes()).classes == held.classes


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([0, 1, None, 1] * 10, "10 rows have no label; give a class to every row"),
        ([0.5 + i for i in range(40)], "cut a number into ranges"),
        ([1] * 40, "it holds only '1'"),
    ],
)
def test_labels_that_are_none_or_measured_are_refused(labels, words):
    with pytest.raises(InputError, match=words):
        osamd.OSAMD.from_table(pandas.DataFrame({"x": RNG.normal(size=40), "y": labels}), "y")


def test_a_wrong_label_lists_the_columns_and_settings_reach_the_learner():
    with pytest.raises(InputError, match=r"Did you mean 'kind'\? Its columns: 'kind', "):
        osamd.OSAMD.from_table(pandas.DataFrame(COLUMNS), "knd")
    held = learner(budget=None, method="osamd", max_labels=9)
    assert (held.method, held.limits.max_labels) == ("osamd", 9)
    assert learner(keep=["id"], drop=["size"]).features[-1] == "id"


def test_a_service_made_from_such_a_learner_takes_the_columns_of_the_table(tmp_path):
    pytest.importorskip("fastapi")
    from osamd.service.folder import create

    held = learner()
    state = create(tmp_path / "service", held)
    assert [column.name for column in state.schema.columns] == ["size", "colour", "open", "at"]
    assert np.array_equal(state.schema.row(SAMPLE), held.encoder.row(SAMPLE))
