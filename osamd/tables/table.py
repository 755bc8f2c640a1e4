"""A user's table as rows of features and class indices: the warm-up rows at once, the others block by block."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from osamd.errors import InputError, require_whole
from osamd.numerics import Array
from osamd.streams.base import Labels
from osamd.tables.classes import MOST_CLASSES, Class, classes_found, classes_given, listed, numbered
from osamd.tables.columns import Column, ColumnWishes
from osamd.tables.encoding import Encoder
from osamd.tables.row_sources import Block, Source, TextFormat, open_source
from osamd.tables.samples import SampleEncoder
from osamd.tables.values import NotThis, label_of, numbers

FIRST_ROWS = 1000
"""Rows that decide what the columns are, or the warm-up where that is longer."""

MOST_ROWS = 1_000_000
"""The most rows of a table that is all source."""

NAMES_SHOWN = 20


class Rows:
    """The rows of a table, to be read once. Made by `rows`.

    `classes` are ints where every label is a whole number, else text. `source` holds the warm-up rows (x, y), and
    `blocks` gives the rest; y are indices into `classes`. Rows without a label are left out and counted. With `grow` a
    class that first appears after the warm-up joins `classes` at its end.
    """

    def __init__(
        self,
        source: Source,
        first: Block,
        encoder: Encoder,
        label: str,
        classes: list[Class],
        warmup: int,
        grow: bool = False,
    ) -> None:
        self.name, self.label, self.classes, self.warmup = Path(source.name).name, label, classes, warmup
        self.declared = list(classes)
        """The classes that were given or found in the warm-up rows."""
        self._grow = grow
        self.unlabelled = 0
        """Rows without a label, among those read so far."""
        self.expected = None if source.expected is None else max(0, source.expected - warmup)
        """How many rows `blocks` will give, about; None where that cannot be said."""
        self._encoder, self._later, self._close = encoder, source.blocks, source.close
        self._index = {str(one): i for i, one in enumerate(classes)}
        self._at = source.names.index(label)
        self._boolean = source.declared.get(label) == "boolean"
        x, y = encoder.encode(first, warmup), self._indices(first)
        self.unlabelled += int((y[:warmup] < 0).sum())
        self.source: tuple[Array, Labels] = x[:warmup][y[:warmup] >= 0], y[:warmup][y[:warmup] >= 0]
        self._rest: tuple[Array, Labels, Array] | None = (x[warmup:], y[warmup:], encoder.days(first)[warmup:])
        self._days: list[Array] = []

    @property
    def values_of_classes(self) -> list[Any]:
        """The classes as the values that stand in the table: true and false of a boolean column, else `classes`."""
        return [one == "True" for one in self.classes] if self._boolean else list(self.classes)

    @property
    def features(self) -> list[str]:
        """The names of the features: a column's own, or column=category."""
        return self._encoder.features

    @property
    def columns(self) -> list[Column]:
        """Every column beside the label, and what was made of it."""
        return self._encoder.columns

    @property
    def means(self) -> dict[str, float]:
        """The means of the columns of numbers over the rows read so far: what stands in for a missing one."""
        return self._encoder.means

    def blocks(self) -> Iterator[tuple[Array, Labels]]:
        """The rows after the warm-up, as blocks x (n x features) and y (n); once."""
        if self._rest is None:
            raise InputError(f"`Rows.blocks()`: {self.name} was read already; call rows(...) again.")
        block, self._rest = self._rest, None
        try:
            yield self._labelled(*block)
            for later in self._later:
                yield self._labelled(self._encoder.encode(later), self._indices(later), self._encoder.days(later))
        finally:
            self.close()

    def row(self, sample: Mapping[str, Any]) -> Array:
        """A raw row as features: a mapping from the columns of the table to values, None where one is missing.

        It is encoded as the table stands: a missing number becomes the mean of those read so far. Columns that were
        left out, and the label, may be there or not.
        """
        try:
            return self.samples().row(sample)
        except InputError as error:
            raise InputError(str(error).replace("`ask(x=", "`row(sample=", 1)) from error

    def samples(self) -> SampleEncoder:
        """The encoder of single samples, as the table stands."""
        return self._encoder.samples()

    def close(self) -> None:
        """Close the file; `blocks` does so after the last row."""
        self._close()

    def __del__(self) -> None:
        self.close()

    @property
    def days(self) -> Array:
        """The day of every row that `blocks` gave, with the time as a fraction; empty where no column holds dates.

        Days are counted from the year 1, and NaN where a date is missing.
        """
        return np.concatenate([np.zeros(0), *self._days])

    def _labelled(self, x: Array, y: Labels, days: Array) -> tuple[Array, Labels]:
        known = y >= 0
        if len(days):
            self._days.append(days[known])
        if known.all():
            return x, y
        self.unlabelled += int((~known).sum())
        return x[known], y[known]

    def _indices(self, block: Block) -> Labels:
        """The place of every label among the classes, -1 where it is missing."""
        found = np.empty(block.rows, dtype=np.int64)
        memory: dict[object, int] = {}
        for i, cell in enumerate(listed(block.columns[self._at])):
            if isinstance(cell, list | dict):
                raise self._unknown(block.place(i), str(cell))
            code = memory.get(cell)
            if code is None:
                text = label_of(cell)
                code = -1 if text is None else self._index.get(text, -2)
                if code == -2:
                    code = self._new_class(block.place(i), str(text))
                memory[cell] = code
            found[i] = code
        return found

    def _new_class(self, place: str, label: str) -> int:
        """The index of a class that was not there before, of the same kind as the others."""
        (name,) = numbered([label])
        numbers = isinstance(self.classes[0], int)
        if not self._grow or len(self.classes) >= MOST_CLASSES or (numbers and not isinstance(name, int)):
            raise self._unknown(place, label)
        self._index[label] = len(self.classes)
        self.classes.append(name if numbers else label)
        return self._index[label]

    def _unknown(self, place: str, label: str) -> InputError:
        known = ", ".join(map(repr, self.classes))
        named = [*self.classes, *numbered([label])] if isinstance(self.classes[0], int) else [*self.classes, label]
        return InputError(
            f"{place}: label {label!r} is not one of the classes {known}; name them all by classes={named}."
        )


def rows(
    table: Any,
    label: str | None,
    *,
    warmup: int | None = FIRST_ROWS,
    classes: Sequence[object] | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    keep: Collection[str] = (),
    format: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
    grow: bool = False,
) -> Rows:
    """Open a table: a path (.csv, .jsonl or .parquet), "-" for standard input, or a pandas, polars or pyarrow table.

    The first `warmup` rows are the labelled source; None takes all, at most a million. The first 1000 rows (or the
    warm-up, where it is longer) decide what a column is: numeric if every value parses as a number, boolean if all are
    true or false, categorical else; `categorical` names columns of codes that only look like numbers. A categorical
    column becomes one feature for each of its categories among those rows, at most 100; another category later gives
    zeros. Missing values (empty, ?, NA, N/A, NaN, null, None; capitals do not matter) are the column's mean so far, and
    a category of their own. Of dates and times the hour, the weekday and the season are features, where they come round
    in those rows. Numbers that go one way only, as ids and counters do, and text that hardly ever repeats are left out,
    unless `keep` names them. The classes are the labels of the warm-up rows, sorted, unless they are given; with `grow`
    those that appear later join them, up to 100 in all, unless they are given. `decimal` is the decimal mark of a CSV
    file, and `encoding` that of a text file, UTF-8 by default.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("colour,size,kind\\nred,1,a\\nblue,?,b\\nred,3,a\\n")
    ...     file.flush()
    ...     table = rows(file.name, "kind", warmup=2)
    ...     table.features, table.classes, [x.tolist() for x, y in table.blocks()]
    (['colour=blue', 'colour=red', 'size'], ['a', 'b'], [[[0.0, 1.0, 3.0]]])
    """
    if warmup is not None:
        warmup = require_whole("rows", "warmup", warmup, 0)
    text = TextFormat(decimal, encoding)
    source = open_source(table, MOST_ROWS if warmup is None else max(warmup + 1, FIRST_ROWS), format, text)
    wishes = ColumnWishes(_listed_names(drop), _listed_names(categorical), _listed_names(keep))
    try:
        return _opened(source, None if label is None else str(label), warmup, classes, wishes, grow)
    except BaseException:
        source.close()
        raise


def _opened(
    source: Source,
    label: str | None,
    warmup: int | None,
    classes: Sequence[object] | None,
    wishes: ColumnWishes,
    grow: bool,
) -> Rows:
    label = _require_columns(source, label, wishes)
    first = next(source.blocks, None)
    if first is None or not first.rows:
        raise InputError(f"{source.name} has a header and no rows; give a table with rows.")
    if warmup is None:
        warmup = first.rows
    elif first.rows == 1:
        raise InputError(f"{source.name} has a single row, and nothing can be learned from it; give a longer table.")
    elif first.rows <= warmup:
        raise InputError(
            f"{source.name} has {first.rows} rows, and the warm-up takes {warmup}; give a smaller one by"
            f" warmup={first.rows // 2}."
        )
    found = classes_found(source, first, label, warmup) if classes is None else classes_given(classes)
    encoder = Encoder(source, first, label, wishes)
    return Rows(source, first, encoder, label, found, warmup, grow and classes is None)


def _listed_names(names: Collection[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _require_columns(source: Source, label: str | None, wishes: ColumnWishes) -> str:
    """Refuse names that the table does not have; returns the label."""
    if label is None:
        raise InputError(
            f"`rows(label=None)`: {source.name} needs label=..., the column that holds the class."
            f" {_columns_listed(source, '')}"
        )
    if label not in source.names:
        raise InputError(f"`rows(label={label!r})`: {source.name} has no such column. {_columns_listed(source, label)}")
    for option, names in wishes._asdict().items():
        for name in names:
            if name not in source.names:
                raise InputError(
                    f"`rows({option}={[name]})`: {source.name} has no such column. {_columns_listed(source, str(name))}"
                )
    if label in wishes.drop:
        raise InputError(f"`rows(drop={[label]})`: this is the label; name other columns.")
    both = next((name for name in wishes.keep if name in wishes.drop), None)
    if both is not None:
        raise InputError(f"`rows(drop={[both]}, keep={[both]})`: a column is dropped or kept; leave one of them out.")
    return label


def _columns_listed(source: Source, name: str) -> str:
    """The names of the columns, those nearest to `name` first; a header of numbers is none."""
    if all(cell for cell in source.names) and _all_numbers(source.names):
        return "Its first line holds numbers: put a line of column names above them."
    small = {cell.lower(): cell for cell in source.names if cell}
    near = [small[one] for one in difflib.get_close_matches(name.lower(), small, n=5, cutoff=0.5)]
    others = [cell for cell in source.names if cell and cell not in near]
    shown = [*near, *others][:NAMES_SHOWN]
    more = len(near) + len(others) - len(shown)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    return f"{guess}Its columns: {', '.join(map(repr, shown))}" + (f" and {more} more." if more > 0 else ".")


def _all_numbers(names: Sequence[str]) -> bool:
    try:
        numbers(names)
    except NotThis:
        return False
    return True
