"""Hard tables: a trending column, outliers, many tight classes, many features, a rare class that overlaps.

The default learner starts from a fitted source model and from nothing, and is compared with the unchanged source model.
Balanced accuracy, the mean of the accuracies of the classes, is reported too: with 6 % positives, accuracy says little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from osamd.evaluation.answers import Answers
from osamd.evaluation.intervals import mean_90
from osamd.learner.linear import OSAMD
from osamd.reporting.tables import Report, Table, in_seeds
from osamd.reproduce.robustness.learner_runs import RobustnessRun, left_alone, play, rounds_of
from osamd.reproduce.robustness.plans import RobustnessPlan, in_percent
from osamd.streams import (
    IrrelevantFeatures,
    MachineTable,
    Outliers,
    RareClass,
    Stream,
    TrendingColumn,
    logistic_table,
    overlapping_gaussians,
    rotating_gaussian,
    tight_classes,
)

SOURCE = 600
"""The number of labelled samples that the source model is fitted to."""
ROUNDS, BUDGETS = 4000, (0.01, 0.05)

FEATURES, RELEVANT = 500, 10
POSITIVES = 0.06


def wide(rounds: int) -> Stream:
    """A logistic table in which few features matter; the best accuracy is 90 %."""
    return IrrelevantFeatures(logistic_table(rounds, features=RELEVANT, strength=5.3), FEATURES - RELEVANT)


def rare(rounds: int) -> Stream:
    """Two Gaussian classes, two standard deviations apart, one of them rare; the best balanced accuracy is 84 %."""
    equal = overlapping_gaussians(rounds, classes=2, features=8, distance=1.0)
    return RareClass(equal, rare=1, ratio=(1.0 - POSITIVES) / POSITIVES)


STREAMS: dict[str, tuple[str, Callable[[int], Stream]]] = {
    "machine-trend": ("machine table, trending column", lambda n: TrendingColumn(MachineTable(n))),
    "rotation-trend": ("rotation, trending column", lambda n: TrendingColumn(rotating_gaussian(n))),
    "machine-outliers": ("machine table, outliers", lambda n: Outliers(MachineTable(n))),
    "rotation-outliers": ("rotation, outliers", lambda n: Outliers(rotating_gaussian(n))),
    "tight": ("40 tight classes", tight_classes),
    "wide": ("500 features, 10 matter", wide),
    "rare": ("6 % positives that overlap", rare),
}
"""By name: a title, and a function from the number of rounds to the stream."""

STARTS = {
    "left-alone": "source left alone",
    "from-source": "from the source",
    "from-nothing": "from nothing",
}
"""The columns of the table: the source model, and the default learner by where it starts."""


class TableTask(NamedTuple):
    """All starts on one stream and seed."""

    stream: str
    seed: int
    rounds: int
    budget: float


def tasks(plan: RobustnessPlan) -> list[TableTask]:
    """All runs of a plan."""
    return [
        TableTask(stream, seed, plan.rounds or ROUNDS, budget)
        for budget in plan.budgets or BUDGETS
        for stream in STREAMS
        for seed in range(plan.seeds)
    ]


def run(task: TableTask) -> dict[str, RobustnessRun]:
    """Play one stream and seed from every start; returns the runs by start."""
    stream = STREAMS[task.stream][1](task.rounds)
    rounds, classes = rounds_of(stream, task.seed), range(len(stream.classes))
    settings: dict[str, Any] = {"classes": list(classes), "budget": task.budget, "seed": task.seed}
    fitted = OSAMD.from_source(*stream.source(SOURCE, task.seed), **settings)
    return {
        "left-alone": left_alone(stream, rounds, SOURCE, task.seed),
        "from-source": play(fitted, rounds, Answers(), task.seed),
        "from-nothing": play(OSAMD(features=stream.features, **settings), rounds, Answers(), task.seed),
    }


def report(plan: RobustnessPlan, done: Sequence[dict[str, RobustnessRun]]) -> Report:
    """Accuracy and balanced accuracy of every start on every stream."""
    found = dict(zip(tasks(plan), done, strict=True))
    rounds, tables, contents = plan.rounds or ROUNDS, [], []
    for budget in plan.budgets or BUDGETS:
        streams = {
            name: {
                "title": title,
                "starts": {
                    start: _summary([found[TableTask(name, seed, rounds, budget)][start] for seed in range(plan.seeds)])
                    for start in STARTS
                },
            }
            for name, (title, _) in STREAMS.items()
        }
        contents.append({"budget": budget, "streams": streams})
        tables.append(_table(plan, budget, streams))
    return Report(tables, {"rounds": rounds, "source": SOURCE, "budgets": contents})


def _summary(runs: Sequence[RobustnessRun]) -> dict[str, Any]:
    return {
        "accuracy": mean_90([one.accuracy for one in runs])._asdict(),
        "balanced_accuracy": mean_90([one.balanced_accuracy for one in runs])._asdict(),
        "labels": mean_90([one.labels for one in runs])._asdict(),
        "health": [one.health for one in runs],
    }


def _table(plan: RobustnessPlan, budget: float, streams: Mapping[str, Any]) -> Table:
    setting = f"{plan.rounds or ROUNDS} rounds, budget {in_percent(budget)}, mean of {in_seeds(plan.seeds)}"
    return Table(
        f"Hard tables: accuracy % / balanced accuracy %, {setting}",
        ["stream", *STARTS.values()],
        [[found["title"], *(_shown(found["starts"][start]) for start in STARTS)] for found in streams.values()],
    )


def _shown(found: Mapping[str, Any]) -> str:
    return f"{100 * found['accuracy']['mean']:.1f} / {100 * found['balanced_accuracy']['mean']:.1f}"
