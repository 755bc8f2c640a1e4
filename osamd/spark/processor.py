"""The stateful processor that Spark runs in its Python workers: state and rows of a key in, rows and state out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from osamd.spark.keyed import SAMPLE, Keys, KeyState, OutputRow, Plan, Row, earliest

STATE = "learner binary, waiting string, health string"
"""The schema of a key's state."""
_held: dict[Plan, Keys] = {}
"""The live learners of this worker, by the plan they follow; Spark reuses a worker for many batches."""


def keys_of(plan: Plan) -> Keys:
    """The learners that this worker holds under a plan."""
    if plan not in _held:
        _held[plan] = Keys(plan)
    return _held[plan]


def rows_of(frames: Iterator[Any], features: int) -> list[Row]:
    """The rows of a key, sorted by time and id; a sample comes before a label of the same time and id."""
    rows: list[Row] = []
    names = [f"x{i}" for i in range(features)]
    for frame in frames:
        samples = np.ascontiguousarray(frame[names].to_numpy(dtype=np.float64))
        columns = (frame[name].tolist() for name in ("time", "kind", "id", "label"))
        for time, kind, id_, label, sample in zip(*columns, samples, strict=True):
            missing = label is None or label != label
            rows.append(Row(time, kind, id_, sample if kind == SAMPLE else None, None if missing else label))
    rows.sort(key=lambda row: (row.time, row.id, row.kind))
    return rows


def frame_of(key: Any, out: list[OutputRow]) -> Any:
    """What came out of a key's rows, as a pandas frame."""
    import pandas as pd  # type: ignore[import-untyped]

    columns: list[Any] = list(zip(*out, strict=True)) if out else [()] * len(OutputRow._fields)
    named = {"key": [key] * len(out)} | dict(zip(OutputRow._fields, map(list, columns), strict=True))
    frame = pd.DataFrame(named)
    frame["round"], frame["query"] = frame["round"].astype("Int64"), frame["query"].astype("boolean")
    return frame


class Adapting:
    """One learner per key; `processor` makes it one of Spark's stateful processors."""

    def __init__(self, plan: Plan, features: int, *, timed: bool) -> None:
        """`timed`: queries expire by the time of the batch, which Spark repeats after a restart; or by that of rows."""
        self._plan, self._features, self._timed = plan, features, timed

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("learner", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        found = self._state.get()
        state = None if found is None else KeyState(bytes(found[0]), found[1], found[2])
        out, after = keys_of(self._plan).take(key[0], state, rows_of(rows, self._features), self._clock(timerValues))
        yield self._left(key[0], out, state, after)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        found = self._state.get()
        if found is not None:
            state = KeyState(bytes(found[0]), found[1], found[2])
            now = timerValues.getCurrentProcessingTimeInMs() / 1000.0
            out, after = keys_of(self._plan).expire(key[0], state, now)
            if out:
                yield self._left(key[0], out, state, after)

    def close(self) -> None:
        """Nothing is open: the state is in Spark's store."""

    def _clock(self, timers: Any) -> Callable[[Row], float | None]:
        if not self._timed:
            return lambda row: row.time
        now = timers.getCurrentProcessingTimeInMs() / 1000.0
        return lambda row: now

    def _left(self, key: Any, out: list[OutputRow], before: KeyState | None, after: KeyState) -> Any:
        self._state.update(tuple(after))
        if self._timed:
            due = earliest(after)
            if due is not None and (before is None or due != earliest(before)):
                self._handle.registerTimer(int(due * 1000.0) + 1)
        return frame_of(key, out)


def processor(plan: Plan, features: int, *, timed: bool) -> Any:
    """The processor, as Spark takes it; see `Adapting`."""
    from pyspark.sql.streaming import StatefulProcessor

    class Processor(Adapting, StatefulProcessor):  # type: ignore[misc]
        """The methods of the first, the kind of the second."""

    return Processor(plan, features, timed=timed)
