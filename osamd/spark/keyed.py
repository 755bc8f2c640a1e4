"""What is done for one key: a learner, the queries that wait by the ids of their samples, and rows in and out.

It knows nothing of Spark: rows come in, rows and a state go out, so that a plain loop over a key's rows is the same.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from osamd.errors import InputError
from osamd.learner import lean
from osamd.learner.linear import OSAMD
from osamd.numerics import Array

HEALTH_EVERY = 100
"""The health of a key is looked at every so many rounds, since a look takes as long as dozens of rounds."""
SAMPLE, LABEL = 0, 1
"""The kinds of rows, in the order in which rows of the same time are taken."""
GLOBAL = "global"
"""Why a query was not passed on: the budget over all keys."""


class Row(NamedTuple):
    """A sample, or the label of an earlier one."""

    time: Any
    kind: int
    id: Any
    sample: Array | None
    label: Any


class OutputRow(NamedTuple):
    """What a row led to; all but the first two are empty where it was no decision."""

    id: Any
    event: str
    """decision; label: one that was waited for; expired: a query whose label did not come in time, or will not come;
    unawaited: a label that nobody waits for; refused: a row that cannot be used, `note` says why."""
    round: int | None = None
    label: Any = None
    probabilities: list[float] | None = None
    margin: float | None = None
    query: bool | None = None
    probability: float | None = None
    withheld: str | None = None
    health: str | None = None
    note: str | None = None


class KeyState(NamedTuple):
    """What is kept of a key between batches."""

    learner: bytes
    waiting: str
    """The queries that wait, as JSON: for each its round, the id of its sample, and when it expires (or null)."""
    health: str


class Plan(NamedTuple):
    """How all keys are treated."""

    start: bytes
    """The learner's file that all keys start from: `OSAMD.to_bytes`."""
    pool: str | None = None
    """A folder with later starts: `start-<time>.osamd` is for keys whose first row has that time or a later one."""
    pass_on: float = 1.0
    """The probability with which a query is passed on: the global budget divided by the budget of a key."""
    expire_after: float | None = None
    """How long a label is waited for, in the unit of the clock; None means forever."""
    live: int = 256
    """How many learners a worker keeps alive between batches."""


def seed_of(key: Any) -> int:
    """A seed that depends on the key alone, on every machine.

    >>> seed_of("pump 7") == seed_of("pump 7") != seed_of("pump 8")
    True
    """
    return int.from_bytes(hashlib.sha256(json.dumps(key, default=str).encode()).digest()[:6], "little")


def lot(key: Any, number: int) -> float:
    """A uniform number from the key and the round: whether the global budget passes a query on."""
    text = json.dumps([key, number], default=str).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "little") / 2.0**48


class Keys:
    """The learners of many keys, as a worker holds them; the states themselves are kept elsewhere."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._first = OSAMD.from_bytes(plan.start)
        self._starts: dict[str, tuple[OSAMD, bytes]] = {"": (self._first, self._first.to_state())}
        self._live: OrderedDict[Any, tuple[bytes, OSAMD]] = OrderedDict()
        self.decoded = 0
        """How many learners were read from their states."""

    def take(self, key: Any, state: KeyState | None, rows: Iterable[Row], clock: Callable[[Row], float | None]) -> Any:
        """Take a key's rows, in their order; returns what came out, and the new state.

        `clock` gives the time of a row in the unit of `expire_after`.
        """
        rows = list(rows)
        one = _Key(self.plan, key, self._learner(key, state, rows), state)
        out: list[OutputRow] = []
        for row in rows:
            now = clock(row)
            out += one.expire(now)
            out.append(one.sample(row, now) if row.kind == SAMPLE else one.label(row))
        return out, self._left(key, one)

    def expire(self, key: Any, state: KeyState, now: float) -> Any:
        """Expire the queries of a key whose time is over; returns what came out, and the new state."""
        one = _Key(self.plan, key, self._learner(key, state, ()), state)
        return one.expire(now), self._left(key, one)

    def _left(self, key: Any, one: _Key) -> KeyState:
        state = one.state()
        if self.plan.live:
            self._live[key] = (state.learner, one.learner)
            self._live.move_to_end(key)
            while len(self._live) > self.plan.live:
                lean.let_go(self._live.popitem(last=False)[1][1])
        return state

    def _learner(self, key: Any, state: KeyState | None, rows: Iterable[Row]) -> OSAMD:
        """The key's learner: the live one if it is in this state, or read from the state, or a new one."""
        held = self._live.pop(key, None)
        if state is None:
            like, start = self._start(rows)
            return like.from_state(start, trusted=True, seed=seed_of(key))
        if held is not None and held[0] == state.learner:
            return held[1]
        self.decoded += 1
        return self._first.from_state(state.learner, trusted=True)

    def _start(self, rows: Iterable[Row]) -> tuple[OSAMD, bytes]:
        """Where a new key starts: the newest start in the pool that is not newer than the key."""
        first = next((row.time for row in rows), None)
        name = "" if self.plan.pool is None or first is None else newest_start(Path(self.plan.pool), float(first))
        if name not in self._starts:
            loaded = OSAMD.load(name)
            self._starts[name] = (loaded, loaded.to_state())
        return self._starts[name]


def newest_start(pool: Path, time: float) -> str:
    """The newest file `start-<time>.osamd` whose time is not later; "" where there is none."""
    found = [(float(file.stem.removeprefix("start-")), str(file)) for file in pool.glob("start-*.osamd")]
    return max((file for file in found if file[0] <= time), default=(0.0, ""))[1]


class _Key:
    """One key while its rows are taken."""

    def __init__(self, plan: Plan, key: Any, learner: OSAMD, state: KeyState | None) -> None:
        self._plan, self._key, self.learner = plan, key, learner
        self._health = "unknown" if state is None else state.health
        waiting = [] if state is None else json.loads(state.waiting)
        self._waiting: dict[Any, tuple[int, float | None]] = {id_: (number, until) for number, id_, until in waiting}

    def state(self) -> KeyState:
        waiting = [[number, id_, until] for id_, (number, until) in self._waiting.items()]
        return KeyState(self.learner.to_state(), json.dumps(waiting, separators=(",", ":")), self._health)

    def sample(self, row: Row, now: float | None) -> OutputRow:
        """Decide on a sample; its query waits, or is given up at once where the global budget does not pass it on."""
        try:
            decision = self.learner.ask(row.sample)
        except InputError as error:
            return OutputRow(row.id, "refused", note=str(error))
        query, withheld = decision.query, decision.withheld
        if query and row.id in self._waiting:
            query, withheld = False, "duplicate"
        if query and self._plan.pass_on < 1.0 and lot(self._key, decision.id) >= self._plan.pass_on:
            query, withheld = False, GLOBAL
        if decision.id % HEALTH_EVERY == HEALTH_EVERY - 1:
            lean.round_window(self.learner)  # so that the health does not depend on when a state was written
            self._health = self.learner.health().state
        out = OutputRow(
            row.id,
            "decision",
            decision.id,
            decision.label,
            list(decision.probabilities.values()),
            decision.margin,
            query,
            decision.probability,
            withheld,
            self._health,
        )
        if query:
            after = self._plan.expire_after
            self._waiting[row.id] = (decision.id, None if after is None or now is None else now + after)
        else:
            self.learner.tell(decision, None)
        return out

    def label(self, row: Row) -> OutputRow:
        """Tell a label to the query that waits for it."""
        number, _ = self._waiting.get(row.id, (-1, None))
        if not self.learner.awaits(number):  # its learner may have given up waiting
            self._waiting.pop(row.id, None)
            return OutputRow(row.id, "unawaited", label=row.label)
        try:
            self.learner.tell(number, row.label)
        except InputError as error:
            return OutputRow(row.id, "refused", number, row.label, note=str(error))
        del self._waiting[row.id]
        return OutputRow(row.id, "expired" if row.label is None else "label", number, row.label, health=self._health)

    def expire(self, now: float | None) -> list[OutputRow]:
        """Give up the queries whose time is over."""
        if now is None or self._plan.expire_after is None:
            return []
        out = []
        for id_ in [id_ for id_, (_, until) in self._waiting.items() if until is not None and until <= now]:
            number, _ = self._waiting.pop(id_)
            if self.learner.awaits(number):
                self.learner.expire(number)
                out.append(OutputRow(id_, "expired", number))
        return out


def earliest(state: KeyState) -> float | None:
    """When the next query of a key expires."""
    times = [until for _, _, until in json.loads(state.waiting) if until is not None]
    return min(times, default=None)
