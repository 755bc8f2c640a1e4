"""The pictures of the page of concepts that are drawn from the code: python docs/hooks/figures.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from osamd import OSAMD
from osamd.paper.queries import query_probability
from osamd.prequential.results import sliding

FOLDER = Path(__file__).parent.parent / "figures"
STYLE = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
STYLE |= {"svg.hashsalt": "osamd", "svg.fonttype": "path"}
ORANGE, BLUE, GREY = "#D55E00", "#0072B2", "#777777"


def query() -> Figure:
    """The probability of asking, against the margin."""
    figure = Figure(figsize=(5.2, 2.6), layout="constrained")
    axes = figure.subplots()
    margins = np.linspace(0.0, 2.0, 200)
    for sigma, dash in ((1.0, "-"), (0.35, "--"), (0.1, ":")):
        asked = [query_probability(margin, sigma, 0.0) for margin in margins]
        axes.plot(margins, asked, dash, color=ORANGE, label=f"sigma = {sigma}")
    axes.set(xlabel="margin: how sure the teacher is", ylabel="probability of asking", ylim=(0, 1.02), xlim=(0, 2))
    axes.legend()
    return figure


def estimate() -> Figure:
    """The true accuracy of a sliding window beside the estimate, on a stream with a sudden change."""
    rounds, window, change = 12_000, 1000, 6000
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rounds + 500)
    x = rng.normal(size=(rounds + 500, 4)) + np.outer(2.0 * y - 1.0, [1.2, 0.6, 0.0, 0.0])
    x[change + 500 :, :2] = x[change + 500 :, 1::-1] * [1.0, -1.0]  # two sensors are swapped, and one is turned over
    learner = OSAMD.from_source(x[:500], y[:500], budget=0.05, floor=0.025, window=window)
    right, at, found, naive = [], [], [], []
    told: list[tuple[int, bool]] = []
    for t, (row, label) in enumerate(zip(x[500:], y[500:].tolist(), strict=True), start=1):
        decision = learner.ask(row)
        right.append(decision.label == label)
        if decision.query:
            told.append((t, right[-1]))
        learner.tell(decision, label if decision.query else None)
        if t % 100 == 0 and t >= window:
            at.append(t)
            found.append(learner.accuracy(window=True))
            naive.append(np.mean([good for s, good in told if s > t - window]))
    figure = Figure(figsize=(6.4, 3.0), layout="constrained")
    axes = figure.subplots()
    low, high, value = (100 * np.array([getattr(one, name) for one in found]) for name in ("low", "high", "value"))
    axes.fill_between(at, low, high, color=BLUE, alpha=0.18, linewidth=0, label="its interval, 90 %")
    axes.plot(at, value, color=BLUE, label="the estimate")
    axes.plot(at, 100 * sliding(np.array(right), np.array(at), window), color=ORANGE, label="the truth")
    axes.plot(at, 100 * np.array(naive), color=GREY, linestyle=":", label="right among the labels")
    axes.set(xlabel="round", ylabel="right of the last 1000 (%)", xlim=(window, rounds), ylim=(40, 101))
    figure.legend(ncols=4, loc="outside upper center")
    return figure


if __name__ == "__main__":
    with matplotlib.rc_context(STYLE):
        for draw in (query, estimate):
            draw().savefig(FOLDER / f"{draw.__name__}.svg", metadata={"Date": None})
