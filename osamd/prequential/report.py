"""What is reported of a run on a user's table: results.json, and the tables to print."""

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
from osamd.paper.methods import KNOWN, PRESET
from osamd.prequential.runs import Baseline, Outcome, Run, last_rounds, minus
from osamd.prequential.sentences import changes
from osamd.reporting.tables import Table, counted, in_words

POINTS = 400
"""Of a curve in a figure and in results.json."""

PERCENT = 0.01

CLASSES_SHOWN = 20
"""In the table of classes; results.json has all."""


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
    found["changes"] = [change._asdict() for change in changes(outcome)]
    if outcome.without_delay is not None:
        found["without_delay"] = _measured(outcome.repeats_without_delay)
        found["delay_costs"] = _cost(outcome)._asdict()
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


def tables(outcome: Outcome) -> list[Table]:
    """To print, and for the page: what delay costs, the methods, or the one method alone; then the classes."""
    found = [_delayed(outcome)] if outcome.repeats_without_delay else []
    if len(outcome.runs) > 1 or not found:
        found.append(_methods(outcome))
    return [found[0]._replace(title=_title(outcome)), *found[1:], _classes(outcome)]


def headline(outcome: Outcome) -> str:
    """The result in one line."""
    runs = outcome.repeats[outcome.settings["method"]]
    rate = f"{_mean(runs, 'labels')} % of {counted(len(outcome.ledger), 'round')}"
    after = f"after {counted(outcome.warmup, 'labelled row')}, " if outcome.warmup else ""
    return f"{after}{_mean(runs, 'accuracy')} % right with {counted(_asked(runs), 'label')} asked for, {rate}"


def _mean(runs: Sequence[Run], what: str) -> str:
    return f"{100 * float(np.mean([getattr(run, what) for run in runs])):.2f}"


def _asked(runs: Sequence[Run]) -> int:
    return round(float(np.mean([run.asked for run in runs])))


def _columns(outcome: Outcome) -> list[str]:
    last = f"last {counted(last_rounds(len(outcome.ledger)), 'round')} %"
    return ["accuracy %", "balanced %", last, "labels %", "labels", "pseudolabel errors %"]


def _cells(runs: Sequence[Run]) -> list[str]:
    """Means over the seeds; pseudolabel errors where pseudolabels are used."""
    used = KNOWN[runs[0].method].self_training
    shown = [_with_interval(runs, what) for what in ("accuracy", "balanced_accuracy", "last", "labels")]
    return [*shown, f"{_asked(runs):,}", _mean(runs, "pseudolabel_errors") if used else "-"]


def _with_interval(runs: Sequence[Run], what: str) -> str:
    return in_words(mean_90([getattr(run, what) for run in runs]), 2, PERCENT)


def _baselines(outcome: Outcome) -> list[list[str]]:
    found = []
    for one in outcome.baselines.values():
        shares = (one.accuracy, one.balanced_accuracy, one.last)
        found.append([one.title, *(f"{100 * share:.2f}" for share in shares), "0.00", "0", "-"])
    return found


def _methods(outcome: Outcome) -> Table:
    """One row a method, and what is right without labels."""
    columns = ["method", *_columns(outcome)]
    rows = [[_called(name), *_cells(runs)] for name, runs in outcome.repeats.items()] + _baselines(outcome)
    if len(outcome.runs) == 1:
        return Table("", columns, rows, _seeds_note(outcome))
    ours = outcome.repeats[outcome.settings["method"]]
    compared: list[Sequence[Run | Baseline]] = [
        *outcome.repeats.values(),
        *([one] * len(ours) for one in outcome.baselines.values()),
    ]
    for row, runs in zip(rows, compared, strict=True):
        row.insert(2, "" if runs is ours else in_words(minus(ours, runs), 2, PERCENT))
    apart = f"{KNOWN[outcome.settings['method']].title} minus it"
    said = [f"{apart}: points of accuracy" + (", seed by seed." if len(ours) > 1 else "; one seed, no interval.")]
    leading = PRESET.name if PRESET.name in outcome.repeats else "osamd"
    if not any(run.asked for run in outcome.repeats[leading]):
        title = KNOWN[leading].title
        said.append(f"{title} asked for no label, so the methods that ask uniformly asked for none either.")
    said += _seeds_note(outcome)
    return Table("The methods at equal labels", [*columns[:2], apart, *columns[2:]], rows, said)


def _called(name: str) -> str:
    return KNOWN[name].title + (": every label" if KNOWN[name].query == "always" else "")


def _seeds_note(outcome: Outcome) -> list[str]:
    count, first = outcome.settings["seeds"], outcome.settings["seed"]
    if count == 1:
        return []
    return [
        f"Means over {count} seeds of the queries ({first} to {first + count - 1}), ± half-width of the 90 % interval;"
        " figures, classes and the estimate are those of the first."
    ]


def _delayed(outcome: Outcome) -> Table:
    late, prompt = outcome.repeats[outcome.settings["method"]], outcome.repeats_without_delay
    pending, lost = (round(float(np.mean([getattr(run, what) for run in late]))) for what in ("pending", "expired"))
    rows = [["at once", *_cells(prompt), "0", "0"], ["late", *_cells(late), f"{pending:,}", f"{lost:,}"]]
    compared = len(outcome.runs) > 1
    rows += [] if compared else [[*row, "0", "0"] for row in _baselines(outcome)]
    return Table(
        "",
        ["labels come", *_columns(outcome), "under way", "lost"],
        rows,
        [f"Late: {described(outcome)}. {_cost_in_words(_cost(outcome))}", *([] if compared else _seeds_note(outcome))],
    )


def _cost(outcome: Outcome) -> Mean:
    return minus(outcome.repeats_without_delay, outcome.repeats[outcome.settings["method"]])


def _cost_in_words(cost: Mean) -> str:
    """What the delay costs; nothing where the interval holds 0.

    >>> _cost_in_words(Mean(0.004, 0.006))
    'No cost could be measured: 0.40 ± 0.60 points of accuracy.'
    >>> _cost_in_words(Mean(0.02, 0.006))
    'That costs 2.00 ± 0.60 points of accuracy.'
    """
    points = f"{in_words(cost, 2, PERCENT)} points of accuracy"
    if cost.half_width_90 is None:
        return f"On this one seed that costs {points}; more --seeds give an interval."
    if abs(cost.mean) <= cost.half_width_90:
        return f"No cost could be measured: {points}."
    return f"That costs {points}." if cost.mean > 0.0 else f"Late labels were no worse: that costs {points}."


def described(outcome: Outcome) -> str:
    """The delay in words."""
    delay = outcome.delay
    if delay is None:
        return "at once"
    parts = [
        f"{counted(delay.fixed, 'round')} late" if delay.fixed else "",
        f"at random, {delay.random:g} rounds late on average" if delay.random else "",
        f"in batches every {delay.bursty} rounds" if delay.bursty else "",
        f"{100 * delay.lost:g} % never" if delay.lost else "",
    ]
    return ", ".join(part for part in parts if part) or "at once"


def _classes(outcome: Outcome) -> Table:
    """How well each class is found."""

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.2f}"

    every = by_class(outcome)
    rows = [
        [str(one["class"]), f"{one['rows']:,}", percent(one["recall"]), percent(one["precision"])]
        for one in every[:CLASSES_SHOWN]
    ]
    said = ["Recall: of the rows of a class, those decided so. Precision: of those decided so, the rows of the class."]
    if len(every) > CLASSES_SHOWN:
        said.append(f"results.json has all {len(every)} classes.")
    seed = f" (seed {outcome.settings['seed']})" if outcome.settings["seeds"] > 1 else ""
    title = f"{KNOWN[outcome.settings['method']].title} by class{seed}"
    return Table(title, ["class", "rows", "recall %", "precision %"], rows, said)


def _title(outcome: Outcome) -> str:
    method = KNOWN[outcome.settings["method"]].title
    return f"{method} on {outcome.table}: {headline(outcome)}"


def budgets_table(outcome: Outcome) -> Table:
    """Accuracy at other budgets."""
    rows = [
        ["every label" if rate == 1.0 else f"{100 * rate:g} %", f"{100 * one.accuracy:.2f}", f"{one.asked:,}"]
        for rate, one in outcome.by_budget.items()
    ]
    return Table("More or fewer labels", ["budget", "accuracy %", "labels"], rows)
