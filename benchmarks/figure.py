"""The figure: samples per second by peer, one panel per stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.reference import WHO as C_REFERENCE
from benchmarks.run import OURS
from osamd.evaluation.plots import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe-Ito colours, apart in lightness too; a hatch marks what is no library.
STYLES = {
    "osamd": ("#D55E00", ""),
    "the same round in C": ("#999999", "////"),
    "peer that asks for some labels": ("#0072B2", ""),
    "peer that takes every label": ("#A6D4F2", ""),
}


def kind(who: str, labels: float) -> str:
    """Which of the styles a row has."""
    if who.startswith(OURS):
        return "osamd"
    if who == C_REFERENCE:
        return "the same round in C"
    return "peer that takes every label" if labels == 1.0 else "peer that asks for some labels"


def speed_figure(content: Mapping[str, Any]) -> Figure:
    """Horizontal bars on a log axis, one a way of running: ours whole and one at a time, each peer once."""
    require_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    bars: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    for row in content["rows"]:
        name = row["who"]
        if name == OURS:
            name += ", whole stream" if row["mode"] == "stream" else ", one sample at a time"
        bars.setdefault(name, {})[row["stream"]] = row["samples_per_s"]
        kinds[name] = kind(name, row["labels"])
    streams = list(dict.fromkeys(row["stream"] for row in content["rows"]))
    figure = Figure(figsize=(9.6, 0.27 * len(bars) + 1.3), layout="constrained")
    panels = figure.subplots(1, len(streams), sharey=True, squeeze=False)[0]
    speeds = [speed for by in bars.values() for speed in by.values()]
    for axes, stream in zip(panels, streams, strict=True):
        for place, (name, by) in enumerate(bars.items()):
            colour, hatch = STYLES[kinds[name]]
            if stream not in by:
                axes.text(min(speeds) / 2, place, " not run", va="center", fontsize=7, color="#777777")
                continue
            axes.barh(place, by[stream], color=colour, hatch=hatch, edgecolor="white", linewidth=0.0, height=0.72)
            axes.text(by[stream] * 1.15, place, in_short(by[stream]), va="center", fontsize=7)
        axes.set_xscale("log")
        axes.set_xlim(min(speeds) / 2, max(speeds) * 9)
        axes.set_title(stream, fontsize=9.5)
        axes.set_xlabel("samples per second", fontsize=8.5)
        axes.tick_params(labelsize=8)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", alpha=0.25, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(bars)), list(bars), fontsize=8)
    panels[0].invert_yaxis()
    keys = [Patch(facecolor=c, hatch=h, edgecolor="white", linewidth=0.0) for c, h in STYLES.values()]
    figure.legend(keys, list(STYLES), loc="outside lower center", ncols=len(keys), fontsize=8, frameon=False)
    return figure


def in_short(speed: float) -> str:
    """Three figures at most, with the thousands in a letter.

    >>> in_short(8_806_000.0), in_short(70_312.0), in_short(503.6)
    ('8.81 M', '70.3 k', '504')
    """
    for unit, letter in ((1e6, " M"), (1e3, " k")):
        if speed >= unit:
            return f"{speed / unit:.3g}{letter}"
    return f"{speed:.3g}"
