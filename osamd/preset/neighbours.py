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


def distances_into(memory: Memory, count: int, z: Any, away: Any) -> None:
    """Compute all squared distances, four features at a time, so that few partial sums are written and read again."""
    d = z.shape[0]
    whole = d // 4 * 4
    for k in range(count):
        away[k] = 0.0
    for i in range(0, whole, 4):
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        c0, c1, c2, c3 = memory.columns[i], memory.columns[i + 1], memory.columns[i + 2], memory.columns[i + 3]
        for k in range(count):
            g0, g1, g2, g3 = z0 - c0[k], z1 - c1[k], z2 - c2[k], z3 - c3[k]
            away[k] += (g0 * g0 + g1 * g1) + (g2 * g2 + g3 * g3)
    for i in range(whole, d):
        value, column = z[i], memory.columns[i]
        for k in range(count):
            gap = value - column[k]
            away[k] += gap * gap


def nearest(memory: Memory, count: int, z: Any, away: Any, near: Any) -> int:
    """Compute all squared distances and the places of the nearest, closest first; returns the number of the latter."""
    distances_into(memory, count, z, away)
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
