"""Typed tables: pandas, polars and pyarrow by narwhals, and Parquet by pyarrow; the extra `tables` brings both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from osamd.errors import InputError
from osamd.tables.row_sources import BLOCK, Block, Source, readable, refuse_repeated


def _required(what: str, *modules: str) -> Any:
    """The last of the modules, all of them there; else a sentence that names the extra."""
    from importlib import import_module

    try:
        return [import_module(module) for module in modules][-1]
    except ImportError as error:
        raise InputError(f"{what} need {error.name or modules[-1]}: pip install 'osamd[tables]'.") from error


def parquet_source(raw: Any, name: str, head: int) -> Source:
    """The rows of a Parquet file, batch by batch."""
    parquet = _required("Parquet files", "narwhals", "pyarrow.parquet")
    pyarrow = _required("Parquet files", "pyarrow")
    with readable(name):
        try:
            file = parquet.ParquetFile(raw)
        except pyarrow.ArrowException as error:
            raise InputError(
                f"{name} is no Parquet file ({error}); name its format=... if it is another one."
            ) from None

    refuse_repeated(name, file.schema_arrow.names)

    def tables() -> Iterator[Any]:
        """Tables of `head` rows, then of about BLOCK."""
        held, wanted = [], head
        with readable(name):
            for batch in file.iter_batches(batch_size=BLOCK):
                held.append(batch)
                if sum(len(one) for one in held) >= wanted:
                    table = pyarrow.Table.from_batches(held)
                    yield table.slice(0, wanted)
                    held, wanted = table.slice(wanted).to_batches(), 1
        if held:
            yield pyarrow.Table.from_batches(held)

    return _source(name, file.schema_arrow.empty_table(), tables(), file.metadata.num_rows)


def frame_source(table: Any, head: int) -> Source:
    """The rows of a pandas, polars or pyarrow table."""
    narwhals = _required("data frames", "narwhals")
    kind = f"{type(table).__module__.split('.')[0]} {type(table).__name__}"
    try:
        frame = narwhals.from_native(table, eager_only=True)
        _ = frame.schema
    except narwhals.exceptions.DuplicateError:
        refuse_repeated(f"the {kind}", [str(column) for column in table.columns])
        raise
    except TypeError:
        hint = (
            "call .collect() first"
            if hasattr(table, "collect")
            else "give a path, or a pandas, polars or pyarrow table"
        )
        raise InputError(f"`rows(table=<{kind}>)`: this is no table in memory; {hint}.") from None

    def tables() -> Iterator[Any]:
        for start, stop in _slices(len(frame), head):
            yield frame[start:stop]

    return _source(f"the {kind}", frame, tables(), len(frame))


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a pandas, polars or pyarrow table as dictionaries."""
    if hasattr(frame, "to_dicts"):
        found = frame.to_dicts()
    else:
        found = frame.to_pylist() if hasattr(frame, "to_pylist") else frame.to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in found]


def is_frame(value: Any) -> bool:
    """Whether this is a pandas, polars or pyarrow table, without importing any of them."""
    return type(value).__name__ in ("DataFrame", "Table") and (hasattr(value, "columns") or hasattr(value, "schema"))


def _slices(rows: int, head: int) -> Iterator[tuple[int, int]]:
    yield 0, min(head, rows)
    for start in range(head, rows, BLOCK):
        yield start, min(start + BLOCK, rows)


def _source(name: str, example: Any, tables: Iterator[Any], rows: int) -> Source:
    narwhals = _required("tables", "narwhals")
    schema = narwhals.from_native(example, eager_only=True, pass_through=False).schema
    declared = {str(column): kind for column, dtype in schema.items() if (kind := _declared(narwhals, dtype))}
    for column, dtype in schema.items():
        if isinstance(dtype, narwhals.List | narwhals.Array | narwhals.Struct | narwhals.Binary):
            declared[str(column)] = "nested"

    def blocks() -> Iterator[Block]:
        before = 0
        for table in tables:
            frame = narwhals.from_native(table, eager_only=True)
            columns = [_values(narwhals, frame[:, i], declared.get(str(c))) for i, c in enumerate(schema)]
            if len(frame):
                yield Block(columns, len(frame), lambda i, first=before: f"{name}, row {first + i}")  # type: ignore[misc]
            before += len(frame)

    return Source(name, [str(column) for column in schema], declared, blocks(), expected=rows)


def _declared(narwhals: Any, dtype: Any) -> str | None:
    if dtype.is_numeric() or isinstance(dtype, narwhals.Duration):
        return "numeric"
    if dtype == narwhals.Boolean:
        return "boolean"
    if dtype.is_temporal() or dtype == narwhals.Time:
        return "date"
    if isinstance(dtype, narwhals.Categorical | narwhals.Enum):
        return "categorical"
    return None


def _values(narwhals: Any, series: Any, kind: str | None) -> Any:
    if isinstance(series.dtype, narwhals.Duration):
        return [None if span is None else span.total_seconds() for span in series.to_list()]
    if kind == "numeric":
        if series.dtype.is_integer() and not series.null_count():
            return series.to_numpy()
        return np.asarray(series.cast(narwhals.Float64).to_numpy(), dtype=np.float64)
    return series.to_list() if kind != "nested" else [None] * len(series)
