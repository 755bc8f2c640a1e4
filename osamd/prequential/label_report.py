"""The report of a label curve: labels.json, the table, the sentence, and the figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from osamd.evaluation import plots
from osamd.evaluation.intervals import Mean
from osamd.paper.methods import KNOWN
from osamd.prequential.labels import FULL, SLACK, Curve, CurvePoint, Curves, label_curve
from osamd.reporting.tables import Report, Table, in_seeds, in_words
from osamd.reporting.terminal import files, progress, resumable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEER_STYLES: dict[str, tuple[str, Any, str]] = {
    "skactiveml-random": ("#999999", (0, (1, 1.5)), "<"),
    "skactiveml-variable-uncertainty": ("#777777", (0, (4, 2)), "P"),
    "skactiveml-split": ("#555555", (0, (2, 1)), "X"),
    "skactiveml-random-refitted": ("#999999", (0, (1, 3)), "<"),
    "skactiveml-variable-uncertainty-refitted": ("#777777", (0, (4, 4)), "P"),
    "skactiveml-split-refitted": ("#555555", (0, (2, 3)), "X"),
    "river-entropy": ("#333333", (0, (6, 2, 1, 2)), "h"),
}
"""Other projects are grey; their dashes and markers tell them apart."""


def draw_labels(where: str, label: str | None, out: Path | None, **settings: Any) -> None:
    """The body of `osamd labels`: play, write and print."""
    folder = out or Path("results") / f"labels-{Path(where).name.split('.')[0] if where != '-' else 'table'}"
    bars: list[Any] = []

    def begun(total: int) -> Any:
        bars.append(progress(f"labels: {total} runs", total))
        return bars[-1].__enter__()

    with files(folder, "labels.json", "labels") as deliver, resumable(folder) as kept:
        try:
            found = label_curve(where, label, kept=kept, progress=begun, **settings)
        finally:
            for bar in bars:
                bar.__exit__(None, None, None)
        deliver(report(found))


def report(found: Curves) -> Report:
    """The table with the answer below it, labels.json and the figure."""
    columns = [f"{100 * point.budget:g} %" for point in found.curves[0].points if point.budget is not None]
    rows = [[curve.title, *(cell(point) for point in curve.points)] for curve in found.curves]
    title = (
        f"Accuracy % by budget (labels taken %): {found.stream}, {found.rounds} rounds,"
        f" {in_seeds(found.seeds, ', mean ± half-width of the 90 % interval')}"
    )
    return Report([Table(title, ["method", *columns], rows, notes(found))], content(found), labels_figure(found))


def cell(point: CurvePoint) -> str:
    """The accuracy, and in brackets the labels."""
    return f"{in_words(point.accuracy, 2, 0.01)} ({100 * point.labels.mean:.3g})"


def notes(found: Curves) -> list[str]:
    """The answer, and what to know beside the table."""
    full = in_words(found.full.accuracy, 2, 0.01)
    said = [
        found.answer,
        f"Full supervision is {KNOWN[FULL].title}, which gets every label: {full} %. All start from a model fitted to"
        f" {found.warmup} labelled samples; the paper's methods have {found.settings}.",
    ]
    by_seeds: dict[int, list[str]] = {}
    for curve in found.curves:
        if curve.seeds < found.seeds:
            by_seeds.setdefault(curve.seeds, []).append(curve.title)
    for seeds, titles in by_seeds.items():
        said.append(f"Only {in_seeds(seeds)}, since they are slow: {', '.join(titles)}.")
    over = [curve.title for curve in found.curves if any(exceeds(point) for point in curve.points)]
    if over:
        said.append(f"Took more than the budget, and are shown at the labels they took: {', '.join(over)}.")
    under = [curve.title for curve in found.curves if any(spares(point, found.rounds) for point in curve.points)]
    if under:
        said.append(f"Asked for less than four fifths of a budget by themselves: {', '.join(under)}.")
    for package in dict.fromkeys(found.left_out.values()):
        said.append(f"Left out, since it is not installed: {package} (pip install {package}).")
    return said


def exceeds(point: CurvePoint) -> bool:
    """Whether more than the budget was taken on average; an excess below a hundredth of it does not count."""
    return point.budget is not None and point.labels.mean > 1.01 * point.budget


def spares(point: CurvePoint, rounds: int) -> bool:
    """Whether much of a budget of 20 labels or more was left; of fewer, the steering may keep some in reserve."""
    return point.budget is not None and point.budget * rounds >= 20 and point.labels.mean < 0.8 * point.budget


def content(found: Curves) -> dict[str, Any]:
    """The content of labels.json; accuracies and labels are shares of the rounds."""
    return {
        "stream": found.stream,
        "rounds": found.rounds,
        "warmup": found.warmup,
        "seeds": found.seeds,
        "settings": found.settings,
        "full_supervision": {"method": FULL, "accuracy": found.full.accuracy._asdict()},
        "answer": {
            "method": found.chosen.name,
            "target": found.target,
            "below_full_supervision": SLACK,
            "labels": found.reached.labels,
            "smallest_budget": found.reached.smallest,
            "sentence": found.answer,
        },
        "methods": {
            curve.name: {
                "title": curve.title,
                "seeds": curve.seeds,
                "version": curve.version,
                "points": [
                    {
                        "budget": point.budget,
                        "labels": point.labels._asdict(),
                        "accuracy": point.accuracy._asdict(),
                    }
                    for point in curve.points
                ],
            }
            for curve in found.curves
        },
        "left_out": found.left_out,
    }


@plots.styled
def labels_figure(found: Curves) -> Figure:
    """Accuracy against the share of labels, with 90 % bars, and full supervision as a line.

    Where accuracies come near 100 % the axis is spaced by the logarithm of the errors.
    """
    figure, (axes,) = plots.blank_figure(7.0, 4.0)
    axes.set_xscale("log")
    full = found.full.accuracy
    spans = [span(full), *(span(point.accuracy) for curve in found.curves for point in curve.points)]
    low, high = min(start for start, _ in spans), max(end for _, end in spans)
    by_errors = high > 95.0 and low < 90.0
    if by_errors:
        axes.set_yscale("function", functions=(plots.errors_to_height, plots.height_to_accuracy))
    colour, dash, _ = plots.STYLES[FULL]
    axes.axhline(
        100 * full.mean, color=colour, linestyle=dash, linewidth=1.3, label="full supervision: OMD (all)", zorder=1
    )
    axes.axhspan(*span(full), color=colour, alpha=0.08, linewidth=0)
    for curve in found.curves:
        _draw(axes, curve, by_errors)
    taken = [100 * point.labels.mean for curve in found.curves for point in curve.points if point.labels.mean > 0.0]
    rates = [min(taken), max(taken)] if taken else [1.0, 100.0]
    if by_errors:
        plots.set_accuracy_axes(axes, rates, low, high)
    else:
        plots.set_accuracy_axes(axes, rates, 0.0, 99.0)
        from matplotlib.ticker import MaxNLocator

        axes.yaxis.set_major_locator(MaxNLocator(7))
        room = 0.05 * (high - low or 1.0)
        axes.set_ylim(low - room, min(high + room, 101.0))
    axes.set(
        xlabel="labels asked for (% of rounds, log scale)",
        ylabel="accuracy (%), errors on a log scale" if by_errors else "accuracy (%)",
        title=f"{found.stream}, {found.rounds} rounds, {in_seeds(found.seeds, ', bars: 90 % intervals')}",
    )
    handles, titles = axes.get_legend_handles_labels()
    first = {curve.title: curve.points[0].accuracy.mean for curve in found.curves}
    order = sorted(range(len(titles)), key=lambda i: -first.get(titles[i], full.mean))
    figure.legend([handles[i] for i in order], [titles[i] for i in order], loc="outside right center", handlelength=3.2)
    return figure


def span(accuracy: Mean) -> tuple[float, float]:
    """The ends of an interval, in percent."""
    half = accuracy.half_width_90 or 0.0
    return 100 * (accuracy.mean - half), min(100.0, 100 * (accuracy.mean + half))


def _draw(axes: Any, curve: Curve, by_errors: bool) -> None:
    colour, dash, marker = PEER_STYLES[curve.name] if curve.name in PEER_STYLES else plots.STYLES[curve.name]
    shown = sorted((point for point in curve.points if point.labels.mean > 0.0), key=lambda one: one.labels.mean)
    means = np.array([100 * point.accuracy.mean for point in shown])
    ends = np.array([span(point.accuracy) for point in shown]).reshape(-1, 2)
    preset = curve.name == "osamd-preset"
    axes.errorbar(
        [100 * point.labels.mean for point in shown],
        means,
        yerr=np.abs(ends.T - means) if curve.seeds > 1 else None,
        color=colour,
        linestyle=dash,
        linewidth=2.2 if preset else 1.3,
        marker=marker,
        markersize=8 if preset else 4.5,
        capsize=1.5,
        elinewidth=0.8,
        label=curve.title,
        zorder=4 if preset else 2,
    )
