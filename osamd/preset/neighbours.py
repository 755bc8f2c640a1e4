"""The nearest neighbours among the remembered samples: the farther they are, the less their votes weigh.

Votes are exp(-WIDTH (D_k - D_1) / D_m), with D_1 the squared distance of the nearest voter and D_m that of the
farthest. The width is that of the neighbourhood itself, so neither outliers nor dense classes can spoil it.
"""

from __future__ import annotations

import math
from typing import Any

from osamd.preset.memory import Memory

VOTERS = 3
"""The number of neighbours that vote; with one or five, means over tables differ by 0.1 points."""
WIDTH = 2.0
BLANK = 0.1
"""A vote shared evenly among the classes: no neighbourhood is certain."""


def neighbours_opinion(memory: Memory, count: int, z: Any, away: Any, near: Any, own: Any) -> None:
    """The probabilities of the classes; `away` and `near` are working space for distances and the nearest places."""
    classes = own.shape[0]
    votes = BLANK
    for c in range(classes):
        own[c] = BLANK / classes
    found = nearest(memory, count, z, away, near)
    if found > 0:
        closest, width = away[int(near[0])], away[int(near[found - 1])] + 1e-12
        for j in range(found):
            place = int(near[j])
            vote = math.exp(-WIDTH * (away[place] - closest) / width)
            own[int(memory.labels[place])] += vote
            votes += vote
    for c in range(classes):
        own[c] /= votes


def nearest(memory: Memory, count: int, z: Any, away: Any, near: Any) -> int:
    """Compute all squared distances and the places of the nearest, closest first; returns the number of the latter."""
    for k in range(count):
        away[k] = 0.0
    for i in range(z.shape[0]):
        value, column = z[i], memory.columns[i]
        for k in range(count):
            gap = value - column[k]
            away[k] += gap * gap
    found = 0
    for k in range(count):
        if found < near.shape[0]:
            j = found
            found += 1
        elif away[k] < away[int(near[found - 1])]:
            j = found - 1
        else:
            continue
        while j > 0 and away[int(near[j - 1])] > away[k]:
            near[j] = near[j - 1]
            j -= 1
        near[j] = k
    return found
