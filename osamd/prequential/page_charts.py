"""The charts of the report of `osamd run`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from osamd.paper.methods import KNOWN
from osamd.prequential.changes_found import MARGIN_FOUND, Change
from osamd.prequential.outcomes import Outcome, last_rounds
from osamd.prequential.results import curve_rounds, sliding
from osamd.reporting.charts import Band, Chart, Line, Mark

FAILING = 5
"""Classes whose recall is drawn over time: those that are found least often."""


def accuracy_chart(outcome: Outcome) -> Chart:
    """Accuracy over time, beside the model left alone and the learner that is given every label."""
    rounds, main = len(outcome.ledger), outcome.settings["method"]
    window = last_rounds(rounds)
    at = curve_rounds(rounds)
    at = at[at >= min(window, rounds)]

    def over(right: NDArray[np.bool_]) -> list[float | None]:
        return [round(100 * float(v), 2) for v in sliding(right, at, window)]

    lines = [Line(KNOWN[main].title, over(outcome.run.right), 0)]
    alone = outcome.baselines.get("left-alone")
    if alone is not None:
        lines.append(Line("the model left alone", over(alone.right), 1, "6 3"))
    if 1.0 in outcome.by_budget and outcome.settings["budget"] != 1.0:
        lines.append(Line("with every label", over(outcome.by_budget[1.0].right), 3, "2 2"))
    if outcome.without_delay is not None:
        lines.append(Line("labels at once", over(outcome.without_delay.right), 2, "4 2"))
    others = [(name, one) for name, one in outcome.runs.items() if name != main]
    for i, (name, one) in enumerate(others):
        lines.append(Line(KNOWN[name].title, over(one.right), (2, 4, 5, 6, 1, 3)[i % 6], ("", "8 3 2 3")[i // 3 % 2]))
    marks = [
        Mark(change.round, _told(change, outcome.date(change.round)))
        for change in outcome.changes
        if at[0] <= change.round <= at[-1]
    ]
    label = f"right decisions over the last {window:,} rounds, %"
    about = f"Accuracy over time of {', '.join(line.name for line in lines)}."
    return Chart(at.tolist(), lines, label, about, marks=marks, percent=True)


def _told(change: Change, date: str) -> str:
    when = f"round {change.round:,}" + (f" ({date})" if date else "")
    if change.found_by == MARGIN_FOUND:
        moved = f"{change.before:.2f} to {change.after:.2f}"
        return f"{when}: the margin of the model left alone went from {moved}"
    shown = f"{100 * change.before:.1f} to {100 * change.after:.1f} %"
    return f"{when}: {change.found_by} sees the model left alone go from {shown}"


def recall_chart(outcome: Outcome, counts: NDArray[np.int64]) -> Chart:
    """The recall over time of the classes that are found least often; `counts` has the rows of each class."""
    ledger, classes = outcome.ledger, outcome.classes
    edges = np.unique(np.linspace(0, len(ledger), 13).astype(np.int64))
    overall = [
        (float((ledger.decision[ledger.label == c] == c).mean()), c) for c in range(len(classes)) if counts[c] > 0
    ]
    lines = []
    for k, (_, c) in enumerate(sorted(overall)[:FAILING]):
        values: list[float | None] = []
        for a, b in pairwise(edges.tolist()):
            own = ledger.label[a:b] == c
            values.append(100 * float((ledger.decision[a:b][own] == c).mean()) if own.any() else None)
        lines.append(Line(str(classes[c]), values, (0, 2, 3, 4, 6)[k]))
    centres = ((edges[:-1] + edges[1:]) / 2).round().tolist()
    label = "rows of a class that were decided rightly, %" + (", the worst classes" if len(classes) > FAILING else "")
    return Chart(centres, lines, label, "Recall of classes over time.", percent=True, from_zero=True)


def budgets_chart(outcome: Outcome, names: Sequence[str]) -> Chart:
    """Accuracy at other budgets, which are named."""
    places = [float(k) for k in range(len(names))]
    values: list[float | None] = [100 * run.accuracy for run in outcome.by_budget.values()]
    lines = [Line("default learner", values, 0)]
    alone = outcome.baselines.get("left-alone")
    if alone is not None:
        lines.append(Line("the model left alone", [100 * alone.accuracy] * len(names), 1, "6 3"))
    about = f"Accuracy at budgets of {', '.join(names)}."
    return Chart(places, lines, "accuracy, %", about, "budget", x_names=names, percent=True)


def labels_chart(outcome: Outcome) -> Chart:
    """Labels asked for, and those that had come, against what the budget allows."""
    rounds, budget = len(outcome.ledger), outcome.settings["budget"]
    at = np.concatenate([[0], curve_rounds(rounds)])
    lines = [Line("asked for", np.searchsorted(np.flatnonzero(outcome.ledger.asked), at).tolist(), 0)]
    if outcome.delay is not None:
        lines.append(Line("had come", np.searchsorted(np.sort(outcome.came), at).tolist(), 2, "6 3"))
    if budget is not None:
        lines.append(Line("the budget", (budget * at).tolist(), 1, "2 3"))
    return Chart(at.tolist(), lines, "labels", "Labels asked for over time.", from_zero=True)


def estimate_chart(outcome: Outcome) -> Chart:
    """The learner's own estimate of its accuracy with its interval, beside the truth over the same rounds."""
    at = np.array([check.round for check in outcome.checks], dtype=np.int64)
    window = outcome.settings["window"]

    def column(name: str) -> list[float | None]:
        values = [getattr(check, name) for check in outcome.checks]
        return [100 * min(max(v, 0.0), 1.0) if np.isfinite(v) else None for v in values]

    known = [v is not None for v in column("value")]
    low, high = ([v if k else None for v, k in zip(column(side), known, strict=True)] for side in ("low", "high"))
    truth: list[float | None] = [100 * float(v) for v in sliding(outcome.run.right, at, window)]
    lines = [Line("estimated", column("value"), 2, "6 3"), Line("true", truth, 0)]
    span = f"the last {window:,} rounds" if len(outcome.ledger) > window else "all rounds so far"
    return Chart(
        at.tolist() or [0],
        lines if len(at) else [Line("true", [None], 0)],
        f"right decisions over {span}, %",
        "The accuracy that the learner estimates, with its interval, and the true one.",
        bands=[Band("90 % interval", low, high, 2)] if len(at) else (),
        percent=True,
    )


def margin_chart(outcome: Outcome) -> Chart:
    """Margins over time: the median and the middle four fifths."""
    margins = outcome.ledger.margin
    edges = np.unique(np.linspace(0, len(margins), min(100, max(2, len(margins) // 50)) + 1).astype(np.int64))
    parts = [np.quantile(margins[a:b], (0.1, 0.5, 0.9)) for a, b in pairwise(edges.tolist())]
    low, middle, high = np.array(parts).T
    centre = ((edges[:-1] + edges[1:]) / 2).tolist()
    return Chart(
        centre,
        [Line("median", middle.tolist(), 2)],
        "margin",
        "The margins over time.",
        bands=[Band("10 % to 90 % of the rounds", low.tolist(), high.tolist(), 2)],
        from_zero=True,
    )
