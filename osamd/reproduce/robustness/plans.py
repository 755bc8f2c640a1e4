"""The plan of a run of `osamd robustness`, and how its tables write shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class RobustnessPlan(NamedTuple):
    """How much to run: seeds 0, ..., seeds - 1, and rounds and budgets if they differ from the defaults of a group."""

    seeds: int
    rounds: int | None = None
    budgets: Sequence[float] | None = None


def in_percent(share: float) -> str:
    """A share as the tables write it.

    >>> in_percent(0.05), in_percent(0.005)
    ('5 %', '0.5 %')
    """
    return f"{100.0 * share:g} %"
