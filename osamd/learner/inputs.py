"""Reads what users give to a linear learner: one sample, many samples, rows of a source, and its labels.

A sample is a row of numbers, a dictionary, or a row of a data frame, also as a frame of one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from osamd.errors import ENCODE, InputError, are_continuous, require_numbers
from osamd.learner.decision import plain
from osamd.numerics import Array
from osamd.tables.frames import is_frame, records

FLOAT64 = np.dtype(np.float64)


def as_row(names: list[str] | None, encoder: Any, x: Any) -> Array:
    """One sample as the compiled round takes it: a vector of float64 that could be written to, copied if need be.

    `encoder` turns samples with names into rows, where the learner has one.
    """
    if type(x) is not np.ndarray or x.ndim != 1:
        named = None if encoder is None else as_mapping(x)
        row: Array = one_row(x, names) if named is None else encoder.row(named)
        return row
    kind = x.dtype
    if (kind is FLOAT64 and x.flags.carray) or kind.kind not in "fiu":  # the core refuses what is no number
        return x
    return np.array(x, dtype=np.float64)


def one_row(x: Any, names: list[str] | None) -> Array:
    """One sample as a vector; of a dictionary or a row of a data frame the named features, in their order."""
    x = one_sample(x)
    given = names_of(x)
    if given is not None:
        if names is None:
            raise InputError("`ask(x=...)`: x names its features, the learner was made without names; give numbers.")
        missing = set(names) - set(given)
        if missing:
            raise InputError(f"`ask(x=...)`: x has no {_first_missing(names, missing)}; give every feature a number.")
        x = [getattr(x, name) if isinstance(x, tuple) else x[name] for name in names]
    if np.ma.is_masked(x):
        raise InputError("`ask(x=...)`: x has masked values; fill them first.")
    row = require_numbers("ask", "x", x, names if given is not None else None, ENCODE)
    if row.ndim != 1:
        many = " Give one row at a time; for many at once there are predict and predict_proba."
        shown = f"x must be one row of numbers; its shape is {row.shape}.{many if row.ndim > 1 else ''}"
        raise InputError(f"`ask(x=...)`: {shown}")
    return np.array(row)


def one_sample(x: Any) -> Any:
    """The row of a frame that has one row, as a dictionary; anything else as it is."""
    if not is_frame(x):
        return x
    found = records(x)
    if len(found) != 1:
        raise InputError(
            f"`ask(x=...)`: x is a table of {len(found)} rows; give one row at a time; for many at once there are"
            " predict and predict_proba."
        )
    return found[0]


def as_mapping(x: Any) -> Mapping[str, Any] | None:
    """The values of a sample by name, where it has names."""
    x, names = one_sample(x), names_of(one_sample(x))
    if isinstance(x, Mapping):
        return x
    return None if names is None else {name: getattr(x, name) if isinstance(x, tuple) else x[name] for name in names}


def names_of(x: Any) -> list[str] | None:
    """The names that a dictionary or a row of a data frame gives its features."""
    keys: list[Any] = []
    if isinstance(x, Mapping):
        keys = list(x)
    elif hasattr(x, "to_numpy") and getattr(x, "ndim", 1) == 1:  # a row, not a table
        keys = list(getattr(x, "index", ()))
    elif isinstance(x, tuple):
        keys = list(getattr(x, "_fields", ()))  # as `itertuples` gives rows
    return keys if keys and all(isinstance(key, str) for key in keys) else None


def many_samples(x: Any) -> Sequence[Any] | None:
    """The samples of a batch: a table of numbers, a data frame, or a list of samples; None where x is one sample."""
    if is_frame(x):
        return records(x)
    if isinstance(x, np.ndarray):
        return list(x) if x.ndim == 2 else None
    if isinstance(x, list) and x and (isinstance(x[0], list | tuple | np.ndarray) or names_of(x[0]) is not None):
        return x
    return None


def source_rows(X: Any) -> tuple[Array, list[str] | None]:
    """The rows of a source as numbers, and the names of its columns, if it has any."""
    columns = getattr(X, "column_names", None) or getattr(X, "columns", None)  # of Arrow, or of other data frames
    if columns is not None and not hasattr(X, "to_numpy"):
        X = [np.asarray(X[name]) for name in columns]
        numeric = all(column.dtype.kind in "biuf" for column in X)
        X = np.column_stack(X if numeric else [column.astype(object) for column in X])
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        raise InputError(
            "`from_source(X=...)`: X is a list of dictionaries; give pandas.DataFrame(X), a table, or use from_table."
        )
    table = X.to_numpy() if hasattr(X, "to_numpy") else X
    names = None if columns is None else [str(name) for name in columns]
    rows = require_numbers("from_source", "X", table, names, f"use from_table, or {ENCODE}")
    if rows.ndim != 2 or not len(rows):
        raise InputError(f"`from_source(X=...)`: X must be a table of rows; its shape is {rows.shape}.")
    return rows, names


def source_labels(call: str, y: Any, *, declared: bool) -> list[Any]:
    """The labels of a source as plain values; missing ones are refused, and measured ones unless they were declared."""
    labels = [plain(label) for label in (y.to_pylist() if hasattr(y, "to_pylist") else y)]
    for row, label in enumerate(labels):
        if is_missing(label):
            raise InputError(
                f"`{call}(y=...)`: the label of row {row} is missing ({label!r}); give a class for every row, and leave"
                " out the rows that have none."
            )
    if not declared and are_continuous(labels):
        shown = next(label for label in labels if not float(label).is_integer())
        raise InputError(
            f"`{call}(y=...)`: y holds measured numbers such as {shown!r}; a classifier needs classes, so cut them into"
            " ranges first, as pandas.cut does, or, if these are classes, name them by classes=[...]."
        )
    return labels


def is_missing(label: Any) -> bool:
    """Whether this stands for a missing value: None, nan, or pandas' NA and NaT."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):  # pandas' NA is neither equal to itself nor not
        return True


def _first_missing(names: list[str], missing: set[str]) -> str:
    """The first few features that are missing, in their order."""
    listed = [repr(name) for name in names if name in missing]
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")
