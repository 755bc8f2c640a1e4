"""How events get into the table of the log: many in one statement, which goes straight to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import sqlalchemy as sql

from osamd.service.database_tables import events
from osamd.service.log import Event

MOST_VALUES = 999
"""The most values in one statement: older versions of SQLite take no more."""
_TRUTH = {None: None, 0: False, 1: True}


def append(connection: sql.Connection, rows: Sequence[Event]) -> None:
    """Write these events."""
    if rows:
        columns = dict(zip(Event._fields, zip(*rows, strict=True), strict=True))
        used = {name: held for name, held in columns.items() if held.count(None) < len(held)}
        insert(connection, tuple(used), list(zip(*used.values(), strict=True)))


def insert(connection: sql.Connection, names: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
    """Write events, of which these columns are given and the others are empty.

    A `query` may be 0 or 1. Many events in one statement take SQLite a fifth of the time that they take one by one.
    """
    one, many, together = _insertions(connection.dialect, names)
    if not together:
        given = [dict(zip(names, row, strict=True)) for row in rows]
        if "query" in names:
            given = [row | {"query": _TRUTH[row["query"]]} for row in given]
        connection.exec_driver_sql(one, given)
        return
    whole = len(rows) - len(rows) % together
    if whole:
        starts = range(0, whole, together)
        connection.exec_driver_sql(many, [tuple(chain.from_iterable(rows[at : at + together])) for at in starts])
    if whole < len(rows):
        connection.exec_driver_sql(one, list(map(tuple, rows[whole:])))


@cache
def _insertions(dialect: sql.Dialect, names: tuple[str, ...]) -> tuple[str, str, int]:
    """The statements that write one event and several, and how many several are: 0 if the values go by their names."""
    compiled = sql.insert(events).compile(dialect=dialect, column_keys=list(names))
    one, together = str(compiled), MOST_VALUES // len(names)
    head, _, values = one.partition("VALUES ")
    return one, f"{head}VALUES {', '.join([values] * together)}", together if compiled.positional else 0
