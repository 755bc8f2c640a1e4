"""The command `osamd`: each command is a call and a print."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

app = typer.Typer(
    name="osamd",
    help="Keep a classifier right on a drifting stream while asking for very few labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Reproduction(enum.StrEnum):
    rotating_gaussian = "rotating-gaussian"
    figure3 = "figure3"


Seeds = Annotated[int, typer.Option(min=1, help="How many seeds: 0, 1, ... up to this number.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes; all cores by default. Results do not depend on it.")
]


@app.command()
def reproduce(
    what: Annotated[Reproduction, typer.Argument(help="The column of Table 1 with its figure, or Figure 3.")],
    seeds: Seeds = 10,
    methods: Annotated[
        list[str] | None,
        typer.Option("--methods", help="Methods to run, all six by default; repeat it or separate them by commas."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.json and the figures; results/WHAT by default.")
    ] = None,
    workers: Workers = None,
) -> None:
    """Reproduce the paper's table and figures, ours beside the paper's.

    rotating-gaussian: the Rotating Gaussian column of Table 1 and Figure 2(a), accumulated dynamic regret by round
    (10 seconds on two cores).

    figure3: accuracy against query rate, sigma varied, on the same stream (1 to 2 minutes).

    Accuracies are means over seeds with the half-width of their 90 % interval. The folder gets results.json (fractions,
    not percent) and each figure as PNG and SVG.

    Example: osamd reproduce rotating-gaussian --seeds 10 --methods osamd,omd-all
    """
    from osamd.evaluation import plots
    from osamd.files import writable, write_json
    from osamd.methods import METHODS
    from osamd.reproduce import results, rotating_gaussian
    from osamd.reproduce.paper import TABLE_1

    chosen = _methods(methods, list(METHODS))
    folder = writable(out or Path("results") / what.value)
    sweep = what is Reproduction.figure3
    sigmas = rotating_gaussian.SIGMAS if sweep else (rotating_gaussian.SIGMA,)
    total = rotating_gaussian.number_of_runs(chosen, seeds, sigmas)
    with _progress(f"{what.value}: {total} runs of {rotating_gaussian.ROUNDS} rounds", total) as step:
        runs = rotating_gaussian.experiment(chosen, seeds, sigmas, workers=workers, progress=step)
    paper = TABLE_1["rotating-gaussian"]
    summaries = {sigma: {name: results.summarise(some) for name, some in by.items()} for sigma, by in runs.items()}
    at = summaries[rotating_gaussian.SIGMA]
    settings = rotating_gaussian.described(rotating_gaussian.ROUNDS, list(sigmas) if sweep else sigmas[0])
    content = results.results("rotating-gaussian", rotating_gaussian.ROUNDS, seeds, settings, at, paper)
    if sweep:
        curve = {
            name: [(summaries[s][name]["labels"], summaries[s][name]["accuracy"]) for s in sigmas] for name in chosen
        }
        content["curve"] = {
            name: [
                {"sigma": sigma, "labels": rate._asdict(), "accuracy": accuracy._asdict()}
                for sigma, (rate, accuracy) in zip(sigmas, some, strict=True)
            ]
            for name, some in curve.items()
        }
        figure = plots.label_curve_figure(curve, f"Rotating Gaussian, {seeds} seeds, bars: 90 % intervals")
        _table(
            "Accuracy % (labels %) by sigma",
            ["method", *(f"{sigma:g}" for sigma in sigmas)],
            [
                [METHODS[name].title, *(f"{100 * a.mean:.1f} ({100 * rate.mean:.0f})" for rate, a in some)]
                for name, some in curve.items()
            ],
        )
    else:
        curves = {name: rotating_gaussian.regret_curves(some) for name, some in runs[sigmas[0]].items()}
        figure = plots.regret_figure(curves, f"Rotating Gaussian, {seeds} seeds, bands: 90 % intervals")
        _table(
            f"Rotating Gaussian, {seeds} seeds, mean ± half-width of the 90 % interval",
            results.COLUMNS,
            results.table_rows(at, paper),
        )
        print(results.verdict(at, paper))
    written = [write_json(folder / "results.json", content)]
    written += plots.save(figure, folder / ("figure3" if sweep else "figure2a"))
    _wrote(written)


@app.command()
def theory(
    seeds: Seeds = 10,
    horizons: Annotated[
        str | None, typer.Option(help="Horizons T, separated by commas; 500 to 32000, doubling, by default.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for theory.json and the figure.")] = Path("results/theory"),
    workers: Workers = None,
) -> None:
    """Measure OSAMD against its bounds as the horizon T grows.

    On a separable rotating stream, with the smoothed hinge on a ball and eta = V^(1/3) T^(-1/3): pseudolabel errors
    beside Lemma 1's bound, dynamic regret beside Theorem 1's, and the exponent of T fitted to the mean regret (the
    theory allows 2/3). Then Theorem 2's stream: the regret of each method with its queries and without.
    """
    from osamd.evaluation import plots
    from osamd.evaluation.intervals import mean_90
    from osamd.files import writable, write_json
    from osamd.methods import METHODS
    from osamd.reproduce import theory as measured

    steps = measured.HORIZONS if horizons is None else _horizons(horizons)
    folder = writable(out)
    with _progress(f"theory: {len(steps) * seeds} runs", len(steps) * seeds) as step:
        grown = measured.growth(steps, seeds, workers=workers, progress=step)
    rows, content = [], []
    for row in grown.horizons:
        regret = mean_90([run.regret for run in row.runs])
        errors = mean_90([float(run.pseudolabel_errors) for run in row.runs])
        labels = mean_90([run.labels for run in row.runs])
        rows.append(
            [
                f"{row.rounds:,}",
                f"{row.eta:.4f}",
                f"{100 * labels.mean:.1f}",
                f"{errors.mean:.1f} ± {errors.half_width_90:.1f}",
                f"{row.errors_bound.value:.0f}",
                f"{regret.mean:.1f} ± {regret.half_width_90:.1f}",
                f"{row.regret_bound.value:,.0f}" + ("" if row.regret_bound.holds else " *"),
            ]
        )
        content.append(
            {
                "rounds": row.rounds,
                "eta": row.eta,
                "labels": labels._asdict(),
                "pseudolabel_errors": errors._asdict(),
                "lemma_1": row.errors_bound.value,
                "regret": regret._asdict(),
                "theorem_1": row.regret_bound.value,
                "assumptions_that_fail": list(row.regret_bound.failed),
            }
        )
    columns = ["T", "eta", "labels %", "pseudolabel errors", "Lemma 1", "dynamic regret", "Theorem 1"]
    _table(f"OSAMD on rotating balls, {seeds} seeds, mean ± half-width of the 90 % interval", columns, rows)
    print(f"Fitted exponent of the mean regret: {grown.fit.exponent:.3f} (the theory allows 2/3).")
    failed = [(row.rounds, sentence) for row in grown.horizons for sentence in row.regret_bound.failed]
    if failed:
        print(f"* for T up to {failed[-1][0]:,}. At T = {failed[0][0]:,}: {failed[0][1]}")
    rounds = 2000
    regrets = {
        name: {q: measured.two_point_regret(name, rounds, 0, queries=q) for q in (True, False)} for name in METHODS
    }
    _table(
        f"Theorem 2's stream, T = {rounds}: dynamic regret (at least T/2 without queries)",
        ["method", "with its queries", "without queries"],
        [[METHODS[name].title, f"{both[True]:.0f}", f"{both[False]:.0f}"] for name, both in regrets.items()],
    )
    figure = plots.theory_figure(
        [row.rounds for row in grown.horizons],
        {
            "dynamic regret": [[run.regret for run in row.runs] for row in grown.horizons],
            "pseudolabel errors": [[run.pseudolabel_errors for run in row.runs] for row in grown.horizons],
        },
        {
            "dynamic regret": [row.regret_bound.value for row in grown.horizons],
            "pseudolabel errors": [row.errors_bound.value for row in grown.horizons],
        },
        {"dynamic regret": f", fitted $T^{{{grown.fit.exponent:.2f}}}$"},
    )
    written = [
        write_json(
            folder / "theory.json",
            {
                "stream": "rotating-balls",
                "seeds": seeds,
                "fitted_exponent": grown.fit.exponent,
                "horizons": content,
                "two_point": {
                    name: {"with_queries": both[True], "without_queries": both[False]} for name, both in regrets.items()
                },
            },
        )
    ]
    _wrote(written + plots.save(figure, folder / "theory"))


def _methods(given: list[str] | None, known: list[str]) -> list[str]:
    from osamd.errors import InputError, nearest

    if not given:
        return known
    names = [name.strip() for part in given for name in part.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise InputError(f"`--methods {name}`: no such method. {nearest(name, known)}")
    return [name for name in known if name in names]


def _horizons(given: str) -> list[int]:
    from osamd.errors import InputError

    try:
        steps = sorted({int(part) for part in given.split(",")})
    except ValueError:
        steps = []
    if len(steps) < 2 or steps[0] < 2:
        raise InputError(f"`--horizons {given}`: give at least two whole numbers above 1, as in 1000,2000,4000.")
    return steps


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on the terminal, with the time left; nothing where the output is not one."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in rows:
        table.add_row(*row)
    Console(width=max(Console().width, 130)).print(table)


def _wrote(paths: Sequence[Path]) -> None:
    print("Wrote:")
    for path in paths:
        print(f"  {path}")


def main(arguments: list[str] | None = None) -> Any:
    """Run the command; an error of the user's is one sentence and exit code 2."""
    from osamd.errors import InputError

    try:
        return app(arguments, prog_name="osamd")
    except InputError as error:
        print(f"osamd: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("osamd: interrupted; nothing was written.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
