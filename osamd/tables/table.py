"""A user's table as rows of features and class indices: the warm-up rows at once, the others block by block."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from osamd.errors import InputError, nearest, require_whole
from osamd.numerics import Array
from osamd.streams.base import Labels
from osamd.tables.encoding import Column, Encoder, nested
from osamd.tables.reading import Block, Source, open_source
from osamd.tables.values import as_option, label_of, numbers

FIRST_ROWS = 1000
"""Rows that decide what the columns are, or the warm-up where that is longer."""

MOST_ROWS = 1_000_000
"""The most rows of a table that is all source."""

MOST_CLASSES = 100
"""The most classes that are found by themselves; a column of more values is taken for a number to predict."""

NAMES_SHOWN = 20

Class = int | str


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
        x, y = encoder.encode(first, warmup), self._indices(first)
        self.unlabelled += int((y[:warmup] < 0).sum())
        self.source: tuple[Array, Labels] = x[:warmup][y[:warmup] >= 0], y[:warmup][y[:warmup] >= 0]
        self._rest: tuple[Array, Labels] | None = (x[warmup:], y[warmup:])

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
                yield self._labelled(self._encoder.encode(later), self._indices(later))
        finally:
            self.close()

    def row(self, sample: Mapping[str, Any]) -> Array:
        """A raw row as features: a mapping from the columns of the table to values, None where one is missing.

        It is encoded as the table stands: a missing number becomes the mean of those read so far. Columns that were
        left out, and the label, may be there or not.
        """
        return self._encoder.one(sample, "give every column of the table, None where its value is missing.")

    def close(self) -> None:
        """Close the file; `blocks` does so after the last row."""
        self._close()

    def __del__(self) -> None:
        self.close()

    def _labelled(self, x: Array, y: Labels) -> tuple[Array, Labels]:
        known = y >= 0
        if known.all():
            return x, y
        self.unlabelled += int((~known).sum())
        return x[known], y[known]

    def _indices(self, block: Block) -> Labels:
        """The place of every label among the classes, -1 where it is missing."""
        found = np.empty(block.rows, dtype=np.int64)
        memory: dict[object, int] = {}
        for i, cell in enumerate(_listed(block.columns[self._at])):
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
        (name,) = _numbered([label])
        numbers = isinstance(self.classes[0], int)
        if not self._grow or len(self.classes) >= MOST_CLASSES or (numbers and not isinstance(name, int)):
            raise self._unknown(place, label)
        self._index[label] = len(self.classes)
        self.classes.append(name if numbers else label)
        return self._index[label]

    def _unknown(self, place: str, label: str) -> InputError:
        known, option = ", ".join(map(repr, self.classes)), as_option([*self.classes, label])
        return InputError(
            f"{place}: label {label!r} is not one of the classes {known}; name them all by --classes {option}"
            " (classes=... in Python)."
        )


def rows(
    table: Any,
    label: str,
    *,
    warmup: int | None = FIRST_ROWS,
    classes: Sequence[object] | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    format: str | None = None,
    grow: bool = False,
) -> Rows:
    """Open a table: a path (.csv, .jsonl or .parquet), "-" for standard input, or a pandas, polars or pyarrow table.

    The first `warmup` rows are the labelled source; None takes all, at most a million. The first 1000 rows (or the
    warm-up, where it is longer) decide what a column is: numeric if every value parses as a number, boolean if all are
    true or false, categorical else; `categorical` names columns of codes that only look like numbers. A categorical
    column becomes one feature for each of its categories among those rows, at most 100; another category later gives
    zeros. Missing values (empty, ?, NA, N/A, NaN, null, None; capitals do not matter) are the column's mean so far, and
    a category of their own. Dates and times are left out. The classes are the labels of the warm-up rows, sorted,
    unless they are given; with `grow` those that appear later join them, up to 100 in all, unless they are given.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("colour,size,kind\\nred,1,a\\nblue,?,b\\nred,3,a\\n")
    ...     file.flush()
    ...     table = rows(file.name, "kind", warmup=2)
    ...     table.features, table.classes, [x.tolist() for x, y in table.blocks()]
    (['colour=blue', 'colour=red', 'size'], ['a', 'b'], [[[0.0, 1.0, 3.0]]])
    """
    label = str(label)
    if warmup is not None:
        warmup = require_whole("rows", "warmup", warmup, 0)
    source = open_source(table, MOST_ROWS if warmup is None else max(warmup + 1, FIRST_ROWS), format)
    try:
        return _opened(source, label, warmup, classes, _listed_names(drop), _listed_names(categorical), grow)
    except BaseException:
        source.close()
        raise


def _opened(
    source: Source,
    label: str,
    warmup: int | None,
    classes: Sequence[object] | None,
    drop: Sequence[str],
    categorical: Sequence[str],
    grow: bool,
) -> Rows:
    _require_columns(source, label, drop, categorical)
    first = next(source.blocks, None)
    if first is None or not first.rows:
        raise InputError(f"{source.name} has a header and no rows; give a table with rows.")
    if warmup is None:
        warmup = first.rows
    elif first.rows <= warmup:
        raise InputError(
            f"{source.name} has {first.rows} rows, and the warm-up takes {warmup}; give a smaller one by"
            f" --warmup {first.rows // 2}."
        )
    found = _classes(source, first, label, warmup) if classes is None else _given(classes)
    encoder = Encoder(source, first, label, drop, categorical)
    return Rows(source, first, encoder, label, found, warmup, grow and classes is None)


def _listed_names(names: Collection[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _require_columns(source: Source, label: str, drop: Sequence[str], categorical: Sequence[str]) -> None:
    options = [("label", label), *(("drop", name) for name in drop), *(("categorical", name) for name in categorical)]
    for option, name in options:
        if name not in source.names:
            raise InputError(f"`--{option} {name}`: {source.name} has no such column. {_nearest(source, str(name))}")
    if label in drop:
        raise InputError(f"`--drop {label}`: this is the label; name other columns.")


def _nearest(source: Source, name: str) -> str:
    """The nearest name and some of the others; a header of numbers is none."""
    if all(cell for cell in source.names) and _all_numbers(source.names):
        return "Its first line holds numbers: put a line of column names above them."
    near = nearest(name, source.names)
    known = ", ".join(map(repr, source.names[:NAMES_SHOWN]))
    more = len(source.names) - NAMES_SHOWN
    return near[: near.index("Known: ")] + f"Known: {known}" + (f" and {more} more." if more > 0 else ".")


def _all_numbers(names: Sequence[str]) -> bool:
    try:
        numbers(names)
    except ValueError:
        return False
    return True


def _classes(source: Source, first: Block, label: str, warmup: int) -> list[Class]:
    """The labels of the warm-up rows, sorted."""
    if not warmup:
        raise InputError("`--warmup 0`: without warm-up rows the classes are not known; name them by --classes.")
    cells = _listed(first.columns[source.names.index(label)])[:warmup]
    if any(isinstance(cell, list | dict) for cell in cells):
        raise nested(source, label, "another --label")
    texts = {text for text in map(label_of, cells) if text is not None}
    if len(texts) > MOST_CLASSES:
        raise InputError(
            f"`--label {label}`: {len(texts)} values in the first {warmup} rows; a classifier needs classes, so"
            " cut a number into ranges, or name the classes by --classes."
        )
    if len(texts) < 2:
        found = f"only {texts.pop()!r}" if texts else "nothing"
        raise InputError(
            f"`--label {label}`: it holds {found} in the first {warmup} rows; a classifier needs two classes, so"
            " give more labelled rows, or name the classes by --classes."
        )
    return _in_order(texts)


def _given(classes: Sequence[object]) -> list[Class]:
    listed = [] if isinstance(classes, str) else [label_of(one) for one in classes]
    texts = [text for text in listed if text is not None]
    if len(texts) < 2 or len(set(texts)) < len(listed):
        shown = classes if isinstance(classes, str) else as_option(classes)
        raise InputError(f"`--classes {shown}`: give at least two classes, each once, as in --classes no,yes.")
    return _numbered(texts)


def _in_order(texts: Collection[str]) -> list[Class]:
    """Sorted, as ints where all are whole numbers."""
    found = _numbered(sorted(texts))
    return sorted(found, key=int) if all(isinstance(one, int) for one in found) else found


def _numbered(texts: Sequence[str]) -> list[Class]:
    """As ints where all are whole numbers.

    >>> _numbered(["1", "-1"]), _numbered(["1", "01"])
    ([1, -1], ['1', '01'])
    """
    whole = [text.lstrip("-").isdecimal() and str(int(text)) == text for text in texts]
    return [int(text) for text in texts] if all(whole) else list(texts)


def _listed(cells: Any) -> list[Any]:
    listed: list[Any] = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    return listed
