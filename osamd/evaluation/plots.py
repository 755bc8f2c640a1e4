"""Figures for a paper: PNG and SVG, colour-blind-safe, each method in one colour and one dash everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from osamd.errors import InputError
from osamd.evaluation.intervals import Mean, half_width_90, mean_90
from osamd.files import write
from osamd.methods import METHODS
from osamd.numerics import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The Okabe-Ito palette, which stays distinct under the common colour-vision deficiencies; dashes and markers repeat
# the distinction for print without colour.
STYLES: dict[str, tuple[str, Any, str]] = {
    "osamd": ("#D55E00", "-", "o"),
    "paa": ("#0072B2", (0, (5, 1.5)), "s"),
    "omd-all": ("#000000", (0, (1, 1)), "x"),
    "omd-partial": ("#009E73", (0, (3, 1, 1, 1)), "^"),
    "osamd-no-self-adaptation": ("#CC79A7", (0, (5, 1, 1, 1, 1, 1)), "D"),
    "osamd-no-active-query": ("#E69F00", (0, (8, 2)), "v"),
}

_RC: Any = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "osamd",
    "svg.fonttype": "none",
}


Draw = TypeVar("Draw", bound=Callable[..., Any])


def _styled(draw: Draw) -> Draw:
    """Run a drawing function in our style, and say what to install where matplotlib is missing."""

    @wraps(draw)
    def styled(*args: Any, **kwargs: Any) -> Any:
        try:
            from matplotlib import rc_context
        except ImportError as error:
            raise InputError("figures need matplotlib: pip install 'osamd[plot]'.") from error
        with rc_context(_RC):
            return draw(*args, **kwargs)

    return cast(Draw, styled)


def _figure(width: float, height: float, panels: int = 1) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


@_styled
def save(figure: Figure, stem: Path) -> list[Path]:
    """Write the figure beside `stem` as PNG and SVG, each whole or not at all."""
    undated = {".png": {}, ".svg": {"Date": None}}

    def written(suffix: str) -> Path:
        path = stem.with_suffix(suffix)
        return write(path, lambda partial: figure.savefig(partial, dpi=200, metadata=undated[suffix]))

    return [written(suffix) for suffix in undated]


@_styled
def regret_figure(curves: Mapping[str, Array], title: str) -> Figure:
    """Figure 2(a): accumulated regret by round, mean and 90 % band over seeds; `curves` are (seeds x rounds)."""
    figure, (axes,) = _figure(5.2, 3.6)
    ends = []
    for name, curve in curves.items():
        colour, dash, _ = STYLES[name]
        t = np.arange(1, curve.shape[1] + 1)
        mean = curve.mean(axis=0)
        half = half_width_90(curve)
        axes.plot(t, mean, color=colour, linestyle=dash, linewidth=1.6, label=METHODS[name].title)
        axes.fill_between(t, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
        ends.append(float(mean[-1]))
    axes.set(xlabel="round $t$", ylabel="accumulated dynamic regret", title=title)
    axes.set_xlim(0, next(iter(curves.values())).shape[1])
    axes.set_ylim(bottom=min(0.0, *ends))
    handles, labels = axes.get_legend_handles_labels()
    order = np.argsort(ends)[::-1]
    axes.legend([handles[i] for i in order], [labels[i] for i in order], loc="upper left")
    return figure


@_styled
def label_curve_figure(points: Mapping[str, Sequence[tuple[Mean, Mean]]], title: str) -> Figure:
    """Figure 3: accuracy against query rate (label rate and accuracy a point), with 90 % bars.

    A method that asks for every label (OMD (all)) is a horizontal line.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator

    figure, (axes,) = _figure(5.6, 3.8)
    for name, some in points.items():
        colour, dash, marker = STYLES[name]
        rates = np.array([100 * rate.mean for rate, _ in some])
        means = np.array([100 * accuracy.mean for _, accuracy in some])
        bars = np.array([100 * accuracy.half_width_90 for _, accuracy in some])
        if METHODS[name].query == "always":
            axes.axhline(means[0], color=colour, linestyle=dash, linewidth=1.4, label=f"{METHODS[name].title}, 100 %")
            axes.axhspan(means[0] - bars[0], means[0] + bars[0], color=colour, alpha=0.1, linewidth=0)
            continue
        axes.errorbar(
            rates,
            means,
            yerr=bars,
            color=colour,
            linestyle=dash,
            linewidth=1.4,
            marker=marker,
            markersize=4,
            capsize=2,
            elinewidth=0.8,
            label=METHODS[name].title,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    axes.set(xlabel="labels asked for (% of rounds)", ylabel="accuracy (%)", title=title)
    axes.legend(loc="lower right")
    return figure


@_styled
def theory_figure(
    horizons: Sequence[int],
    measured: Mapping[str, Sequence[Sequence[float]]],
    bounds: Mapping[str, Sequence[float]],
    fits: Mapping[str, str],
) -> Figure:
    """Measured quantities and their bounds against T, log-log, a panel a quantity; `measured` holds values by seed."""
    figure, panels = _figure(7.2, 3.4, len(measured))
    for axes, (quantity, values) in zip(panels, measured.items(), strict=True):
        means = [mean_90(some) for some in values]
        axes.errorbar(
            horizons,
            [mean.mean for mean in means],
            yerr=[mean.half_width_90 for mean in means],
            color=STYLES["osamd"][0],
            marker="o",
            markersize=4,
            linewidth=1.5,
            capsize=2,
            label=f"measured{fits.get(quantity, '')}",
        )
        axes.plot(horizons, bounds[quantity], color="#000000", linestyle="--", linewidth=1.2, label="bound")
        axes.set_xscale("log")
        # Counts may be zero, which a logarithm cannot show: below one the axis is linear.
        if min(mean.mean for mean in means) > 1.0:
            axes.set_yscale("log")
        else:
            axes.set_yscale("symlog", linthresh=1.0)
        axes.set(xlabel="horizon $T$ (rounds)", title=quantity)
        axes.legend(loc="center right")
    return figure
