"""Figures for a paper: PNG and SVG, colour-blind-safe, with one colour and one dash per method everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from osamd.errors import InputError
from osamd.evaluation.intervals import Mean, half_width_90
from osamd.evaluation.theory import Bound, Fit
from osamd.files import Files
from osamd.numerics import Array
from osamd.paper.methods import KNOWN

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
    "osamd-preset": ("#56B4E9", "-", "*"),
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

# No date, so that the same figure is the same file.
_METADATA: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}}

Draw = TypeVar("Draw", bound=Callable[..., Any])


def require_matplotlib() -> None:
    """Refuse if matplotlib is missing, and say what to install; call it before work whose figure could not be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError("figures need matplotlib: pip install 'osamd[plot]'.") from error


def styled(draw: Draw) -> Draw:
    """Run a drawing function in our style."""

    @wraps(draw)
    def styled(*args: Any, **kwargs: Any) -> Any:
        require_matplotlib()
        from matplotlib import rc_context

        with rc_context(_RC):
            return draw(*args, **kwargs)

    return cast(Draw, styled)


def blank_figure(width: float, height: float, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure with panels side by side; sizes are in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.set_layout_engine("constrained", w_pad=0.09, h_pad=0.06)
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def file_names(stem: str) -> list[str]:
    """The files of one figure.

    >>> file_names("figure3")
    ['figure3.png', 'figure3.svg']
    """
    return [f"{stem}.{kind}" for kind in _METADATA]


@styled
def save(figure: Figure, files: Files, stem: str) -> None:
    """Write the figure as PNG and SVG."""
    for kind, name in zip(_METADATA, file_names(stem), strict=True):
        files.write(name, partial(figure.savefig, dpi=200, metadata=_METADATA[kind]))


@styled
def accumulated_figure(
    curves: Mapping[str, Array],
    title: str,
    quantity: str = "accumulated dynamic regret",
    rounds: NDArray[Any] | None = None,
) -> Figure:
    """Figure 2: a quantity accumulated by round, mean and 90 % band over seeds; `curves` are (seeds x points).

    `rounds` are the rounds of the points; by default 1, 2, 3, ...
    """
    from matplotlib.ticker import MaxNLocator

    figure, (axes,) = blank_figure(4.6, 3.4)
    low, high, ends = 0.0, 0.0, []
    for name, curve in curves.items():
        colour, dash, _ = STYLES[name]
        t = np.arange(1, curve.shape[1] + 1) if rounds is None else rounds
        mean = curve.mean(axis=0)
        half = half_width_90(curve) if len(curve) > 1 else np.zeros_like(mean)
        axes.plot(t, mean, color=colour, linestyle=dash, linewidth=1.6, label=KNOWN[name].title)
        axes.fill_between(t, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
        low, high = min(low, float((mean - half).min())), max(high, float((mean + half).max()))
        ends.append(float(mean[-1]))
    axes.set(xlabel="round $t$", ylabel=quantity, title=title)
    axes.set_xlim(0, float(t[-1]))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    room = 0.03 * (high - low or 1.0)
    axes.set_ylim(low - room if low < 0.0 else 0.0, high + room)
    handles, labels = axes.get_legend_handles_labels()
    order = np.argsort(ends)[::-1]
    axes.legend([handles[i] for i in order], [labels[i] for i in order], loc="upper left")
    return figure


# What a log axis of errors can show, in percent: no run of 2000 rounds resolves less than 0.05 %.
_LEAST_ERROR = 0.05


def errors_to_height(accuracy: Any) -> Any:
    """Accuracies in percent as heights: minus the logarithm of the errors."""
    return -np.log10(np.maximum(100.0 - np.asarray(accuracy, dtype=float), _LEAST_ERROR))


def height_to_accuracy(height: Any) -> Any:
    """The accuracies of heights: the inverse of `errors_to_height`."""
    return 100.0 - 10.0 ** -np.asarray(height, dtype=float)


@styled
def label_curve_figure(points: Mapping[str, Sequence[tuple[Mean, Mean]]], title: str) -> Figure:
    """Figure 3: accuracy against query rate (each point is a label rate and an accuracy), with 90 % bars.

    The axis shows accuracy, as in the paper, but is spaced by the logarithm of the errors, so that 98 and 99 % lie as
    far apart as 80 and 90 %. Methods that ask by margin have the same label rates: their points are moved sideways by a
    typographic point or two, so that no bar hides another. A method that asks for every label (OMD (all)) is a
    horizontal line.
    """
    from matplotlib.transforms import ScaledTranslation

    figure, (axes,) = blank_figure(4.8, 3.8)
    axes.set_xscale("log")
    axes.set_yscale("function", functions=(errors_to_height, height_to_accuracy))
    low, high, height = 100.0, 0.0, {}
    curves = [name for name in points if KNOWN[name].query != "always"]
    for name, some in points.items():
        colour, dash, marker = STYLES[name]
        means = np.array([100 * accuracy.mean for _, accuracy in some])
        bars = np.array([100 * (accuracy.half_width_90 or 0.0) for _, accuracy in some])
        low, high = min(low, float((means - bars).min())), max(high, float((means + bars).max()))
        height[KNOWN[name].title] = float(errors_to_height(means).mean())
        if name not in curves:
            axes.axhline(means[0], color=colour, linestyle=dash, linewidth=1.4, label=KNOWN[name].title)
            axes.axhspan(means[0] - bars[0], means[0] + bars[0], color=colour, alpha=0.1, linewidth=0)
            continue
        sideways = 1.3 * (curves.index(name) - (len(curves) - 1) / 2)
        axes.errorbar(
            [100 * labels.mean for labels, _ in some],
            means,
            yerr=bars if bars.any() else None,
            color=colour,
            linestyle=dash,
            linewidth=1.3,
            marker=marker,
            markersize=3.5,
            capsize=1.5,
            elinewidth=0.8,
            label=KNOWN[name].title,
            transform=axes.transData + ScaledTranslation(sideways / 72, 0, figure.dpi_scale_trans),
        )
    # Points in a transform of their own do not count for the limits.
    rates = [100 * labels.mean for name in curves for labels, _ in points[name]] or [1.0, 100.0]
    set_accuracy_axes(axes, rates, low, high)
    axes.set(xlabel="labels asked for (% of rounds)", ylabel="accuracy (%), errors on a log scale", title=title)
    handles, titles = axes.get_legend_handles_labels()
    order = sorted(range(len(titles)), key=lambda i: -height[titles[i]])
    axes.legend([handles[i] for i in order], [titles[i] for i in order], loc="lower right")
    return figure


def set_accuracy_axes(axes: Axes, rates: Sequence[float], low: float, high: float) -> None:
    """Limits around label rates and accuracies, in percent, and ticks at round numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axes.set_xlim(0.85 * min(rates), 1.15 * max(rates))
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(FixedLocator([0, 50, 70, 80, 90, 95, 98, 99, 99.5, 99.8]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    bottom, top = errors_to_height([low, high])
    room = 0.04 * (top - bottom or 1.0)
    axes.set_ylim(height_to_accuracy(bottom - room), height_to_accuracy(top + room))


class Panel(NamedTuple):
    """A quantity measured at each horizon, its bound, and the power law fitted to its mean if there is one.

    `theorem` names the bound.
    """

    quantity: str
    means: Sequence[Mean]
    theorem: str
    bounds: Sequence[Bound]
    fit: Fit | None = None


@styled
def theory_figure(horizons: Sequence[int], panels: Sequence[Panel], title: str) -> Figure:
    """Measured quantities and their bounds against T, log-log, with one panel per quantity.

    A bound is dotted and light where its assumptions fail: the formula's value, which the paper does not claim.
    """
    figure, all_axes = blank_figure(7.0, 3.4, len(panels))
    figure.suptitle(title, fontsize=9.5)
    rounds = np.asarray(horizons, dtype=float)
    for axes, panel in zip(all_axes, panels, strict=True):
        means = np.array([mean.mean for mean in panel.means])
        bars = np.array([mean.half_width_90 or 0.0 for mean in panel.means])
        _draw_bound(axes, rounds, panel)
        axes.errorbar(
            rounds,
            means,
            yerr=bars if bars.any() else None,
            color=STYLES["osamd"][0],
            linestyle="none" if panel.fit else "-",
            marker="o",
            markersize=4,
            linewidth=1.3,
            capsize=2,
            label="measured",
        )
        if panel.fit:
            law = panel.fit.constant * rounds**panel.fit.exponent
            guide = 2.0 * law[0] * (rounds / rounds[0]) ** (2 / 3)
            axes.plot(rounds, guide, color="#0072B2", linestyle="-.", linewidth=1.2, label="slope of $T^{2/3}$")
            fitted = f"fitted $T^{{{panel.fit.exponent:.2f}}}$"
            axes.plot(rounds, law, color=STYLES["osamd"][0], linewidth=1.3, label=fitted)
        axes.set_xscale("log")
        # Counts may be zero, which a logarithm cannot show: below one the axis is linear.
        if (means - bars).min() > 0.0 and means.min() > 1.0:
            axes.set_yscale("log")
        else:
            axes.set_yscale("symlog", linthresh=1.0)
        axes.set(xlabel="horizon $T$ (rounds)", ylabel=panel.quantity)
        axes.legend(loc="center right")
    return figure


def _draw_bound(axes: Axes, rounds: Array, panel: Panel) -> None:
    """Draw the bound as a line of two kinds; it holds on a segment if it holds at both ends."""
    values = np.array([bound.value for bound in panel.bounds])
    holds = np.array([bound.holds for bound in panel.bounds])
    segment = holds[:-1] & holds[1:]
    kinds = (
        (holds, segment, "#000000", "--", "s", panel.theorem),
        (~holds, ~segment, "#999999", ":", "none", f"{panel.theorem}, step condition fails"),
    )
    for points, kept, colour, dash, marker, label in kinds:
        if not points.any():
            continue
        shown = np.concatenate([kept, [False]]) | np.concatenate([[False], kept]) | points
        axes.plot(
            rounds,
            np.where(shown, values, np.nan),
            color=colour,
            linestyle=dash,
            linewidth=1.4,
            marker=marker,
            markersize=3.5,
            markevery=list(np.flatnonzero(points)),
            label=label,
        )
