"""The log of events, in SQLite or PostgreSQL, with snapshots for a quick start and the points of the history.

An event is a row: a sample with its draw and decision, a label, an expiry, a claim, a skip and so on. A lock ensures
that there is one writer, which numbers the events itself. A response is sent after its events are committed; SQLite
syncs its write-ahead log at every commit (synchronous=FULL), so an acknowledged event survives a power failure, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.service.database import Database, brief
from osamd.service.database_tables import FORMAT_2, about, events, points, snapshots, tables, tokens
from osamd.service.schema import NamedClass, Schema

FORMAT = "3"
"""The format of the tables. A log in an older format is migrated; one in a newer format is refused."""

FORMER = ("1", "2")
"""Older formats, which are migrated when the log is opened."""

SNAPSHOTS_KEPT = 2

BEGINS = "begins"
"""The key in `about` for the first event of a log whose older events are gone."""
_CHUNK = 500
"""Values in one IN (...)."""


class Event(NamedTuple):
    """One row of the log. Classes are indices; samples and scores are bytes of float64 numbers."""

    seq: int
    at: float
    """Seconds since 1970."""
    kind: str
    """sample; label, none, unsure, second, correct, skip, claim (by annotators); expire; accept (see `engine`);
    budget, class, erase, archive (by admins)."""
    round: int
    client_id: str | None = None
    features: bytes | None = None
    draw: float | None = None
    decision: int | None = None
    pseudolabel: int | None = None
    margin: float | None = None
    probability: float | None = None
    query: bool | None = None
    withheld: str | None = None
    score: bytes | None = None
    label: int | None = None
    who: str | None = None
    """Who gave a label, claimed or skipped."""
    until: float | None = None
    """When a claim ends."""
    body: str | None = None
    """What a change consists of, in JSON."""


class Snapshot(NamedTuple):
    """The learner after the event `seq`."""

    seq: int
    counts: str
    learner: bytes


class Log(Database):
    """The log of one service."""

    def open(self, identity: str) -> None:
        """Become the writer; make missing tables, and refuse the tables of another service.

        `identity` identifies the initial learner of the log.
        """
        try:
            self._hold()
            self.make_tables()
            with self._writers.begin() as connection:
                found: dict[str, str] = dict(connection.execute(sql.select(about.c.key, about.c.value)).all())
                if not found:
                    told = {"format": FORMAT, "start": identity, "probe": "0"}
                    connection.execute(sql.insert(about), [{"key": key, "value": told[key]} for key in told])
                elif found.get("format") in FORMER and found.get("start") == identity:
                    _migrate(connection)
                    found["format"] = FORMAT
            self._refuse_others(found, identity)
        except InputError:
            self.close()
            raise
        except SQLAlchemyError as error:
            self.close()
            raise InputError(f"the database {self.name} cannot be used ({brief(error)}); is it there?") from error

    def _refuse_others(self, found: dict[str, str], identity: str) -> None:
        if found and found.get("format") not in (*FORMER, FORMAT):
            raise InputError(
                f"the database {self.name} is of format {found.get('format')}, and this osamd writes format {FORMAT};"
                " use the osamd that wrote it."
            )
        if found and found.get("start") != identity:
            raise InputError(
                f"the database {self.name} belongs to another learner than the folder; give the folder it was made"
                " with, or an empty database."
            )

    def make_tables(self) -> None:
        """Make the missing tables."""
        try:
            with self._writers.begin() as connection:
                tables.create_all(connection)
                _widen(connection)
        except SQLAlchemyError as error:
            raise InputError(f"the database {self.name} cannot be used ({brief(error)}); is it there?") from error

    def since(self, seq: int, most: int = 10_000) -> list[Event]:
        """The first events after this one, at most `most`."""
        chosen = sql.select(events).where(events.c.seq > seq).order_by(events.c.seq).limit(most)
        with self.reading() as connection:
            return _events(connection.execute(chosen))

    def notable(self, after: int, upto: int) -> list[Any]:
        """Seq, at, kind, round and label of the events in this range, without samples that are no query."""
        columns = (events.c.seq, events.c.at, events.c.kind, events.c.round, events.c.label)
        chosen = sql.select(*columns).where(events.c.seq > after, events.c.seq <= upto).order_by(events.c.seq)
        with self.reading() as connection:
            return list(connection.execute(chosen.where((events.c.kind != "sample") | events.c.query)))

    def all_since(self, seq: int) -> Iterator[Event]:
        """All events after this one, in order, in constant memory."""
        while block := self.since(seq):
            yield from block
            seq = block[-1].seq

    def last(self) -> int:
        """The number of the last event; 0 if there is none."""
        with self.reading() as connection:
            return int(connection.execute(sql.select(sql.func.max(events.c.seq))).scalar() or 0)

    def snapshot(self) -> Snapshot | None:
        """The last snapshot."""
        return next(self.snapshots(), None)

    def snapshots(self) -> Iterator[Snapshot]:
        """All snapshots, the last one first."""
        with self.reading() as connection:
            kept = list(connection.execute(sql.select(snapshots.c.seq).order_by(snapshots.c.seq.desc())).scalars())
        for seq in kept:
            with self.reading() as connection:
                found = connection.execute(sql.select(snapshots).where(snapshots.c.seq == seq)).first()
            if found is not None:
                yield Snapshot(found.seq, found.counts, bytes(found.learner))

    def begins(self) -> int:
        """The event up to which the log was archived or erased; 0 if it is complete. Only later snapshots count."""
        with self.reading() as connection:
            found = connection.execute(sql.select(about.c.value).where(about.c.key == BEGINS)).scalar()
            return int(found or 0)

    def points(self, most: int) -> list[str]:
        """Points of the history, at most `most`, evenly spread and including the last one."""
        with self.reading() as connection:
            number = connection.execute(sql.select(sql.func.count()).select_from(points)).scalar_one()
            every = max(1, -(-number // most))
            place = sql.func.row_number().over(order_by=points.c.round.desc()).label("place")
            ranked = sql.select(points.c.round, points.c.body, place).subquery()
            chosen = sql.select(ranked.c.body).where((ranked.c.place - 1) % every == 0).order_by(ranked.c.round)
            return list(connection.execute(chosen).scalars())


def schema_by(log: Log, schema: Schema) -> Schema:
    """The schema with the classes that were added according to the log."""
    chosen = sql.select(events.c.body).where(events.c.kind == "class").order_by(events.c.seq)
    with log.reading() as connection:
        for body in connection.execute(chosen).scalars():
            schema = schema.with_class(NamedClass.model_validate_json(body))
    return schema


def _migrate(connection: sql.Connection) -> None:
    """Migrate a log from an older format; its columns were added before."""
    for index in FORMAT_2:
        index.create(connection, checkfirst=True)
    connection.execute(sql.update(about).where(about.c.key == "format").values(value=FORMAT))


def _widen(connection: sql.Connection) -> None:
    """Add the columns that tables of an older format lack."""
    for table, names in ((tokens, ("expires", "used")), (events, ("body",))):
        known = {column["name"] for column in sql.inspect(connection).get_columns(table.name)}
        for name in names:
            if name not in known:
                kind = table.c[name].type.compile(connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {name} {kind}")


def probe(connection: sql.Connection, at: float) -> None:
    """Write the time, so that the commit shows whether the log can be written."""
    told = {"key": "probe", "value": f"{at:.3f}"}
    if not connection.execute(sql.update(about).where(about.c.key == "probe").values(value=told["value"])).rowcount:
        connection.execute(sql.insert(about), told)


def describe(connection: sql.Connection, seq: int, body: str) -> None:
    """Give an event its body."""
    connection.execute(sql.update(events).where(events.c.seq == seq).values(body=body))


def begin_at(connection: sql.Connection, seq: int) -> None:
    """Let the log begin at this event, and delete the snapshots before it, which are no longer usable."""
    found = connection.execute(sql.select(about.c.value).where(about.c.key == BEGINS)).scalar()
    later = str(max(seq, int(found or 0)))
    if found is None:
        connection.execute(sql.insert(about), {"key": BEGINS, "value": later})
    else:
        connection.execute(sql.update(about).where(about.c.key == BEGINS).values(value=later))
    connection.execute(sql.delete(snapshots).where(snapshots.c.seq < int(later)))


def keep_snapshot(connection: sql.Connection, snapshot: Snapshot, damaged: Sequence[int] = ()) -> None:
    """Write a snapshot, and delete all but the last ones and those that were found damaged."""
    connection.execute(sql.delete(snapshots).where(snapshots.c.seq.in_([snapshot.seq, *damaged])))
    connection.execute(sql.insert(snapshots), snapshot._asdict())
    kept = sql.select(snapshots.c.seq).order_by(snapshots.c.seq.desc()).limit(SNAPSHOTS_KEPT)
    recent = list(connection.execute(kept).scalars())
    connection.execute(sql.delete(snapshots).where(snapshots.c.seq < recent[-1]))


def of_rounds(connection: sql.Connection, rounds: Iterable[int], kinds: Sequence[str]) -> list[Event]:
    """The events of these rounds and kinds, in order."""
    return _chosen(connection, events.c.round, list(rounds), kinds)


def of_clients(connection: sql.Connection, ids: Sequence[str]) -> list[Event]:
    """The samples with these client ids."""
    return _chosen(connection, events.c.client_id, list(ids), ("sample",))


def recent(connection: sql.Connection, kinds: Sequence[str], most: int) -> list[Event]:
    """The last events of these kinds, in order."""
    chosen = sql.select(events).where(events.c.kind.in_(kinds)).order_by(events.c.seq.desc()).limit(most)
    return _events(connection.execute(chosen))[::-1]


def decided_since(connection: sql.Connection, number: int, classes: int) -> Array:
    """How often each class was decided from this round on."""
    chosen = sql.select(events.c.decision, sql.func.count()).where(events.c.kind == "sample", events.c.round >= number)
    counts = np.zeros(classes)
    for decision, count in connection.execute(chosen.group_by(events.c.decision)):
        counts[decision] = count
    return counts


def _chosen(connection: sql.Connection, column: Any, values: list[Any], kinds: Sequence[str]) -> list[Event]:
    found: list[Event] = []
    for start in range(0, len(values), _CHUNK):
        among = column.in_(values[start : start + _CHUNK]) & events.c.kind.in_(kinds)
        found += _events(connection.execute(sql.select(events).where(among)))
    return sorted(found, key=lambda event: event.seq)


def _events(rows: Iterable[Any]) -> list[Event]:
    return [Event(*row) for row in rows]
