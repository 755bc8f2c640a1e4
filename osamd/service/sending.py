"""Samples in, from a file: every row counts once, even if sending is interrupted.

The id of a row is made from the file and the number of the row, so a row that is sent again gets the same response. The
number of rows sent is kept beside the file, so that a second run resumes there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from osamd.client import Client, ServiceError, typed
from osamd.errors import InputError
from osamd.tables.row_sources import BLOCK, USUAL, TextFormat, open_source


class SentFile(NamedTuple):
    """The outcome of sending a file."""

    rows: int
    """In total."""
    before: int
    """Rows sent by an earlier run."""
    asked: int
    """Rows sent now whose label is asked for."""
    refused: list[str]
    """Why the service refused rows sent now: a sentence for each."""


class SpecialColumns(NamedTuple):
    """Columns that are not features, by their names."""

    id: str | None = None
    """The ids of the samples; made from the file and the number of the row if it is None."""
    text: str | None = None
    image: str | None = None


def send(
    path: Path,
    client: Client,
    columns: SpecialColumns,
    *,
    batch: int,
    format: str | None = None,
    written: TextFormat = USUAL,
) -> SentFile:
    """Send the rows of a file, with a progress bar; `format` and `written` say how to read it, as in `osamd.run`."""
    from rich.progress import Progress

    def rows() -> Iterator[dict[str, Any]]:
        return records(path, format, written)

    name, schema = _identity(path, next(rows(), None), columns), client.schema()
    place = path.with_name(path.name + ".sent")
    before = _position(place, name)
    number, asked, refused = before, 0, list[str]()
    with Progress() as progress:
        task = progress.add_task(path.name, total=sum(1 for _ in rows()), completed=before)
        remaining = islice(rows(), before, None)
        while some := list(islice(remaining, batch)):
            ids = [str(row[columns.id]) if columns.id else f"{name}-{number + i}" for i, row in enumerate(some)]
            samples = [typed(row, schema, written.decimal) for row in some]
            displays = [_display(row, columns) for row in some]
            with _row_named(path, number):
                decisions = client.decide_many(samples, ids=ids, displays=displays)
            number += len(some)
            asked += sum(bool(one.get("query")) for one in decisions)
            refused += [one["error"]["message"] for one in decisions if "error" in one]
            place.write_text(json.dumps({"file": name, "rows": number}))
            progress.update(task, completed=number)
    return SentFile(number, before, asked, refused)


@contextmanager
def _row_named(path: Path, before: int) -> Iterator[None]:
    """Say which row of the file the service refuses, rather than which one of the request."""
    try:
        yield
    except ServiceError as error:
        found = re.match(r"body\.samples\.(\d+)", error.where or "")
        if not found:
            raise
        why = str(error).removeprefix(f"{error.code}: ")
        raise InputError(
            f"`send {path}`: row {before + int(found[1]) + 1}: {why} Mend the row and run the command again; the"
            f" {before:,} rows before this request have been sent."
        ) from error


def records(path: Path, format: str | None = None, written: TextFormat = USUAL) -> Iterator[dict[str, Any]]:
    """The rows of a table as dictionaries."""
    if str(path) == "-":
        raise InputError("`send -`: a run that resumes needs a file; write the rows into one and send that.")
    source = open_source(path, BLOCK, format, written)
    try:
        for block in source.blocks:
            for row in zip(*block.columns, strict=True):
                yield dict(zip(source.names, row, strict=True))
    finally:
        source.close()


def _identity(path: Path, first: dict[str, Any] | None, columns: SpecialColumns) -> str:
    """An id of the file from its name and first row, so that appending rows does not change it."""
    if first is None:
        raise InputError(f"`send {path}`: it has no rows.")
    for option, column in columns._asdict().items():
        if column is not None and column not in first:
            raise InputError(f"`send({option}={column!r})`: there is no such column; the file has {', '.join(first)}.")
    digest = hashlib.sha256(json.dumps([path.name, first], default=str).encode()).hexdigest()[:12]
    plain = "".join(letter for letter in path.stem if letter.isascii() and letter.isalnum())[:40]
    return f"{plain}-{digest}"


def _position(place: Path, name: str) -> int:
    """The number of rows that an earlier run sent; 0 if there was none."""
    try:
        kept = json.loads(place.read_text())
        return int(kept["rows"]) if kept["file"] == name else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _display(row: dict[str, Any], columns: SpecialColumns) -> dict[str, Any] | None:
    shown: dict[str, Any] = {}
    if columns.text is not None and row[columns.text]:
        shown["text"] = str(row[columns.text])
    if columns.image is not None and row[columns.image]:
        shown["image"] = {"file": str(row[columns.image])}
    return shown or None
