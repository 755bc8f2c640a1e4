"""The schema: records become the rows that a table gives, come back as they were, and a fault names its column."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from osamd.errors import InputError
from osamd.service.inferred_schema import of_learner, of_table
from osamd.service.schema import LARGEST, Image, NamedClass, SampleColumn, Schema

CLASSES = [NamedClass(name="cat"), NamedClass(name="dog")]

MIXED = Schema(
    columns=[
        SampleColumn(name="heat", unit="K"),
        SampleColumn(name="on", kind="boolean", fill=0.25),
        SampleColumn(name="city", kind="categorical", categories=["Bonn", "3", "(missing)"]),
        SampleColumn(name="load", fill=-1.5),
    ],
    classes=CLASSES,
    ignored=["when"],
)

law = settings(derandomize=True, deadline=None, max_examples=60)
reals = st.floats(-LARGEST, LARGEST)


def refused(schema, sample, match):
    with pytest.raises(InputError, match=match) as error:
        schema.row(sample)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


# Records in


def test_a_record_is_a_row_of_features_by_names_or_in_order():
    row = [300.5, 1.0, 0.0, 1.0, 0.0, 7.0]
    assert MIXED.features == len(row)
    assert MIXED.row({"load": 7, "city": "3", "on": True, "heat": 300.5}).tolist() == row
    assert MIXED.row([300.5, True, "3", 7]).tolist() == row
    assert MIXED.row([300.5, 1, 3, 7.0]).tolist() == row
    assert MIXED.row([300.5, 1.0, 3.0, 7.0]).tolist() == row
    assert MIXED.row((300.5, True, "3", 7)).dtype == np.float64


def test_what_is_missing_is_filled_where_the_schema_says_so():
    assert MIXED.row([1.0, None, None, None]).tolist() == [1.0, 0.25, 0.0, 0.0, 1.0, -1.5]
    refused(MIXED, [None, True, "3", 1.0], "the column 'heat' is missing")


def test_a_category_without_a_feature_gives_zeros():
    assert MIXED.row([1.0, True, "Rome", 0.0]).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    none = Schema(columns=[SampleColumn(name="c", kind="categorical", categories=["a", "b"])], classes=CLASSES)
    assert none.row([None]).tolist() == [0.0, 0.0]


def test_columns_that_are_ignored_may_come_and_unknown_ones_may_not():
    whole = {"heat": 1.0, "on": False, "city": "Bonn", "load": 2.0}
    assert MIXED.row(whole | {"when": "today"}).tolist() == MIXED.row(whole).tolist()
    refused(MIXED, whole | {"where": 1}, "has a column 'where', which the schema does not know")
    refused(MIXED, whole | {"when": "today", "where": 1}, "'where'")


@pytest.mark.parametrize(
    ("sample", "match"),
    [
        ({"heat": 1.0}, "has no 'on', 'city', 'load'; give every column"),
        ({}, "has no 'heat', 'on', 'city' and 1 more"),
        ({"heat": 1.0, "on": True, "city": "Bonn", "when": 1}, "has no 'load'"),
        ([], "has 4 columns, and this one has 0"),
        ([1.0, True, "Bonn"], "has 4 columns, and this one has 3"),
        ([1.0] * 6, "has 4 columns, and this one has 6"),
        (["warm", True, "Bonn", 1.0], "'heat' is 'warm'"),
        (["1.5", True, "Bonn", 1.0], "'heat' is '1.5'"),
        ([True, True, "Bonn", 1.0], "'heat' is True"),
        ([1.0, 2, "Bonn", 1.0], "'on' is 2; give true"),
        ([1.0, "true", "Bonn", 1.0], "'on' is 'true'"),
        ([math.nan, True, "Bonn", 1.0], "finite"),
        ([math.inf, True, "Bonn", 1.0], "finite"),
        ([1e101, True, "Bonn", 1.0], "at most 1e\\+100"),
        ([10**400, True, "Bonn", 1.0], "at most 1e\\+100"),
        (["x" * 5000, True, "Bonn", 1.0], "'heat' is 'xxx"),
    ],
)
def test_a_fault_names_its_column_in_one_short_sentence(sample, match):
    refused(MIXED, sample, match)
    with pytest.raises(InputError) as error:
        MIXED.row(sample)
    assert len(str(error.value)) < 250


@given(st.lists(reals, min_size=3, max_size=3))
@law
def test_plain_numbers_are_the_row_to_the_last_bit(values):
    schema = of_learner([0, 1], 3, "plain")
    assert schema.row(values).tobytes() == np.array(values).tobytes()
    assert schema.row(dict(zip(["x1", "x2", "x3"], values, strict=True))).tobytes() == np.array(values).tobytes()


@given(st.lists(st.floats() | st.integers(-(10**320), 10**320) | st.none() | st.booleans() | st.text(), max_size=5))
@law
def test_whatever_comes_is_a_finite_row_or_a_sentence(values):
    for schema in (MIXED, of_learner([0, 1], 3, "plain"), Schema(image=Image(height=1, width=3), classes=CLASSES)):
        try:
            row = schema.row(values)
        except InputError:
            continue
        assert row.shape == (schema.features,)
        assert np.isfinite(row).all()


# And out again


@given(reals, st.booleans(), st.sampled_from(["Bonn", "3", "(missing)"]), reals)
@law
def test_people_see_what_came(heat, on, city, load):
    shown = MIXED.shown(MIXED.row([heat, on, None if city == "(missing)" else city, load]))
    assert [one["value"] for one in shown] == [heat, on, city, load]
    assert [one["name"] for one in shown] == ["heat", "on", "city", "load"]
    assert [one["unit"] for one in shown] == ["K", "", "", ""]
    assert [type(one["value"]) for one in shown] == [float, bool, str, float]


def test_people_see_what_was_filled_in_and_that_a_category_is_another():
    shown = MIXED.shown(MIXED.row([1.0, None, "Rome", None]))
    assert [one["value"] for one in shown] == [1.0, 0.25, "(other)", -1.5]


@given(st.lists(st.floats(-1e6, 1e6), min_size=12, max_size=12))
@law
def test_an_image_is_shown_from_black_to_white(values):
    schema = Schema(image=Image(height=2, width=2, channels=3, low=-1.0, high=3.0), classes=CLASSES)
    row = schema.row(values)
    assert row.tolist() == values
    assert schema.shown(row) is None
    shown = schema.pixels(row)
    assert (shown["height"], shown["width"], shown["channels"]) == (2, 2, 3)
    expected = np.clip((np.array(values) + 1.0) / 4.0, 0.0, 1.0)
    np.testing.assert_allclose(shown["pixels"], expected, atol=6e-4)


def test_an_image_may_be_shown_inverted():
    schema = Schema(image=Image(height=1, width=3, low=1.0, high=0.0), classes=CLASSES)
    assert schema.pixels(schema.row([0, 0.25, 1]))["pixels"] == [1.0, 0.75, 0.0]


@pytest.mark.parametrize(
    ("sample", "match"),
    [
        ([0.0, 1.0], "has 3 numbers, and this one has 2"),
        ([], "has 3 numbers, and this one has 0"),
        ({"x": 1.0}, "list of its pixel values"),
        ([0.0, None, 1.0], "list of its pixel values"),
        ([0.0, True, 1.0], "list of its pixel values"),
        ([0.0, "1", 1.0], "list of its pixel values"),
        ([0.0, math.nan, 1.0], "finite"),
        ([0.0, 10**400, 1.0], "finite"),
    ],
)
def test_what_is_no_image_is_one_sentence(sample, match):
    refused(Schema(image=Image(height=1, width=3), classes=CLASSES), sample, match)


def test_columns_have_no_pixels():
    assert MIXED.pixels(MIXED.row([1.0, True, "3", 2.0])) is None


# The schema itself


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": None, "image": None},
        {"image": {"height": 1, "width": 1}},
        {"columns": []},
        {"columns": [{"name": "a"}, {"name": "a"}]},
        {"columns": [{"name": ""}]},
        {"columns": [{"name": "a", "kind": "date"}]},
        {"columns": [{"name": "a", "sort": 1}]},
        {"columns": [{"name": "a", "fill": math.nan}]},
        {"columns": [{"name": "a", "fill": 1e200}]},
        {"columns": [{"name": "a", "kind": "categorical"}]},
        {"columns": [{"name": "a", "kind": "categorical", "categories": ["x", "x"]}]},
        {"columns": None, "image": {"height": 0, "width": 1}},
        {"columns": None, "image": {"height": 1, "width": 1, "channels": 2}},
        {"columns": None, "image": {"height": 1, "width": 1, "low": 1.0, "high": 1.0}},
        {"columns": None, "image": {"height": 1, "width": 1, "low": math.nan}},
        {"classes": [{"name": "a"}]},
        {"classes": [{"name": "a"}, {"name": "a"}]},
        {"classes": [{"name": 1}, {"name": "1"}]},
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(wrong):
    right = {"columns": [{"name": "a"}], "classes": [{"name": "x"}, {"name": "y"}]}
    Schema.model_validate(right)
    with pytest.raises(ValidationError):
        Schema.model_validate(right | wrong)


def test_a_schema_comes_back_from_json():
    assert Schema.model_validate_json(MIXED.model_dump_json()) == MIXED


# Against tables


TABLE = """heat,on,city,code,when,state
1.5,true,Bonn,3,2024-01-01,a
2.5,false,,7,2024-01-02,b
,true,Rome,3,2024-01-03,a
-4.0,,Bonn,7,2024-01-04,b
0.25,false,Oslo,9,2024-01-05,a
"""


def test_raw_records_become_the_rows_that_the_table_gave(tmp_path):
    """The learner starts on rows of `osamd.tables`, and goes on with records as they are sent: they must be alike."""
    pytest.importorskip("narwhals", reason="tables need an extra: pip install 'osamd[tables]'")
    from osamd.tables import rows

    place = tmp_path / "table.csv"
    place.write_text(TABLE)
    table = rows(str(place), "state", warmup=None, categorical=["code"])
    x, _ = table.source
    table.close()
    schema = of_table(table.columns, table.means, table.classes, "cities")
    records = [
        {"heat": 1.5, "on": True, "city": "Bonn", "code": 3},
        {"heat": 2.5, "on": False, "city": None, "code": 7.0},
        {"heat": None, "on": True, "city": "Rome", "code": "3", "when": "2024-01-03"},
        {"heat": -4.0, "on": None, "city": "Bonn", "code": 7},
        {"heat": 0.25, "on": False, "city": "Oslo", "code": 9},
    ]
    assert [schema.row(record).tolist() for record in records] == x.tolist()
    assert schema.ignored == ["when"]
    assert [one.name for one in schema.classes] == ["a", "b"]
