"""Sentences on a run: what it started from, what the labels say, when the stream changed, and what to do next."""

from __future__ import annotations

import numpy as np

from osamd.accounting.accuracy import LABELS_NEEDED, Accuracy
from osamd.paper.methods import KNOWN
from osamd.prequential.outcomes import Outcome
from osamd.reporting.tables import counted

ENOUGH, WORTH_MORE = 0.003, 0.01
"""Half of the labels are enough where they cost less accuracy than the one; twice as many pay where they gain the
other."""


def notes(outcome: Outcome) -> list[str]:
    """Sentences on the run: the source, the labels, the estimate, rows that were left out."""
    classes = ", ".join(map(repr, outcome.classes[:10])) + (", ..." if len(outcome.classes) > 10 else "")
    features = sum(len(column.features) for column in outcome.columns)
    start = f"Started from {counted(outcome.warmup, 'labelled row')}"
    said = [f"{start}; {counted(features, 'feature')}; classes {classes}."]
    if outcome.new_classes:
        new = ", ".join(map(repr, outcome.new_classes[:10])) + (", ..." if len(outcome.new_classes) > 10 else "")
        said.append(f"Classes that came up after the warm-up, and were learned from their labels: {new}.")
    if outcome.meant_by:
        said.append(
            f"The setting {outcome.meant_by} means the paper's OSAMD, which has no budget unless one is given; leave it"
            " out for the preset."
        )
    said += [*_on_labels(outcome), *_on_estimate(outcome), *_on_baseline(outcome)]
    health = outcome.learner.health()
    if health.state == "alarm":
        said.append(f"Alarm: {health.why} {health.remedy}")
    if outcome.unlabelled:
        said.append(f"{outcome.unlabelled:,} rows without a label were left out.")
    return said


def _on_labels(outcome: Outcome) -> list[str]:
    """When all labels were gone, and that a budget spreads them."""
    settings, rounds = outcome.settings, len(outcome.ledger)
    if KNOWN[settings["method"]].query == "always":
        return []
    most, asked = settings["max_labels"], np.flatnonzero(outcome.ledger.asked)
    if most is None:
        if settings["budget"] is not None:
            return []
        return [f"No budget was given; one of 5% asks for {counted(rounds // 20, 'label')} at most."]
    if len(asked) < most or most >= rounds:
        return []
    return [
        f"All {counted(most, 'label')} had been asked for by round {asked[-1] + 1:,} of {rounds:,}; a"
        f" budget of {100 * most / rounds:.2g}% too spreads them over the rounds."
    ]


def _on_estimate(outcome: Outcome) -> list[str]:
    """The accuracy as it can be told without the other labels."""
    found, late = outcome.learner.accuracy(), outcome.learner.accuracy(window=True)
    if 2 * found.blind > found.rounds:
        return [
            f"In {found.blind:,} of {counted(found.rounds, 'round')} the learner could not ask for a label, so the"
            " labels say too little about the accuracy."
        ]
    if not found.known:
        return [f"Too few labels ({found.labels} of {LABELS_NEEDED}) for an estimate of the accuracy."]
    said = f"The accuracy estimated from {counted(found.labels, 'label')} alone is {_range(found)}"
    if late.rounds < found.rounds and late.known and 2 * late.blind <= late.rounds:
        said += f"; over the last {counted(late.rounds, 'round')} it is {_range(late)}"
    return [said + "."]


def _on_baseline(outcome: Outcome) -> list[str]:
    """By how many points the model of the warm-up, left alone, would have been better, and what to do then."""
    alone = outcome.baselines.get("left-alone")
    ours = float(np.mean([run.accuracy for run in outcome.repeats[outcome.settings["method"]]]))
    if alone is None or alone.accuracy < ours:
        return []
    points = f"{100 * (alone.accuracy - ours):.2f}"
    if points == "0.00":
        return [
            f"Left alone, the model of the warm-up is right in {100 * alone.accuracy:.2f} % too: the labels gained"
            " nothing here, as they do where nothing that matters drifts."
        ]
    return [
        f"Leaving the model of the warm-up alone would have been better, by {points} points: it is right in"
        f" {100 * alone.accuracy:.2f} %. If nothing drifts, keep that model and ask for few labels, to notice when"
        " something does; else raise the budget, or give more rows to the warm-up."
    ]


def _on_commonest(outcome: Outcome) -> list[str]:
    """What to do where always deciding for one class is as right."""
    commonest = outcome.baselines.get("commonest-class")
    ours = float(np.mean([run.accuracy for run in outcome.repeats[outcome.settings["method"]]]))
    if commonest is None or commonest.accuracy < ours:
        return []
    title = commonest.title[:1].upper() + commonest.title[1:]
    return [
        f"{title}, would be right in {100 * commonest.accuracy:.1f} %, which is no worse: these columns say little"
        " about the class. Add columns that do, and look at the balanced accuracy, which counts every class alike."
    ]


def advice(outcome: Outcome) -> str:
    """What to do next, in a sentence or two."""
    better = _on_baseline(outcome) or _on_commonest(outcome)
    if better:
        return better[0]
    health = outcome.learner.health()
    if health.state == "alarm":
        return health.remedy
    rate, runs = outcome.settings["budget"], outcome.by_budget
    if rate in runs and len(runs) > 1:
        ours = runs[rate].accuracy
        fewer, more = (runs.get(other) for other in (rate / 2, 2 * rate))
        now = f"with {100 * rate:g}% it is {100 * ours:.1f} %"
        if fewer is not None and ours - fewer.accuracy < ENOUGH:
            found = f"with a budget of {50 * rate:g}% the accuracy is {100 * fewer.accuracy:.1f} %"
            return f"Half of the labels would do: {found}, and {now}."
        if more is not None and more.accuracy - ours >= WORTH_MORE:
            found = f"with a budget of {200 * rate:g}% the accuracy is {100 * more.accuracy:.1f} %"
            return f"More labels pay: {found}, and {now}."
    return "The budget fits: half of it would cost accuracy, and twice as much would gain little." if runs else ""


def _range(found: Accuracy) -> str:
    shown = 100 * min(max(found.value, 0.0), 1.0)
    return f"{shown:.2f} % ({100 * found.level:.0f} % interval {100 * found.low:.2f} to {100 * found.high:.2f})"
