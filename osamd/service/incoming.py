"""Samples on their way into the log: as they come from a request, and as events after their rounds."""

from __future__ import annotations

from itertools import repeat
from typing import NamedTuple

from osamd.accounting.book import WITHHELD
from osamd.learner.blocks import PlayedRounds
from osamd.numerics import Array
from osamd.service.display import Display
from osamd.service.log import Event


class ReceivedSample(NamedTuple):
    """A sample as it comes from a request; only people see `display`."""

    client_id: str | None
    row: Array
    display: Display | None = None


def sample_events(seq: int, at: float, played: PlayedRounds, ids: list[str | None], rows: Array) -> list[Event]:
    """The events of samples whose rounds were played, from this number on. Bytes hold float64 numbers."""
    seen, number = played.seen, len(played)
    columns = (
        range(seq, seq + number),
        repeat(at),
        repeat("sample"),
        range(played.first, played.first + number),
        ids,
        _cut(rows),
        played.draws,
        seen.label,
        seen.pseudolabel,
        seen.margin,
        seen.probability,
        seen.query,
        [WITHHELD[place] or None for place in seen.withheld],
        _cut(seen.score),
    )
    return [Event(*values) for values in zip(*columns, strict=False)]  # `repeat` has no end


def _cut(table: Array) -> list[bytes]:
    """The bytes of each row."""
    held, width = table.tobytes(), table.nbytes // len(table)
    return [held[start : start + width] for start in range(0, len(held), width)]
