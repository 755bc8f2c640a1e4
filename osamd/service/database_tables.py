"""The database tables of a service: the log of events, and what is kept beside it."""

from __future__ import annotations

import sqlalchemy as sql

_whole = sql.BigInteger().with_variant(sql.Integer, "sqlite")
_real: sql.Double[float] = sql.Double()

tables = sql.MetaData()

events = sql.Table(
    "events",
    tables,
    sql.Column("seq", _whole, primary_key=True, autoincrement=False),
    sql.Column("at", _real, nullable=False),
    sql.Column("kind", sql.String(8), nullable=False),
    sql.Column("round", _whole, nullable=False, index=True),
    sql.Column("client_id", sql.String(128)),
    sql.Column("features", sql.LargeBinary),
    sql.Column("draw", _real),
    sql.Column("decision", _whole),
    sql.Column("pseudolabel", _whole),
    sql.Column("margin", _real),
    sql.Column("probability", _real),
    sql.Column("query", sql.Boolean),
    sql.Column("withheld", sql.String(10)),
    sql.Column("score", sql.LargeBinary),
    sql.Column("label", _whole),
    sql.Column("who", sql.String(200)),
    sql.Column("until", _real),
    sql.Column("body", sql.Text),
)
_named = events.c.client_id.is_not(None)
sql.Index("one_sample_a_client_id", events.c.client_id, unique=True, sqlite_where=_named, postgresql_where=_named)
_not_samples, _signed = events.c.kind != "sample", events.c.who.is_not(None)
FORMAT_2 = (
    sql.Index("by_kind", events.c.kind, events.c.seq, sqlite_where=_not_samples, postgresql_where=_not_samples),
    sql.Index("by_person", events.c.who, events.c.seq, sqlite_where=_signed, postgresql_where=_signed),
)
"""The indexes that a log of format 1 lacks."""

displays = sql.Table(
    "displays",
    tables,
    sql.Column("round", _whole, primary_key=True, autoincrement=False),
    sql.Column("body", sql.Text, nullable=False),
)
media = sql.Table(
    "media",
    tables,
    sql.Column("round", _whole, primary_key=True, autoincrement=False),
    sql.Column("place", sql.String(10), primary_key=True),
    sql.Column("kind", sql.String(50), nullable=False),
    sql.Column("content", sql.LargeBinary, nullable=False),
)

snapshots = sql.Table(
    "snapshots",
    tables,
    sql.Column("seq", _whole, primary_key=True, autoincrement=False),
    sql.Column("counts", sql.Text, nullable=False),
    sql.Column("learner", sql.LargeBinary, nullable=False),
)
points = sql.Table(
    "points",
    tables,
    sql.Column("round", _whole, primary_key=True, autoincrement=False),
    sql.Column("body", sql.Text, nullable=False),
)
tokens = sql.Table(
    "tokens",
    tables,
    sql.Column("name", sql.String(100), primary_key=True),
    sql.Column("role", sql.String(20), nullable=False),
    sql.Column("digest", sql.String(64), nullable=False),
    sql.Column("expires", _real),
    sql.Column("used", _real),
)
sessions = sql.Table(
    "sessions",
    tables,
    sql.Column("digest", sql.String(64), primary_key=True),
    sql.Column("name", sql.String(100), nullable=False),
    sql.Column("until", _real, nullable=False),
)
about = sql.Table(
    "about", tables, sql.Column("key", sql.String(20), primary_key=True), sql.Column("value", sql.Text, nullable=False)
)
