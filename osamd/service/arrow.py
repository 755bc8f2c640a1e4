"""Samples and decisions as Arrow: batches that are never turned into text.

A body is one Arrow IPC stream. It has the columns of the schema, or one column `features` with lists of numbers; a
column `id` may name the samples. The response is also a stream, with one row per sample.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.service.access import ServiceParts
from osamd.service.desk import Refusal
from osamd.service.display import Display
from osamd.service.incoming import DecidedSamples, ReceivedBatch
from osamd.service.log import Event
from osamd.service.schema import LARGEST, Schema
from osamd.service.wire.request_values import CLIENT_ID

MEDIA_TYPE = "application/vnd.apache.arrow.stream"


def _arrow() -> Any:
    try:
        import pyarrow  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError("Arrow needs pyarrow: pip install 'osamd[tables]'.") from error
    return pyarrow


def samples(body: bytes, schema: Schema) -> ReceivedBatch:
    """The samples of a body; an InputError says what is wrong with it."""
    pa = _arrow()
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InputError(f"the body is not an Arrow stream ({str(error)[:200]}).") from error
    names = _ids(table)
    columns = [name for name in table.column_names if name != "id"]
    if columns == ["features"]:
        return ReceivedBatch(_matrix(table["features"], schema), names)
    numeric = schema.plain and all(pa.types.is_floating(table[name].type) for name in columns)
    if numeric and schema.columns is not None and set(columns) == {one.name for one in schema.columns}:
        held = [table[one.name].to_numpy() for one in schema.columns]
        return ReceivedBatch(_checked(np.ascontiguousarray(np.column_stack(held), dtype=np.float64)), names)
    read = [schema.read(_for_json(record)) for record in table.select(columns).to_pylist()]
    rows = np.array([row for row, _ in read]).reshape(len(read), schema.features)
    return ReceivedBatch(rows, names, [None if raw is None else Display(raw, None) for _, raw in read])


def _for_json(record: dict[str, Any]) -> dict[str, Any]:
    """The record with dates and times as text, as JSON would have sent them."""
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in record.items()}


def _ids(table: Any) -> list[str | None] | None:
    if "id" not in table.column_names:
        return None
    names: list[Any] = table["id"].to_pylist()
    for name in names:
        if name is not None and not (isinstance(name, str) and CLIENT_ID.fullmatch(name)):
            raise InputError(f"the id {name!r:.100} must be printable ASCII without spaces, at most 128 characters.")
    return names


def _matrix(column: Any, schema: Schema) -> Array:
    """One column of lists as rows of numbers."""
    if schema.columns is not None and not schema.plain:
        raise InputError("the schema has categories; give its columns by name instead of `features`.")
    lists = column.combine_chunks()
    lists = lists.chunk(0) if hasattr(lists, "chunk") else lists
    if lists.null_count or not hasattr(lists, "flatten"):
        raise InputError("`features` must be lists of numbers.")
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    values = lists.flatten().to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiu" or not (lengths == schema.features).all():
        raise InputError(f"every list of `features` must have {schema.features} numbers.")
    # A copy, because the body is read-only, and the compiled round takes writable arrays only.
    return _checked(np.array(values, dtype=np.float64).reshape(len(lists), schema.features))


def _checked(rows: Array) -> Array:
    if rows.size and not np.abs(rows).max() <= LARGEST:
        raise InputError(f"the numbers of a sample must be finite, and at most {LARGEST:g} in size.")
    return rows


class _Answer(NamedTuple):
    """The columns of the response, or some rows of them."""

    round: Sequence[int | None]
    label: Sequence[int | None]
    """The places of the classes."""
    probability: Sequence[float | None]
    margin: Sequence[float | None]
    query: Sequence[bool | None]
    error: Sequence[str | None]


def decisions(parts: ServiceParts, outcomes: Sequence[Event | Refusal | DecidedSamples]) -> bytes:
    """The response: a row per sample, with the code of the refusal if there was one."""
    pa = _arrow()
    told = [_Answer((), (), (), (), (), ()), *(_answer(parts, one) for one in outcomes)]
    whole = _Answer._make(list(chain.from_iterable(column)) for column in zip(*told, strict=True))
    names = pa.array([str(name) for name in parts.classes])
    table = pa.table(
        {
            "round": pa.array(whole.round, pa.int64()),
            "label": pa.DictionaryArray.from_arrays(pa.array(whole.label, pa.int32()), names),
            "probability": pa.array(whole.probability, pa.float64()),
            "margin": pa.array(whole.margin, pa.float64()),
            "query": pa.array(whole.query, pa.bool_()),
            "error": pa.array(whole.error, pa.string()),
        }
    )
    held = io.BytesIO()
    with pa.ipc.new_stream(held, table.schema) as stream:
        stream.write_table(table)
    return held.getvalue()


def _answer(parts: ServiceParts, one: Event | Refusal | DecidedSamples) -> _Answer:
    if isinstance(one, Refusal):
        return _Answer([None], [None], [None], [None], [None], [one.code])
    if isinstance(one, Event):
        share = parts.engine.probabilities(one)[parts.classes[one.decision or 0]]
        return _Answer([one.round], [one.decision], [share], [one.margin], [one.query], [None])
    played, number = one.played, len(one)
    seen, rounds = played.seen, range(played.first, played.first + number)
    return _Answer(rounds, seen.label, parts.engine.shares(seen), seen.margin, seen.query, [None] * number)
