"""What comes out of a run on a user's table: the runs of every method, the baselines, and when the stream changed."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.evaluation.answers import Delay
from osamd.evaluation.intervals import Mean, mean_90
from osamd.learner.linear import OSAMD
from osamd.numerics import Array
from osamd.paper.ledger import Ledger
from osamd.prequential.changes_found import Change, adwin_changes, margin_changes
from osamd.prequential.playing import Check
from osamd.tables import Column, Rows
from osamd.tables.classes import Class

LAST = 1000
"""Rounds at the end whose accuracy is given apart, or a tenth of a short table, and 20 at least."""


class Run(NamedTuple):
    """One method over the table; shares are of the rounds."""

    method: str
    accuracy: float
    balanced_accuracy: float
    """The mean over the classes that occur of the accuracy among their rounds."""
    labels: float
    """Asked for."""
    pseudolabel_errors: float
    asked: int
    told: int
    expired: int
    pending: int
    """Queries whose labels were still under way after the last row."""
    right: NDArray[np.bool_]
    """Which rounds were decided rightly."""

    @property
    def last(self) -> float:
        """The accuracy over the last rounds, `last_rounds` of them."""
        return float(self.right[-last_rounds(len(self.right)) :].mean())


class Baseline(NamedTuple):
    """Decisions without any label after the warm-up."""

    title: str
    right: NDArray[np.bool_]
    balanced_accuracy: float

    @property
    def accuracy(self) -> float:
        """The share of rounds decided rightly."""
        return float(self.right.mean())

    @property
    def last(self) -> float:
        """The accuracy over the last rounds, `last_rounds` of them."""
        return float(self.right[-last_rounds(len(self.right)) :].mean())


def last_rounds(rounds: int) -> int:
    """How many rounds at the end have an accuracy of their own.

    >>> last_rounds(50_000), last_rounds(3000), last_rounds(10)
    (1000, 300, 10)
    """
    return min(rounds, max(20, min(LAST, rounds // 10)))


def minus(some: Sequence[Run | Baseline], others: Sequence[Run | Baseline]) -> Mean:
    """The accuracy of runs less that of others, seed by seed, with a 90 % interval where there are several seeds."""
    return mean_90([one.accuracy - other.accuracy for one, other in zip(some, others, strict=True)])


@dataclass(frozen=True)
class Outcome:
    """All that came out of `run`.

    The ledger, the learner and the checks are those of the method asked for, on the first seed, as are `runs`.
    """

    table: str
    label: str
    classes: list[Class]
    columns: list[Column]
    warmup: int
    """Labelled rows that the learner started from."""
    unlabelled: int
    """Rows that were left out for want of a label."""
    settings: dict[str, Any]
    delay: Delay | None
    learner: OSAMD
    ledger: Ledger
    came: NDArray[np.int64]
    checks: list[Check]
    runs: dict[str, Run]
    """By method: the one asked for, and the others where they were compared; on the first seed."""
    without_delay: Run | None
    """On the first seed."""
    repeats: dict[str, list[Run]]
    """By method, a run for every seed."""
    repeats_without_delay: list[Run]
    baselines: dict[str, Baseline]
    """"left-alone", the start model never told anything, and "commonest-class" of the warm-up rows; none without."""
    data: Rows
    """The table as it was read."""
    margins_left_alone: Array
    """How sure the model left alone is of each row; empty where there was no warm-up."""
    by_budget: dict[float, Run]
    """The preset at half its budget, at its own, at twice it, and with every label (1.0); empty where not played."""
    meant_by: str = ""
    """The setting, eta or sigma, that meant the paper's OSAMD where no method was named."""

    def row(self, sample: Mapping[str, Any]) -> Array:
        """A raw row, by the names of the columns, as the features that the learner takes; see `Rows.row`."""
        return self.data.row(sample)

    @property
    def new_classes(self) -> list[Class]:
        """The classes that first appeared after the warm-up."""
        return self.classes[len(self.data.declared) :]

    @property
    def run(self) -> Run:
        """The method asked for."""
        return self.runs[self.settings["method"]]

    @cached_property
    def changes(self) -> list[Change]:
        """When the stream changed: by the margin of the model left alone, and by River's ADWIN on its decisions."""
        alone = self.baselines.get("left-alone")
        watched = [] if alone is None else adwin_changes(alone.right)
        return sorted([*margin_changes(self.margins_left_alone), *watched])

    def date(self, t: int) -> str:
        """The date of a round, with the time where dates have one; empty where the table has no dates.

        The table's first column of dates counts.
        """
        days = self._days
        if t >= len(days) or math.isnan(days[t]):
            return ""
        timed = np.nanmax(days % 1.0) > 0.0
        moment = datetime.datetime.fromordinal(int(days[t]))
        moment += datetime.timedelta(minutes=float(np.rint((days[t] % 1.0) * 24 * 60)))
        return moment.strftime("%Y-%m-%d %H:%M" if timed else "%Y-%m-%d")

    @cached_property
    def _days(self) -> Array:
        return self.data.days

    @property
    def summary(self) -> dict[str, Any]:
        """The content of results.json."""
        from osamd.prequential.results import content

        return content(self)
