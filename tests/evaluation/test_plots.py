"""Figures: every axis and every method is named, nothing is cut, and the same figure is the same file."""

import sys

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.evaluation import plots
from osamd.evaluation.intervals import Mean, mean_90
from osamd.evaluation.theory import Bound, Fit
from osamd.files import together
from osamd.paper.methods import METHODS

TITLES = {method.title for method in METHODS.values()}


def regret_figure(seeds=5):
    generator = np.random.default_rng(0)
    steps = generator.normal(0.3 * np.arange(1, 7)[:, None, None], 1.0, (6, seeds, 200))
    return plots.accumulated_figure(dict(zip(METHODS, steps.cumsum(axis=2), strict=True)), "title")


def label_curve_figure(half=0.0005):
    """Accuracies of 80 to 99.9 %, methods better and better; OMD (all) asks for every label."""
    points = {}
    for i, (name, method) in enumerate(METHODS.items()):
        labels = [1.0, 1.0, 1.0] if method.query == "always" else [0.01, 0.1, 0.5]
        points[name] = [
            (Mean(rate, None), Mean(1.0 - error / (i + 1), half))
            for rate, error in zip(labels, [0.2, 0.05, 0.006], strict=True)
        ]
    return plots.label_curve_figure(points, "title")


def theory_figure(seeds=5, errors=5.0):
    generator = np.random.default_rng(0)
    rounds = [100, 200, 400]
    regret = [mean_90(generator.normal(T**0.5, 0.1, seeds)) for T in rounds]
    fails = ("The step condition fails.",)
    panels = [
        plots.Panel(
            "regret", regret, "Theorem 1", [Bound(10.0 * T, {}, fails * (T < 400)) for T in rounds], Fit(0.5, 1.0)
        ),
        plots.Panel("errors", [Mean(errors, 1.0)] * 3, "Lemma 1", [Bound(100.0, {}, ())] * 3),
    ]
    return plots.theory_figure(rounds, panels, "title")


FIGURES = {"regret": regret_figure, "label curve": label_curve_figure, "theory": theory_figure}


def entries(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_every_axis_is_labelled_and_the_figure_titled(draw):
    figure = draw()
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_ylabel()
    assert "title" in (figure.get_suptitle(), figure.axes[0].get_title())


@pytest.mark.parametrize("draw", [regret_figure, label_curve_figure])
def test_the_legend_names_every_method_from_the_top_curve_down(draw):
    (axes,) = draw().axes
    assert set(entries(axes)) == TITLES
    rising = [method.title for method in METHODS.values()]
    assert entries(axes) == rising[::-1]


def test_a_method_alone_is_drawn():
    for name in METHODS:
        point = (Mean(0.2, 0.01), Mean(0.98, 0.001))
        assert entries(plots.label_curve_figure({name: [point]}, "").axes[0]) == [METHODS[name].title]


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_a_figure_is_a_png_and_an_svg_and_the_same_svg_each_time(draw, tmp_path):
    for folder in ("one", "two"):
        with together(tmp_path / folder, plots.file_names("figure")) as files:
            plots.save(draw(), files, "figure")
        assert [path.name for path in files.paths] == ["figure.png", "figure.svg"]
    one, two = ((tmp_path / folder / "figure.svg").read_bytes() for folder in ("one", "two"))
    assert one == two
    assert b"<svg" in one
    assert (tmp_path / "one" / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_no_band_of_the_regret_is_cut():
    (axes,) = regret_figure().axes
    low, high = axes.get_ylim()
    for band in axes.collections:
        heights = band.get_paths()[0].vertices[:, 1]
        assert low <= heights.min()
        assert heights.max() <= high


def test_no_point_of_the_label_curve_is_cut():
    (axes,) = label_curve_figure().axes
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    for line in axes.lines:
        x, y = np.asarray(line.get_data(), dtype=float)
        if len(x) == 3:
            assert left < x.min() < x.max() < right
            assert low < y.min() < y.max() < high


def test_a_perfect_accuracy_has_a_place_on_the_label_curve(tmp_path):
    points = {"osamd": [(Mean(0.1, 0.0), Mean(0.9, 0.01)), (Mean(0.5, 0.0), Mean(1.0, 0.0))]}
    figure = plots.label_curve_figure(points, "")
    assert 99.9 < figure.axes[0].get_ylim()[1] < 100.0
    with together(tmp_path, []) as files:
        plots.save(figure, files, "figure")


def test_one_seed_is_drawn_without_intervals():
    assert len(regret_figure(seeds=1).axes[0].lines) == len(METHODS)
    assert len(label_curve_figure(half=None).axes[0].collections) == 0
    assert theory_figure(seeds=1).axes[0].containers[0].has_yerr is False


def test_a_bound_is_drawn_apart_where_its_condition_fails():
    regret, errors = theory_figure().axes
    assert entries(regret) == [
        "Theorem 1",
        "Theorem 1, step condition fails",
        "slope of $T^{2/3}$",
        "fitted $T^{0.50}$",
        "measured",
    ]
    assert entries(errors) == ["Lemma 1", "measured"]
    bounds = {line.get_label(): line for line in regret.lines if line.get_label().startswith("Theorem")}
    assert list(np.isfinite(bounds["Theorem 1"].get_ydata())) == [False, False, True]
    assert len({line.get_linestyle() for line in bounds.values()}) == 2


def test_counts_of_zero_have_a_place_on_the_axis():
    assert theory_figure(errors=0.0).axes[1].get_yscale() == "symlog"
    assert theory_figure(errors=5.0).axes[1].get_yscale() == "log"


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'osamd\[plot\]'"):
        regret_figure()
