"""`osamd run`: the default learner on your own table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.options import Decimal, Encoding, Keep, folder, names


def run(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A .csv, .jsonl or .parquet file; - is standard input.")
    ],
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column that holds the class.")] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Ask for at most this share of the labels, as in 5%. By default 5% with osamd-preset; no limit with"
            " the paper's methods.",
        ),
    ] = None,
    max_labels: Annotated[int | None, typer.Option(min=1, help="Ask for at most so many labels.")] = None,
    warmup: Annotated[int, typer.Option(min=0, help="So many first rows are the labelled source.")] = 1000,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="osamd-preset, the default: no step size; a student that trains itself between labels, a memory, and"
            " experts that learn from labels alone. Of the paper: osamd (the default with --eta or --sigma): asks where"
            " the margin is small, and trains itself on pseudolabels; osamd-no-self-adaptation: asks so, learns from"
            " labels alone; osamd-no-active-query: asks uniformly, and trains itself; omd-partial: asks uniformly,"
            " labels alone; omd-all: every label; paa: passive-aggressive, asks where the margin is small, one model.",
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:ROUNDS",
            help="Labels come late: fixed:100, random:100 (mean), bursty:500 (in batches), lost:0.2 (a share that"
            " never comes); several with commas. The table shows what it costs.",
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Play the paper's methods beside it, at equal labels.")
    ] = False,
    other_budgets: Annotated[
        bool,
        typer.Option(
            "--other-budgets/--no-other-budgets",
            help="Play it at half and twice the budget and with every label too, for the report; four times the work.",
        ),
    ] = True,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            help="All classes, with commas, or the option repeated; one that holds a comma in double quotes. Those of"
            " the warm-up rows by default."
        ),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns to leave out, with commas, as in --classes.")] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="Columns whose numbers are codes of categories, with commas.")
    ] = None,
    keep: Keep = None,
    eta: Annotated[
        float | None,
        typer.Option(help="The student's step, in the paper's methods; 0.3 / (features + 1) by default."),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            help="For the paper's methods: larger asks for more. With a budget, steering starts there; 1 by default."
        ),
    ] = None,
    format: Annotated[
        str | None, typer.Option(metavar="csv|jsonl|parquet", help="Where the name does not say it; - is csv.")
    ] = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
    seed: Annotated[
        int, typer.Option(min=0, help="The seed of the draws that decide what is asked, and of delays.")
    ] = 0,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Play so many seeds, from --seed on, and give means with 90 % intervals; 5 with --compare or --delay,"
            " else 1. Figures are those of the first.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=folder, metavar="FOLDER", help="Folder for the report; results/NAME by default."),
    ] = None,
) -> None:
    """Try it on your own labelled table: how accurate would it have been, with how few labels?

    The rows are a stream, in their order. The first ones (--warmup) train a linear model; then every row is decided
    before its label is known, and the learner is given the label only where it asked
    for it, so the accuracy is that of real use. Beside it stand the model of the warm-up left alone, and always the
    commonest class.

    Columns: the first 1000 rows (or the warm-up, where it is longer) decide. Numbers may be of any unit and scale;
    true and false are 1 and 0; other text is a category with a feature of its own, at most 100 a column, and a
    category that turns up later gives zeros. Of dates the hour, the weekday and the season are features, where they
    come round in those rows. Ids and counters, text that hardly ever repeats (--keep uses them all the same), columns
    without a name and columns without a value are left out. Missing are: an empty value, ?, NA, N/A, #N/A, <NA>, NaN,
    NaT, null, None, and numbers that are not finite; a missing number is the mean so far, a missing category a
    category. Rows without a label are left out. CSV has a header, and , ; tab or | between values; .gz is unpacked.
    Parquet needs the extra tables.

    Writes results.json (accuracies and rates as fractions, means over the seeds), report.html (one file, opens
    offline).

    Example: osamd run sensor.csv --label state --budget 5% --delay random:100,lost:0.1 --compare
    """
    from osamd.cli.run_table import run_table

    run_table(
        table,
        label,
        out,
        budget=budget,
        max_labels=max_labels,
        warmup=warmup,
        method=method,
        delay=delay,
        compare=compare,
        other_budgets=other_budgets,
        classes=names(classes) if classes else None,
        drop=names(drop),
        categorical=names(categorical),
        keep=names(keep),
        eta=eta,
        sigma=sigma,
        format=format,
        decimal=decimal,
        encoding=encoding,
        seed=seed,
        seeds=seeds,
    )
