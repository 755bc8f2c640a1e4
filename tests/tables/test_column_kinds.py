"""Ids, counters, names and dates: what is left out, what is kept, and what local formats need."""

import datetime

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.tables import remarks, rows
from osamd.tables.columns import FEWEST_ROWS

RNG = np.random.default_rng(0)


def written(path, columns, delimiter=",", encoding="utf-8"):
    """A CSV file of these columns, with a label that has two classes."""
    columns = columns | {"y": ["a", "b"] * (len(next(iter(columns.values()))) // 2)}
    lines = [list(columns), *zip(*columns.values(), strict=True)]
    path.write_text("\n".join(delimiter.join(map(str, line)) for line in lines) + "\n", encoding=encoding)
    return path


def kinds(table):
    return {column.name: column.kind for column in table.columns}


def opened(path, columns, **options):
    return rows(written(path, {"x": RNG.normal(size=len(next(iter(columns.values())))), **columns}), "y", **options)


COUNTERS = {
    "from one": range(1, 401),
    "downwards": range(400, 0, -1),
    "with gaps": np.cumsum(RNG.integers(1, 50, 400)),
    "seconds since 1970, some twice": 1_700_000_000 + np.sort(RNG.integers(0, 4000, 400)),
    "seconds in steps of a tenth": np.arange(400) / 10,
    "with missing values": ["" if i % 9 == 4 else i for i in range(400)],
}


@pytest.mark.parametrize("name", COUNTERS)
def test_an_id_or_a_counter_is_left_out_with_a_remark_unless_it_is_kept(name, tmp_path):
    table = opened(tmp_path / "data.csv", {"id": list(COUNTERS[name])}, warmup=100)
    assert kinds(table) == {"x": "numeric", "id": "left out"}
    assert table.features == ["x"]
    (said,) = remarks(table.columns)
    assert said.startswith("Column 'id' is left out: its numbers go one way")
    kept = opened(tmp_path / "data.csv", {"id": list(COUNTERS[name])}, warmup=100, keep=["id"])
    assert kinds(kept)["id"] == "numeric"
    assert remarks(kept.columns) == []


REAL = {
    "a measurement that rises": np.cumsum(RNG.exponential(size=400)),
    "a measurement in order": np.sort(RNG.normal(size=400)),
    "ages in order": np.sort(RNG.integers(18, 90, 400)),
    "batches": np.repeat(np.arange(40), 10),
    "a count in any order": RNG.permutation(400),
    "a counter that starts anew": np.tile(np.arange(100), 4),
    "the same number": np.full(400, 7),
}


@pytest.mark.parametrize("name", REAL)
def test_a_feature_that_may_rise_by_its_nature_is_used(name, tmp_path):
    assert kinds(opened(tmp_path / "data.csv", {"z": REAL[name].tolist()}, warmup=100))["z"] == "numeric"


def test_a_table_that_is_too_short_to_show_an_id_keeps_its_columns(tmp_path):
    few = FEWEST_ROWS - 2
    table = opened(tmp_path / "data.csv", {"z": list(range(few)), "c": [f"c{i}" for i in range(few)]}, warmup=6)
    assert kinds(table) == {"x": "numeric", "z": "numeric", "c": "categorical"}


def test_text_that_hardly_ever_repeats_is_left_out_unless_it_is_kept_or_called_categorical(tmp_path):
    names = {"name": [f"customer {i % 190}" for i in range(200)], "town": [f"town {i % 90}" for i in range(200)]}
    table = opened(tmp_path / "data.csv", names, warmup=100)
    assert kinds(table) == {"x": "numeric", "name": "left out", "town": "categorical"}
    assert "190 of its first 200 texts are different" in remarks(table.columns)[0]
    for wish in ("keep", "categorical"):
        assert kinds(opened(tmp_path / "data.csv", names, warmup=100, **{wish: ["name"]}))["name"] == "categorical"


def test_the_first_rows_decide_once_whatever_comes_later(tmp_path):
    falls_later = [*range(1000), *range(1000)]
    table = opened(tmp_path / "data.csv", {"id": falls_later}, warmup=100)
    assert kinds(table)["id"] == "left out"
    assert sum(len(y) for _, y in table.blocks()) == 1900
    rises_later = [3, 1, *range(2, 2000)]
    assert kinds(opened(tmp_path / "data.csv", {"id": rises_later}, warmup=100))["id"] == "numeric"


def test_where_only_ids_are_left_the_remedy_is_to_keep_them(tmp_path):
    path = written(tmp_path / "data.csv", {"id": list(range(100))})
    with pytest.raises(InputError, match=r"no column is left .* or keep=\['id'\]\.$"):
        rows(path, "y", warmup=50)
    with pytest.raises(InputError, match=r"`rows\(keep=\['idd'\]\)`: .* Did you mean 'id'"):
        rows(path, "y", warmup=50, keep=["idd"])
    with pytest.raises(InputError, match="dropped or kept"):
        rows(path, "y", warmup=50, keep=["id"], drop=["id"])


def hourly(count):
    start = datetime.datetime(2024, 1, 1)
    return [start + datetime.timedelta(hours=7 * i) for i in range(count)]


FORMS = {
    "ISO": "%Y-%m-%dT%H:%M:%S",
    "ISO with a zone": "%Y-%m-%dT%H:%M:%SZ",
    "a space": "%Y-%m-%d %H:%M",
    "German": "%d.%m.%Y %H:%M",
    "German, short": "%d.%m.%y %H:%M",
    "British": "%d/%m/%Y %H:%M",
    "American": "%m/%d/%Y %I:%M %p",
    "with the name of the month": "%d %b %Y %H:%M",
    "American, with a name": '"%B %d, %Y %H:%M"',
    "of a mail": '"%a, %d %b %Y %H:%M:%S GMT"',
}


@pytest.mark.parametrize("form", FORMS)
def test_every_common_form_of_a_date_gives_the_same_parts(form, tmp_path):
    times = hourly(300)
    table = opened(tmp_path / "data.csv", {"at": [one.strftime(FORMS[form]) for one in times]}, warmup=200)
    assert table.features == ["x", "at.hour.sin", "at.hour.cos", "at.weekday.sin", "at.weekday.cos"]
    x = np.concatenate([table.source[0], *(x for x, _ in table.blocks())])
    turns = 2 * np.pi * np.array([[one.hour / 24, one.weekday() / 7] for one in times])
    waves = [np.sin(turns[:, 0]), np.cos(turns[:, 0]), np.sin(turns[:, 1]), np.cos(turns[:, 1])]
    assert np.abs(x[:, 1:] - np.column_stack(waves)).max() < 1e-12


def test_dates_of_a_frame_give_the_same_parts_as_their_text(tmp_path):
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    pytest.importorskip("narwhals")
    columns = {"at": hourly(300), "y": ["a", "b"] * 150}
    text = written(tmp_path / "data.csv", {"at": columns["at"]})
    expected = rows(text, "y", warmup=200).source[0]
    for make in (pandas.DataFrame, polars.DataFrame, pyarrow.table):
        assert np.array_equal(rows(make(columns), "y", warmup=200).source[0], expected)


def test_parts_that_do_not_come_round_are_left_out(tmp_path):
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(800)]
    for count, parts in ((6, None), (30, ("weekday",)), (800, ("weekday", "season"))):
        table = opened(tmp_path / "data.csv", {"day": [str(one) for one in days[:count]]}, warmup=count // 2)
        (column,) = table.columns[1:]
        assert (column.kind == "left out") == (parts is None)
        assert column.parts == (parts or ())
    assert (
        "neither the hour nor the weekday"
        in opened(tmp_path / "data.csv", {"day": ["2024-01-01"] * 40}, warmup=20).columns[1].note
    )


def test_times_of_day_are_used_where_they_fall_back(tmp_path):
    minutes = [f"{i // 60:02d}:{i % 60:02d}" for i in range(0, 1440, 12)]
    assert kinds(opened(tmp_path / "data.csv", {"t": minutes * 2}, warmup=50))["t"] == "date"
    assert kinds(opened(tmp_path / "data.csv", {"t": minutes}, warmup=50))["t"] == "left out"


def test_a_missing_date_is_in_the_middle_of_its_circles_and_another_value_is_refused(tmp_path):
    times = [str(one) for one in hourly(1200)]
    times[10] = "?"
    table = opened(tmp_path / "data.csv", {"at": times}, warmup=200)
    assert table.source[0][10, 1:].tolist() == [0.0] * 4
    assert table.columns[1].missing == 1
    times[1100] = "soon"
    table = opened(tmp_path / "data.csv", {"at": times}, warmup=200)
    with pytest.raises(InputError, match="line 1102: column 'at' holds 'soon', and the first rows held dates"):
        list(table.blocks())


GERMAN = {"betrag": ["1.234,5", "-7", "0,25", "1.000.000,75"] * 25, "größe": ["1,5", "2,25"] * 50}


def test_decimal_commas_and_encodings_are_read_where_they_are_named(tmp_path):
    path = written(tmp_path / "data.csv", GERMAN, delimiter=";", encoding="latin-1")
    table = rows(path, "y", warmup=50, decimal=",", encoding="latin-1")
    assert table.features == ["betrag", "größe"]
    assert table.source[0][:4].tolist() == [[1234.5, 1.5], [-7.0, 2.25], [0.25, 1.5], [1000000.75, 2.25]]
    wide = written(tmp_path / "wide.csv", GERMAN, delimiter=";", encoding="utf-16")
    assert np.array_equal(rows(wide, "y", warmup=50, decimal=",", encoding="utf-16").source[0], table.source[0])


@pytest.mark.parametrize(
    ("encoding", "options", "words"),
    [
        ("latin-1", {}, "is not UTF-8 text .*; give encoding='latin-1'"),
        ("utf-8", {}, r"column 'betrag' holds numbers such as 1\.234,5; give decimal=','"),
        ("utf-8", {"encoding": "latn-1"}, r"`rows\(encoding='latn-1'\)`: there is no such encoding"),
        ("utf-8", {"encoding": "hex"}, "there is no such encoding"),
        ("utf-8", {"decimal": ";"}, "the decimal mark is decimal='.' or decimal=','"),
        ("latin-1", {"encoding": "ascii"}, "is not ASCII text"),
    ],
)
def test_local_formats_are_refused_with_their_remedy(encoding, options, words, tmp_path):
    path = written(tmp_path / "data.csv", GERMAN, delimiter=";", encoding=encoding)
    with pytest.raises(InputError, match=words):
        rows(path, "y", warmup=50, **options)


def test_thousands_in_groups_name_the_remedy_too(tmp_path):
    path = written(tmp_path / "data.csv", {"x": ["1.234.567", "2.000.000"] * 30})
    with pytest.raises(InputError, match=r"such as 1\.234\.567; give decimal=','"):
        rows(path, "y", warmup=50)
    assert rows(path, "y", warmup=50, decimal=",").source[0][0] == 1_234_567.0
    path = written(tmp_path / "data.csv", {"x": ['"1,234.5"', '"2,000.0"'] * 30})
    with pytest.raises(
        InputError, match=r"such as 1,234\.5, which decimal='\.' does not fit; write all numbers with a decimal point"
    ):
        rows(path, "y", warmup=50)


def test_a_point_is_no_decimal_mark_where_the_comma_is(tmp_path):
    for numbers in (["1,5", "2.5"] * 30, ["1.5", "2.5"] * 30):
        path = written(tmp_path / "data.csv", {"x": numbers}, delimiter=";")
        with pytest.raises(InputError, match="which decimal=',' does not fit"):
            rows(path, "y", warmup=50, decimal=",")
    path = written(tmp_path / "data.csv", {"x": ["1,5", "2,5"] * 600 + ["1,5", "2.5"]}, delimiter=";")
    with pytest.raises(InputError, match=r"column 'x' holds '2\.5', and the first rows held numbers"):
        list(rows(path, "y", warmup=50, decimal=",").blocks())


def test_settings_of_text_are_refused_for_tables_that_are_none(tmp_path):
    lines = tmp_path / "data.jsonl"
    lines.write_text('{"x": 1, "y": "ä"}\n{"x": 2, "y": "b"}\n' * 20, encoding="latin-1")
    assert rows(lines, "y", warmup=10, encoding="latin-1").classes == ["b", "ä"]
    with pytest.raises(InputError, match=r"`rows\(decimal=','\)`: it has no effect on JSON lines"):
        rows(lines, "y", warmup=10, decimal=",")
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="no effect on a table in memory"):
        rows(pandas.DataFrame({"x": [1, 2], "y": [0, 1]}), "y", warmup=1, encoding="latin-1")


def test_a_missing_label_lists_the_columns_and_a_wrong_one_the_nearest_first(tmp_path):
    path = written(tmp_path / "data.csv", {"alpha": [1, 2], "Beta": [1, 2], "gamma": [1, 2]})
    with pytest.raises(InputError, match="Its columns: 'alpha', 'Beta', 'gamma', 'y'"):
        rows(path, None)
    with pytest.raises(InputError, match=r"Did you mean 'Beta'\? Its columns: 'Beta', 'alpha', 'gamma', 'y'"):
        rows(path, "beta")
    wide = written(tmp_path / "wide.csv", {f"c{i}": [1, 2] for i in range(40)})
    with pytest.raises(InputError, match="and 21 more"):
        rows(wide, None)


@pytest.mark.parametrize(
    ("label", "words"),
    [([0.1 * i + 0.03 for i in range(60)], "cut a number into ranges"), (["1.5", "2.5", "3.5"] * 20, None)],
)
def test_measured_labels_are_refused_and_a_few_fractions_are_classes(label, words, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("x,y\n" + "".join(f"{x:.3f},{y}\n" for x, y in zip(RNG.normal(size=60), label, strict=True)))
    if words is None:
        assert rows(path, "y", warmup=30).classes == ["1.5", "2.5", "3.5"]
    else:
        with pytest.raises(InputError, match=words):
            rows(path, "y", warmup=30)


def test_a_sample_by_name_is_encoded_as_its_row_of_the_table(tmp_path):
    columns = {
        "size": [f"{x:.3f}" if i % 5 else "" for i, x in enumerate(RNG.normal(size=200))],
        "colour": [["red", "blue", ""][i % 3] for i in range(200)],
        "open": [["true", "false"][i % 2] for i in range(200)],
        "at": [str(one) for one in hourly(200)],
        "id": list(range(200)),
    }
    table = rows(written(tmp_path / "data.csv", columns), "y", warmup=199)
    for i in (0, 1, 2, 7, 15):
        sample = {name: values[i] for name, values in columns.items()}
        close = np.abs(table.row(sample) - table.source[0][i])
        assert close[table.features.index("size")] < 0.2  # the mean has one row more by now
        assert np.delete(close, table.features.index("size")).max() == 0.0
    blank = dict.fromkeys(columns)
    assert np.array_equal(table.row(blank | {"colour": "green"}), table.row(blank | {"colour": "violet", "y": "a"}))
    with pytest.raises(InputError, match=r"`row\(sample=\.\.\.\)`: x has no 'colour'; give every column"):
        table.row({name: None for name in columns if name != "colour"})
    with pytest.raises(InputError, match="'at' is 'soon'; give a date or time"):
        table.row(blank | {"at": "soon"})
