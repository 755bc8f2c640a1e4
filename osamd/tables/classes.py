"""The classes of a table: the labels of its first rows, or those that are given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from osamd.errors import InputError, are_continuous
from osamd.tables.columns import nested
from osamd.tables.row_sources import Block, Source
from osamd.tables.values import NotThis, label_of, numbers

MOST_CLASSES = 100
"""The most classes that are found by themselves; a column of more values is taken for a number to predict."""

Class = int | str


def classes_found(source: Source, first: Block, label: str, warmup: int) -> list[Class]:
    """The labels of the warm-up rows, sorted."""
    if not warmup:
        raise InputError(
            "`rows(warmup=0)`: without warm-up rows the classes are not known; name them by classes=[...]."
        )
    cells = listed(first.columns[source.names.index(label)])[:warmup]
    if any(isinstance(cell, list | dict) for cell in cells):
        raise nested(source, label, "another label=...")
    labels = [text for text in map(label_of, cells) if text is not None]
    texts = set(labels)
    if len(texts) > MOST_CLASSES or _measured(labels, source.decimal):
        raise InputError(
            f"`rows(label={label!r})`: {len(texts)} values in the first {warmup} rows; a classifier needs classes, so"
            " cut a number into ranges, or name the classes by classes=[...]."
        )
    if len(texts) < 2:
        found = f"only {texts.pop()!r}" if texts else "nothing"
        raise InputError(
            f"`rows(label={label!r})`: it holds {found} in the first {warmup} rows; a classifier needs two classes, so"
            " give more labelled rows, or name the classes by classes=[...]."
        )
    return _in_order(texts)


def classes_given(classes: Sequence[object]) -> list[Class]:
    """The classes that a user named."""
    named = [] if isinstance(classes, str) else [label_of(one) for one in classes]
    texts = [text for text in named if text is not None]
    if len(texts) < 2 or len(set(texts)) < len(named):
        raise InputError(
            f"`rows(classes={classes if isinstance(classes, str) else list(classes)!r})`: give at least two classes,"
            " each once, as in classes=['no', 'yes']."
        )
    return numbered(texts)


def numbered(texts: Sequence[str]) -> list[Class]:
    """As ints where all are whole numbers.

    >>> numbered(["1", "-1"]), numbered(["1", "01"])
    ([1, -1], ['1', '01'])
    """
    whole = [text.lstrip("-").isdecimal() and str(int(text)) == text for text in texts]
    return [int(text) for text in texts] if all(whole) else list(texts)


def listed(cells: Any) -> list[Any]:
    """The cells of a column as a list of plain values."""
    found: list[Any] = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    return found


def _measured(labels: Sequence[str], decimal: str) -> bool:
    """Whether these are measured numbers rather than classes."""
    try:
        return are_continuous(numbers(labels, decimal).tolist())
    except NotThis:
        return False


def _in_order(texts: Collection[str]) -> list[Class]:
    """Sorted, as ints where all are whole numbers."""
    found = numbered(sorted(texts))
    return sorted(found, key=int) if all(isinstance(one, int) for one in found) else found
