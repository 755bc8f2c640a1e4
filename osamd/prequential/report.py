"""What is reported of a run on a user's table: results.json, and the tables to print."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osamd.evaluation.intervals import Mean
from osamd.methods import METHODS
from osamd.numerics import Array
from osamd.prequential.runs import BATCHES, Outcome, Run, minus
from osamd.reproduce.results import Table, in_words

POINTS = 400
"""Of a curve in a figure and in results.json."""

PERCENT = 0.01

LEAST_LABELS = 20
"""Told, before the estimate of the accuracy is worth a sentence."""


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


def sliding_window(rounds: int) -> int:
    """Rounds of a sliding mean in a figure: 1000, or a tenth of a short table, and 20 at least."""
    return max(20, min(1000, rounds // 10))


def content(outcome: Outcome) -> dict[str, Any]:
    """The content of results.json: accuracies and rates as fractions; one seed has intervals for differences alone."""
    rounds = len(outcome.ledger)
    found: dict[str, Any] = {
        "stream": outcome.table,
        "rounds": rounds,
        "seeds": 1,
        "settings": dict(outcome.settings),
        "label": outcome.label,
        "classes": list(outcome.classes),
        "warmup_rows": outcome.warmup,
        "rows_without_label": outcome.unlabelled,
        "features": sum(len(column.features) for column in outcome.columns),
        "columns": [column.described() for column in outcome.columns],
        "methods": {name: _measured(run) for name, run in outcome.runs.items()},
        "estimate": _estimate(outcome),
    }
    if outcome.without_delay is not None:
        found["without_delay"] = _measured(outcome.without_delay)
        found["delay_costs"] = minus(outcome.without_delay, outcome.run)._asdict()
    if len(outcome.runs) > 1:
        osamd = outcome.runs["osamd"]
        found["osamd_minus"] = {
            name: minus(osamd, run)._asdict() for name, run in outcome.runs.items() if name != "osamd"
        }
    return found | {"curve": _curve(outcome)}


def _measured(run: Run) -> dict[str, Any]:
    return {
        "accuracy": Mean(run.accuracy, None)._asdict(),
        "labels": Mean(run.labels, None)._asdict(),
        "pseudolabel_errors": Mean(run.pseudolabel_errors, None)._asdict(),
        "labels_asked": run.asked,
        "labels_told": run.told,
        "labels_lost": run.expired,
        "labels_under_way": run.pending,
    }


def _estimate(outcome: Outcome) -> dict[str, Any]:
    found = outcome.learner.accuracy()
    return {
        "accuracy": _number(found.value),
        "low": _number(found.low),
        "high": _number(found.high),
        "level": found.level,
    }


def _curve(outcome: Outcome) -> dict[str, Any]:
    """The sliding accuracy, true and estimated, at the rounds at which it was estimated."""
    at = np.array([check.round for check in outcome.checks], dtype=np.int64)
    return {
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


def tables(outcome: Outcome) -> list[Table]:
    """To print, and for the page: what delay costs, the methods, or the one method alone."""
    found = [] if outcome.without_delay is None else [_delayed(outcome, outcome.without_delay)]
    if len(outcome.runs) > 1 or not found:
        found.append(_methods(outcome))
    return [found[0]._replace(title=_title(outcome)), *found[1:]]


def headline(outcome: Outcome) -> str:
    """The result in one line."""
    run = outcome.run
    share = f"{100 * run.labels:.2f} % of {_counted(len(outcome.ledger), 'round')}"
    return f"{100 * run.accuracy:.2f} % right with {_counted(run.asked, 'label')}, {share}"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _methods(outcome: Outcome) -> Table:
    columns = ["method", "accuracy %", "labels %", "labels", "pseudolabel errors %"]
    rows = [[METHODS[name].title, *_cells(run)] for name, run in outcome.runs.items()]
    if len(outcome.runs) == 1:
        return Table("", columns, rows)
    osamd = outcome.runs["osamd"]
    for row, (name, run) in zip(rows, outcome.runs.items(), strict=True):
        row[0] += ", the ceiling" if METHODS[name].query == "always" else ""
        row.insert(2, "" if run is osamd else in_words(minus(osamd, run), 2, PERCENT))
    return Table(
        "The methods at equal labels",
        [*columns[:2], "OSAMD minus it", *columns[2:]],
        rows,
        [f"OSAMD minus it: points of accuracy ± half-width of the 90 % interval over {BATCHES} stretches of rounds."],
    )


def _delayed(outcome: Outcome, prompt: Run) -> Table:
    run, cost = outcome.run, minus(prompt, outcome.run)
    return Table(
        "",
        ["labels come", "accuracy %", "labels %", "labels", "pseudolabel errors %", "under way", "lost"],
        [
            ["at once", *_cells(prompt), "0", "0"],
            ["late", *_cells(run), f"{run.pending:,}", f"{run.expired:,}"],
        ],
        [
            f"Late: {described(outcome)}. That costs {in_words(cost, 2, PERCENT)} points of accuracy"
            + (f" (± half-width of the 90 % interval over {BATCHES} stretches of rounds)." if cost[1] else ".")
        ],
    )


def described(outcome: Outcome) -> str:
    """The delay in words."""
    delay = outcome.delay
    if delay is None:
        return "at once"
    parts = [
        f"{_counted(delay.fixed, 'round')} late" if delay.fixed else "",
        f"at random, {delay.random:g} rounds late on average" if delay.random else "",
        f"in batches every {delay.bursty} rounds" if delay.bursty else "",
        f"{100 * delay.lost:g} % never" if delay.lost else "",
    ]
    return ", ".join(part for part in parts if part) or "at once"


def _title(outcome: Outcome) -> str:
    method = METHODS[outcome.settings["method"]].title
    return f"{method} on {outcome.table}: {headline(outcome)}"


def _cells(run: Run) -> list[str]:
    rates = (run.accuracy, run.labels)
    return [*(f"{100 * rate:.2f}" for rate in rates), f"{run.asked:,}", f"{100 * run.pseudolabel_errors:.2f}"]


def notes(outcome: Outcome) -> list[str]:
    """Sentences on the run: the source, the estimate, rows that were left out."""
    classes = ", ".join(map(str, outcome.classes[:10])) + (", ..." if len(outcome.classes) > 10 else "")
    features = sum(len(column.features) for column in outcome.columns)
    start = f"Started from {_counted(outcome.warmup, 'labelled row')}"
    said = [f"{start}; {_counted(features, 'feature')}; classes {classes}."]
    found = outcome.learner.accuracy()
    if found.labels >= LEAST_LABELS:
        said.append(
            f"From the labels told alone the accuracy is estimated at {100 * min(max(found.value, 0.0), 1.0):.2f} %"
            f" ({100 * found.level:.0f} % interval {100 * found.low:.2f} to {100 * found.high:.2f})."
        )
    if outcome.unlabelled:
        said.append(f"{outcome.unlabelled:,} rows without a label were left out.")
    return said


def column_notes(outcome: Outcome) -> list[str]:
    """Sentences on columns that are not used as they are."""
    said = []
    for column in outcome.columns:
        if column.kind == "left out" and column.note != "dropped":
            said.append(f"Column {column.name!r} is left out: {column.note}.")
        elif column.kind == "categorical" and column.note:
            said.append(f"Column {column.name!r}: {column.note}.")
    return said
