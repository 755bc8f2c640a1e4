"""`osamd theory`: the lemmas and theorems, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.options import Engine, Seeds, Workers, folder
from osamd.reporting.terminal import files, progress, resumable

LONGEST_HORIZON = 10_000_000
"""Some gigabytes a run: parameters of every round are kept for its regret."""


def theory(
    seeds: Seeds = 10,
    horizons: Annotated[
        str | None, typer.Option(help="Horizons T, separated by commas; 500 to 32000, doubling, by default.")
    ] = None,
    out: Annotated[
        Path, typer.Option(parser=folder, metavar="FOLDER", help="Folder for theory.json and the figure.")
    ] = Path("results/theory"),
    workers: Workers = None,
    engine: Engine = "local",
) -> None:
    """Measure OSAMD against its bounds as the horizon T grows.

    On a separable rotating stream, with the smoothed hinge on a ball and eta = V^(1/3) T^(-1/3): pseudolabel errors
    beside Lemma 1's bound, dynamic regret beside Theorem 1's, and the exponent of T fitted to the mean regret (the
    theory allows 2/3). The same where the classes overlap, beside Lemma 3 and Theorem 4. Then Theorem 2's stream: the
    regret of each method with its queries and without.
    """
    steps = None if horizons is None else _horizons(horizons)
    from osamd.evaluation.many import Runner
    from osamd.reproduce import theory as measured
    from osamd.reproduce import theory_report

    separable, overlapping = steps or measured.HORIZONS, steps or measured.GENERAL_HORIZONS
    total = (len(separable) + len(overlapping)) * seeds
    with files(out, "theory.json", "theory") as deliver, resumable(out) as kept:
        runner = Runner(engine, workers, kept)
        with progress(f"theory: {total} runs", total) as step:
            grown = measured.growth(separable, seeds, runner=runner, progress=step)
            general = measured.general_case(overlapping, seeds, runner=runner, progress=step)
        deliver(theory_report.report(grown, general, theory_report.two_point_regrets()))


def _horizons(given: str) -> list[int]:
    from osamd.errors import InputError

    try:
        steps = sorted({int(part) for part in given.split(",")})
    except ValueError:
        steps = []
    if len(steps) < 2 or steps[0] < 2:
        raise InputError(f"`--horizons {given}`: give at least two whole numbers above 1, as in 1000,2000,4000.")
    if steps[-1] > LONGEST_HORIZON:
        raise InputError(f"`--horizons {given}`: {steps[-1]} is too long; give at most {LONGEST_HORIZON} rounds.")
    return steps
