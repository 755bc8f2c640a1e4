"""`osamd robustness`: hard streams, and whether the default learner ever does harm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.options import Engine, Seeds, Workers, folder, names
from osamd.reporting.terminal import files, progress, resumable

MOST_ROUNDS = 10_000_000
FEWEST_ROUNDS = 400
"""The limits of --rounds: the least leaves each of the four parts of a stream one window of the sliding accuracy."""


def robustness(
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="drift|tables|harm|late", help="All by default; repeat it or separate them by commas."),
    ] = None,
    seeds: Seeds = 10,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=FEWEST_ROUNDS,
            max=MOST_ROUNDS,
            help="Rounds of every stream; 4000 by default, and 20000 in the group harm.",
        ),
    ] = None,
    budgets: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES", help="Shares of the labels, separated by commas, as in 1%,5%; each group has its own."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(parser=folder, metavar="FOLDER", help="Folder for robustness.json.")] = Path(
        "results/robustness"
    ),
    workers: Workers = None,
    engine: Engine = "local",
) -> None:
    """Measure the default learner on hard streams: is it right there, and does it ever do harm?

    drift: flips, noise, imbalance, irrelevant and unscaled features around a rotation, beside the paper's OSAMD at the
    same budget and OMD with every label. After a flip, rounds and labels are counted until it is back within a point
    of what OMD (all) has without one.

    tables: a trending column, outliers, 40 classes, 500 features, 6 % positives; accuracy and balanced accuracy, from
    a source and from nothing, beside the source model left alone.

    harm: streams that stand still, where all queries are answered, half of the answers are lost, late by 1,000 rounds
    or wrong in 20 %, or where nobody answers: points above the source model left alone, and which bars hold. It needs
    the extra sklearn.

    late: the streams of drift, with labels that come 200 rounds late.

    Accuracy is against the true labels. Some ten minutes on two cores, most of them for harm.

    Example: osamd robustness --group harm --seeds 2 --rounds 4000 --budgets 5%
    """
    from osamd.evaluation.many import Runner
    from osamd.prequential.runs import share
    from osamd.reproduce.robustness import groups
    from osamd.reproduce.robustness.plans import RobustnessPlan

    chosen = groups.named(names(group))
    plan = RobustnessPlan(seeds, rounds, None if budgets is None else [share(one) for one in names([budgets])])
    with files(out, "robustness.json") as deliver, resumable(out) as kept:
        total = groups.number_of_tasks(chosen, plan)
        with progress(f"robustness: {total} tasks", total) as step:
            deliver(groups.measure(chosen, plan, Runner(engine, workers, kept), progress=step))
