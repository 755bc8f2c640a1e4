"""`osamd send` and `osamd export`: samples into a service, and the learner or the labels out of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.options import Decimal, Encoding, Format
from osamd.cli.service_options import HERE, DatabaseUrl, StateFolder, require_service

MOST_REASONS = 3
"""How many different reasons of refusals are printed."""


def send(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .csv, .jsonl or .parquet file of samples.")],
    url: Annotated[str, typer.Option(help="The address of the service.")] = HERE,
    token: Annotated[str | None, typer.Option(envvar="OSAMD_TOKEN", help="A token with the role client.")] = None,
    id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the ids of the samples; generated otherwise.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with text to show to annotators.")
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column with file names of images, in the media folder, to show."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Rows per request.")] = 200,
    format: Format = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
) -> None:
    """Send the rows of a table to a service, each exactly once; an interrupted run can be resumed.

    The file is read as osamd run reads it. Columns that the service does not know are left out. FILE.sent records how
    many rows have been sent.

    Example: osamd send today.csv --url http://127.0.0.1:8000
    """
    require_service()
    from osamd.client import Client, ServiceError
    from osamd.errors import InputError
    from osamd.service import sending
    from osamd.tables.row_sources import TextFormat

    columns, written = sending.SpecialColumns(id, text, image), TextFormat(decimal, encoding)
    with Client(url, token=token) as client:
        try:
            sent = sending.send(file, client, columns, batch=batch, format=format, written=written)
        except ServiceError as error:
            raise InputError(f"`send {file}`: {error} Run the command again; it resumes where it stopped.") from error
    before = f" ({sent.before:,} of them earlier)" if sent.before else ""
    refused = f"; {len(sent.refused):,} were refused" if sent.refused else ""
    print(f"Sent {sent.rows:,} rows{before}: {sent.asked:,} labels are asked for{refused}.")
    for why, rows in Counter(sent.refused).most_common(MOST_REASONS):
        print(f"Refused ({rows:,}): {why}")


def export(
    state: StateFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    labels: Annotated[
        bool, typer.Option("--labels", help="Write the answers of the annotators: a .csv, .jsonl or .parquet file.")
    ] = False,
    database: DatabaseUrl = None,
) -> None:
    """Write the current learner, which `osamd.OSAMD.load` reads, or the labels; the service may keep running.

    Example: osamd export shop labels.csv --labels
    """
    require_service()
    from osamd.service.fold import folded
    from osamd.service.server import opened

    if labels:
        from osamd.service.exporting import export_labels

        print(f"Wrote {file}: {export_labels(state, database, file):,} labels.")
        return
    with opened(state, database) as (its_state, log):
        fold = folded(its_state, log)
    fold.learner.save(file)
    print(f"Wrote {file}: {fold.learner!r}")
