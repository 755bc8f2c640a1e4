"""Users' tables: what is made of their columns, in every format alike, and how bad ones are refused."""

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from osamd.cli.options import names
from osamd.errors import InputError
from osamd.tables import MISSING, rows
from osamd.tables import row_sources as reading_module

COLOURS = ["red", "green", "blue"]


def mixed(count=300, seed=0):
    """Rows of every kind of column, as a list of dictionaries."""
    generator = np.random.default_rng(seed)
    table = []
    for i in range(count):
        y = int(generator.integers(0, 2))
        table.append(
            {
                "size": None if i % 7 == 3 else round(float(generator.normal() + 2 * y), 4),
                "colour": None if i % 11 == 5 else COLOURS[int(generator.integers(0, 3))],
                "open": bool(generator.integers(0, 2)),
                "seen": f"2024-01-{1 + i % 28:02d}",
                "count": int(generator.integers(0, 50)),
                "kind": ["ham", "spam"][y],
            }
        )
    return table


def as_csv(table, path, delimiter=","):
    names = list(table[0])
    cells = [["" if row[name] is None else str(row[name]) for name in names] for row in table]
    path.write_text("\n".join(delimiter.join(line) for line in [names, *cells]) + "\n")
    return path


def all_rows(table):
    """The source and every block of a `Rows`, in one piece."""
    parts = [table.source, *table.blocks()]
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def read(path, label="kind", **options):
    return all_rows(rows(path, label, **{"warmup": 50, **options}))


def refusal(path, label="kind", **options):
    with pytest.raises(InputError) as refused:
        read(path, label, **options)
    message = str(refused.value)
    if isinstance(path, Path):
        message = message.replace(f"{path.parent}/", "")
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return message


@pytest.fixture
def written(tmp_path):
    def write(text, name="data.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_columns_are_what_their_values_are(tmp_path):
    table = rows(as_csv(mixed(), tmp_path / "data.csv"), "kind", warmup=50)
    assert {column.name: column.kind for column in table.columns} == {
        "size": "numeric",
        "colour": "categorical",
        "open": "boolean",
        "seen": "date",
        "count": "numeric",
    }
    one_hot = ["colour=(missing)", "colour=blue", "colour=green", "colour=red"]
    assert table.features == ["size", *one_hot, "open", "seen.weekday.sin", "seen.weekday.cos", "count"]
    assert table.classes == ["ham", "spam"]
    x, y = all_rows(table)
    truth = mixed()
    assert y.tolist() == [["ham", "spam"].index(row["kind"]) for row in truth]
    assert x[:, 5].tolist() == [float(row["open"]) for row in truth]
    assert x[:, 8].tolist() == [row["count"] for row in truth]
    named = [row["colour"] or "(missing)" for row in truth]
    assert [one_hot[i] for i in x[:, 1:5].argmax(axis=1)] == [f"colour={name}" for name in named]
    assert (x[:, 1:5].sum(axis=1) == 1.0).all()
    assert table.columns[0].missing == sum(row["size"] is None for row in truth)


def test_a_missing_number_is_the_mean_of_those_before_it(written):
    table = written("x,y\n1,a\n?,b\n5,a\n9,b\n,a\nNaN,b\n25,a\ninf,b\n")
    x, _ = read(table, "y", warmup=3)
    # The warm-up rows hold 1 and 5; after them the mean is that of all rows before.
    assert x[:, 0].tolist() == [1.0, 3.0, 5.0, 9.0, 5.0, 5.0, 25.0, 10.0]


@pytest.mark.parametrize("text", sorted(MISSING - {""}))
def test_every_word_for_missing_is_known_in_any_case(text, written):
    table = written(f"x,c,y\n1,u,a\n3,v,b\n{text.upper()}, {text.title()} ,a\n4,u,b\n")
    x, _ = read(table, "y", warmup=3)
    assert x[2].tolist() == [2.0, 1.0, 0.0, 0.0]


def test_a_category_that_was_not_among_the_first_rows_gives_zeros(tmp_path):
    table = mixed(1200)
    table[1100]["colour"] = "violet"
    opened = rows(as_csv(table, tmp_path / "data.csv"), "kind", warmup=50)
    x, _ = all_rows(opened)
    assert x[1100, 1:5].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert opened.columns[1].unseen == 1


def test_many_categories_keep_the_commonest_and_say_so(written):
    lines = [f"id{i},{i % 2}" for i in range(400)] + ["often,0", "often,1"] * 50
    table = rows(written("who,y\n" + "\n".join(lines)), "y", warmup=100)
    assert len(table.features) == 100
    assert "who=often" in table.features
    assert "100 commonest of 401" in table.columns[0].note


def test_codes_that_look_like_numbers_can_be_declared_categories(written):
    table = rows(written("zip,y\n10,a\n20,b\n10,a\n20,b\n"), "y", warmup=2, categorical=["zip"])
    assert table.features == ["zip=10", "zip=20"]


def test_dropped_unnamed_and_empty_columns_are_left_out(written):
    table = rows(written(",a,b,c,y\n0,1,,2,u\n1,3,,4,v\n2,5,,6,u\n"), "y", warmup=2, drop=["c"])
    assert table.features == ["a"]
    assert [column.note for column in table.columns] == [
        "it has no name",
        "",
        "no value in the first 3 rows",
        "dropped",
    ]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["1", "0", "1.0", "0"], [0, 1]),
        (["10", "9", "10", "9"], [9, 10]),
        (["-1", "1", "-1", "1"], [-1, 1]),
        (["01", "1", "01", "1"], ["01", "1"]),
        ([" yes", "no", "yes ", "no"], ["no", "yes"]),
        (["True", "False", "True", "True"], ["False", "True"]),
    ],
)
def test_classes_are_ints_where_all_are_whole_and_text_else(labels, classes, written):
    table = rows(written("x,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels))), "y", warmup=3)
    assert table.classes == classes
    assert len(all_rows(table)[1]) == 4


def test_rows_without_a_label_are_left_out_and_counted(written):
    table = rows(written("x,y\n1,a\n2,\n3,b\n4,?\n5,a\n"), "y", warmup=3)
    x, y = all_rows(table)
    assert x[:, 0].tolist() == [1.0, 3.0, 5.0]
    assert y.tolist() == [0, 1, 0]
    assert table.unlabelled == 2


def test_blocks_do_not_change_what_is_read(tmp_path, monkeypatch):
    path = as_csv(mixed(2500), tmp_path / "data.csv")
    whole = read(path)
    monkeypatch.setattr(reading_module, "BLOCK", 7)
    for one, other in zip(whole, read(path), strict=True):
        assert np.array_equal(one, other)


def test_only_one_block_is_in_memory(written):
    table = rows(written("x,y\n" + "1,a\n2,b\n" * 10_000), "y", warmup=10)
    assert max(len(y) for _, y in table.blocks()) <= reading_module.BLOCK


def test_a_table_is_read_once(written):
    table = rows(written("x,y\n1,a\n2,b\n3,a\n"), "y", warmup=2)
    list(table.blocks())
    with pytest.raises(InputError, match="was read already"):
        list(table.blocks())


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_found(delimiter, tmp_path):
    plain = read(as_csv(mixed(), tmp_path / "data.csv"))
    other = read(as_csv(mixed(), tmp_path / "other.csv", delimiter))
    assert np.array_equal(plain[0], other[0])


def test_quotes_blank_lines_byte_order_marks_and_windows_ends_are_read(written):
    text = '\ufeff\r\n"x, in m",name,y\r\n1,"a ""b"" c",u\r\n\r\n2,"two\r\nlines",v\r\n3,d,u\r\n'
    table = rows(written(text), "y", warmup=2)
    assert table.features == ["x, in m", 'name=a "b" c', "name=d", "name=two\r\nlines"]
    assert len(all_rows(table)[1]) == 3


def test_delimiters_inside_quotes_do_not_count(written):
    table = rows(written('"temp, °C";"vib, g";"l"\n1.5;2;a\n2.5;3;b\n3;4;a\n'), "l", warmup=2)
    assert table.features == ["temp, °C", "vib, g"]


def test_blank_lines_are_no_rows(written, monkeypatch):
    text = "x,y\n" + "\n \n1,a\n\n2,b\n" * 600 + "\n" * 5000
    plain = read(written("x,y\n" + "1,a\n2,b\n" * 600), "y", warmup=1100)
    blank = read(written(text, "blank.csv"), "y", warmup=1100)
    assert np.array_equal(plain[0], blank[0])
    assert np.array_equal(plain[1], blank[1])
    assert "has 1200 rows" in refusal(written(text), "y", warmup=1200)


def test_paths_are_shown_as_they_were_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "data.csv").write_text("x,y\n1,a\n2\n")
    for given, words in (("in/data.csv", "in/data.csv, line 3: "), ("in/no.csv", "in/no.csv: there is no such file")):
        with pytest.raises(InputError) as refused:
            rows(given, "y", warmup=1)
        assert str(refused.value).startswith(words)


def test_every_format_gives_the_same_rows(tmp_path):
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    parquet = pytest.importorskip("pyarrow.parquet")
    table = mixed(1500)
    expected = rows(as_csv(table, tmp_path / "data.csv"), "kind", warmup=50)
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress((tmp_path / "data.csv").read_bytes()))
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n\n" for row in table))
    arrow = pyarrow.Table.from_pylist(table)
    parquet.write_table(arrow, tmp_path / "data.parquet", row_group_size=333)
    dated = pandas.DataFrame(table).assign(seen=lambda t: pandas.to_datetime(t["seen"]))
    nullable = dated.astype({"colour": "category", "count": "Int64", "size": "Float64"})
    x, y = all_rows(expected)
    files = [tmp_path / f"data.{kind}" for kind in ("csv.gz", "jsonl", "parquet")]
    for source in (*files, arrow, dated, nullable, polars.DataFrame(table)):
        found = rows(source, "kind", warmup=50)
        assert found.features == expected.features
        assert found.classes == expected.classes
        again = all_rows(found)
        assert np.array_equal(again[0], x)
        assert np.array_equal(again[1], y)
        assert [column.described() for column in found.columns] == [c.described() for c in expected.columns]


def test_labels_of_any_type_are_the_same_classes(tmp_path):
    pandas = pytest.importorskip("pandas")
    for labels in ([1, 0, 1, 0], [1.0, 0.0, 1.0, 0.0], ["1", "0", "1", "0"]):
        table = rows(pandas.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": labels}), "y", warmup=2)
        assert table.classes == [0, 1]
    table = rows(pandas.DataFrame({"x": [1, 2, 3, 4], "y": [True, False, True, None]}), "y", warmup=2)
    assert table.classes == ["False", "True"]
    assert len(all_rows(table)[1]) == 3


def test_csv_and_jsonl_need_no_other_library(tmp_path):
    as_csv(mixed(), tmp_path / "data.csv")
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mixed()))
    script = (
        "import sys\n"
        "for name in ('pandas', 'polars', 'pyarrow', 'narwhals'): sys.modules[name] = None\n"
        "from osamd.tables import rows\n"
        "print([sum(len(y) for _, y in rows(p, 'kind', warmup=50).blocks()) for p in sys.argv[1:]])\n"
    )
    paths = [str(tmp_path / name) for name in ("data.csv", "data.jsonl")]
    done = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[250, 250]"


@pytest.mark.parametrize("library", ["narwhals", "pyarrow"])
def test_a_missing_library_is_a_sentence_that_names_the_extra(library, tmp_path, monkeypatch):
    (tmp_path / "data.parquet").write_bytes(b"PAR1")
    for name in list(sys.modules):
        if name.split(".")[0] == library:
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    assert "pip install 'osamd[tables]'" in refusal(tmp_path / "data.parquet")


class Pipe(io.BytesIO):
    """Standard input that cannot be read from its end."""

    def seekable(self):
        return False


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_standard_input_is_read_in_every_format(kind, tmp_path, monkeypatch):
    table = mixed()
    expected = read(as_csv(table, tmp_path / "data.csv"))
    if kind == "csv":
        data = (tmp_path / "data.csv").read_bytes()
    elif kind == "jsonl":
        data = "".join(json.dumps(row) + "\n" for row in table).encode()
    else:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        held = io.BytesIO()
        parquet.write_table(pyarrow.Table.from_pylist(table), held)
        data = held.getvalue()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(data)))
    found = read("-", format=None if kind == "csv" else kind)
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


GOOD = "x,c,kind\n" + "1,u,a\n2,v,b\n" * 40


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", {}, "data.csv is empty"),
        ("\n\n", {}, "data.csv is empty"),
        ("x,c,kind\n", {}, "a header and no rows"),
        ("x,c,kind\n1,u,a\n", {}, "data.csv has a single row"),
        (GOOD, {"warmup": 80}, "has 80 rows, and the warm-up takes 80; give a smaller one by warmup=40"),
        (
            GOOD,
            {"label": "knd"},
            "`rows(label='knd')`: data.csv has no such column. Did you mean 'kind'? Its columns: 'kind', ",
        ),
        (GOOD, {"drop": ["see"]}, "`rows(drop=['see'])`: data.csv has no such column"),
        (GOOD, {"drop": ["kind"]}, "`rows(drop=['kind'])`: this is the label"),
        (GOOD, {"drop": ["x", "c"]}, "no column is left to learn from beside 'kind'"),
        (GOOD, {"categorical": ["cc"]}, "`rows(categorical=['cc'])`: data.csv has no such column. Did you mean 'c'?"),
        (GOOD, {"classes": ["a"]}, "give at least two classes"),
        (GOOD, {"classes": ["a", "a"]}, "each once"),
        (GOOD, {"warmup": 0}, "name them by classes=[...]"),
        (GOOD, {"format": "cvs"}, "Did you mean 'csv'?"),
        (GOOD + "3,u\n4,v,b\n", {}, "data.csv, line 82: 2 values, but the header names 3 columns"),
        (GOOD + '\n"3\n",u,a\n4,v,b,9\n', {}, "data.csv, line 85: 4 values"),
        (
            GOOD + "3,u,zebra\n",
            {},
            "line 82: label 'zebra' is not one of the classes 'a', 'b'; name them all by classes=['a', 'b', 'zebra']",
        ),
        (GOOD.replace("b\n", "a\n"), {}, "it holds only 'a' in the first 50 rows"),
        (GOOD.replace("a\n", "\n").replace("b\n", "\n"), {}, "it holds nothing in the first 50 rows"),
        ("x,kind\n" + "".join(f"1,{i}.5\n" for i in range(200)), {"warmup": 150}, "150 values in the first 150 rows"),
        ("x,x,kind\n1,2,a\n", {}, "two columns are called 'x'"),
        ("5,3,5,a\n4,3,1,b\n", {}, "the first line holds values, such as 5; put the column names before it"),
        ("1.5,2,0\n3,4,1\n", {}, "put a line of column names above them"),
        ("x y kind\n1 2 a\n", {}, "only one column is found, 'x y kind'; put a comma, semicolon, tab or | between"),
        (
            "x;kind\n" + "0,84;a\n0,75;b\n1;a\n" * 30,
            {},
            "column 'x' holds numbers such as 0,84; give decimal=',' if the comma is their decimal mark",
        ),
        (
            "x,kind\n" + '1,"a, b"\n2,c\n' * 30 + "3,d\n",
            {},
            "the classes 'a, b', 'c'; name them all by classes=['a, b', 'c', 'd']",
        ),
        ('x,kind\n1,"a\n' + "2,b\n" * 40_000, {}, "look for a quote that is not closed"),
    ],
)
def test_a_bad_csv_is_one_sentence_with_the_remedy(text, options, words, written):
    assert words in refusal(written(text), **options)


def test_a_value_that_is_no_number_any_more_is_refused_with_its_line(written):
    table = written("x,kind\n" + "1,a\n2,b\n" * 600 + "many,a\n")
    message = refusal(table)
    assert "data.csv, line 1202: column 'x' holds 'many'" in message
    assert "categorical=['x'] or drop=['x']" in message
    strange = written('"x, m";kind\n' + "1;a\n2;b\n" * 600 + "many;a\n")
    assert "categorical=['x, m'] or drop=['x, m']" in refusal(strange)
    assert names(['"x, m"']) == ["x, m"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ('{"x": 1, "kind": "a"}\n{"x": 1, \n', "data.jsonl, line 2: this is no JSON"),
        ("[1, 2]\n", "data.jsonl, line 1: an object"),
        ('{"x": [1], "kind": "a"}\n{"x": 1, "kind": "b"}\n' * 60, "column 'x' holds lists or objects"),
        ('{"x": 1, "kind": ["a"]}\n' * 60, "column 'kind' holds lists"),
    ],
)
def test_bad_json_lines_are_one_sentence_with_the_remedy(text, words, written):
    assert words in refusal(written(text, "data.jsonl"))


def test_files_that_cannot_be_read_are_refused(tmp_path):
    for name in ("data.csv", "data"):
        assert f"{name}: there is no such file" in refusal(tmp_path / name)
    for name in ("folder.csv", "folder"):
        (tmp_path / name).mkdir()
        assert f"{name} is a folder; name the file" in refusal(tmp_path / name)
    (tmp_path / "wide.csv").write_text("x,kind\n1,a\n", encoding="utf-16")
    assert "wide.csv is UTF-16 text; give encoding='utf-16', or save it as UTF-8" in refusal(tmp_path / "wide.csv")
    for content in (b"PK\x03\x04\x00\x00\x9c\xff", b"\x00\x01\x00\x01\n"):
        (tmp_path / "sheet.csv").write_bytes(content)
        assert "sheet.csv is no text at all" in refusal(tmp_path / "sheet.csv")
    (tmp_path / "latin.csv").write_bytes(b"x,kind\n1,caf\xe9\n")
    assert "is not UTF-8" in refusal(tmp_path / "latin.csv")
    (tmp_path / "data.xlsx").write_bytes(b"PK")
    assert "name it by format='csv', 'jsonl' or 'parquet'" in refusal(tmp_path / "data.xlsx")
    (tmp_path / "noext").write_text("x")
    assert "format=" in refusal(tmp_path / "noext")
    (tmp_path / "data.csv.gz").write_bytes(b"no gzip")
    assert "cannot read data.csv.gz" in refusal(tmp_path / "data.csv.gz")


def test_a_file_that_is_no_parquet_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "data.parquet").write_text("x,y\n1,2\n")
    assert "is no Parquet file" in refusal(tmp_path / "data.parquet")


def test_what_is_no_table_is_refused():
    polars = pytest.importorskip("polars")
    assert "call .collect() first" in refusal(polars.LazyFrame({"x": [1], "kind": ["a"]}))
    assert "give a path, or a pandas, polars or pyarrow table" in refusal([1, 2, 3])
    assert "column 'x' holds lists" in refusal(polars.DataFrame({"x": [[1]] * 60, "kind": ["a", "b"] * 30}))


def test_two_columns_of_one_name_are_refused_in_a_frame_too():
    pandas = pytest.importorskip("pandas")
    assert "two columns are called 'x'" in refusal(pandas.DataFrame([[1, 2, "a"]] * 60, columns=["x", "x", "kind"]))
