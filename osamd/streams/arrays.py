"""A stream made from arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from osamd.errors import InputError, reject, require_finite, require_numbers, require_whole
from osamd.numerics import Array
from osamd.streams.base import Labels, Stream

ROWS = 1 << 16
"""Rows per block: so many that passing a block on costs nothing compared with playing it."""


class Arrays(Stream):
    """Rows of x (rounds x features) with labels y of any kind, in the given order; the first `warmup` rows are the
    source.

    Unless the classes are given, they are the labels that occur, sorted.

    >>> stream = Arrays([[0.0], [1.0], [2.0]], ["no", "yes", "yes"])
    >>> stream.rounds, stream.classes
    (3, ('no', 'yes'))
    """

    def __init__(
        self,
        x: ArrayLike,
        y: Iterable[Hashable],
        *,
        classes: Sequence[Hashable] | None = None,
        warmup: int = 0,
        name: str = "arrays",
    ) -> None:
        rows, labels = require_numbers("Arrays", "x", x), _listed("y", y)
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise InputError(
                f"`Arrays(x=...)`: x has shape {rows.shape}; give one row per round and one column per feature."
            )
        if len(rows) != len(labels):
            raise InputError(
                f"`Arrays(x=..., y=...)`: x has {len(rows)} rows but y has {len(labels)} labels; give as many of each."
            )
        warmup = require_whole("Arrays", "warmup", warmup, 0)
        if warmup >= len(rows):
            raise InputError(
                f"`Arrays(warmup={warmup})`: no rounds are left: {warmup} of {len(rows)} rows are warm-up;"
                " give more rows than warmup."
            )
        known = tuple(_sorted(set(labels)) if classes is None else _listed("classes", classes))
        if len(known) < 2:
            given = "y" if classes is None else "classes"
            found = f"one class only ({known[0]!r})" if known else "no class"
            raise InputError(f"`Arrays({given}=...)`: {found}; a stream needs at least two classes.")
        index = {c: i for i, c in enumerate(known)}
        if len(index) < len(known):
            raise reject("Arrays", "classes", known, "give each class once.")
        for t, label in enumerate(labels):
            if label not in index:
                raise InputError(f"`Arrays(y=...)`: label {label!r} of row {t} is not in the classes {known}.")
        require_finite("Arrays", "x", rows)
        self.name = name
        self.features = rows.shape[1]
        self.classes = known
        self.rounds = len(rows) - warmup
        self._x, self._y = rows, np.array([index[label] for label in labels], dtype=np.int64)
        self._warmup = warmup

    def blocks(self, seed: int) -> Iterator[tuple[Array, Labels]]:
        for start in range(self._warmup, len(self._x), ROWS):
            yield self._x[start : start + ROWS], self._y[start : start + ROWS]

    def source(self, count: int, seed: int) -> tuple[Array, Labels]:
        count = require_whole("source", "count", count, 0)
        if count > self._warmup:
            raise InputError(f"`source(count={count})`: the stream keeps {self._warmup} warm-up rows; ask for no more.")
        return self._x[:count], self._y[:count]


def _listed(argument: str, values: Any) -> list[Hashable]:
    """The labels or classes as a list of plain values; missing ones are refused."""
    if isinstance(values, set | frozenset | Mapping) or getattr(values, "ndim", 1) != 1:
        shape = getattr(values, "shape", None)
        found = f"has shape {shape}" if shape is not None else f"is a {type(values).__name__}"
        raise InputError(f"`Arrays({argument}=...)`: {argument} {found}; give one label after the other, as in a list.")
    try:
        listed: list[Hashable] = values.tolist() if hasattr(values, "tolist") else list(values)
        set(listed)
    except TypeError as error:
        rule = f"give one label after the other, as in a list ({error})."
        raise reject("Arrays", argument, values, rule) from None
    for i, label in enumerate(listed):
        same = label == label  # false for NaN and NaT, and undefined for pandas' NA
        if label is None or not isinstance(same, bool | np.bool_) or not same:
            raise InputError(
                f"`Arrays({argument}=...)`: {argument}[{i}] is {label!r}, a missing label; drop or fill those rows."
            )
    return listed


def _sorted(labels: set[Hashable]) -> list[Hashable]:
    """Sorted in their own order, or by type and text if they have none."""
    try:
        return sorted(labels)  # type: ignore[type-var]
    except TypeError:
        return sorted(labels, key=lambda label: (str(type(label)), str(label)))
