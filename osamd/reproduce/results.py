"""What is reported: results.json, and the table of ours beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osamd.evaluation.intervals import Mean, mean_90
from osamd.methods import METHODS
from osamd.reproduce.paper import PaperRow
from osamd.reproduce.rotating_gaussian import Run

Summary = dict[str, Mean]


def summarise(runs: Sequence[Run]) -> Summary:
    """Means over seeds with 90 % intervals. All but the regret are fractions of the rounds."""
    return {
        "accuracy": mean_90([one.accuracy for one in runs]),
        "labels": mean_90([one.labels for one in runs]),
        "pseudolabel_errors": mean_90([one.pseudolabel_errors for one in runs]),
        "regret": mean_90([float(one.regret[-1]) for one in runs]),
    }


def results(
    stream: str,
    rounds: int,
    seeds: int,
    settings: Mapping[str, Any],
    methods: Mapping[str, Summary],
    paper: Mapping[str, PaperRow],
) -> dict[str, Any]:
    """The content of results.json; figures the paper does not give are null."""
    return {
        "stream": stream,
        "rounds": rounds,
        "seeds": seeds,
        "settings": dict(settings),
        "methods": {
            name: {quantity: mean._asdict() for quantity, mean in summary.items()} for name, summary in methods.items()
        },
        "paper": {
            name: {
                "accuracy": row.accuracy._asdict(),
                "labels": row.labels._asdict(),
                "pseudolabel_errors": None,
                "regret": None,
            }
            for name, row in paper.items()
            if name in methods
        },
    }


COLUMNS = ("method", "accuracy %", "paper's", "labels %", "paper's", "pseudolabel errors %", "regret")


def table_rows(methods: Mapping[str, Summary], paper: Mapping[str, PaperRow]) -> list[list[str]]:
    """Ours beside the paper's: a row a method, accuracies and rates in percent with 90 % half-widths."""

    def percent(mean: Mean, digits: int) -> str:
        return f"{100 * mean.mean:.{digits}f} ± {100 * mean.half_width_90:.{digits}f}"

    return [
        [
            METHODS[name].title,
            percent(summary["accuracy"], 2),
            percent(paper[name].accuracy, 1),
            percent(summary["labels"], 1),
            percent(paper[name].labels, 1),
            percent(summary["pseudolabel_errors"], 2),
            f"{summary['regret'].mean:.0f} ± {summary['regret'].half_width_90:.0f}",
        ]
        for name, summary in methods.items()
    ]


def verdict(methods: Mapping[str, Summary], paper: Mapping[str, PaperRow]) -> str:
    """Which accuracies lie further from the paper's than the two half-widths together."""

    def apart(ours: Mean, theirs: Mean) -> bool:
        return abs(ours.mean - theirs.mean) > ours.half_width_90 + theirs.half_width_90

    off = [METHODS[name].title for name, summary in methods.items() if apart(summary["accuracy"], paper[name].accuracy)]
    within = f"{len(methods) - len(off)} of {len(methods)} accuracies lie within the sum of the two half-widths of the"
    return f"{within} paper's" + (f"; not: {', '.join(off)}." if off else ".")
