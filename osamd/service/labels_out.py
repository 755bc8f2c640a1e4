"""Labels out: every answered query with its sample, as rows of a table.

`label` is the current label: the last correction, or else the first answer. `learned` is the first answer, from which
the learner has learned.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sqlalchemy as sql

from osamd.errors import InputError
from osamd.service import log as logs
from osamd.service.database_tables import events
from osamd.service.display import displays_of
from osamd.service.folder import ServiceState
from osamd.service.log import Event, Log
from osamd.service.retention import ERASED

Format = Literal["jsonl", "csv", "parquet"]
MEDIA_TYPES = {"jsonl": "application/x-ndjson", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
BLOCK = 500
"""Answers read at a time."""
COLUMNS = (
    "seq",
    "round",
    "id",
    "asked_at",
    "decision",
    "probability",
    "asked_with",
    "answer",
    "label",
    "learned",
    "second",
    "who",
    "answered_at",
)
"""The columns before those of the sample, which follow by name."""


def rows(state: ServiceState, log: Log, learner: Any, after: int = 0) -> Iterator[dict[str, Any]]:
    """The queries that were answered after this event, in the order of their answers."""
    names = [one.name for one in logs.schema_by(log, state.schema).classes]
    while True:
        ended = sql.select(events).where(events.c.kind.in_(("label", "none")), events.c.seq > after)
        with log.reading() as connection:
            ends = [Event(*row) for row in connection.execute(ended.order_by(events.c.seq).limit(BLOCK))]
            if not ends:
                return
            rounds = [event.round for event in ends]
            samples = {event.round: event for event in logs.of_rounds(connection, rounds, ("sample",))}
            others = logs.of_rounds(connection, rounds, ("second", "correct"))
            kept = displays_of(connection, rounds)
        for end in ends:
            if end.who == ERASED or samples.get(end.round, end).features is None:
                continue  # the data was erased
            later = [event for event in others if event.round == end.round and event.who != ERASED]
            yield _row(state, names, learner, samples[end.round], end, later, kept.get(end.round, {}))
        after = ends[-1].seq


def _row(
    state: ServiceState,
    names: list[Any],
    learner: Any,
    sample: Event,
    end: Event,
    later: list[Event],
    kept: dict[str, Any],
) -> dict[str, Any]:
    def named(place: int | None) -> Any:
        return None if place is None else names[place]

    last = {event.kind: event for event in later}
    corrected = last.get("correct")
    score = np.frombuffer(sample.score or b"")
    shares = learner.probabilities_of(float(score[0]) if len(score) == 1 else score.copy())
    told = {
        "seq": end.seq,
        "round": sample.round,
        "id": sample.client_id,
        "asked_at": _moment(sample.at),
        "decision": named(sample.decision),
        "probability": shares[names[sample.decision or 0]],
        "asked_with": sample.probability,
        "answer": "corrected" if corrected else end.kind,
        "label": named(end.label if corrected is None else corrected.label),
        "learned": named(end.label),
        "second": named(last["second"].label if "second" in last else None),
        "who": (corrected or end).who,
        "answered_at": _moment((corrected or end).at),
    }
    return told | _sample(state, sample, kept)


def _sample(state: ServiceState, sample: Event, kept: dict[str, Any]) -> dict[str, Any]:
    """The values of the sample by name; a name that the row already has gets an underscore."""
    row = np.frombuffer(sample.features or b"")
    shown = state.schema.shown(row, kept.get("raw"))
    values = {"pixels": row.tolist()} if shown is None else {one["name"]: one["value"] for one in shown}
    values |= {"text": kept["text"]} if "text" in kept else {}
    return {f"{name}_" if name in COLUMNS else name: value for name, value in values.items()}


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def written(told: Iterator[dict[str, Any]], form: Format) -> Iterator[bytes]:
    """The table as bytes, piece by piece; Parquet in one piece."""
    if form == "jsonl":
        for row in told:
            yield json.dumps(row, allow_nan=False).encode() + b"\n"
    elif form == "csv":
        yield from _csv(told)
    else:
        yield _parquet(list(told))


def _csv(told: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """CSV with the columns of the first row; a list is written as JSON."""
    held, table = io.StringIO(), None
    for row in told:
        if table is None:
            table = csv.DictWriter(held, list(row), restval="", extrasaction="ignore")
            table.writeheader()
        table.writerow({name: json.dumps(value) if isinstance(value, list) else value for name, value in row.items()})
        yield held.getvalue().encode()
        held.seek(0)
        held.truncate()
    if table is None:
        yield (",".join(COLUMNS) + "\r\n").encode()


def _parquet(told: list[dict[str, Any]]) -> bytes:
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("Parquet needs pyarrow: pip install 'osamd[tables]'.") from error
    names = list(dict.fromkeys(name for row in told for name in row)) or list(COLUMNS)
    columns = {name: _uniform([row.get(name) for row in told]) for name in names}
    held = io.BytesIO()
    parquet.write_table(pa.table(columns), held)
    return held.getvalue()


def _uniform(values: list[Any]) -> list[Any]:
    """Values of one type, as a Parquet column needs them: mixed types become text."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2 or kinds == {int, float}:
        return values
    return [None if value is None else str(value) for value in values]


def form_of(path: Path) -> Format:
    """The format of a file, by its suffix."""
    known: dict[str, Format] = {".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}
    if path.suffix not in known:
        raise InputError(f"`export_labels({str(path)!r})`: name a .csv, .jsonl or .parquet file.")
    return known[path.suffix]
