"""The report on streams without drift: points above the unchanged source model, and which bars hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from osamd.evaluation.intervals import mean_90
from osamd.reporting.tables import Report, Table, in_seeds
from osamd.reproduce.robustness.harm import (
    ROUNDS,
    SOURCE,
    STREAMS,
    WAYS,
    Bar,
    Harm,
    HarmCell,
    RunSummary,
    settings,
    tasks,
)
from osamd.reproduce.robustness.plans import RobustnessPlan, in_percent

BROKEN = " !"
"""Marks a difference that breaks its bar."""


def report(plan: RobustnessPlan, done: Sequence[Harm]) -> Report:
    """A table of all streams and budgets for every way of answering, and one that says which bars hold."""
    found = dict(zip(tasks(plan), done, strict=True))
    by_stream = {name: [harm for task, harm in found.items() if task.stream == name] for name in STREAMS}
    budgets = None if plan.budgets is None else tuple(plan.budgets)
    ways = {name: _way(name, [one for one in settings(budgets) if one.way == name], by_stream) for name in WAYS}
    content: dict[str, Any] = {
        "rounds": plan.rounds or ROUNDS,
        "source": SOURCE,
        "left_alone": {name: _accuracies([one.alone for one in harms]) for name, harms in by_stream.items()},
        "ways": ways,
    }
    over = f"{content['rounds']} rounds, {in_seeds(plan.seeds)}"
    tables = [_table(way, content["left_alone"], over) for way in ways.values()]
    return Report([*tables, _bars(ways, over)], content)


def _accuracies(some: Sequence[RunSummary]) -> dict[str, Any]:
    measures = ("accuracy", "balanced_accuracy", "last_quarter")
    return {name: mean_90([getattr(one, name) for one in some])._asdict() for name in measures}


def _way(name: str, cells: Sequence[HarmCell], by_stream: Mapping[str, Sequence[Harm]]) -> dict[str, Any]:
    """The results of one way of answering, as the report's JSON holds them."""
    way = WAYS[name]
    return {
        "title": way.title,
        "bar": way.bar._asdict(),
        "streams": {
            stream: {
                "title": STREAMS[stream][0],
                "budgets": [{"budget": cell.budget, **_cell(cell, harms, way.bar)} for cell in cells],
            }
            for stream, harms in by_stream.items()
        },
    }


def _cell(cell: HarmCell, harms: Sequence[Harm], bar: Bar) -> dict[str, Any]:
    """One way at one budget on one stream; differences are in points, positive where the learner is better."""
    played = [harm.played[cell] for harm in harms]
    points = [100.0 * (one.accuracy - harm.alone.accuracy) for one, harm in zip(played, harms, strict=True)]
    balanced = [
        100.0 * (one.balanced_accuracy - harm.alone.balanced_accuracy) for one, harm in zip(played, harms, strict=True)
    ]
    mean = mean_90(points)
    return {
        **_accuracies(played),
        "labels": mean_90([one.labels for one in played])._asdict(),
        "points": mean._asdict(),
        "points_by_seed": points,
        "worst_points": min(points),
        "balanced_points": mean_90(balanced)._asdict(),
        "holds": mean.mean >= -bar.mean and (bar.worst is None or min(points) >= -bar.worst),
        "health": dict(Counter(one.health for one in played)),
    }


def _table(way: Mapping[str, Any], alone: Mapping[str, Any], over: str) -> Table:
    """The streams of one way of answering, a column for each budget."""
    budgets = [cell["budget"] for cell in next(iter(way["streams"].values()))["budgets"]]
    rows = [
        [
            stream["title"],
            f"{100 * alone[name]['accuracy']['mean']:.1f}",
            *(_points(cell) for cell in stream["budgets"]),
            _words(stream["budgets"]),
        ]
        for name, stream in way["streams"].items()
    ]
    return Table(
        f"Still streams, {way['title']}: points above the source model left alone, mean (worst seed); {over}",
        ["stream", "alone %", *(f"at {in_percent(budget)}" for budget in budgets), "health at the end"],
        rows,
        [f"Not below {_rule(way['bar'])};{BROKEN} marks what is."],
    )


def _points(cell: Mapping[str, Any]) -> str:
    shown = f"{cell['points']['mean']:+.2f} ({cell['worst_points']:+.2f})"
    return shown + (" " * len(BROKEN) if cell["holds"] else BROKEN)


def _words(cells: Sequence[Mapping[str, Any]]) -> str:
    """How often each state of health occurred at the end, over all budgets and seeds."""
    said: Counter[str] = Counter()
    for cell in cells:
        said.update(cell["health"])
    return ", ".join(f"{word} {count}" for word, count in said.most_common())


def _rule(bar: Mapping[str, Any]) -> str:
    """The bar as the lowest numbers that a cell may show.

    >>> _rule(Bar(0.5, 1.5)._asdict()), _rule(Bar(0.5, None)._asdict())
    ('-0.5 (-1.5)', '-0.5')
    """
    return f"{-bar['mean']:g}" + ("" if bar["worst"] is None else f" ({-bar['worst']:g})")


def _bars(ways: Mapping[str, Any], over: str) -> Table:
    """Which bars hold: one row for each way of answering, with its worst stream and budget."""
    rows = []
    for way in ways.values():
        cells = [(stream["title"], cell) for stream in way["streams"].values() for cell in stream["budgets"]]
        title, worst = min(cells, key=lambda pair: float(pair[1]["points"]["mean"]))
        held = sum(cell["holds"] for _, cell in cells)
        where = f"{worst['points']['mean']:+.2f} on {title} at {in_percent(worst['budget'])}"
        said = _words([cell for _, cell in cells])
        rows.append([way["title"], _rule(way["bar"]), f"{held} of {len(cells)}", where, said])
    columns = ["answers", "bar", "holds in", "worst mean", "health at the end"]
    return Table(f"Do no harm: which bars hold; {over}", columns, rows)
