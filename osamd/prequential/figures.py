"""Figures of a run on a user's table, in the style of the paper's: one colour and one dash a method."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from osamd.evaluation.plots import STYLES, blank_figure, styled
from osamd.numerics import Array
from osamd.paper.methods import KNOWN
from osamd.prequential.report import curve_rounds, sliding
from osamd.prequential.runs import Outcome, last_rounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

BLUE, GREY = "#0072B2", "#777777"
WIDTH, HEIGHT = 5.2, 3.4
# Narrow, so that the text can be read on a phone.


@styled
def accuracy_figure(outcome: Outcome) -> Figure:
    """The share of right decisions over a sliding window, every method that was played."""
    figure, axes = _begun(outcome)
    rounds = len(outcome.ledger)
    at, window = curve_rounds(rounds), last_rounds(rounds)
    at = at[at >= min(window, rounds)]
    main = outcome.settings["method"]
    for name, run in outcome.runs.items():
        colour, dash, _ = STYLES[name]
        width, order = (1.9, 3) if name == main else (1.1, 2)
        shown = 100 * sliding(run.right, at, window)
        title = KNOWN[name].title
        axes.plot(at, shown, color=colour, linestyle=dash, linewidth=width, label=title, zorder=order)
    if outcome.without_delay is not None:
        shown = 100 * sliding(outcome.without_delay.right, at, window)
        at_once = f"{KNOWN[main].title}, labels at once"
        axes.plot(at, shown, color=GREY, linestyle=(0, (2, 1)), linewidth=1.3, label=at_once)
    late = "" if outcome.delay is None else ", labels late"
    axes.set(ylabel="right decisions (%)", title=f"Accuracy over the last {window:,} rounds{late}")
    _set_percent(axes)
    if len(axes.get_lines()) > 1:
        _legend_below(axes)
    return figure


@styled
def labels_figure(outcome: Outcome) -> Figure:
    """Labels asked for, and those that had come, against what the budget allows."""
    figure, axes = _begun(outcome)
    rounds, settings = len(outcome.ledger), outcome.settings
    budget, most = settings["budget"], settings["max_labels"]
    at = np.concatenate([[0], curve_rounds(rounds)])
    asked = np.searchsorted(np.flatnonzero(outcome.ledger.asked), at)
    axes.plot(at, asked, color=STYLES["osamd"][0], linewidth=1.9, label="asked for", zorder=3)
    if outcome.delay is not None:
        came = np.searchsorted(np.sort(outcome.came), at)
        axes.plot(at, came, color=BLUE, linestyle=(0, (5, 1.5)), linewidth=1.4, label="had come")
    if budget is not None:
        allowed = f"budget: {100 * budget:g} % of the rounds"
        axes.plot(at, budget * at, color="black", linestyle=(0, (1, 2)), linewidth=1.3, label=allowed, zorder=4)
    if most is not None and most < 3 * max(1, asked[-1]):
        axes.axhline(most, color=GREY, linestyle="--", linewidth=1.2, label=f"at most {most:,}")
    axes.set(ylabel="labels", title="Labels over time")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(_in_thousands())
    if len(axes.get_lines()) > 1:
        _legend_below(axes)
    return figure


@styled
def estimate_figure(outcome: Outcome) -> Figure:
    """The learner's own estimate of its accuracy with its interval, beside the truth over the same rounds."""
    figure, axes = _begun(outcome)
    at = np.array([check.round for check in outcome.checks], dtype=np.int64)
    value, low, high = (np.clip(100 * _column(outcome, name), 0.0, 100.0) for name in ("value", "low", "high"))
    window = outcome.settings["window"]
    truth = 100 * sliding(outcome.run.right, at, window)
    axes.fill_between(at, low, high, color=BLUE, alpha=0.18, linewidth=0, label="90 % interval")
    axes.plot(at, value, color=BLUE, linewidth=1.3, linestyle=(0, (5, 1.5)), label="estimated from the labels told")
    axes.plot(at, truth, color=STYLES["osamd"][0], linewidth=1.7, label="true")
    span = f"the last {window:,} rounds" if len(outcome.ledger) > window else "all rounds so far"
    axes.set(ylabel="right decisions (%)", title=f"Accuracy over {span}, estimated and true")
    _set_percent(axes)
    _legend_below(axes)
    return figure


@styled
def margin_figure(outcome: Outcome) -> Figure:
    """The margins of the opinion, whose fall shows a drift before any label does: median and the middle four fifths."""
    figure, axes = _begun(outcome)
    margins = outcome.ledger.margin
    edges = np.unique(np.linspace(0, len(margins), min(100, max(2, len(margins) // 50)) + 1).astype(np.int64))
    parts = [np.quantile(margins[a:b], (0.1, 0.5, 0.9)) for a, b in pairwise(edges.tolist())]
    low, middle, high = np.array(parts).T
    centre = (edges[:-1] + edges[1:]) / 2
    axes.fill_between(centre, low, high, color=BLUE, alpha=0.18, linewidth=0, label="10 % to 90 % of the rounds")
    axes.plot(centre, middle, color=BLUE, linewidth=1.7, label="median")
    axes.set(ylabel="margin", title="The margin: how sure it is")
    axes.set_ylim(bottom=0)
    _legend_below(axes)
    return figure


def _begun(outcome: Outcome) -> tuple[Figure, Axes]:
    from matplotlib.ticker import MaxNLocator

    figure, (axes,) = blank_figure(WIDTH, HEIGHT)
    axes.set_xlabel("round")
    axes.set_xlim(0, len(outcome.ledger))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(_in_thousands())
    return figure, axes


def _in_thousands() -> FuncFormatter:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{value:,.0f}")


def _legend_below(axes: Axes) -> None:
    lines = len(axes.get_legend_handles_labels()[1])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3 if lines == 3 else 2)


def _set_percent(axes: Axes) -> None:
    low, high = axes.get_ylim()
    axes.set_ylim(max(0.0, low), min(100.5, high))


def _column(outcome: Outcome, name: str) -> Array:
    return np.array([getattr(check, name) for check in outcome.checks], dtype=np.float64)


FIGURES: dict[str, tuple[Callable[[Outcome], Figure], str]] = {
    "accuracy": (accuracy_figure, "The share of right decisions over a sliding window."),
    "labels": (labels_figure, "Labels asked for, against the budget where there is one."),
    "estimate": (
        estimate_figure,
        "What the learner can say of its own accuracy from the labels it was told, beside the truth.",
    ),
    "margin": (
        margin_figure,
        "How sure it is of its opinion, which needs no labels; a fall may show a drift before labels do.",
    ),
}
"""By stem of the file: the drawing, and a sentence for the page."""
