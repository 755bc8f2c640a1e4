"""One sample by the names of its columns, as a row of features: what a table's columns mean, kept for later samples.

A category that has no feature gives zeros, as in the table. A missing number becomes the column's `fill`, a missing
category a category of its own, and a missing date zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from osamd.checks import listed, require_that, require_within
from osamd.errors import InputError
from osamd.numerics import Array
from osamd.tables.columns import MISSING_CATEGORY, MOST_CATEGORIES, Column
from osamd.tables.dates import PARTS, moments, waves
from osamd.tables.values import NotThis, numbers, text_of, truths

KINDS = ("numeric", "boolean", "categorical", "date", "left out")


class ColumnMeaning(Protocol):
    """What must be known about a column to encode its values."""

    @property
    def kind(self) -> str: ...
    @property
    def categories(self) -> Sequence[str]: ...
    @property
    def parts(self) -> Sequence[str]: ...
    @property
    def day_first(self) -> bool: ...
    @property
    def fill(self) -> float | None: ...


def features_of(column: ColumnMeaning, value: Any) -> list[float]:
    """The features of one value; `NotThis` where the column cannot take it.

    >>> features_of(Column("colour", "categorical", categories=("blue", "red")), "red")
    [0.0, 1.0]
    """
    if column.kind == "categorical":
        text = text_of(value) or MISSING_CATEGORY
        return [float(text == category) for category in column.categories]
    if column.kind == "date":
        found: list[float] = waves(moments([value], column.day_first), column.parts)[0].tolist()
        return found
    number = float((truths if column.kind == "boolean" else numbers)([value])[0])
    return [number if number == number else float(column.fill or 0.0)]


class SampleEncoder:
    """Encodes samples as the columns of a table were encoded; `fills` are what stands in for missing numbers."""

    def __init__(self, columns: Sequence[Column], fills: Mapping[str, float], label: str) -> None:
        self.columns = [replace(one, fill=fills.get(one.name), missing=0, unseen=0) for one in columns]
        self.label = label
        self._used = [column for column in self.columns if column.kind != "left out"]
        self.features = [feature for column in self._used for feature in column.features]

    def row(self, sample: Mapping[Any, Any]) -> Array:
        """The sample as features; columns that were left out, and the label, may be there or not."""
        missing = [column.name for column in self._used if column.name not in sample]
        if missing:  # rather than take a name that was mistyped for a missing value
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise InputError(
                f"`ask(x=...)`: x has no {', '.join(map(repr, missing[:3]))}{more}; give every column of the table,"
                " None where its value is missing."
            )
        row: list[float] = []
        for column in self._used:
            try:
                row += features_of(column, sample[column.name])
            except NotThis as wrong:
                raise InputError(
                    f"`ask(x=...)`: {column.name!r} is {wrong.value!r:.60}; give {WANTED[column.kind]}, or None where"
                    " it is missing."
                ) from None
        return np.array(row)

    def described(self) -> dict[str, Any]:
        """The encoder as JSON."""
        return {"label": self.label, "columns": [_described(column) for column in self.columns]}


WANTED = {"numeric": "a number", "boolean": "True or False", "date": "a date or time, as in the table"}
"""What to give, by the kind of a column."""


def encoder_from(content: Mapping[str, Any]) -> SampleEncoder:
    """The encoder that `described` wrote into a file, which anyone may have changed since."""
    columns, fills = [], {}
    for one in listed(content, "columns", 1_000_000):
        require_that(isinstance(one, dict) and isinstance(one.get("name"), str), "a column has no name")
        require_that(one.get("kind") in KINDS, f"the kind of column {one['name']!r:.60} is unknown")
        categories, parts = one.get("categories", []), one.get("parts", [])
        require_that(
            isinstance(categories, list)
            and len(categories) <= MOST_CATEGORIES
            and all(isinstance(category, str) for category in categories),
            f"the categories of column {one['name']!r:.60} are no texts",
        )
        require_that(
            isinstance(parts, list) and all(part in PARTS for part in parts),
            f"the parts of column {one['name']!r:.60} are unknown",
        )
        if "fill" in one:
            require_within(f"the fill of column {one['name']!r:.60}", one["fill"], -1e300, 1e300)
            fills[one["name"]] = float(one["fill"])
        columns.append(
            Column(
                one["name"],
                one["kind"],
                categories=tuple(categories),
                parts=tuple(parts),
                day_first=bool(one.get("day_first", False)),
            )
        )
    require_that(isinstance(content.get("label"), str), "the encoder has no label")
    return SampleEncoder(columns, fills, content["label"])


def _described(column: Column) -> dict[str, Any]:
    told: dict[str, Any] = {"name": column.name, "kind": column.kind}
    if column.kind == "categorical":
        told["categories"] = list(column.categories)
    if column.kind == "date":
        told |= {"parts": list(column.parts), "day_first": column.day_first}
    return told if column.fill is None else told | {"fill": column.fill}
