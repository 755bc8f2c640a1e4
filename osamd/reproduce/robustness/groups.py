"""The groups of `osamd robustness`, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from osamd.errors import InputError, nearest
from osamd.evaluation.many import Runner, run_many
from osamd.reporting.tables import Report, Table
from osamd.reproduce.robustness import drifting, hard_tables, harm, harm_report
from osamd.reproduce.robustness.plans import RobustnessPlan


class Group(NamedTuple):
    """Streams that are measured together: their tasks, how one task is run, and the report on all."""

    title: str
    tasks: Callable[[RobustnessPlan], Sequence[Any]]
    run: Callable[[Any], Any]
    report: Callable[[RobustnessPlan, Sequence[Any]], Report]
    """Takes the plan and the results of the tasks, in their order."""


GROUPS = {
    "drift": Group("drifting streams", drifting.drift_tasks, drifting.run, drifting.drift_report),
    "tables": Group("hard tables", hard_tables.tasks, hard_tables.run, hard_tables.report),
    "harm": Group("do no harm", harm.tasks, harm.run, harm_report.report),
    "late": Group("drifting streams, late labels", drifting.late_tasks, drifting.run, drifting.late_report),
}
"""By their names on the command line, in the order in which they are run."""


def named(given: Sequence[str]) -> list[str]:
    """The groups that a user named, in our order, or all of them if none is named."""
    for name in given:
        if name not in GROUPS:
            raise InputError(f"`named(group={name!r})`: no such group. {nearest(name, GROUPS)}")
    return [name for name in GROUPS if name in given or not given]


def number_of_tasks(names: Sequence[str], plan: RobustnessPlan) -> int:
    """The number of tasks of `measure`, for a progress bar."""
    return sum(len(GROUPS[name].tasks(plan)) for name in names)


def measure(
    names: Sequence[str],
    plan: RobustnessPlan,
    runner: Runner | None = None,
    *,
    progress: Callable[[], None] | None = None,
) -> Report:
    """Run these groups one after another; returns their tables, and their content by name."""
    tables: list[Table] = []
    content = {}
    for name in names:
        group = GROUPS[name]
        done = run_many(group.run, group.tasks(plan), runner, progress=progress)
        found = group.report(plan, done)
        tables += found.tables
        content[name] = {"title": group.title, **found.content}
    return Report(tables, {"seeds": plan.seeds, "groups": content})
