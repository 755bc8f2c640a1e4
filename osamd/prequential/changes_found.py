"""When a stream changed: what shows in the margins, and what River's ADWIN finds where it is installed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.numerics import Array

FEWEST = 100
"""Rounds that are compared on either side of a change; a twentieth of the stream where that is more."""
SURE = 6.0
"""The margin has changed where the means of two stretches differ by so many standard errors."""
MOST = 20
"""Changes of one kind that are reported; where there are more, the stream changes all the time."""


MARGIN_FOUND, ADWIN_FOUND = "margin", "ADWIN"
"""By whom a change was found."""


class Change(NamedTuple):
    """Something that changed at a round, by whom it was found, and a mean before and after it."""

    round: int
    found_by: str
    before: float
    after: float


def margin_changes(margins: Array) -> list[Change]:
    """Where the mean margin of one stretch differs from that of the next; needs no label.

    >>> margin_changes(np.concatenate([np.full(400, 0.9), np.full(400, 0.4)]) + 0.01 * np.arange(800) % 0.05)[0].round
    400
    """
    size = max(FEWEST, len(margins) // 20)
    if len(margins) < 2 * size:
        return []
    sums, squares = (np.concatenate([[0.0], np.cumsum(values)]) for values in (margins, margins * margins))
    at = np.arange(size, len(margins) - size + 1)
    before, after = (sums[at] - sums[at - size]) / size, (sums[at + size] - sums[at]) / size
    spread = squares[at + size] - squares[at - size] - size * (before * before + after * after)
    errors = np.sqrt(np.maximum(spread, 1e-12) / (2 * size) * 2.0 / size)
    score = np.abs(after - before) / errors
    found: list[Change] = []
    while len(found) < MOST and score.size and score.max() > SURE:
        i = int(score.argmax())
        found.append(Change(int(at[i]), MARGIN_FOUND, float(before[i]), float(after[i])))
        score[max(0, i - size) : i + size] = 0.0
    return sorted(found)


def adwin_is_there() -> bool:
    """Whether River is installed."""
    try:
        import river.drift  # noqa: F401
    except ImportError:
        return False
    return True


def adwin_changes(right: NDArray[np.bool_]) -> list[Change]:
    """Where River's ADWIN finds that the share of right decisions changed; none where River is not installed."""
    if not adwin_is_there():
        return []
    from river.drift import ADWIN

    detector: Any = ADWIN()  # type: ignore[no-untyped-call]
    at = []
    for t, value in enumerate(right.tolist()):
        detector.update(float(value))
        if detector.drift_detected:
            at.append(t + 1)
    edges = [0, *at, len(right)]
    found = []
    for i, t in enumerate(at):
        before, after = right[edges[i] : t], right[t : edges[i + 2]]
        if len(before) and len(after):
            found.append(Change(t, ADWIN_FOUND, float(before.mean()), float(after.mean())))
    biggest = sorted(found, key=lambda change: -abs(change.after - change.before))
    return sorted(biggest[:MOST])
