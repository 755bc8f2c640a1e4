"""What a column of a table is, as its first rows show: numbers, true and false, categories, dates, or nothing to use.

Left out are columns that tell one row from another and nothing else: ids and counters, which only rise, and text that
hardly ever repeats. A model would learn them by heart, or would have to extrapolate them for ever. `keep` keeps them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.tables.dates import is_day_first, moments, parts_that_turn
from osamd.tables.row_sources import Block, Source
from osamd.tables.values import NotThis, numbers, text_of, truths

MOST_CATEGORIES = 100
"""The most categories of one column. Where the first rows hold more, the commonest get a feature each, and the others
count as unseen."""

MISSING_CATEGORY = "(missing)"

FEWEST_ROWS = 20
"""The least number of values that can show an id: 20 values of a feature are in order by chance once in 10^18."""

UNIQUE = 0.9
"""Text is near-unique where the different texts are at least this share of the values."""

EVEN = 0.1
"""Steps of a counter that is not whole, such as a time in seconds, differ from their median by this share at most."""

_LOCAL = re.compile(r"[+-]?(\d[\d.]*)?(,\d+)*(\.\d*)?([eE][+-]?\d+)?")
"""Numbers, with commas or without."""
_GROUPS = re.compile(r"[+-]?\d{1,3}(\.\d{3}){2,}")
"""Thousands in groups with points, as in 1.234.567."""


@dataclass
class Column:
    """A column of the table, what it was found to be, and what was met in it so far."""

    name: str
    kind: str
    """numeric, boolean, categorical, date, or "left out"."""
    note: str = ""
    """Why it was left out, or what else a reader should know."""
    categories: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    """For dates: which of `osamd.tables.dates.PARTS` are features."""
    day_first: bool = False
    """For dates: whether 3/4/2024 is in April."""
    dates: bool = False
    """Whether its values are dates or times, used or not."""
    fill: float | None = None
    """What stands in for a missing number, where that is fixed; None where it is the mean so far."""
    identifies: bool = False
    """Whether it was left out because it only tells rows apart; `keep` keeps it."""
    missing: int = 0
    unseen: int = 0
    """Values of categories that have no feature."""

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        if self.kind == "categorical":
            return [f"{self.name}={category}" for category in self.categories]
        if self.kind == "date":
            return [f"{self.name}.{part}.{wave}" for part in self.parts for wave in ("sin", "cos")]
        return [] if self.kind == "left out" else [self.name]

    def described(self) -> dict[str, Any]:
        """For results.json."""
        told: dict[str, Any] = {"name": self.name, "kind": self.kind, "features": len(self.features)}
        if self.kind == "categorical":
            told |= {"categories": list(self.categories), "unseen": self.unseen}
        if self.kind == "date":
            told["parts"] = list(self.parts)
        told |= {"missing": self.missing} if self.kind != "left out" else {}
        return told | ({"note": self.note} if self.note else {})


class ColumnWishes(NamedTuple):
    """What a user said about columns, by their names."""

    drop: Collection[str] = ()
    """Leave these out."""
    categorical: Collection[str] = ()
    """Numbers of these are codes."""
    keep: Collection[str] = ()
    """Use these although they look like ids or counters."""


def planned(source: Source, i: int, first: Block, wishes: ColumnWishes) -> Column:
    """What the column is, from what its type declares, or from its values in the first rows."""
    name, cells = source.names[i], first.columns[i]
    if name in wishes.drop:
        return Column(name, "left out", "dropped")
    if not name:
        return Column(f"column {i + 1}", "left out", "it has no name")
    forced = name in wishes.categorical
    kind = "categorical" if forced else source.declared.get(name) or _kind(source, name, cells)
    if kind == "nested":
        raise nested(source, name, f"drop={[name]}")
    if kind != "categorical" and all(text_of(cell) is None for cell in cells):
        return Column(name, "left out", f"no value in the first {first.rows} rows")
    if kind == "date":
        return _date(name, cells)
    if not forced and name not in wishes.keep:
        why = _identifies(kind, cells, source.decimal)
        if why:
            return Column(name, "left out", why, identifies=True)
    return _categorical(name, cells) if kind == "categorical" else Column(name, kind)


def remarks(columns: Sequence[Column]) -> list[str]:
    """Sentences on columns that are not used as they are."""
    said = []
    for column in columns:
        if column.kind == "left out" and column.note != "dropped":
            said.append(f"Column {column.name!r} is left out: {column.note}.")
        elif column.note and column.kind != "left out":
            said.append(f"Column {column.name!r}: {column.note}.")
    return said


def nested(source: Source, name: str, remedy: str) -> InputError:
    return InputError(
        f"{source.name}: column {name!r} holds lists or objects; make each of their values a column, or give {remedy}."
    )


def _kind(source: Source, name: str, cells: Sequence[Any]) -> str:
    if any(isinstance(cell, list | dict) for cell in cells):
        raise nested(source, name, f"drop={[name]}")
    tests: tuple[tuple[str, Callable[[Any], object]], ...] = (
        ("boolean", truths),
        ("numeric", lambda values: numbers(values, source.decimal)),
        ("date", moments),
    )
    for kind, test in tests:
        try:
            test(cells)
            return kind
        except NotThis:
            pass
    _refuse_local_numbers(source, name, [text for text in map(text_of, cells) if text is not None])
    return "categorical"


def _refuse_local_numbers(source: Source, name: str, texts: Sequence[str]) -> None:
    """Refuse numbers in the format of another country, rather than take each for a category."""
    marked = [text for text in texts if "," in text or "." in text]
    if not marked or not all(_LOCAL.fullmatch(text) or _GROUPS.fullmatch(text) for text in texts):
        return
    german = all(_GROUPS.fullmatch(text) or re.fullmatch(r"[^,]*,\d*", text) for text in marked)
    found = f"{source.name}: column {name!r} holds numbers such as {marked[0]}"
    others = f"with a decimal point and no other mark, or give categorical={[name]} or drop={[name]}"
    if source.decimal == "." and german:
        raise InputError(f"{found}; give decimal=',' if the comma is their decimal mark, else write them {others}.")
    raise InputError(f"{found}, which decimal={source.decimal!r} does not fit; write all numbers {others}.")


def _identifies(kind: str, cells: Sequence[Any], decimal: str) -> str:
    """Why the column only tells one row from another; empty where it does not."""
    if kind == "numeric" and _counts(numbers(cells, decimal)):
        return "its numbers go one way from row to row, as those of an id, a counter or a clock do"
    if kind == "categorical":
        texts = [text for text in map(text_of, as_text(cells)) if text is not None]
        different = len(set(texts))
        if len(texts) >= FEWEST_ROWS and different >= UNIQUE * len(texts):
            return f"{different} of its first {len(texts)} texts are different, as names, ids and free text are"
    return ""


def _counts(values: Array) -> bool:
    """Whether these are the numbers of an id or a counter: never back, and whole or in even steps.

    Measurements that are not whole may rise over all first rows by their nature, so that they are kept.

    >>> _counts(np.arange(100.0)), _counts(np.arange(100.0) / 4), _counts(np.sort(np.random.default_rng(0).random(100)))
    (True, True, False)
    """
    known = values[~np.isnan(values)]
    steps = np.diff(known)
    if len(known) < FEWEST_ROWS or not ((steps >= 0.0).all() or (steps <= 0.0).all()):
        return False
    if (known == np.floor(known)).all():
        return bool((steps != 0.0).mean() >= 0.5)
    usual = np.median(steps)
    return bool(usual != 0.0 and (np.abs(steps - usual) <= EVEN * np.abs(usual)).mean() >= UNIQUE)


def _date(name: str, cells: Sequence[Any]) -> Column:
    day_first = is_day_first(cells)
    parts = parts_that_turn(moments(cells, day_first))
    if not parts:
        why = "of these dates or times neither the hour nor the weekday nor the season comes round in the first rows"
        return Column(name, "left out", why, day_first=day_first, dates=True)
    listed = " and ".join(", ".join(parts).rsplit(", ", 1))
    return Column(name, "date", f"used as {listed}", parts=parts, day_first=day_first, dates=True)


def _categorical(name: str, cells: Sequence[Any]) -> Column:
    counted = Counter(text_of(cell) or MISSING_CATEGORY for cell in as_text(cells))
    common = sorted(category for category, _ in counted.most_common(MOST_CATEGORIES))
    note = ""
    if len(counted) > MOST_CATEGORIES:
        share = sum(counted[category] for category in common) / math.fsum(counted.values())
        note = f"the {MOST_CATEGORIES} commonest of {len(counted)} categories, {share:.0%} of the first rows"
    return Column(name, "categorical", note, tuple(common))


def as_text(cells: Sequence[Any]) -> Sequence[str]:
    """Cells of text as they are, others as the text of their value."""
    listed = cells.tolist() if isinstance(cells, np.ndarray) else cells
    return [cell if type(cell) is str else text_of(cell) or "" for cell in listed]
