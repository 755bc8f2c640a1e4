"""What the cells of a table mean: missing, a number, true or false, a category, a label."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from osamd.numerics import Array

MISSING = frozenset({"", "?", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "nat", "null", "none"})
"""Texts that stand for a missing value, in small letters; capitals and spaces around them do not matter. In a column
of numbers, a number that is not finite is missing too."""

TRUTH = {"true": 1.0, "false": 0.0}

_WHOLE = re.compile(r"[+-]?\d+\.0*")
_GROUPED = re.compile(r"[+-]?\d{1,3}([.'\s\u2019]\d{3})+(,\d*)?")
"""Thousands in groups, before a decimal comma: 1.234.567,8."""


class NotThis(ValueError):
    """A value that its column cannot take; `row` says which one."""

    def __init__(self, row: int, value: object) -> None:
        super().__init__(row, value)
        self.row, self.value = row, value


def text_of(value: object) -> str | None:
    """A cell as text without spaces around it, None where it is missing.

    A whole number is written without a fraction, so that a category is the same in a file of text and one of numbers.

    >>> [text_of(value) for value in (" cat", "N/A", 3.0, True, None)]
    ['cat', None, '3', 'true', None]
    """
    if isinstance(value, str):
        text = value.strip()
        return None if text.lower() in MISSING else text
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return text_of(str(value))  # None, NaN and pandas' NA and NaT are missing by their names


def label_of(value: object) -> str | None:
    """A label as text: as `text_of`, with 1.0 the same as 1 in text too; None where it is missing.

    >>> label_of("1.0"), label_of(1), label_of("spam "), label_of(False)
    ('1', '1', 'spam', 'False')
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value))  # as CSV writers have it
    text = text_of(value)
    return str(int(text.rstrip("0")[:-1])) if text is not None and _WHOLE.fullmatch(text) else text


def numbers(values: Sequence[Any] | Array, decimal: str = ".") -> Array:
    """The values of a column as floats, NaN where one is missing; `NotThis` for the first that is no number.

    >>> numbers(["1.5", "?", "2e3"]).tolist()
    [1.5, nan, 2000.0]
    >>> numbers(["1.234,5", "-7", "0,25"], decimal=",").tolist()
    [1234.5, -7.0, 0.25]
    """
    if isinstance(values, np.ndarray):
        found = values.astype(np.float64)
    elif decimal == ",":
        return one_by_one(values, _number_with_comma)
    else:
        try:
            if "_" in "".join(values):  # float() takes 1_000, which is no number in a file
                raise ValueError
        except TypeError:  # not all of them are text
            pass
        except ValueError:
            return one_by_one(values, _number)
        try:
            found = np.fromiter(map(float, values), np.float64, len(values))
        except (TypeError, ValueError):
            return one_by_one(values, _number)
    found[~np.isfinite(found)] = math.nan
    return found


def truths(values: Sequence[Any] | Array) -> Array:
    """Values of true and false as 1 and 0, NaN where one is missing; `NotThis` for the first that is neither."""
    return one_by_one(values, lambda value: TRUTH[str(text_of(value)).lower()])


def one_by_one(values: Any, read: Callable[[Any], float]) -> Array:
    """Every value that is not missing as `read` reads it, NaN where one is missing or not finite."""
    found = np.full(len(values), math.nan)
    for row, value in enumerate(values):
        if text_of(value) is not None:
            try:
                found[row] = read(value)
            except (TypeError, ValueError, KeyError, OverflowError):
                raise NotThis(row, value) from None
    found[~np.isfinite(found)] = math.nan
    return found


def _number(value: Any) -> float:
    if isinstance(value, str) and "_" in value:
        raise ValueError
    return float(value)


def _number_with_comma(value: Any) -> float:
    if not isinstance(value, str):
        return float(value)
    text = value.strip()
    if _GROUPED.fullmatch(text):
        text = re.sub(r"[.'\s\u2019]", "", text)
    elif "." in text:  # 1.5 is no number where the comma is the decimal mark
        raise ValueError
    return _number(text.replace(",", ".", 1))
