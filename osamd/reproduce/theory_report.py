"""The report on the theory: OSAMD beside its bounds as the horizon grows, and Theorem 2's stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from osamd.evaluation import plots
from osamd.evaluation.intervals import Mean, mean_90
from osamd.paper.methods import METHODS
from osamd.reporting.tables import Report, Table, in_seeds, in_words
from osamd.reproduce.theory import Growth, Horizon, two_point_regret

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TWO_POINT_ROUNDS = 2000
SEPARABLE_BOUNDS = ("Lemma 1", "Theorem 1")
GENERAL_BOUNDS = ("Lemma 3", "Theorem 4")


class TwoPointRegret(NamedTuple):
    """A method's regret on Theorem 2's stream, with its queries and without any."""

    with_queries: float
    without_queries: float


def two_point_regrets() -> dict[str, TwoPointRegret]:
    """Every method on Theorem 2's stream, on seed 0."""
    rounds = TWO_POINT_ROUNDS
    return {
        name: TwoPointRegret(*(two_point_regret(name, rounds, 0, queries=queries) for queries in (True, False)))
        for name in METHODS
    }


def report(grown: Growth, general: Sequence[Horizon], two_point: Mapping[str, TwoPointRegret]) -> Report:
    """Tables with their notes, the content of theory.json, and the figure."""
    seeds = len(grown.horizons[0].runs)
    means = [_means(row) for row in grown.horizons]
    over_seeds = in_seeds(seeds, ", mean ± half-width of the 90 % interval")
    theorem_2 = f"Theorem 2's stream, T = {TWO_POINT_ROUNDS}: dynamic regret (at least T/2 without queries)"
    return Report(
        [
            Table(
                f"OSAMD on rotating balls, {over_seeds}",
                _columns(SEPARABLE_BOUNDS),
                [_row(row) for row in grown.horizons],
                [
                    f"Fitted exponent of the mean regret: {grown.fit.exponent:.3f} (the theory allows 2/3).",
                    *_failures(grown.horizons),
                ],
            ),
            Table(
                f"The general case: balls that overlap, {over_seeds}",
                _columns(GENERAL_BOUNDS),
                [_row(row) for row in general],
                _failures(general),
            ),
            Table(
                theorem_2,
                ["method", "with its queries", "without queries"],
                [[METHODS[name].title, *(f"{regret:.0f}" for regret in both)] for name, both in two_point.items()],
            ),
        ],
        {
            "stream": "rotating-balls",
            "seeds": seeds,
            "fitted_exponent": grown.fit.exponent,
            "horizons": [_content(row, SEPARABLE_BOUNDS) for row in grown.horizons],
            "general_case": [_content(row, GENERAL_BOUNDS) for row in general],
            "two_point": {name: both._asdict() for name, both in two_point.items()},
        },
        _figure(grown, means, seeds),
    )


def _means(row: Horizon) -> dict[str, Mean]:
    return {
        "labels": mean_90([run.labels for run in row.runs]),
        "pseudolabel_errors": mean_90([float(run.pseudolabel_errors) for run in row.runs]),
        "regret": mean_90([run.regret for run in row.runs]),
    }


def _columns(bounds: tuple[str, str]) -> list[str]:
    return ["T", "eta", "labels %", "pseudolabel errors", bounds[0], "dynamic regret", bounds[1]]


def _row(row: Horizon) -> list[str]:
    means = _means(row)
    return [
        f"{row.rounds:,}",
        f"{row.eta:.4f}",
        f"{100 * means['labels'].mean:.1f}",
        in_words(means["pseudolabel_errors"], 1),
        f"{row.errors_bound.value:,.0f}",
        in_words(means["regret"], 1),
        f"{row.regret_bound.value:,.0f}" + ("" if row.regret_bound.holds else " *"),
    ]


def _content(row: Horizon, bounds: tuple[str, str]) -> dict[str, Any]:
    means = _means(row)
    errors, regret = (name.lower().replace(" ", "_") for name in bounds)
    return {
        "rounds": row.rounds,
        "eta": row.eta,
        "labels": means["labels"]._asdict(),
        "pseudolabel_errors": means["pseudolabel_errors"]._asdict(),
        errors: row.errors_bound.value,
        "regret": means["regret"]._asdict(),
        regret: row.regret_bound.value,
        "assumptions_that_fail": list(row.regret_bound.failed),
    }


def _failures(rows: Sequence[Horizon]) -> list[str]:
    """The first assumption that fails, and the largest horizon at which one does."""
    failed = [(row.rounds, why) for row in rows for why in row.regret_bound.failed]
    return [f"* for T up to {failed[-1][0]:,}. At T = {failed[0][0]:,}: {failed[0][1]}"] if failed else []


def _figure(grown: Growth, means: Sequence[Mapping[str, Mean]], seeds: int) -> Figure:
    rows = grown.horizons
    return plots.theory_figure(
        [row.rounds for row in rows],
        [
            plots.Panel(
                "dynamic regret",
                [mean["regret"] for mean in means],
                "Theorem 1",
                [row.regret_bound for row in rows],
                grown.fit,
            ),
            plots.Panel(
                "pseudolabel errors",
                [mean["pseudolabel_errors"] for mean in means],
                "Lemma 1",
                [row.errors_bound for row in rows],
            ),
        ],
        f"OSAMD on rotating balls, {in_seeds(seeds, ', bars: 90 % intervals')}",
    )
