"""Columns as features: numbers as they are, true and false as 1 and 0, a category as a column of its own.

What a column is, the first rows decide. A missing number is the mean of those before it; a missing category is a
category. Dates are left out: they grow for ever, so that a linear model would have to extrapolate them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.tables.reading import Block, Source
from osamd.tables.values import NotThis, as_option, dates, numbers, text_of, truths

MOST_CATEGORIES = 100
"""The most categories of one column. Where the first rows hold more, the commonest get a feature each, and the others
count as unseen."""

MISSING_CATEGORY = "(missing)"

_COMMA = re.compile(r"[+-]?(\d[\d.]*)?(,\d+)*(\.\d*)?([eE][+-]?\d+)?")
"""Numbers, with commas or without."""


@dataclass
class Column:
    """A column of the table, what it was found to be, and what was met in it so far."""

    name: str
    kind: str
    """numeric, boolean, categorical, or "left out"."""
    note: str = ""
    """Why it was left out, or what else a reader should know."""
    categories: tuple[str, ...] = ()
    missing: int = 0
    unseen: int = 0
    """Values of categories that have no feature."""

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        if self.kind == "categorical":
            return [f"{self.name}={category}" for category in self.categories]
        return [] if self.kind == "left out" else [self.name]

    def described(self) -> dict[str, Any]:
        """For results.json."""
        told: dict[str, Any] = {"name": self.name, "kind": self.kind, "features": len(self.features)}
        if self.kind == "categorical":
            told |= {"categories": list(self.categories), "unseen": self.unseen}
        return told | ({"missing": self.missing} if self.kind != "left out" else {}) | self._noted()

    def _noted(self) -> dict[str, str]:
        return {"note": self.note} if self.note else {}


class _Codes(dict[str, int]):
    """From the text of a cell to the index of its category; -1 where that has no feature, -2 where it is missing."""

    def __missing__(self, cell: str) -> int:
        text = text_of(cell)
        return -2 if text is None else self.get(text, -1)


class Encoder:
    """Turns blocks of a table into rows of features; made from the first block, and used on every block in order.

    Numbers are kept with the sum and the count of those before them, so that what fills a gap does not depend on how
    the rows came in blocks.
    """

    def __init__(self, source: Source, first: Block, label: str, drop: Collection[str], categorical: Collection[str]):
        self.columns = [
            _planned(source, i, first, "drop" if name in drop else "force" if name in categorical else "")
            for i, name in enumerate(source.names)
            if name != label
        ]
        self._place = {name: i for i, name in enumerate(source.names)}
        self.features = [feature for column in self.columns for feature in column.features]
        if not self.features:
            raise InputError(
                f"{source.name}: no column is left to learn from beside {label!r}"
                f" ({_left_out(self.columns)}); give the table columns of numbers or categories."
            )
        self._plain = [c for c in self.columns if c.kind in ("numeric", "boolean")]
        at = {feature: j for j, feature in reversed(list(enumerate(self.features)))}
        self._where = np.array([at[column.name] for column in self._plain], dtype=np.int64)
        self._starts = {c.name: at[c.features[0]] for c in self.columns if c.kind == "categorical"}
        self._codes = {
            c.name: _Codes({name: k for k, name in enumerate(c.categories)})
            for c in self.columns
            if c.kind == "categorical"
        }
        self._sums, self._counts = np.zeros(len(self._plain)), np.zeros(len(self._plain))

    def encode(self, block: Block, warmup: int = 0) -> Array:
        """Rows of features. The gaps of the first `warmup` rows get the mean over those rows, others that before."""
        x = np.zeros((block.rows, len(self.features)))
        for column in self.columns:
            if column.kind == "categorical":
                self._mark(column, block.columns[self._place[column.name]], x)
        if self._plain:
            x[:, self._where] = self._filled(block, warmup)
        return x

    def one(self, sample: Mapping[str, Any], remedy: str) -> Array:
        """One row by the names of its columns, its gaps filled by the means so far; nothing is counted."""
        wanted = [column.name for column in self.columns if column.kind != "left out"]
        for name in wanted:
            if name not in sample:
                raise InputError(f"`row(...)`: the sample has no {name!r}; {remedy}")
        row = np.zeros(len(self.features))
        for name, codes in self._codes.items():
            code = codes[_as_text([sample[name]])[0]]
            code = codes.get(MISSING_CATEGORY, -1) if code == -2 else code
            if code >= 0:
                row[self._starts[name] + code] = 1.0
        means = self.means
        for column, where in zip(self._plain, self._where.tolist(), strict=True):
            try:
                value = (truths if column.kind == "boolean" else numbers)([sample[column.name]])[0]
            except NotThis as wrong:
                raise InputError(f"`row(...)`: {column.name!r} is {wrong.value!r}; give a number, or None.") from None
            row[where] = means[column.name] if np.isnan(value) else value
        return row

    @property
    def means(self) -> dict[str, float]:
        """The means so far of the columns of numbers."""
        means = self._sums / np.maximum(self._counts, 1.0)
        return dict(zip((column.name for column in self._plain), means.tolist(), strict=True))

    def _mark(self, column: Column, cells: Sequence[Any], x: Array) -> None:
        """A 1 for every category that has a feature."""
        codes = self._codes[column.name]
        found = np.fromiter((codes[cell] for cell in _as_text(cells)), np.int64, len(cells))
        gaps = found == -2
        column.missing += int(gaps.sum())
        found[gaps] = codes.get(MISSING_CATEGORY, -1)
        column.unseen += int((found == -1).sum())
        rows = np.flatnonzero(found >= 0)
        x[rows, self._starts[column.name] + found[rows]] = 1.0

    def _filled(self, block: Block, warmup: int) -> Array:
        values = np.empty((block.rows, len(self._plain)))
        for j, column in enumerate(self._plain):
            read = truths if column.kind == "boolean" else numbers
            try:
                values[:, j] = read(block.columns[self._place[column.name]])
            except NotThis as wrong:
                raise _changed(column, wrong, block.place) from None
        gaps = np.isnan(values)
        if gaps.any():
            for column, missing in zip(self._plain, gaps.sum(axis=0).tolist(), strict=True):
                column.missing += missing
        held = np.where(gaps, 0.0, values)
        # One addition after the other from the sum so far: the same numbers however the rows are cut into blocks.
        sums = np.cumsum(np.concatenate([self._sums[None], held]), axis=0)
        counts = np.cumsum(np.concatenate([self._counts[None], ~gaps]), axis=0)
        if gaps.any():
            means = sums[:-1] / np.maximum(counts[:-1], 1.0)
            means[:warmup] = sums[warmup] / np.maximum(counts[warmup], 1.0)
            values = np.where(gaps, means, values)
        self._sums, self._counts = sums[-1], counts[-1]
        return values


def _as_text(cells: Sequence[Any]) -> Sequence[str]:
    """Cells of text as they are, others as the text of their value."""
    listed = cells.tolist() if isinstance(cells, np.ndarray) else cells
    return [cell if type(cell) is str else text_of(cell) or "" for cell in listed]


def _changed(column: Column, wrong: NotThis, place: Callable[[int], str]) -> InputError:
    was = "numbers" if column.kind == "numeric" else "true and false"
    option = as_option([column.name])
    return InputError(
        f"{place(wrong.row)}: column {column.name!r} holds {wrong.value!r}, and the first rows held {was}; mend the"
        f" value, or give --categorical {option} or --drop {option}."
    )


def _planned(source: Source, i: int, first: Block, wish: str) -> Column:
    """What the column is, from what its type declares, or from its values in the first rows."""
    name, cells = source.names[i], first.columns[i]
    if wish == "drop":
        return Column(name, "left out", "dropped")
    if not name:
        return Column(f"column {i + 1}", "left out", "it has no name")
    kind = "categorical" if wish == "force" else source.declared.get(name) or _kind(source, name, cells)
    if kind == "date":
        return Column(name, "left out", "dates and times are not used; derive numbers from them, such as the hour")
    if kind == "nested":
        raise nested(source, name, f"--drop {as_option([name])}")
    if kind == "empty" or (kind in ("numeric", "boolean") and all(text_of(cell) is None for cell in cells)):
        return Column(name, "left out", f"no value in the first {first.rows} rows")
    return _categorical(name, cells) if kind == "categorical" else Column(name, kind)


def _kind(source: Source, name: str, cells: Sequence[Any]) -> str:
    if any(isinstance(cell, list | dict) for cell in cells):
        raise nested(source, name, f"--drop {as_option([name])}")
    if all(text_of(cell) is None for cell in cells):
        return "empty"
    tests: tuple[tuple[str, Callable[[Any], object]], ...] = (
        ("boolean", truths),
        ("numeric", numbers),
        ("date", dates),
    )
    for kind, test in tests:
        try:
            test(cells)
            return kind
        except NotThis:
            pass
    texts = [text for text in map(text_of, cells) if text is not None]
    if any("," in text for text in texts) and all(_COMMA.fullmatch(text) for text in texts):
        shown, option = next(text for text in texts if "," in text), as_option([name])
        raise InputError(
            f"{source.name}: column {name!r} holds numbers with a comma, such as {shown}; write them with a decimal"
            f" point and no other mark, or give --categorical {option} or --drop {option}."
        )
    return "categorical"


def nested(source: Source, name: str, remedy: str) -> InputError:
    return InputError(
        f"{source.name}: column {name!r} holds lists or objects; make each of their values a column, or give {remedy}."
    )


def _categorical(name: str, cells: Sequence[Any]) -> Column:
    counted = Counter(text_of(cell) or MISSING_CATEGORY for cell in _as_text(cells))
    common = sorted(category for category, _ in counted.most_common(MOST_CATEGORIES))
    note = ""
    if len(counted) > MOST_CATEGORIES:
        share = sum(counted[category] for category in common) / math.fsum(counted.values())
        note = f"the {MOST_CATEGORIES} commonest of {len(counted)} categories, {share:.0%} of the first rows"
    return Column(name, "categorical", note, tuple(common))


def _left_out(columns: Sequence[Column]) -> str:
    return "; ".join(f"{c.name}: {c.note}" for c in columns) or "there is no other"
