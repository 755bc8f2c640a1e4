"""How the trees of the forest grow.

With every label some trees, the oldest first, are regrown from the newest labels; in the others the label counts in the
leaf it falls into. While there are few labels each says much and trees are small, so all are regrown; with many labels,
one tree at every fourth. So the forest follows the memory, its size is bounded, and a label costs a quarter of a small
tree. A split is the purest of several splits drawn at random (Geurts, Ernst and Wehenkel 2006); trees are grown until
leaves are pure.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from osamd.preset.forest import REACH, TREES, Forest, count_in_leaf
from osamd.preset.memory import Memory
from osamd.preset.views import Sizes, cut, cut_whole

AT_ONCE = 32
"""Up to this many labels, all trees are regrown at every label; then as many as cost the same, in proportion to one
over the squared number of labels."""
MANY, SELDOM = 128, 4
"""From so many labels on, one tree is regrown at every label whose number is a multiple of SELDOM. With three, means
over tables change by 0.03 points."""
TRIES = 4.0
"""The number of splits tried in a node, divided by the square root of the number of features. Over the tables that
chose constants, four are 0.2 points better than one, and no worse than twice as many trees with two."""
ATTEMPTS = 4
"""A node whose drawn features are all constant is given up after this many times the tries."""
MULTIPLIER, MODULUS = 16807, 2147483647
"""Park and Miller's generator: exact in whole numbers and in floats alike, on every machine."""


class Room(NamedTuple):
    """Working space for growing a tree."""

    order: Any
    """The samples, node after node; within a node, class after class."""
    aside: Any
    """Samples that are put aside while a node is split."""
    todo: Any
    """Nodes to do, three numbers each: the node, and where its samples begin and end."""
    counts: Any
    """How many samples of a node each class has."""
    places: Any
    """Where the next sample of each class goes."""
    values: Any
    """The values of one feature, of the samples of a node in their order."""


def cut_room(vector: Any, at: int, sizes: Sizes) -> Any:
    order, at = cut_whole(vector, at, sizes.capacity)
    aside, at = cut_whole(vector, at, sizes.capacity)
    todo, at = cut_whole(vector, at, 3 * (sizes.capacity + 2))
    counts, at = cut_whole(vector, at, sizes.classes)
    places, at = cut_whole(vector, at, sizes.classes)
    values, at = cut(vector, at, sizes.capacity)
    return Room(order, aside, todo, counts, places, values), at


def draw(seed: float) -> float:
    """The next state of the generator, a whole number from 1 to MODULUS - 1."""
    return float((int(seed) * MULTIPLIER) % MODULUS)


def count_classes(memory: Memory, order: Any, first: int, last: int, counts: Any) -> None:
    counts[:] = 0
    for j in range(first, last):
        counts[int(memory.labels[order[j]])] += 1


def by_class(memory: Memory, room: Room, count: int) -> None:
    """Put the samples that lie aside in order, class after class."""
    count_classes(memory, room.aside, 0, count, room.counts)
    begin = 0
    for c in range(room.counts.shape[0]):
        room.places[c] = begin
        begin += room.counts[c]
    for k in range(count):
        c = int(memory.labels[room.aside[k]])
        room.order[room.places[c]] = room.aside[k]
        room.places[c] += 1


def gather_values(column: Any, room: Room, first: int, last: int) -> tuple[float, float]:
    """Gather the values of a feature, and return the least and the greatest; in four lanes that need not wait."""
    order, values = room.order, room.values
    low = low1 = low2 = low3 = math.inf
    high = high1 = high2 = high3 = -math.inf
    whole = first + (last - first) // 4 * 4
    for j in range(first, whole, 4):
        value, value1 = column[order[j]], column[order[j + 1]]
        value2, value3 = column[order[j + 2]], column[order[j + 3]]
        values[j], values[j + 1], values[j + 2], values[j + 3] = value, value1, value2, value3
        low, low1, low2, low3 = min(low, value), min(low1, value1), min(low2, value2), min(low3, value3)
        high, high1, high2, high3 = max(high, value), max(high1, value1), max(high2, value2), max(high3, value3)
    for j in range(whole, last):
        value = values[j] = column[order[j]]
        low, high = min(low, value), max(high, value)
    return min(min(low, low1), min(low2, low3)), max(max(high, high1), max(high2, high3))


def best_split(memory: Memory, room: Room, first: int, last: int, seed: float) -> Any:
    """The purest of several random splits of these samples: feature (-1 for none), threshold, state of the generator.

    Purity is the sum over both sides of the squared class counts divided by the size, as in Gini's index. The samples
    of a class lie next to each other, so that they are counted without branches.
    """
    d = memory.columns.shape[0]
    tries = max(1, int(TRIES * math.sqrt(d) + 0.5))
    feature, threshold, purest, tried = -1, 0.0, -1.0, 0
    for _ in range(ATTEMPTS * (tries + 2)):
        seed = draw(seed)
        drawn = min(int(seed / MODULUS * d), d - 1)
        low, high = gather_values(memory.columns[drawn], room, first, last)
        if not low < high:
            continue
        seed = draw(seed)
        cutting = low + seed / MODULUS * (high - low)
        cutting = low if cutting >= high else cutting
        size, inside, outside, begin = 0.0, 0.0, 0.0, first
        for c in range(room.counts.shape[0]):
            end, left = begin + room.counts[c], 0
            for j in range(begin, end):
                left += 1 if room.values[j] <= cutting else 0
            size += left
            inside += left * left
            outside += (end - begin - left) * (end - begin - left)
            begin = end
        purity = inside / size + outside / (last - first - size)
        if purity > purest:
            feature, threshold, purest = drawn, cutting, purity
        tried += 1
        if tried == tries:
            break
    return feature, threshold, seed


def grow(forest: Forest, tree: int, memory: Memory, kept: int, room: Room, seed: float) -> float:
    """Regrow a tree from the newest of `kept` samples; returns the state of the generator."""
    order, todo, counts = room.order, room.todo, room.counts
    forest.grown[tree], forest.seeds[tree] = kept, seed
    ring = memory.labels.shape[0]
    count = min(kept, ring, REACH)
    for k in range(count):
        room.aside[k] = (kept - 1 - k) % ring
    by_class(memory, room, count)
    todo[0], todo[1], todo[2] = 0, 0, count
    waiting, nodes = 1, 1
    while waiting > 0:
        waiting -= 1
        node, first, last = todo[3 * waiting], todo[3 * waiting + 1], todo[3 * waiting + 2]
        count_classes(memory, order, first, last, counts)
        commonest = 0
        for c in range(counts.shape[0]):
            commonest = c if counts[c] > counts[commonest] else commonest
        feature, threshold = -1, 0.0
        if counts[commonest] < last - first:
            feature, threshold, seed = best_split(memory, room, first, last, seed)
        if feature < 0:
            forest.feature[tree, node] = -1.0 - commonest
            forest.value[tree, node] = max(0.0, 2.0 * counts[commonest] - (last - first))
            continue
        middle = part(memory, room, first, last, feature, threshold)
        forest.feature[tree, node], forest.value[tree, node] = feature, threshold
        forest.child[tree, node] = nodes
        todo[3 * waiting], todo[3 * waiting + 1], todo[3 * waiting + 2] = nodes, first, middle
        todo[3 * waiting + 3], todo[3 * waiting + 4], todo[3 * waiting + 5] = nodes + 1, middle, last
        nodes += 2
        waiting += 2
    return seed


def oldest(forest: Forest) -> int:
    """The tree that was grown first."""
    found = 0
    for tree in range(1, TREES):
        found = tree if forest.grown[tree] < forest.grown[found] else found
    return found


def due(kept: int) -> int:
    """How many trees are regrown at the label with this number.

    >>> [due(kept) for kept in (1, 32, 64, 96, 127, 128, 129, 132)]
    [12, 12, 3, 1, 1, 1, 0, 1]
    """
    if kept >= MANY:
        return 1 if kept % SELDOM == 0 else 0
    return max(1, TREES * AT_ONCE * AT_ONCE // max(kept * kept, AT_ONCE * AT_ONCE))


def refresh(forest: Forest, memory: Memory, kept: int, room: Room, seed: float) -> float:
    """After a label, regrow the trees that are due, the oldest first; returns the state of the generator."""
    for _ in range(due(kept)):
        seed = grow(forest, oldest(forest), memory, kept, room, seed)
    return seed


def grow_again(forest: Forest, memory: Memory, kept: int, room: Room) -> None:
    """Grow every tree whose seed is known as it was grown before, and count the labels that came after.

    A tree is at most SELDOM * TREES labels old, or as old as the held scale, so the memory still has all that it was
    grown from.
    """
    ring = memory.labels.shape[0]
    for tree in range(TREES):
        if forest.seeds[tree] > 0.0:
            grow(forest, tree, memory, int(forest.grown[tree]), room, forest.seeds[tree])
            for k in range(int(forest.grown[tree]), kept):
                count_in_leaf(forest, tree, memory.samples[k % ring], int(memory.labels[k % ring]))


def part(memory: Memory, room: Room, first: int, last: int, feature: int, threshold: float) -> int:
    """Put the samples up to the threshold first, without other changes of the order; returns where the others begin."""
    column, middle, others = memory.columns[feature], first, 0
    for j in range(first, last):
        sample = room.order[j]
        room.order[middle] = room.aside[others] = sample
        goes_left = 1 if column[sample] <= threshold else 0
        middle += goes_left
        others += 1 - goes_left
    for j in range(others):
        room.order[middle + j] = room.aside[j]
    return middle
