"""The tables of a run on a user's table: to print, and for the page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from osamd.evaluation.intervals import Mean, mean_90
from osamd.paper.methods import KNOWN, PRESET
from osamd.prequential.outcomes import Baseline, Outcome, Run, last_rounds, minus
from osamd.prequential.results import by_class, delay_costs
from osamd.reporting.tables import Table, counted, in_words

PERCENT = 0.01

CLASSES_SHOWN = 20
"""The most classes in the table of classes; results.json has all."""


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
    """One row per method, and what is right without labels."""
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
        [
            f"Late: {described(outcome)}. {_cost_in_words(delay_costs(outcome))}",
            *([] if compared else _seeds_note(outcome)),
        ],
    )


def _cost_in_words(cost: Mean) -> str:
    """What the delay costs; nothing where the interval holds 0.

    >>> _cost_in_words(Mean(0.004, 0.006))
    'No cost could be measured: 0.40 ± 0.60 points of accuracy.'
    >>> _cost_in_words(Mean(0.02, 0.006))
    'That costs 2.00 ± 0.60 points of accuracy.'
    """
    points = f"{in_words(cost, 2, PERCENT)} points of accuracy"
    if cost.half_width_90 is None:
        return f"On this one seed that costs {points}; more seeds give an interval."
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
    said = [
        "Recall: the share of the rows of a class that were decided as that class. Precision: the share of the"
        " decisions for a class that were right."
    ]
    shown = every
    if len(every) > CLASSES_SHOWN:
        shown = sorted(every, key=lambda one: 1.0 if one["recall"] is None else float(one["recall"]))[:CLASSES_SHOWN]
        said.append(f"These are the {CLASSES_SHOWN} classes with the lowest recall; results.json has all {len(every)}.")
    rows = [[str(one["class"]), f"{one['rows']:,}", percent(one["recall"]), percent(one["precision"])] for one in shown]
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
