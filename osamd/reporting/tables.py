"""Tables and reports: what a command prints and writes, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from osamd.evaluation.intervals import Mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Table(NamedTuple):
    """A table to print, with sentences below it; the first column names the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


class Report(NamedTuple):
    """What a command prints and writes: tables, the content of its JSON file, and its figure if it has one."""

    tables: Sequence[Table]
    content: Mapping[str, Any]
    figure: Figure | None = None


def in_seeds(seeds: int, intervals: str = "") -> str:
    """The number of seeds in words; `intervals` follows if there are several, since one seed has no interval.

    >>> in_seeds(10, ", bands: 90 % intervals"), in_seeds(1, ", bands: 90 % intervals")
    ('10 seeds, bands: 90 % intervals', '1 seed')
    """
    return f"{seeds} seeds{intervals}" if seeds > 1 else "1 seed"


def in_words(mean: Mean, digits: int, unit: float = 1.0) -> str:
    """The mean with the half-width of its interval, if it has one.

    >>> in_words(Mean(0.98853, 0.0022), 2, unit=0.01), in_words(Mean(80.4, None), 0)
    ('98.85 ± 0.22', '80')
    """
    half = "" if mean.half_width_90 is None else f" ± {mean.half_width_90 / unit:.{digits}f}"
    return f"{mean.mean / unit:.{digits}f}{half}"


def counted(number: int, thing: str) -> str:
    """So many things.

    >>> counted(1, "label"), counted(1200, "label")
    ('1 label', '1,200 labels')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
