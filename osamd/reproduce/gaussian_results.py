"""The report on the Rotating Gaussian: results.json, our results beside the paper's, and the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osamd.evaluation import plots
from osamd.evaluation.intervals import Mean, mean_90
from osamd.paper.methods import KNOWN, METHODS, PRESET
from osamd.preset import arbiter
from osamd.reporting.tables import Report, Table, in_seeds, in_words
from osamd.reproduce import rotating_gaussian
from osamd.reproduce.rotating_gaussian import ROUNDS, SIGMA, GaussianRun
from osamd.reproduce.table_1 import TABLE_1, PaperRow

Summary = dict[str, Mean]
STREAM = "rotating-gaussian"


def summarise(runs: Sequence[GaussianRun]) -> Summary:
    """Means over seeds with 90 % intervals. All but the regret are fractions of the rounds; the preset has no
    regret."""
    regrets = [float(one.regret[-1]) for one in runs if one.regret is not None]
    return {
        "accuracy": mean_90([one.accuracy for one in runs]),
        "labels": mean_90([one.labels for one in runs]),
        "pseudolabel_errors": mean_90([one.pseudolabel_error_rate for one in runs]),
        **({"regret": mean_90(regrets)} if regrets else {}),
    }


def table_1(runs: Mapping[str, Sequence[GaussianRun]], budget: float | None = None) -> Report:
    """The Rotating Gaussian column of Table 1 with Figure 2(a), from the runs of each method at SIGMA.

    The preset, which is not in the paper, comes last with its `budget`, and without a regret.
    """
    seeds = len(next(iter(runs.values())))
    methods = {name: summarise(some) for name, some in runs.items()}
    paper = TABLE_1[STREAM]
    curves = {name: rotating_gaussian.regret_curves(some) for name, some in runs.items() if name != PRESET.name}
    settings, notes = rotating_gaussian.described(SIGMA), verdict(methods, paper)
    if PRESET.name in runs:
        rate = settings["preset_budget"] = budget or arbiter.RATE
        notes.append(
            f"{PRESET.title} is not in the paper. It starts from the same point, with a budget of {100 * rate:g}"
            " % of the labels. It decides by a mixture of models, which has no regret."
        )
    title = f"Rotating Gaussian, {in_seeds(seeds, ', mean ± half-width of the 90 % interval')}"
    return Report(
        [Table(title, (*COLUMNS, "regret"), table_rows(methods, paper), notes)],
        results(STREAM, ROUNDS, seeds, settings, methods, paper),
        plots.accumulated_figure(curves, f"Rotating Gaussian, {in_seeds(seeds, ', bands: 90 % intervals')}")
        if curves
        else None,
    )


def figure_3(runs: Mapping[float, Mapping[str, Sequence[GaussianRun]]]) -> Report:
    """Figure 3, accuracy against query rate, from the runs of each method at every sigma."""
    by_sigma = {sigma: {name: summarise(some) for name, some in by.items()} for sigma, by in runs.items()}
    sigmas = list(by_sigma)
    names = list(by_sigma[sigmas[0]])
    seeds = len(runs[sigmas[0]][names[0]])
    curve = {name: [(by_sigma[s][name]["labels"], by_sigma[s][name]["accuracy"]) for s in sigmas] for name in names}
    content = results(
        STREAM, ROUNDS, seeds, rotating_gaussian.described(sigmas), by_sigma.get(SIGMA, {}), TABLE_1[STREAM]
    )
    content["curve"] = {
        name: [
            {"sigma": sigma, "labels": labels._asdict(), "accuracy": accuracy._asdict()}
            for sigma, (labels, accuracy) in zip(sigmas, some, strict=True)
        ]
        for name, some in curve.items()
    }
    rows = [
        [METHODS[name].title, *(f"{100 * accuracy.mean:.1f} ({100 * labels.mean:.0f})" for labels, accuracy in some)]
        for name, some in curve.items()
    ]
    return Report(
        [Table(f"Accuracy % (labels %) by sigma, {in_seeds(seeds)}", ["method", *(f"{s:g}" for s in sigmas)], rows)],
        content,
        plots.label_curve_figure(curve, f"Rotating Gaussian, {in_seeds(seeds, ', bars: 90 % intervals')}"),
    )


def results(
    stream: str,
    rounds: int,
    seeds: int,
    settings: Mapping[str, Any],
    methods: Mapping[str, Summary],
    paper: Mapping[str, PaperRow],
    accumulated: str = "regret",
) -> dict[str, Any]:
    """The content of results.json; numbers that the paper does not give are null, as is the half-width of one seed."""
    return {
        "stream": stream,
        "rounds": rounds,
        "seeds": seeds,
        "settings": dict(settings),
        "methods": {
            name: {quantity: mean._asdict() for quantity, mean in summary.items()}
            | ({} if accumulated in summary else {accumulated: None})
            for name, summary in methods.items()
        },
        "paper": {
            name: {
                "accuracy": row.accuracy._asdict(),
                "labels": row.labels._asdict(),
                "pseudolabel_errors": None,
                accumulated: None,
            }
            for name, row in paper.items()
            if name in methods
        },
    }


COLUMNS = ("method", "accuracy %", "paper's", "labels %", "paper's", "pseudolabel errors %")


def table_rows(
    methods: Mapping[str, Summary], paper: Mapping[str, PaperRow], accumulated: str = "regret"
) -> list[list[str]]:
    """Our results beside the paper's, if it has any: accuracies and rates in percent with 90 % half-widths."""
    percent, none = 0.01, "-"
    return [
        [
            KNOWN[name].title,
            in_words(summary["accuracy"], 2, percent),
            in_words(paper[name].accuracy, 1, percent) if name in paper else none,
            in_words(summary["labels"], 1, percent),
            in_words(paper[name].labels, 1, percent) if name in paper else none,
            in_words(summary["pseudolabel_errors"], 2, percent),
            in_words(summary[accumulated], 0) if accumulated in summary else none,
        ]
        for name, summary in methods.items()
    ]


def verdict(methods: Mapping[str, Summary], paper: Mapping[str, PaperRow]) -> list[str]:
    """Which accuracies differ from the paper's by more than the sum of the two half-widths; nothing without
    intervals."""
    off = []
    methods = {name: summary for name, summary in methods.items() if name in paper}
    if not methods:
        return []
    for name, summary in methods.items():
        ours, theirs = summary["accuracy"], paper[name].accuracy
        if ours.half_width_90 is None or theirs.half_width_90 is None:
            return []
        if abs(ours.mean - theirs.mean) > ours.half_width_90 + theirs.half_width_90:
            off.append(METHODS[name].title)
    within = f"{len(methods) - len(off)} of {len(methods)} accuracies lie within the sum of the two half-widths of the"
    return [f"{within} paper's" + (f"; not: {', '.join(off)}." if off else ".")]
