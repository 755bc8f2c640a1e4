"""`osamd run`: the default learner on your own table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.options import Decimal, Encoding, Format, Keep, folder, names


def run(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A .csv, .jsonl or .parquet file; - is standard input, read as CSV.")
    ],
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column that holds the class.")] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Ask for at most this share of the labels, such as 5%. The default is 5% with osamd-preset, and no"
            " limit with the paper's methods.",
        ),
    ] = None,
    max_labels: Annotated[int | None, typer.Option(min=1, help="Ask for at most this many labels in total.")] = None,
    warmup: Annotated[
        int, typer.Option(min=0, help="How many of the first rows, with their labels, train the model to start from.")
    ] = 1000,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="osamd-preset, the default, needs no step size: it has a student that trains itself between labels, a"
            " memory, and experts that learn from labels alone. The others are the paper's: osamd (the default with"
            " --eta or --sigma) asks where the margin is small, and trains itself on pseudolabels;"
            " osamd-no-self-adaptation asks in the same way, and learns from labels alone; osamd-no-active-query asks"
            " at random, and trains itself; omd-partial asks at random, and learns from labels alone; omd-all gets"
            " every label; paa is one passive-aggressive model that asks where the margin is small.",
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:ROUNDS",
            help="Labels come late: fixed:100, random:100 (the mean), bursty:500 (in batches), or lost:0.2 (the share"
            " that never comes); join several with commas. The table shows what the delay costs.",
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Play the paper's methods beside it, with as many labels.")
    ] = False,
    other_budgets: Annotated[
        bool,
        typer.Option(
            "--other-budgets/--no-other-budgets",
            help="For the report, play it at half and twice the budget and with every label too; it takes four times as"
            " long.",
        ),
    ] = True,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="All classes, separated by commas; put a name that holds a comma in double quotes. The default is the"
            " classes of the warm-up rows.",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMNS", help="Columns to leave out, separated by commas.")
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMNS", help="Columns whose numbers are codes of categories, separated by commas."),
    ] = None,
    keep: Keep = None,
    eta: Annotated[
        float | None,
        typer.Option(help="For the paper's methods: the step size of the student; 0.3 / (features + 1) by default."),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            help="For the paper's methods: a larger value asks for more labels; a budget steers it from there. The"
            " default is 1."
        ),
    ] = None,
    format: Format = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
    seed: Annotated[
        int, typer.Option(min=0, help="The seed of the random draws that decide what it asks for, and of the delays.")
    ] = 0,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Play this many seeds, from --seed on, and give means with 90% intervals; the default is 5 with"
            " --compare or --delay, else 1. The figures show the first seed.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=folder, metavar="FOLDER", help="Folder for the report; results/NAME by default."),
    ] = None,
) -> None:
    """Try it on your own labelled table: how accurate would it have been, with how few labels?

    The rows are a stream, in their order. The first ones (--warmup) train a linear model. Then the learner decides on
    every row before it knows the label, and gets the label only where it asks for it, so the accuracy is that of real
    use. Two baselines stand beside it: the model of the warm-up left alone, and the commonest class every time.

    Columns: the first 1000 rows (or the warm-up, where it is longer) show what a column holds. Numbers may have any
    unit and scale. True and false are 1 and 0. Other text is a category: each gets a feature, at most 100 per column,
    and one that turns up later gives zeros. Dates give the hour, the weekday and the season, where these come round in
    those rows. Ids and counters, text that hardly ever repeats (--keep uses them nevertheless), columns without a name
    and columns without a value are left out.

    Missing values: an empty value, ?, NA, N/A, #N/A, <NA>, NaN, NaT, null and None are missing, and so are numbers
    that are not finite. The mean so far stands in for a missing number; a missing category is a category of its own.
    Rows without a label are left out.

    Files: a CSV file has a header, and a comma, semicolon, tab or | between values; it may be packed as .gz. Parquet
    needs the extra tables.

    It writes results.json (accuracies and rates as fractions, means over the seeds) and report.html (one file, which
    opens offline).

    Example: osamd run sensor.csv --label state --budget 5% --delay lost:0.1
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
