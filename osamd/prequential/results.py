"""results.json: the numbers of a run on a user's table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osamd import __version__
from osamd.accounting.accuracy import Accuracy
from osamd.accounting.gain import Gain
from osamd.evaluation.intervals import Mean, mean_90
from osamd.numerics import Array
from osamd.prequential.outcomes import Outcome, Run, last_rounds, minus

POINTS = 400
"""The most points of a curve."""


def curve_rounds(rounds: int) -> NDArray[np.int64]:
    """The rounds, counted from 1, at which curves are drawn; the last is one of them."""
    return np.unique(np.linspace(1, rounds, min(rounds, POINTS)).round().astype(np.int64))


def sliding(values: NDArray[Any], at: NDArray[np.int64], window: int) -> Array:
    """The mean of the `window` values before each of the rounds `at`, or of all where there are fewer.

    >>> sliding(np.array([1.0, 0.0, 0.0, 1.0]), np.array([1, 2, 4]), window=2).tolist()
    [1.0, 0.5, 0.5]
    """
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    since = np.maximum(at - window, 0)
    means: Array = (sums[at] - sums[since]) / (at - since)
    return means


def content(outcome: Outcome) -> dict[str, Any]:
    """The content of results.json: accuracies and rates as fractions, means over the seeds.

    Counts of labels, the estimate, the classes and the curve are those of the first seed.
    """
    rounds = len(outcome.ledger)
    health = outcome.learner.health()
    found: dict[str, Any] = {
        "osamd": __version__,
        "stream": outcome.table,
        "rounds": rounds,
        "seeds": outcome.settings["seeds"],
        "settings": dict(outcome.settings),
        "label": outcome.label,
        "classes": list(outcome.classes),
        "new_classes": outcome.new_classes,
        "warmup_rows": outcome.warmup,
        "rows_without_label": outcome.unlabelled,
        "features": sum(len(column.features) for column in outcome.columns),
        "columns": [column.described() for column in outcome.columns],
        "last_rounds": last_rounds(rounds),
        "methods": {name: _measured(runs) for name, runs in outcome.repeats.items()},
        "baselines": {
            name.replace("-", "_"): {
                "title": one.title,
                "accuracy": one.accuracy,
                "balanced_accuracy": one.balanced_accuracy,
                "last": one.last,
            }
            for name, one in outcome.baselines.items()
        },
        "by_class": by_class(outcome),
        "estimate": _estimate(outcome.learner.accuracy()),
        "estimate_of_window": _estimate(outcome.learner.accuracy(window=True)),
        "gain_over_source": _gain(outcome.learner.gain()),
        "health": {"state": health.state, "why": health.why, "remedy": health.remedy},
    }
    if outcome.by_budget:
        found["by_budget"] = [
            {"budget": rate, "accuracy": one.accuracy, "labels_asked": one.asked}
            for rate, one in outcome.by_budget.items()
        ]
    found["changes"] = [
        change._asdict() | ({"date": date} if (date := outcome.date(change.round)) else {})
        for change in outcome.changes
    ]
    if outcome.without_delay is not None:
        found["without_delay"] = _measured(outcome.repeats_without_delay)
        found["delay_costs"] = delay_costs(outcome)._asdict()
    if len(outcome.runs) > 1:
        ours = outcome.settings["method"]
        found[f"{ours.replace('-', '_')}_minus"] = {
            name: minus(outcome.repeats[ours], runs)._asdict() for name, runs in outcome.repeats.items() if name != ours
        }
    return found | {"curve": _curve(outcome)}


def _measured(runs: Sequence[Run]) -> dict[str, Any]:
    """Means over the seeds, and counts of the first."""
    first = runs[0]
    return {
        "accuracy": mean_90([run.accuracy for run in runs])._asdict(),
        "balanced_accuracy": mean_90([run.balanced_accuracy for run in runs])._asdict(),
        "last": mean_90([run.last for run in runs])._asdict(),
        "labels": mean_90([run.labels for run in runs])._asdict(),
        "pseudolabel_errors": mean_90([run.pseudolabel_errors for run in runs])._asdict(),
        "labels_asked": first.asked,
        "labels_told": first.told,
        "labels_lost": first.expired,
        "labels_under_way": first.pending,
    }


def delay_costs(outcome: Outcome) -> Mean:
    """The points of accuracy that late labels cost, seed by seed."""
    return minus(outcome.repeats_without_delay, outcome.repeats[outcome.settings["method"]])


def by_class(outcome: Outcome) -> list[dict[str, Any]]:
    """Rows, recall and precision of each class; None where nothing is there to count."""
    ledger = outcome.ledger
    found = []
    for i, name in enumerate(outcome.classes):
        true, decided = ledger.label == i, ledger.decision == i
        both, rows, named = int((true & decided).sum()), int(true.sum()), int(decided.sum())
        recall, precision = both / rows if rows else None, both / named if named else None
        found.append({"class": name, "rows": rows, "decided": named, "recall": recall, "precision": precision})
    return found


def _estimate(found: Accuracy) -> dict[str, Any]:
    return {
        "accuracy": _number(found.value),
        "low": _number(found.low),
        "high": _number(found.high),
        "level": found.level,
        "rounds": found.rounds,
        "labels": found.labels,
        "blind_rounds": found.blind,
    }


def _gain(found: Gain) -> dict[str, Any] | None:
    """What was gained over the source model, from the labels told alone; None where that is not known."""
    if not found.known:
        return None
    return {"gain": float(found.value), "low": float(found.low), "high": float(found.high), "level": found.level}


def _curve(outcome: Outcome) -> dict[str, Any]:
    """The sliding accuracy, true and estimated, at the rounds at which it was estimated."""
    at = np.array([check.round for check in outcome.checks], dtype=np.int64)
    return {
        "window": outcome.settings["window"],
        "round": at.tolist(),
        "accuracy": sliding(outcome.run.right, at, outcome.settings["window"]).tolist(),
        "estimate": [_number(check.value) for check in outcome.checks],
        "low": [_number(check.low) for check in outcome.checks],
        "high": [_number(check.high) for check in outcome.checks],
        "labels": np.searchsorted(np.flatnonzero(outcome.ledger.asked), at).tolist(),
    }


def _number(value: float) -> float | None:
    """None where there is no number yet: JSON has no NaN."""
    return float(value) if np.isfinite(value) else None
