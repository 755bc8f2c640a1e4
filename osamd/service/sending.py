"""Samples in, from a file: every row counts once, even if sending is interrupted.

The id of a row is made from the file and the number of the row, so a row that is sent again gets the same response. The
number of rows sent is kept beside the file, so that a second run resumes there.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from osamd.client import Client, typed
from osamd.errors import InputError


class SentFile(NamedTuple):
    """The outcome of sending a file."""

    rows: int
    """In total."""
    before: int
    """Rows sent by an earlier run."""
    asked: int
    """Rows sent now whose label is asked for."""
    refused: int


def send(path: Path, client: Client, *, id: str | None, text: str | None, image: str | None, batch: int) -> SentFile:
    """Send the rows of a file, with a progress bar; `id`, `text` and `image` name columns."""
    from rich.progress import Progress

    name, schema = _identity(path), client.schema()
    place = path.with_name(path.name + ".sent")
    before = _position(place, name)
    number, asked, refused = before, 0, 0
    with Progress() as progress:
        task = progress.add_task(path.name, total=sum(1 for _ in records(path)), completed=before)
        remaining = islice(records(path), before, None)
        while some := list(islice(remaining, batch)):
            ids = [str(row[id]) if id else f"{name}-{number + i}" for i, row in enumerate(some)]
            displays = [_display(row, text, image) for row in some]
            decisions = client.decide_many([typed(row, schema) for row in some], ids=ids, displays=displays)
            number += len(some)
            asked += sum(bool(one.get("query")) for one in decisions)
            refused += sum("error" in one for one in decisions)
            place.write_text(json.dumps({"file": name, "rows": number}))
            progress.update(task, completed=number)
    return SentFile(number, before, asked, refused)


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a table as dictionaries."""
    try:
        if path.suffix == ".csv":
            with path.open(newline="", encoding="utf-8-sig") as file:
                yield from csv.DictReader(file)
        elif path.suffix == ".jsonl":
            with path.open(encoding="utf-8") as file:
                yield from (json.loads(line) for line in file if line.strip())
        elif path.suffix == ".parquet":
            yield from _of_parquet(path)
        else:
            raise InputError(f"`send {path}`: name a .csv, .jsonl or .parquet file.")
    except OSError as error:
        raise InputError(f"`send {path}`: it cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise InputError(f"`send {path}`: it cannot be read as {path.suffix[1:]} ({error}).") from error


def _of_parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow import parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError("Parquet needs pyarrow: pip install 'osamd[tables]'.") from error
    for block in parquet.ParquetFile(path).iter_batches(1000):
        yield from block.to_pylist()


def _identity(path: Path) -> str:
    """An id of the file from its name and first row, so that appending rows does not change it."""
    first = next(records(path), None)
    if first is None:
        raise InputError(f"`send {path}`: it has no rows.")
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


def _display(row: dict[str, Any], text: str | None, image: str | None) -> dict[str, Any] | None:
    shown: dict[str, Any] = {}
    for column, option in ((text, "text"), (image, "image")):
        if column is not None and column not in row:
            raise InputError(f"`send({option}={column!r})`: there is no such column; the file has {', '.join(row)}.")
    if text is not None and row[text]:
        shown["text"] = str(row[text])
    if image is not None and row[image]:
        shown["image"] = {"file": str(row[image])}
    return shown or None
