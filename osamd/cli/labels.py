"""`osamd labels`: accuracy against the share of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.options import Decimal, Encoding, Engine, Keep, Seeds, Workers, folder, names


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
        typer.Option("--methods", help="Which of our methods; all by default. Repeat it or separate them by commas."),
    ] = None,
    peers: Annotated[
        bool, typer.Option("--peers/--no-peers", help="Play scikit-activeml and River too, where they are installed.")
    ] = True,
    seeds: Seeds = 5,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="How many rounds: of a stream 2000 by default, of a table all.")
    ] = None,
    warmup: Annotated[int, typer.Option(min=0, help="So many labelled samples are the source.")] = 200,
    classes: Annotated[list[str] | None, typer.Option(help="The classes of a table, as in osamd run.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns of a table to leave out, as there.")] = None,
    categorical: Annotated[list[str] | None, typer.Option(help="Columns of a table that hold codes, as there.")] = None,
    keep: Keep = None,
    format: Annotated[
        str | None, typer.Option(metavar="csv|jsonl|parquet", help="Where the name does not say it; - is csv.")
    ] = None,
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

    Every method plays the same stream at every budget, from a model fitted to the same labelled source: the preset,
    the paper's methods, and three strategies of scikit-activeml and one of River where these are installed; on a
    table scikit-activeml's also with a model that is refitted to all labels so far at every label. Full supervision
    is OMD (all), told every label. The answer is a sentence: which share of the labels reaches that minus one point.
    One that does not keep the budget stands at the labels it took.

    Streams by name: rotating-gaussian, rotating-balls (separable), gaussian-flip (the labels swap half-way),
    gaussian-recurring (the features change sign, and back), gaussian-priors (one class at nine in ten from half-way
    on) and two-point (of Theorem 2). A table is read as osamd run reads it, and held in memory; its rows are the
    stream, and seeds draw the queries alone.

    scikit-activeml takes milliseconds a round: it plays 3 seeds of 2000 rounds, and fewer of longer streams; a long
    table is quicker with --no-peers. rotating-gaussian takes about a minute on two cores.

    Writes labels.json (shares as fractions) and the figure as PNG and SVG.

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
