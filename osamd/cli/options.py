"""What several commands share: options, and how their values are read."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer


def folder(given: str | Path) -> Path:
    # Not in the command: there, '' has become the current folder.
    if not str(given).strip():
        raise typer.BadParameter("name a folder; . is the current one.")
    return Path(given)


Seeds = Annotated[int, typer.Option(min=1, help="How many seeds: 0 to this number minus one.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes; all cores by default. Results do not depend on it.")
]
Engine = Annotated[
    str,
    typer.Option(metavar="local|ray", help="Processes of this machine, or Ray. Results do not depend on it."),
]


Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS", help="Columns to use although they look like ids, counters or names, separated by commas."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(metavar="csv|jsonl|parquet", help="The format of the table, where its name does not say it."),
]
Decimal = Annotated[str, typer.Option(metavar="MARK", help="The decimal mark of a CSV file: . or , (a comma).")]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="The encoding of a text file, such as latin-1; UTF-8 by default.")
]


def names(given: Sequence[str] | None) -> list[str]:
    """Names separated by commas, from one option or from several; one that holds a comma is in double quotes.

    >>> names(["a, b", "c", '"d, e",f'])
    ['a', 'b', 'c', 'd, e', 'f']
    """
    lines = csv.reader(list(given or ()), skipinitialspace=True)
    return [name.strip() for line in lines for name in line if name.strip()]
