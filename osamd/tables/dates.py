"""Dates and times as parts that come round again: the hour of the day, the day of the week, the season.

A date itself only grows, so a model would have to extrapolate it. A part that comes round is a place on a circle, given
by its sine and cosine: midnight is beside 23:59, and "at night" or "at the weekend" is one side of a straight line,
which linear models and trees find alike.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from osamd.numerics import Array
from osamd.tables.values import NotThis, text_of

DAY = 86_400.0
"""Seconds."""

_MONTHS = {"jan": 1, "feb": 2, "mar": 3, "mär": 3, "mrz": 3, "apr": 4, "may": 5, "mai": 5, "jun": 6, "jul": 7}
_MONTHS |= {"aug": 8, "sep": 9, "oct": 10, "okt": 10, "nov": 11, "dec": 12, "dez": 12}
_WEEKDAY = r"(?:[^\W\d_]{2,10}\.?,? )?"
_YEAR_FIRST = r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})"
_YEAR_LAST = r"(?P<first>\d{1,2})(?P<between>[-/.])(?P<second>\d{1,2})(?P=between)(?P<last>\d{4}|(?<=[/.])\d{2})"
_NAMED = rf"{_WEEKDAY}(?P<nth>\d{{1,2}})\.?[ -](?P<name>[^\W\d_]{{3,9}})\.?,?[ -](?P<in>\d{{4}})"
_NAME_FIRST = rf"{_WEEKDAY}(?P<called>[^\W\d_]{{3,9}})\.? (?P<date>\d{{1,2}}),? (?P<of>\d{{4}})"
_ZONE = r"(?: ?(?:Z|[A-Z]{3,4}|(?:UTC|GMT)?[+-]\d{2}(?::?\d{2})?))?"
_TIME = rf"(?P<h>\d{{1,2}}):(?P<min>\d{{2}})(?::(?P<s>\d{{2}})(?:[.,]\d+)?)?(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?{_ZONE}"
_MOMENT = re.compile(rf"(?:(?:{_YEAR_FIRST}|{_YEAR_LAST}|{_NAMED}|{_NAME_FIRST})(?:(?:T|,? +){_TIME})?)")
_TIME_ALONE = re.compile(_TIME)


class Cycle(NamedTuple):
    """A part of a date that comes round."""

    name: str
    days: float
    """How long one turn takes."""


CYCLES = (Cycle("hour", 1.0), Cycle("weekday", 7.0), Cycle("season", 366.0))
PARTS = tuple(cycle.name for cycle in CYCLES)


def moments(values: Sequence[Any], day_first: bool | None = None) -> Array:
    """The day (counted from the year 1; NaN for a time alone) and the second of the day of every value, as rows.

    Both are NaN where a value is missing. `NotThis` names the first that is no date or time. `day_first` says whether
    3/4/2024 is in April; None finds it out from the other values.

    >>> moments(["2024-01-05 06:30", "?", "7:15 PM"]).tolist()
    [[738890.0, 23400.0], [nan, nan], [nan, 69300.0]]
    """
    if day_first is None:
        day_first = is_day_first(values)
    found = np.full((len(values), 2), math.nan)
    for row, value in enumerate(values):
        try:
            found[row] = _moment(value, day_first)
        except (ValueError, TypeError):
            raise NotThis(row, value) from None
    return found


def is_day_first(values: Sequence[Any]) -> bool:
    """Whether 3/4/2024 is in April: as another value shows, or else unless slashes separate the numbers.

    >>> is_day_first(["3/4/2024", "13/4/2024"]), is_day_first(["3/4/2024"]), is_day_first(["3.4.2024"])
    (True, False, True)
    """
    slashes = False
    for value in values:
        found = _MOMENT.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is not None and found["first"]:
            if int(found["first"]) > 12 or int(found["second"]) > 12:
                return int(found["first"]) > 12
            slashes |= found["between"] == "/"
    return not slashes


def parts_that_turn(found: Array) -> tuple[str, ...]:
    """The parts that vary, and whose cycle came round in these moments; others would be a trend, or nothing.

    >>> parts_that_turn(moments([f"2024-01-{day:02d}" for day in range(1, 20)]))
    ('weekday',)
    """
    known = found[~np.isnan(found[:, 1])]
    times = np.isnan(known[:, 0])
    if not len(known):
        return ()
    if times.any():  # without a day, the time of day comes round where it falls back
        falls = -np.diff(known[:, 1]).min(initial=0.0)
        return ("hour",) if falls > 0.0 and 2.0 * falls >= np.ptp(known[:, 1]) else ()
    span = np.ptp(known[:, 0] + known[:, 1] / DAY)
    return tuple(cycle.name for cycle in CYCLES if span >= cycle.days and len(np.unique(_phase(cycle.name, known))) > 1)


def waves(found: Array, parts: Sequence[str]) -> Array:
    """Sine and cosine of every part, side by side; zeros, the middle of the circle, where a moment is missing.

    >>> waves(moments(["06:00", "?"]), ["hour"]).round(3).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    turns = [2.0 * math.pi * _phase(part, found) for part in parts]
    columns = [wave(turn) for turn in turns for wave in (np.sin, np.cos)]
    return np.nan_to_num(np.column_stack(columns)) if columns else np.zeros((len(found), 0))


def _phase(part: str, found: Array) -> Array:
    """The place within the cycle, from 0 to 1."""
    days, seconds = found[:, 0], found[:, 1]
    if part == "hour":
        return seconds / DAY
    if part == "weekday":
        return ((days + 6.0) % 7.0) / 7.0
    into = [math.nan if math.isnan(day) else datetime.date.fromordinal(int(day)).timetuple().tm_yday for day in days]
    return np.array(into) / 366.0


def _moment(value: Any, day_first: bool) -> tuple[float, float]:
    if isinstance(value, datetime.datetime) and text_of(value) is not None:
        return float(value.toordinal()), 3600.0 * value.hour + 60.0 * value.minute + value.second
    if isinstance(value, datetime.date) and text_of(value) is not None:
        return float(value.toordinal()), 0.0
    text = text_of(value)
    if text is None:
        return math.nan, math.nan
    found = _MOMENT.fullmatch(text)
    if found is None:
        alone = _TIME_ALONE.fullmatch(text)
        if alone is None:
            raise ValueError
        return math.nan, _second(alone)
    return float(_day(found, day_first).toordinal()), _second(found) if found["h"] else 0.0


def _day(found: re.Match[str], day_first: bool) -> datetime.date:
    if found["year"]:
        return datetime.date(int(found["year"]), int(found["month"]), int(found["day"]))
    if found["first"]:
        year, pair = int(found["last"]), (int(found["second"]), int(found["first"]))
        year += 0 if year >= 100 else 2000 if year < 70 else 1900
        return datetime.date(year, *(pair if day_first else pair[::-1]))
    name, day, year_of = (
        found[group] for group in (("name", "nth", "in") if found["nth"] else ("called", "date", "of"))
    )
    month = _MONTHS.get(name[:3].lower())
    if month is None:
        raise ValueError
    return datetime.date(int(year_of), month, int(day))


def _second(found: re.Match[str]) -> float:
    hour, minute, second = int(found["h"]), int(found["min"]), int(found["s"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + (12 if found["half"].lower() == "p" else 0)
    datetime.time(hour, minute, min(second, 59))  # a leap second is the end of its minute
    return 3600.0 * hour + 60.0 * minute + second
