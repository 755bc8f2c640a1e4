"""Retention: old events are moved to Parquet files, and a person's data is erased for good.

The learner is a fold of the log from its last snapshot, so earlier events are not needed to rebuild it. A snapshot is
always taken first. Then the log begins there (`about.begins`), and it is never folded from its first event again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql

from osamd.errors import InputError
from osamd.service.database_tables import displays, events, media
from osamd.service.folder import sync
from osamd.service.log import Log, begin_at

ERASED = "(erased)"
"""The signature of an erased answer."""
STAY = ("budget", "class", "accept", "erase", "archive")
"""Events that change the stream and hold no samples; they are never archived."""
BY_PEOPLE = ("label", "none", "unsure", "second", "correct", "skip", "claim")
BLOCK = 20_000
"""Events per row group of a Parquet file."""


class Old(NamedTuple):
    """Events that can be archived: those up to `upto`, except for rounds that are still needed."""

    upto: int
    spared: frozenset[int]
    """Rounds that are pending or wait for a second opinion."""


def last_before(connection: sql.Connection, at: float, last: int) -> int:
    """The last event before this time, and before the event `last`."""
    chosen = sql.select(sql.func.max(events.c.seq)).where(events.c.at < at, events.c.seq < last)
    return int(connection.execute(chosen).scalar() or 0)


def _old(old: Old) -> Any:
    """The SQL condition for events that can be archived: their round has no later event and is not needed."""
    later = sql.select(events.c.round).where(events.c.seq > old.upto, events.c.kind.not_in(STAY))
    chosen = (events.c.seq <= old.upto) & events.c.kind.not_in(STAY) & events.c.round.not_in(later)
    return chosen & events.c.round.not_in(old.spared) if old.spared else chosen


def write_archive(log: Log, old: Old, folder: Path) -> tuple[Path, int]:
    """Write these events and their displays into a Parquet file, completely or not at all; return the file and the
    number of events."""
    try:
        from pyarrow import parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError("archives are Parquet files, which need pyarrow: pip install 'osamd[tables]'.") from error
    folder.mkdir(mode=0o700, exist_ok=True)
    # The name is unique: two archives at once may hold the same events, and neither may overwrite the other.
    place = folder / f"events-to-{old.upto}-{secrets.token_hex(4)}.parquet"
    partial, number, writer = place.with_name(f".{place.name}.partial"), 0, None
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            for table in _tables(log, old):
                writer = writer or parquet.ParquetWriter(file, table.schema)
                writer.write_table(table)
                number += len(table)
            if writer is not None:
                writer.close()
            file.flush()
            os.fsync(file.fileno())
        if number:
            os.replace(partial, place)
            sync(folder)
    except OSError as error:
        raise InputError(f"the archive {place} cannot be written ({error.strerror or error}); make room.") from error
    finally:
        partial.unlink(missing_ok=True)
    return place, number


def _tables(log: Log, old: Old) -> Any:
    after = 0
    while True:
        chosen = sql.select(events).where(_old(old), events.c.seq > after).order_by(events.c.seq).limit(BLOCK)
        with log.reading() as connection:
            rows = [dict(row._mapping) for row in connection.execute(chosen)]
            if not rows:
                return
            yield _table(connection, rows)
        after = rows[-1]["seq"]


def _table(connection: sql.Connection, rows: list[dict[str, Any]]) -> Any:
    """Events as an Arrow table, with samples and scores as lists of numbers, and the displays of samples."""
    import pyarrow as pa

    low, high = min(row["round"] for row in rows), max(row["round"] for row in rows)
    shown = _by_round(connection, displays, displays.c.body, low, high)
    held = {}
    for place in ("image", "audio"):
        held[place] = _by_round(connection, media, media.c.content, low, high, media.c.place == place)
    for row in rows:
        for name in ("features", "score"):
            row[name] = None if row[name] is None else np.frombuffer(row[name]).tolist()
        first = row["kind"] == "sample"
        row["display"] = shown.get(row["round"]) if first else None
        row |= {place: found.get(row["round"]) if first else None for place, found in held.items()}
    numbers = pa.list_(pa.float64())
    kinds = {"features": numbers, "score": numbers, "query": pa.bool_(), "image": pa.binary(), "audio": pa.binary()}
    kinds |= dict.fromkeys(("kind", "client_id", "withheld", "who", "body", "display"), pa.string())
    kinds |= dict.fromkeys(("at", "draw", "margin", "probability", "until"), pa.float64())
    fields = [pa.field(name, kinds.get(name, pa.int64())) for name in rows[0]]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _by_round(connection: sql.Connection, table: Any, column: Any, low: int, high: int, *where: Any) -> dict[int, Any]:
    chosen = sql.select(table.c.round, column).where(table.c.round.between(low, high), *where)
    return {int(number): value for number, value in connection.execute(chosen)}


def drop_old(connection: sql.Connection, old: Old) -> int:
    """Delete the archived events and their displays, and return the number of events."""
    chosen = _old(old)
    gone = sql.select(events.c.round).where(chosen, events.c.kind == "sample")
    for table in (displays, media):
        connection.execute(sql.delete(table).where(table.c.round.in_(gone)))
    number = connection.execute(sql.delete(events).where(chosen)).rowcount
    begin_at(connection, old.upto)
    return number


def erase_samples(connection: sql.Connection, rounds: Collection[int]) -> int:
    """Blank the samples of these rounds with their ids, scores and displays, and return their number."""
    blank = {"client_id": None, "features": None, "score": None, "draw": None, "margin": None}
    number = 0
    for some in _some(sorted(rounds)):
        chosen = (events.c.kind == "sample") & events.c.round.in_(some)
        number += connection.execute(sql.update(events).where(chosen).values(**blank)).rowcount
        for table in (displays, media):
            connection.execute(sql.delete(table).where(table.c.round.in_(some)))
    return number


def erase_answers(connection: sql.Connection, name: str) -> int:
    """Blank all answers of a labeller and the name, and return the number of events."""
    own = (events.c.who == name) | events.c.who.startswith(f"{name}/", autoescape=True)
    chosen = own & events.c.kind.in_(BY_PEOPLE)
    return connection.execute(sql.update(events).where(chosen).values(who=ERASED, label=None)).rowcount


def _some(values: Sequence[Any]) -> Any:
    """Slices of the values that fit into one SQL statement."""
    for start in range(0, len(values), 500):
        yield values[start : start + 500]
