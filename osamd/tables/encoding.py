"""Columns as features: numbers as they are, true and false as 1 and 0, a category as a column of its own.

What a column is, the first rows decide (`osamd.tables.columns`). A missing number is the mean of those before it; a
missing category is a category; a missing date is in the middle of its circles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.tables.columns import MISSING_CATEGORY, Column, ColumnWishes, as_text, planned
from osamd.tables.dates import DAY, moments, waves
from osamd.tables.row_sources import Block, Source
from osamd.tables.samples import SampleEncoder
from osamd.tables.values import NotThis, numbers, text_of, truths

WERE = {"numeric": "numbers", "boolean": "true and false", "date": "dates or times"}
"""What the first rows held, by the kind of a column."""


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

    def __init__(self, source: Source, first: Block, label: str, wishes: ColumnWishes) -> None:
        self.columns = [planned(source, i, first, wishes) for i, name in enumerate(source.names) if name != label]
        self._place = {name: i for i, name in enumerate(source.names)}
        self._label, self._decimal = label, source.decimal
        self.features = [feature for column in self.columns for feature in column.features]
        if not self.features:
            kept = [column.name for column in self.columns if column.identifies]
            others = f", or keep={kept}" if kept else ""
            raise InputError(
                f"{source.name}: no column is left to learn from beside {label!r}"
                f" ({_left_out(self.columns)}); give the table columns of numbers or categories{others}."
            )
        self._plain = [c for c in self.columns if c.kind in ("numeric", "boolean")]
        at = {feature: j for j, feature in reversed(list(enumerate(self.features)))}
        self._where = np.array([at[column.name] for column in self._plain], dtype=np.int64)
        self._starts = {c.name: at[c.features[0]] for c in self.columns if c.kind in ("categorical", "date")}
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
            elif column.kind == "date":
                self._turn(column, block, x)
        if self._plain:
            x[:, self._where] = self._filled(block, warmup)
        return x

    def samples(self) -> SampleEncoder:
        """The encoder of single samples, with the means so far in place of missing numbers."""
        return SampleEncoder(self.columns, self.means, self._label)

    @property
    def means(self) -> dict[str, float]:
        """The means so far of the columns of numbers."""
        means = self._sums / np.maximum(self._counts, 1.0)
        return dict(zip((column.name for column in self._plain), means.tolist(), strict=True))

    def days(self, block: Block) -> Array:
        """The day of every row, with the time as a fraction, from the first column of dates; NaN where it is unknown.

        Days are counted from the year 1. Empty where no column holds dates.
        """
        dated = next((column for column in self.columns if column.dates), None)
        if dated is None:
            return np.zeros(0)
        try:
            found = moments(block.columns[self._place[dated.name]], dated.day_first)
        except NotThis:
            return np.full(block.rows, np.nan)
        return found[:, 0] + found[:, 1] / DAY

    def _mark(self, column: Column, cells: Sequence[Any], x: Array) -> None:
        """A 1 for every category that has a feature."""
        codes = self._codes[column.name]
        found = np.fromiter((codes[cell] for cell in as_text(cells)), np.int64, len(cells))
        gaps = found == -2
        column.missing += int(gaps.sum())
        found[gaps] = codes.get(MISSING_CATEGORY, -1)
        column.unseen += int((found == -1).sum())
        rows = np.flatnonzero(found >= 0)
        x[rows, self._starts[column.name] + found[rows]] = 1.0

    def _turn(self, column: Column, block: Block, x: Array) -> None:
        """The places of dates on the circles of their parts."""
        try:
            found = moments(block.columns[self._place[column.name]], column.day_first)
        except NotThis as wrong:
            raise _changed(column, wrong, block.place) from None
        column.missing += int(np.isnan(found[:, 1]).sum())
        start = self._starts[column.name]
        x[:, start : start + len(column.features)] = waves(found, column.parts)

    def _filled(self, block: Block, warmup: int) -> Array:
        values = np.empty((block.rows, len(self._plain)))
        for j, column in enumerate(self._plain):
            cells = block.columns[self._place[column.name]]
            try:
                values[:, j] = truths(cells) if column.kind == "boolean" else numbers(cells, self._decimal)
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


def _changed(column: Column, wrong: NotThis, place: Callable[[int], str]) -> InputError:
    listed = [column.name]
    return InputError(
        f"{place(wrong.row)}: column {column.name!r} holds {wrong.value!r}, and the first rows held"
        f" {WERE[column.kind]}; mend the value, or give categorical={listed} or drop={listed}."
    )


def _left_out(columns: Sequence[Column]) -> str:
    return "; ".join(f"{c.name}: {c.note}" for c in columns) or "there is no other"
