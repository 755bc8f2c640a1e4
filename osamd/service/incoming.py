"""Samples on their way into the log: as they come from a request, and as columns after their rounds were played.

Nothing is made for a single sample of a batch unless somebody asks for it: that would take longer than its round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql

from osamd.accounting.book import WITHHELD
from osamd.learner.blocks import PlayedRounds
from osamd.numerics import Array
from osamd.service import insertion
from osamd.service.desk import Refusal
from osamd.service.display import Display
from osamd.service.log import Event


class ReceivedSample(NamedTuple):
    """A sample as it comes from a request; only people see `display`."""

    client_id: str | None
    row: Array
    display: Display | None = None


@dataclass(eq=False)
class ReceivedBatch:
    """The samples of a request, one row each; `ids` and `displays` are None if no sample has any."""

    rows: Array
    ids: Sequence[str | None] | None = None
    displays: Sequence[Display | None] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, end: int) -> ReceivedBatch:
        """Some of the samples."""
        if end - start == len(self.rows):
            return self
        ids, displays = self.ids, self.displays
        return ReceivedBatch(
            self.rows[start:end],
            None if ids is None else ids[start:end],
            None if displays is None else displays[start:end],
        )


def batch_of(samples: Sequence[ReceivedSample]) -> ReceivedBatch:
    """Samples as a batch."""
    ids, rows, displays = zip(*samples, strict=True)
    return ReceivedBatch(
        rows[0][None] if len(rows) == 1 else np.array(rows),
        None if ids.count(None) == len(ids) else ids,
        None if displays.count(None) == len(displays) else displays,
    )


@dataclass(eq=False)
class DecidedSamples:
    """Samples whose rounds were played, and the queries that expired meanwhile: their events, from number `seq` on."""

    seq: int
    at: float
    """Seconds since 1970."""
    batch: ReceivedBatch
    played: PlayedRounds

    def __len__(self) -> int:
        return len(self.played)

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self.seq + len(self.played) + len(self.played.expired) - 1

    @cached_property
    def _seqs(self) -> Sequence[int]:
        number, expired = len(self.played), self.played.expired
        if not expired:
            return range(self.seq, self.seq + number)
        places = np.arange(number)
        before = np.searchsorted([one.after for one in expired], places, side="right")
        seqs: list[int] = (self.seq + places + before).tolist()
        return seqs

    @cached_property
    def _first(self) -> Event:
        return self._made(0)

    def event(self, place: int) -> Event:
        """The event of one sample."""
        return self._made(place) if place else self._first

    def _made(self, place: int) -> Event:
        played, seen, ids = self.played, self.played.seen, self.batch.ids
        return Event(
            self._seqs[place],
            self.at,
            "sample",
            played.first + place,
            None if ids is None else ids[place],
            self.batch.rows[place].tobytes(),
            played.draws[place],
            seen.label[place],
            seen.pseudolabel[place],
            seen.margin[place],
            seen.probability[place],
            seen.query[place],
            WITHHELD[seen.withheld[place]] or None,
            seen.score[place].tobytes(),
        )

    def of_round(self, number: int) -> list[Event]:
        """The events of this round."""
        place = number - self.played.first
        found = [self.event(place)] if 0 <= place < len(self) else []
        return found + [one for one in self.expiries() if one.round == number]

    def expiries(self) -> list[Event]:
        """The events of the queries that expired."""
        return [
            Event(self.seq + one.after + before, self.at, "expire", one.id)
            for before, one in enumerate(self.played.expired)
        ]

    @property
    def unused(self) -> set[str]:
        """The columns of the log that stay empty."""
        unused = {"label", "who", "until", "body"}
        unused |= {"client_id"} if self.batch.ids is None else set()
        return unused if any(self.played.seen.withheld) else unused | {"withheld"}

    def rows(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The values of these columns for all events, in order. Bytes are bytearrays, and truth is 0 or 1: the driver
        of SQLite takes these as they are, and takes long to find out how to adapt bytes and booleans."""
        played, seen, number = self.played, self.played.seen, len(self.played)
        columns: dict[str, Sequence[Any]] = {
            "seq": self._seqs,
            "at": [self.at] * number,
            "kind": ["sample"] * number,
            "round": range(played.first, played.first + number),
            "client_id": [None] * number if self.batch.ids is None else self.batch.ids,
            "features": _cut(self.batch.rows),
            "draw": played.draws,
            "decision": seen.label,
            "pseudolabel": seen.pseudolabel,
            "margin": seen.margin,
            "probability": seen.probability,
            "query": list(map(int, seen.query)),
            "withheld": [WITHHELD[place] or None for place in seen.withheld],
            "score": _cut(seen.score),
        }
        rows = list(zip(*(columns[name] for name in names), strict=True))
        for event in self.expiries():
            rows.insert(event.seq - self.seq, tuple(getattr(event, name) for name in names))
        return rows


def _cut(table: Array) -> list[bytearray]:
    """The bytes of each row."""
    held, width = bytearray(table.tobytes()), table.nbytes // len(table)
    return [held[start : start + width] for start in range(0, len(held), width)]


def each(outcomes: Iterable[Event | Refusal | DecidedSamples]) -> list[Event | Refusal]:
    """The outcomes of the samples one by one, with an event for each sample that was decided on."""
    found: list[Event | Refusal] = []
    for one in outcomes:
        found += map(one.event, range(len(one))) if isinstance(one, DecidedSamples) else [one]
    return found


def write(connection: sql.Connection, fresh: Iterable[Event | DecidedSamples]) -> None:
    """Write these events into the log, in their order: an index is quickest to extend at its end."""
    for single, run in groupby(fresh, lambda one: isinstance(one, Event) or len(one) == 1):
        some = list(run)
        if single:
            insertion.append(connection, list(chain.from_iterable(map(_events, some))))
            continue
        decided = [one for one in some if isinstance(one, DecidedSamples)]
        unused = set.intersection(*(one.unused for one in decided))
        names = tuple(name for name in Event._fields if name not in unused)
        insertion.insert(connection, names, list(chain.from_iterable(one.rows(names) for one in decided)))


def _events(one: Event | DecidedSamples) -> list[Event]:
    """The event, or those of one sample and of the queries that expired after it."""
    return [one] if isinstance(one, Event) else [one.event(0), *one.expiries()]
