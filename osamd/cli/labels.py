"""`osamd labels`: accuracy against the share of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.options import Decimal, Encoding, Engine, Format, Keep, Seeds, Workers, folder, names


def labels(
    where: Annotated[
        str, typer.Argument(metavar="STREAM|FILE", help="rotating-gaussian, another stream by name, or a table.")
    ],
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of a table that holds the class.")
    ] = None,
    budgets: Annotated[
        str, typer.Option(metavar="SHARES", help="Shares of the labels, separated by commas.")
    ] = "1%,2%,5%,10%,20%",
    methods: Annotated[
        list[str] | None,
        typer.Option("--methods", metavar="NAMES", help="Which of our methods, separated by commas; all by default."),
    ] = None,
    peers: Annotated[
        bool, typer.Option("--peers/--no-peers", help="Play scikit-activeml and River too, where they are installed.")
    ] = True,
    seeds: Seeds = 5,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="How many rounds; the default is 2000 of a stream, and all of a table.")
    ] = None,
    warmup: Annotated[int, typer.Option(min=0, help="How many labelled samples train the model to start from.")] = 200,
    classes: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="The classes of a table, as in osamd run.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMNS", help="Columns of a table to leave out, as in osamd run.")
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(metavar="COLUMNS", help="Columns of a table that hold codes, as in osamd run.")
    ] = None,
    keep: Keep = None,
    format: Format = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=folder, metavar="FOLDER", help="Folder for the files; results/labels-NAME by default."),
    ] = None,
    workers: Workers = None,
    engine: Engine = "local",
) -> None:
    """How many labels are needed? Accuracy against labels, ours beside scikit-activeml and River.

    Every method plays the same stream at every budget, from a model fitted to the same labelled source. The methods are
    the preset, the paper's, three strategies of scikit-activeml and one of River, where these are installed; on a
    table, scikit-activeml's strategies also play with a model that is refitted to all labels so far at every label.
    Full supervision is OMD (all), which gets every label. The answer is a sentence: which share of the labels comes
    within one point of full supervision. A method that exceeds the budget is shown at the labels it took.

    Streams by name: rotating-gaussian, rotating-balls (separable), gaussian-flip (the labels swap half-way),
    gaussian-recurring (the features change sign, and back), gaussian-priors (one class is nine in ten from half-way
    on) and two-point (the stream of Theorem 2). A table is read as osamd run reads it, and held in memory; its rows are
    the stream, and a seed only draws the queries.

    scikit-activeml takes milliseconds per round, so it plays 3 seeds of 2000 rounds, and fewer seeds of longer streams;
    a long table is quicker with --no-peers. rotating-gaussian takes about a minute on two cores.

    It writes labels.json (shares as fractions) and the figure as PNG and SVG.

    Example: osamd labels sensor.csv --label state --budgets 1%,5%,20%
    """
    from osamd.prequential.label_report import draw_labels

    draw_labels(
        where,
        label,
        out,
        budgets=names([budgets]),
        methods=None if methods is None else names(methods),
        peers=peers,
        seeds=seeds,
        rounds=rounds,
        warmup=warmup,
        classes=names(classes) if classes else None,
        drop=names(drop),
        categorical=names(categorical),
        keep=names(keep),
        format=format,
        decimal=decimal,
        encoding=encoding,
        workers=workers,
        engine=engine,
    )
