"""Where rows come from: CSV and JSON lines by Python alone, Parquet and data frames by the extra `tables`.

Every reader gives a `Source`: the names of the columns, and blocks of raw values, the first of them `head` rows long.
Only one block is in memory at a time.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from osamd.errors import InputError, nearest

BLOCK = 4096
"""Rows a block: some megabytes of text, and small beside that the cost of handing it over."""

FORMATS = ("csv", "jsonl", "parquet")
EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
DELIMITERS = ",;\t|"


class TextFormat(NamedTuple):
    """How a file of text writes its numbers and letters."""

    decimal: str = "."
    """The decimal mark of CSV: a point or a comma; with a comma, points may group thousands."""
    encoding: str | None = None
    """UTF-8 where it is None."""


USUAL = TextFormat()


class Block(NamedTuple):
    """Values by column, and where the i-th row is, in words."""

    columns: Sequence[Any]
    rows: int
    place: Callable[[int], str]


class Source(NamedTuple):
    """A table to be read once."""

    name: str
    names: Sequence[str]
    declared: dict[str, str]
    """What typed columns are: numeric, boolean, categorical or date; the values decide for those not here."""
    blocks: Iterator[Block]
    decimal: str = "."
    """The decimal mark of numbers in text."""
    expected: int | None = None
    """How many rows, where that is known or can be guessed from the size of the file."""
    close: Callable[[], object] = lambda: None
    """It also keeps the file from being closed before the last block."""


def open_source(table: Any, head: int, format: str | None = None, text: TextFormat = USUAL) -> Source:
    """The rows of a path, of standard input ("-", CSV unless `format` says otherwise), or of a data frame."""
    _check_text(text)
    if format is not None and format not in FORMATS:
        raise InputError(f"`rows(format={format!r})`: no such format. {nearest(str(format), FORMATS)}")
    if not isinstance(table, str | os.PathLike):
        from osamd.tables.frames import frame_source

        _refuse_text("a table in memory", text)
        return frame_source(table, head)
    if str(table) == "-":
        return _READERS[format or "csv"](sys.stdin.buffer, "standard input", head, 0, text)
    path, name = Path(table), str(table)
    with readable(name):
        if path.is_dir():
            raise InputError(f"{name} is a folder; name the file of the table in it.")
        if not path.exists():
            raise InputError(f"{name}: there is no such file; check the path.")
    kind = format or _kind_of(path)
    packed = path.suffix.lower() == ".gz" and kind != "parquet"
    with readable(name):
        # Text packs about fivefold; the size is for the progress bar alone.
        size = path.stat().st_size * (5 if packed else 1)
        raw: Any = gzip.open(path) if packed else path.open("rb")  # noqa: SIM115, closed by the source
    try:
        return _READERS[kind](raw, name, head, size, text)
    except BaseException:
        raw.close()
        raise


def _check_text(text: TextFormat) -> None:
    if text.decimal not in (".", ","):
        raise InputError(f"`rows(decimal={text.decimal!r})`: the decimal mark is decimal='.' or decimal=','.")
    try:
        known = text.encoding is None or codecs.lookup(text.encoding)._is_text_encoding
    except (LookupError, TypeError, ValueError):
        known = False
    if not known:
        raise InputError(
            f"`rows(encoding={text.encoding!r})`: there is no such encoding; known are encoding='latin-1', 'cp1252'"
            " (Windows), 'utf-16' and all others of Python."
        )


def _refuse_text(what: str, text: TextFormat, *, encoding: bool = False) -> None:
    """Refuse settings that have no effect, except for the encoding where that has one."""
    for name, value, usual in (("decimal", text.decimal, "."), ("encoding", text.encoding, None)):
        if value != usual and not (encoding and name == "encoding"):
            raise InputError(f"`rows({name}={value!r})`: it has no effect on {what}; leave it out.")


def _lines(raw: Any, encoding: str | None, newline: str | None = None) -> io.TextIOWrapper:
    plain = encoding is None or codecs.lookup(encoding).name == "utf-8"
    return io.TextIOWrapper(raw, encoding="utf-8-sig" if plain else encoding, newline=newline)


def _kind_of(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:]
    kind = EXTENSIONS.get(last[0] if last else "")
    if kind is None:
        known = " ".join(EXTENSIONS)
        raise InputError(
            f"{path}: the name does not say what the file holds (known: {known}, text also with .gz); name it"
            " by format='csv', 'jsonl' or 'parquet'."
        )
    return kind


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn an error of the disk or of the decoding into a sentence with the remedy."""
    try:
        yield
    except UnicodeError as error:
        raise _not_decoded(name, error) from None
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {name} ({why}); check the path and the file.") from error


def _not_decoded(name: str, error: UnicodeError) -> InputError:
    if not isinstance(error, UnicodeDecodeError):  # as of UTF-16 without its first mark
        return InputError(f"{name} cannot be decoded ({error}); name another encoding=... for it.")
    start = bytes(error.object[:4096])
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return InputError(f"{name} is UTF-16 text; give encoding='utf-16', or save it as UTF-8.")
    if b"\0" in start:
        return _no_text(name)
    return InputError(
        f"{name} is not {error.encoding.upper()} text ({error.reason}, byte {error.object[error.start]:#04x}); give"
        " encoding='latin-1' (or 'cp1252' for a file from Windows), or save it as UTF-8."
    )


def _no_text(name: str) -> InputError:
    return InputError(
        f"{name} is no text at all; give a table as CSV or JSON lines, or say format='parquet' if it is that."
    )


def delimiter_of(header: str) -> str:
    """That most frequent in the header, outside of double quotes; a comma where there is none.

    >>> delimiter_of('"temp, in C";"vib, in g";y')
    ';'
    """
    bare = "".join(header.split('"')[::2])
    return max(DELIMITERS, key=bare.count)


def _csv(raw: Any, name: str, head: int, size: int, text: TextFormat) -> Source:
    lines = _lines(raw, text.encoding, newline="")
    with readable(name):
        before, header = next(((i, line) for i, line in enumerate(lines) if line.strip()), (0, ""))
    if not header:
        raise InputError(f"{name} is empty; give a file with a line of column names and a line a row.")
    if "\0" in header:
        raise _no_text(name)
    reader = csv.reader(chain([header], lines), delimiter=delimiter_of(header), skipinitialspace=True)

    with _good_csv(name, reader, before):
        names = [cell.strip() for cell in next(reader)]
    refuse_repeated(name, names)
    if len(names) == 1:
        raise InputError(
            f"{name}: only one column is found, {names[0]!r:.60}; put a comma, semicolon, tab or | between values."
        )

    def some(count: int) -> list[list[str]]:
        """So many rows, and the blank lines between them."""
        found: list[list[str]] = []
        with _good_csv(name, reader, before):
            while count > 0:
                more = list(islice(reader, count))
                found += more
                count = sum(_blank(row, len(names)) for row in more) if len(more) == count else 0
        return found

    above = reader.line_num
    first = some(head)
    each = sum(len(cell) + 1 for row in first[:100] for cell in row) / max(1, len(first[:100]))

    def blocks(above: int) -> Iterator[Block]:
        rows = first
        while rows:
            block = _csv_block(rows, len(names), name, before + above)
            above = reader.line_num
            if block.rows:
                yield block
            rows = some(BLOCK)

    return Source(name, names, {}, blocks(above), text.decimal, _guess(size, each), lines.close)


def _blank(row: list[str], width: int) -> bool:
    return len(row) != width and not "".join(row).strip()


@contextmanager
def _good_csv(name: str, reader: Any, before: int) -> Iterator[None]:
    try:
        with readable(name):
            yield
    except csv.Error as error:
        raise InputError(
            f"{name}, line {before + reader.line_num}: this is no CSV ({error}); look for a quote that is not closed."
        ) from None


def _csv_block(rows: list[list[str]], width: int, name: str, before: int) -> Block:
    """The rows of some lines by column; `before` lines come before them."""

    def line(i: int) -> str:
        breaks = sum(cell.count("\n") for row in rows[:i] for cell in row)
        return f"{name}, line {before + 1 + i + breaks}"

    kept, at = rows, None
    if {len(row) for row in rows} != {width}:
        at = [i for i, row in enumerate(rows) if not _blank(row, width)]
        for i in at:
            if len(rows[i]) != width:
                raise InputError(
                    f"{line(i)}: {len(rows[i])} values, but the header names {width} columns; mend or delete the line."
                )
        kept = [rows[i] for i in at]
    return Block(list(zip(*kept, strict=True)), len(kept), lambda i: line(at[i] if at else i))


def _jsonl(raw: Any, name: str, head: int, size: int, text: TextFormat) -> Source:
    _refuse_text("JSON lines", text, encoding=True)
    decoded = _lines(raw, text.encoding)
    lines = enumerate(decoded, start=1)

    def some(count: int) -> list[tuple[int, dict[str, Any]]]:
        found: list[tuple[int, dict[str, Any]]] = []
        with readable(name):
            for number, line in lines:
                if line.strip():
                    found.append((number, _object(line, name, number)))
                if len(found) == count:
                    break
        return found

    first = some(head)
    if not first:
        raise InputError(f"{name} is empty; give a file with one JSON object a line.")
    names = list(dict.fromkeys(key for _, row in first for key in row))
    each = sum(len(json.dumps(row)) for _, row in first[:100]) / len(first[:100])

    def blocks() -> Iterator[Block]:
        rows = first
        while rows:
            lines_of = [number for number, _ in rows]
            columns = [[row.get(key) for _, row in rows] for key in names]
            yield Block(columns, len(rows), lambda i, at=lines_of: f"{name}, line {at[i]}")  # type: ignore[misc]
            rows = some(BLOCK)

    return Source(name, names, {}, blocks(), expected=_guess(size, each), close=decoded.close)


def _object(line: str, name: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"{name}, line {number}: this is no JSON ({error}); write one object a line.") from None
    if not isinstance(row, dict):
        raise InputError(f'{name}, line {number}: an object such as {{"age": 31}} is wanted, not {line.strip():.40}.')
    return row


def _parquet(raw: Any, name: str, head: int, size: int, text: TextFormat) -> Source:
    from osamd.tables.frames import parquet_source

    _refuse_text("Parquet files", text)
    if not raw.seekable():  # a pipe: Parquet is read from its end
        held: Any = tempfile.TemporaryFile()  # noqa: SIM115, it is read as long as the source is
        with readable(name):
            shutil.copyfileobj(raw, held)
        raw = held
    return parquet_source(raw, name, head)._replace(close=raw.close)


def refuse_repeated(name: str, names: list[str]) -> None:
    """Refuse two columns of one name."""
    twice = [column for i, column in enumerate(names) if column and column in names[:i]]
    if twice and sum(map(_is_number, names)) > len(names) / 2:
        raise InputError(f"{name}: the first line holds values, such as {twice[0]}; put the column names before it.")
    if twice:
        raise InputError(f"{name}: two columns are called {twice[0]!r}; give every column a name of its own.")


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _guess(size: int, each: float) -> int | None:
    return int(size / each) if size and each else None


_READERS: dict[str, Callable[[Any, str, int, int, TextFormat], Source]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
