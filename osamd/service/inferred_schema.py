"""The schema of a learner or of a table, inferred from what is known about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from osamd.numerics import Array
from osamd.service.schema import NamedClass, SampleColumn, Schema


def of_learner(classes: Sequence[Any], features: Sequence[str] | int, title: str) -> Schema:
    """The schema of a learner whose samples are numbers."""
    names = features if not isinstance(features, int) else [f"x{i + 1}" for i in range(features)]
    return Schema(
        title=title,
        columns=[SampleColumn(name=name) for name in names],
        classes=[NamedClass(name=name, title=str(name)) for name in classes],
    )


def of_table(
    columns: Sequence[Any],
    means: Mapping[str, float],
    classes: Sequence[Any],
    title: str,
    rows: Array | None = None,
) -> Schema:
    """The schema of a table, from its columns (`osamd.tables.Column`) and its rows."""
    used = [column for column in columns if column.kind != "left out"]
    sizes = iter([] if rows is None else np.abs(rows).max(axis=0, initial=0.0).tolist())
    largest = {column.name: max(next(sizes, 0.0) for _ in column.features) for column in used}
    return Schema(
        title=title,
        columns=[
            SampleColumn(
                name=column.name,
                kind=column.kind,
                categories=list(column.categories),
                parts=list(column.parts),
                day_first=column.day_first,
                fill=_number(means[column.name]) if column.name in means else None,
                largest=(_number(largest[column.name]) or None) if column.kind == "numeric" else None,
            )
            for column in used
        ],
        classes=[NamedClass(name=name, title=str(name)) for name in classes],
        ignored=[column.name for column in columns if column.kind == "left out"],
    )


def _number(value: float) -> float:
    return float(value) if math.isfinite(value) else 0.0
