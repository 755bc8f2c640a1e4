"""The nearest neighbours among the remembered samples: the farther they are, the less their votes weigh.

Votes are exp(-WIDTH (D_k - D_1) / D_m), with D_1 the squared distance of the nearest voter and D_m that of the
farthest. The width is that of the neighbourhood itself, so neither outliers nor dense classes can spoil it.

Most of the time goes into reading the memory. So all distances are first computed roughly, in single precision, and
only samples that may be among the nearest in spite of the rounding are compared exactly.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from osamd.preset.memory import Digest, Memory
from osamd.preset.sums import squared_distance
from osamd.preset.views import Sizes, cut, cut_single

VOTERS = 3
"""The number of neighbours that vote; with one or five, means over tables differ by 0.1 points."""
WIDTH = 2.0
BLANK = 0.1
"""A vote shared evenly among the classes: no neighbourhood is certain."""
GROUP = 8
"""The number of samples whose least rough distance is looked at before the samples are. Every capacity of the memory is
a multiple of it."""


class Nearby(NamedTuple):
    """Working space: views of the vector that a round works in."""

    rough: Any
    """The squared distances, in single precision."""
    groups: Any
    """The least rough distance in each group of samples."""
    least: Any
    """The least of these, increasing."""
    listed: Any
    """The groups that may hold one of the nearest."""
    away: Any
    """Their exact squared distances, each at its place."""
    near: Any
    """The places of the nearest, closest first."""


def cut_nearby(vector: Any, at: int, sizes: Sizes) -> Any:
    rough, at = cut_single(vector, at, sizes.capacity)
    groups, at = cut_single(vector, at, sizes.capacity // GROUP)
    least, at = cut(vector, at, VOTERS)
    listed, at = cut(vector, at, sizes.capacity // GROUP)
    away, at = cut(vector, at, sizes.capacity)
    near, at = cut(vector, at, VOTERS)
    return Nearby(rough, groups, least, listed, away, near), at


def neighbours_opinion(memory: Memory, digest: Digest, count: int, nearby: Nearby, z: Any, own: Any) -> None:
    """The probabilities of the classes, from the first `count` places of the memory."""
    classes = own.shape[0]
    votes = BLANK
    for c in range(classes):
        own[c] = BLANK / classes
    rough_distances(digest.columns, count, z, nearby.rough)
    found = nearest(memory, count, z, nearby)
    if found > 0:
        away, near = nearby.away, nearby.near
        closest, width = away[int(near[0])], away[int(near[found - 1])] + 1e-12
        for j in range(found):
            place = int(near[j])
            vote = math.exp(-WIDTH * (away[place] - closest) / width)
            own[int(memory.labels[place])] += vote
            votes += vote
    for c in range(classes):
        own[c] /= votes


def rough_distances(columns: Any, count: int, z: Any, rough: Any) -> None:
    """Compute all squared distances, four features at a time, so that few partial sums are written and read again."""
    d = z.shape[0]
    whole = d // 4 * 4
    for k in range(count):
        rough[k] = 0.0
    for i in range(0, whole, 4):
        z0, z1, z2, z3 = np.float32(z[i]), np.float32(z[i + 1]), np.float32(z[i + 2]), np.float32(z[i + 3])
        c0, c1, c2, c3 = columns[i], columns[i + 1], columns[i + 2], columns[i + 3]
        for k in range(count):
            g0, g1, g2, g3 = z0 - c0[k], z1 - c1[k], z2 - c2[k], z3 - c3[k]
            rough[k] += (g0 * g0 + g1 * g1) + (g2 * g2 + g3 * g3)
    for i in range(whole, d):
        value, column = np.float32(z[i]), columns[i]
        for k in range(count):
            gap = value - column[k]
            rough[k] += gap * gap


def margin_of_error(distance: float, features: int) -> float:
    """By how much a rough squared distance may exceed that of the last of the nearest, for a sample to be one of them.

    Values are at most 5, so single precision moves a difference by less than 20 / 2^24, and a squared distance D in d
    features by less than 40 sqrt(d D) / 2^24 + 400 d / 2^48, and by d D / 2^24 in the sum. Twice that is allowed, once
    for the last of the nearest and once for the sample, with some room, and sqrt(d D) <= (d D + 1) / 2.
    """
    return features * (distance + 1.0) / 2.0**17


def shortlist(nearby: Nearby, count: int, features: int) -> tuple[int, float]:
    """Write the groups that may hold one of the nearest into `listed`; returns how many there are, and the rough
    distance beyond which no sample is one of the nearest.

    With w groups, group j holds the places j, j + w, j + 2 w, ...: their least distances are then found for many groups
    at once. As many groups as there are voters bound the distance of the last voter.
    """
    rough, groups, least, listed = nearby.rough, nearby.groups, nearby.least, nearby.listed
    width, last = (count + GROUP - 1) // GROUP, least.shape[0] - 1
    for k in range(count, GROUP * width):
        rough[k] = math.inf
    for j in range(width):
        groups[j] = rough[j]
    for row in range(1, GROUP):
        for j in range(width):
            groups[j] = min(groups[j], rough[row * width + j])
    for j in range(last + 1):
        least[j] = math.inf
    for j in range(width):
        value = float(groups[j])
        if value < least[last]:
            i = last
            while i > 0 and least[i - 1] > value:
                least[i] = least[i - 1]
                i -= 1
            least[i] = value
    within, found = least[last] + margin_of_error(least[last], features), 0
    for j in range(width):
        if groups[j] <= within:
            listed[found] = j
            found += 1
    return found, within


def nearest(memory: Memory, count: int, z: Any, nearby: Nearby) -> int:
    """Find the places of the nearest and their squared distances; returns how many there are."""
    away, near, last = nearby.away, nearby.near, nearby.least.shape[0] - 1
    listed, within = shortlist(nearby, count, z.shape[0])
    width = (count + GROUP - 1) // GROUP
    found = 0
    for row in range(GROUP):  # in the order of their places: of equally near samples the first counts
        for group in range(listed):
            k = row * width + int(nearby.listed[group])
            if k >= count or nearby.rough[k] > within:
                continue
            away[k] = squared_distance(z, memory.samples[k])
            if found <= last:
                j = found
                found += 1
            elif away[k] < away[int(near[last])]:
                j = last
            else:
                continue
            while j > 0 and away[int(near[j - 1])] > away[k]:
                near[j] = near[j - 1]
                j -= 1
            near[j] = k
            if found > last and away[int(near[last])] == 0.0:
                within = -1.0  # nobody can be closer than these
    return found
