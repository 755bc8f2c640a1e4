"""Pending queries: a sample close to one of them is not asked about again."""

from __future__ import annotations

from typing import Any

from osamd.preset.scale import FIRST_RENEWAL, Scale
from osamd.preset.state import RENEWAL

NEWEST_PENDING = 64
"""The number of pending queries that a sample is compared with; it bounds the cost of a round."""
CLOSE = 0.1
"""Samples are close if they differ by at most this many deviations per feature, in the root mean square. Two draws from
one class differ by about 1.4, so a close sample is a repeated one, or one where one feature in a hundred moved."""


def close_to_pending(state: Any, scale: Scale, waiting: Any, x: Any) -> bool:
    """Whether x is close to a row of `waiting`, in the held scale; constant columns are ignored."""
    if waiting.shape[0] == 0 or state[RENEWAL] <= FIRST_RENEWAL:  # there is no scale to measure by yet
        return False
    varying = 0.0
    for i in range(x.shape[0]):
        varying += 1.0 if scale.inverse[i] > 0.0 else 0.0
    limit = CLOSE * CLOSE * varying
    for k in range(waiting.shape[0]):
        total = 0.0
        for i in range(x.shape[0]):
            away = (x[i] - waiting[k, i]) * scale.inverse[i]
            total += away * away
            if total > limit:
                break
        if total <= limit:
            return True
    return False
