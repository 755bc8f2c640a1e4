"""The schema of a service: what samples and classes are, columns or an image, and how people see them.

A sample is given by the names of its columns or in their order; the learner gets a row of numbers. The columns of a
table (`osamd.tables`) become a schema, so raw records can be sent as they are: a missing number becomes the mean of the
source, and a category without a feature gives zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.tables.samples import features_of
from osamd.tables.values import NotThis

OTHER_CATEGORY = "(other)"
LARGEST = 1e100
"""The largest absolute value of a feature: its square, and sums of many such squares, are still finite."""

Text = Annotated[str, Field(min_length=1, max_length=200)]
ClassName = Text | int | float


class Strict(BaseModel):
    """A model that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class In(Strict):
    """The body of a request. If several fields are unknown, the refusal names one."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > len(cls.model_fields):
            unknown = next(name for name in given if name not in cls.model_fields)
            listed = ", ".join(cls.model_fields)
            raise PydanticCustomError(
                "unknown", "{name} is not known here; give {listed}", {"name": repr(unknown[:60]), "listed": listed}
            )
        return given


class SampleColumn(Strict):
    """One column of a sample."""

    name: Text
    kind: Literal["numeric", "boolean", "categorical", "date"] = "numeric"
    unit: str = Field(default="", max_length=50)
    categories: list[str] = []
    """For a categorical column: each category is a feature."""
    parts: list[Literal["hour", "weekday", "season"]] = []
    """For dates and times: each part is two features, the sine and cosine of its place in its cycle."""
    day_first: bool = False
    """For dates: whether 3/4/2024 is in April."""
    fill: float | None = Field(default=None, ge=-LARGEST, le=LARGEST, allow_inf_nan=False)
    """Replaces a missing number; without it, a missing number is refused."""
    largest: float | None = Field(default=None, ge=0.0, le=LARGEST, allow_inf_nan=False)
    """The largest absolute value in the source, by which a wild value is recognised."""

    @model_validator(mode="after")
    def _has_features(self) -> SampleColumn:
        if (self.kind == "categorical") != bool(self.categories):
            raise ValueError("give categories to a categorical column, and to no other")
        if (self.kind == "date") != bool(self.parts):
            raise ValueError("give parts to a column of dates, and to no other")
        if len(set(self.categories)) != len(self.categories) or len(set(self.parts)) != len(self.parts):
            raise ValueError("two categories or parts are the same")
        return self

    @property
    def width(self) -> int:
        """The number of its features."""
        return len(self.categories) if self.kind == "categorical" else 2 * len(self.parts) or 1


class Image(Strict):
    """A sample is the pixels of an image, row by row, the channels of a pixel side by side."""

    height: int = Field(ge=1, le=1024)
    width: int = Field(ge=1, le=1024)
    channels: Literal[1, 3] = 1
    low: float = Field(default=0.0, allow_inf_nan=False)
    """The value that is shown as black."""
    high: float = Field(default=1.0, allow_inf_nan=False)
    """The value that is shown as white."""

    @model_validator(mode="after")
    def _has_shades(self) -> Image:
        if self.low == self.high:
            raise ValueError("low is shown as black and high as white, so give two different numbers")
        return self


class NamedClass(Strict):
    """A class, and the title that people see."""

    name: ClassName
    title: str = Field(default="", max_length=200)
    about: str = Field(default="", max_length=2000)
    """When the class applies, for annotators."""


class Schema(Strict):
    """The schema of samples and classes."""

    title: str = Field(default="osamd", max_length=200)
    """The name of the task on the pages."""
    columns: list[SampleColumn] | None = Field(default=None, min_length=1)
    image: Image | None = None
    classes: list[NamedClass] = Field(min_length=2)
    ignored: list[str] = []
    """Columns that records may contain and the learner does not use."""
    guidelines: str = Field(default="", max_length=50_000)
    """Guidelines for annotators, as plain text."""
    show_guess: bool = False
    """Whether the label page shows the model's guess at once. It biases people."""

    @model_validator(mode="after")
    def _one_kind(self) -> Schema:
        if (self.columns is None) == (self.image is None):
            raise ValueError("give columns or an image, and not both")
        names = [column.name for column in self.columns or []]
        if len(set(names)) != len(names):
            raise ValueError("two columns have the same name")
        if len({str(one.name) for one in self.classes}) != len(self.classes):
            raise ValueError("two classes have the same name")
        return self

    @cached_property
    def features(self) -> int:
        """The number of features that the learner gets."""
        if self.image is not None:
            return self.image.height * self.image.width * self.image.channels
        return sum(column.width for column in self.columns or [])

    @property
    def sizes(self) -> Array:
        """The largest absolute value of each feature, as known before the first sample; 0 if unknown."""
        if self.image is not None:
            return np.full(self.features, max(abs(self.image.low), abs(self.image.high)))
        known = [[1.0] * one.width if one.kind != "numeric" else [one.largest or 0.0] for one in self.columns or []]
        return np.array([size for sizes in known for size in sizes])

    @cached_property
    def sized(self) -> bool:
        """Whether the largest absolute values of all numbers are known before the first sample."""
        return self.columns is not None and all(one.largest for one in self.columns if one.kind == "numeric")

    def with_class(self, one: NamedClass) -> Schema:
        """The schema with one more class; without a title, its name is its title."""
        if any(str(known.name) == str(one.name) for known in self.classes):
            raise InputError(f"there is already a class {one.name!r}; give another name.")
        titled = one if one.title else one.model_copy(update={"title": str(one.name)})
        return self.model_copy(update={"classes": [*self.classes, titled]})

    def feature(self, place: int) -> str:
        """The name of the feature at this index of a row."""
        if self.columns is None:
            return f"pixel {place}"
        names = [one.name for one in self.columns for _ in range(one.width)]
        return repr(names[place])

    @cached_property
    def plain(self) -> bool:
        """Whether every column is numeric."""
        return all(column.kind == "numeric" for column in self.columns or [])

    def read(self, sample: Sequence[Any] | Mapping[str, Any]) -> tuple[Array, dict[str, Any] | None]:
        """One sample as the learner takes it, and its raw values if the row does not determine them."""
        if type(sample) is list and self.plain and len(sample) == self.features and set(map(type, sample)) == {float}:
            return _checked(np.array(sample, dtype=np.float64)), None
        return self.row(sample), self.raw(sample)

    def row(self, sample: Sequence[Any] | Mapping[str, Any]) -> Array:
        """One sample as the learner takes it; an InputError says what is wrong with it."""
        if self.columns is None:
            return self._numbers(sample)
        if isinstance(sample, Mapping):
            sample = self._in_order(sample)
        elif len(sample) != len(self.columns):
            raise InputError(f"a sample has {len(self.columns)} columns, and this one has {len(sample)}.")
        if len(sample) == self.features and set(map(type, sample)) == {float} and self.plain:
            return _checked(np.array(sample, dtype=np.float64))
        row: list[float] = []
        for column, value in zip(self.columns, sample, strict=True):
            row += _encoded(column, value)
        return _checked(np.array(row))

    def raw(self, sample: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any] | None:
        """The values of a sample by name, as they were sent; None if its row of numbers determines them all."""
        if self.columns is None:
            return None
        given = sample if isinstance(sample, Mapping) else None
        values = sample if given is None else given.values()
        if self.plain and len(values) == len(self.columns) and set(map(type, values)) <= {float, int}:
            return None
        return dict(zip([one.name for one in self.columns], values, strict=True)) if given is None else dict(given)

    def shown(self, row: Array, raw: Mapping[str, Any] | None = None) -> list[dict[str, Any]] | None:
        """The values of a sample for people, as they were sent if that is known; None for an image."""
        if self.columns is None:
            return None
        told, at = [], 0
        for column in self.columns:
            value: Any = row[at]
            if raw is not None and column.name in raw:
                value = raw[column.name]
            elif column.kind == "categorical":
                marked = np.flatnonzero(row[at : at + column.width])
                value = column.categories[marked[0]] if len(marked) else OTHER_CATEGORY
            elif column.kind == "date":
                value = None  # its parts do not say which date it was
            elif column.kind == "boolean" and value in (0.0, 1.0):
                value = bool(value)
            else:
                value = float(value)
            told.append({"name": column.name, "value": value, "unit": column.unit, "used": True})
            at += column.width
        names = {column.name for column in self.columns}
        others = [(name, value) for name, value in (raw or {}).items() if name not in names]
        return told + [{"name": name, "value": value, "unit": "", "used": False} for name, value in others]

    def pixels(self, row: Array) -> dict[str, Any] | None:
        """The image of a row for people, with values from 0 to 1; None for columns."""
        image = self.image
        if image is None:
            return None
        shares = np.clip((np.asarray(row).ravel() - image.low) / (image.high - image.low), 0.0, 1.0)
        size = {"height": image.height, "width": image.width, "channels": image.channels}
        return size | {"pixels": np.round(shares, 3).tolist()}

    def _in_order(self, sample: Mapping[str, Any]) -> list[Any]:
        assert self.columns is not None
        names = [column.name for column in self.columns]
        missing = [name for name in names if name not in sample]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            listed = ", ".join(map(repr, missing[:3]))
            raise InputError(f"the sample has no {listed}{more}; give every column a value, or null if it is missing.")
        if len(sample) > len(names):
            unknown = set(sample) - set(names) - set(self.ignored)
            if unknown:
                raise InputError(
                    f"the sample has a column {min(unknown)!r}, which the schema does not know; leave it out."
                )
        return [sample[name] for name in names]

    def _numbers(self, sample: Any) -> Array:
        if isinstance(sample, Mapping) or not all(type(value) in (float, int) for value in sample):
            raise InputError("a sample must be the list of its pixel values.")
        if len(sample) != self.features:
            raise InputError(f"a sample has {self.features} numbers, and this one has {len(sample)}.")
        return _checked(np.array([_float(value) for value in sample]))


def _float(value: float) -> float:
    """The number as a float; infinity if it is too large for float64."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _checked(row: Array) -> Array:
    if not np.abs(row).max() <= LARGEST:
        raise InputError(f"the numbers of a sample must be finite, and at most {LARGEST:g} in size.")
    return row


def _encoded(column: SampleColumn, value: Any) -> list[float]:
    """The features of one value."""
    if column.kind in ("categorical", "date"):
        try:
            return features_of(column, value)
        except NotThis:
            raise InputError(
                f"the column {column.name!r} is {value!r:.60}; give a date or time such as 2024-12-31T23:59, or null if"
                " it is missing."
            ) from None
    if value is None:
        if column.fill is None:
            raise InputError(f"the column {column.name!r} is missing; give a number.")
        return [column.fill]
    if column.kind == "boolean":
        if isinstance(value, str) or value not in (0.0, 1.0):
            raise InputError(
                f"the column {column.name!r} is {value!r:.60}; give true, false, or null if it is missing."
            )
    elif isinstance(value, str | bool):
        raise InputError(f"the column {column.name!r} is {value!r:.60}; give a number, or null if it is missing.")
    return [_float(value)]
