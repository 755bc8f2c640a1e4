"""The state of the linear preset as few bytes, exactly (`osamd.accounting.few_bytes` has the primitives).

Neither working space nor anything that follows from the rest is packed: the memory has one copy of its used rows, and
the forest is grown again from the memory, from the seeds of its trees. Only trees whose seeds are unknown are packed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osamd.accounting.few_bytes import BAD, put_numbers, put_whole, take_numbers, take_whole
from osamd.numerics import Array
from osamd.preset.bayes import Bayes, settle
from osamd.preset.forest import TREES, Forest
from osamd.preset.memory import Memory
from osamd.preset.regression import Regression
from osamd.preset.scale import Scale
from osamd.preset.state import FEATURES, HEAD, KEPT, ROUNDS, PresetParts, parts_of

SCALES = len(Scale._fields)
"""How many numbers the scale has per feature."""


def put_state(out: Any, at: int, state: Array, reference: Array) -> int:
    """Pack a state; the reference is an open state of the same sizes."""
    part, expected = parts_of(state), parts_of(reference)
    count = min(int(state[KEPT]), part.memory.labels.shape[0])
    at = put_numbers(out, at, part.head, expected.head)
    begin = HEAD + part.memory.columns.shape[0] * SCALES
    at = put_numbers(out, at, state[HEAD:begin], reference[HEAD:begin])  # the scale
    at = _put_memory(out, at, part.memory, count, part.student.shape[0])
    for one, other in ((part.source, expected.source), (part.student, expected.student)):
        at = put_numbers(out, at, one.reshape(one.size), other.reshape(other.size))
    for rows in (part.descent.teacher, part.descent.student):
        at = put_numbers(out, at, rows.reshape(rows.size), np.zeros(rows.size))
    for fit in (part.regression, part.fast_regression):
        at = put_numbers(out, at, fit.weights.reshape(fit.weights.size), np.zeros(fit.weights.size))
        at = _put_duals(out, at, fit, count)
    at = _put_bayes(out, at, part.bayes)
    at = _put_bayes(out, at, part.fast_bayes)
    for one, other in (
        (part.arbiter.losses, expected.arbiter.losses),
        (part.arbiter.trust, expected.arbiter.trust),
        (part.arbiter.guard, expected.arbiter.guard),
    ):
        at = put_numbers(out, at, one, other)
    return _put_forest(out, at, part)


def take_state(data: Any, at: int, state: Array, reference: Array) -> int:
    """Unpack into an open state of the sizes of the reference; the trees whose seeds are known are yet to be grown."""
    part, expected = parts_of(state), parts_of(reference)
    at = take_numbers(data, at, part.head, expected.head)
    kept = state[KEPT]
    if at < 0 or not (0.0 <= kept <= 2.0**53) or kept != np.floor(kept):
        return BAD
    for place in range(FEATURES, ROUNDS):
        if state[place] != reference[place]:
            return BAD
    count = min(int(kept), part.memory.labels.shape[0])
    begin = HEAD + part.memory.columns.shape[0] * SCALES
    at = take_numbers(data, at, state[HEAD:begin], reference[HEAD:begin])
    at = _take_memory(data, at, part.memory, count, part.student.shape[0])
    for one, other in ((part.source, expected.source), (part.student, expected.student)):
        at = take_numbers(data, at, one.reshape(one.size), other.reshape(other.size))
    for rows in (part.descent.teacher, part.descent.student):
        at = take_numbers(data, at, rows.reshape(rows.size), np.zeros(rows.size))
    for fit in (part.regression, part.fast_regression):
        at = take_numbers(data, at, fit.weights.reshape(fit.weights.size), np.zeros(fit.weights.size))
        at = _take_duals(data, at, fit, count)
    at = _take_bayes(data, at, part.bayes)
    at = _take_bayes(data, at, part.fast_bayes)
    for one, other in (
        (part.arbiter.losses, expected.arbiter.losses),
        (part.arbiter.trust, expected.arbiter.trust),
        (part.arbiter.guard, expected.arbiter.guard),
    ):
        at = take_numbers(data, at, one, other)
    return _take_forest(data, at, part, kept)


def label_size(classes: int) -> int:
    """How many bytes a label takes."""
    return 1 if classes <= 256 else 2


def _put_memory(out: Any, at: int, memory: Memory, count: int, classes: int) -> int:
    """The used rows, and their labels."""
    rows = memory.samples[:count].reshape(count * memory.samples.shape[1])
    at = put_numbers(out, at, rows, np.zeros(rows.shape[0]))
    for k in range(count):
        at = put_whole(out, at, int(memory.labels[k]), label_size(classes))
    return at


def _take_memory(data: Any, at: int, memory: Memory, count: int, classes: int) -> int:
    features = memory.samples.shape[1]
    at = take_numbers(data, at, memory.samples[:count].reshape(count * features), np.zeros(count * features))
    size = label_size(classes)
    if at < 0 or at + size * count > data.shape[0]:
        return BAD
    for k in range(count):
        label = take_whole(data, at, size)
        at += size
        if label >= classes:
            return BAD
        memory.labels[k] = float(label)
        for i in range(features):
            memory.columns[i, k] = memory.samples[k, i]
    return at


def _put_duals(out: Any, at: int, fit: Regression, count: int) -> int:
    """The duals; for two classes the second is nearly the first with the other sign, and its last bits are packed."""
    classes = fit.duals.shape[1]
    if classes != 2:
        return put_numbers(out, at, fit.duals[:count].reshape(count * classes), np.zeros(count * classes))
    at = put_numbers(out, at, fit.duals[:count, 0].copy(), np.zeros(count))
    opposite, second = (-fit.duals[:count, 0]).view(np.int64), fit.duals[:count, 1].copy().view(np.int64)
    for k in range(count):
        apart = second[k] - opposite[k]
        if -64 <= apart < 127:
            at = put_whole(out, at, apart + 64, 1)
        else:
            at = put_whole(out, at, 255, 1)
            at = put_whole(out, at, second[k], 8)
    return at


def _take_duals(data: Any, at: int, fit: Regression, count: int) -> int:
    classes = fit.duals.shape[1]
    if classes != 2:
        return take_numbers(data, at, fit.duals[:count].reshape(count * classes), np.zeros(count * classes))
    first, second = np.zeros(count), np.zeros(count, dtype=np.int64)
    at = take_numbers(data, at, first, np.zeros(count))
    opposite = (-first).view(np.int64)
    for k in range(count):
        if at < 0 or at >= data.shape[0]:
            return BAD
        apart = take_whole(data, at, 1)
        at += 1
        second[k] = opposite[k] + apart - 64
        if apart == 255:
            if at + 8 > data.shape[0]:
                return BAD
            second[k] = take_whole(data, at, 8)
            at += 8
    numbers = second.view(np.float64)
    for k in range(count):
        fit.duals[k, 0], fit.duals[k, 1] = first[k], numbers[k]
    return at


def _put_bayes(out: Any, at: int, bayes: Bayes) -> int:
    """Counts, means and variances; of what follows from them only what is different, such as a last bit."""
    for one in (bayes.counts, bayes.means.reshape(bayes.means.size), bayes.variances.reshape(bayes.variances.size)):
        at = put_numbers(out, at, one, np.zeros(one.shape[0]))
    again = Bayes(
        bayes.counts,
        bayes.means,
        bayes.variances,
        np.zeros_like(bayes.centres),
        np.zeros_like(bayes.precisions),
        np.zeros_like(bayes.constants),
    )
    settle(again)
    at = put_numbers(out, at, bayes.centres.reshape(bayes.centres.size), again.centres.reshape(bayes.centres.size))
    at = put_numbers(
        out, at, bayes.precisions.reshape(bayes.precisions.size), again.precisions.reshape(bayes.precisions.size)
    )
    return put_numbers(out, at, bayes.constants, again.constants)


def _take_bayes(data: Any, at: int, bayes: Bayes) -> int:
    for one in (bayes.counts, bayes.means.reshape(bayes.means.size), bayes.variances.reshape(bayes.variances.size)):
        at = take_numbers(data, at, one, np.zeros(one.shape[0]))
    if at < 0:
        return BAD
    settle(bayes)
    for one in (bayes.centres.reshape(bayes.centres.size), bayes.precisions.reshape(bayes.precisions.size)):
        at = take_numbers(data, at, one, one)
    return take_numbers(data, at, bayes.constants, bayes.constants)


def used_nodes(forest: Forest, tree: int) -> int:
    """How many nodes a tree has; the places after them hold what is left of earlier trees."""
    used, node = 1, 0
    while node < used:
        if forest.feature[tree, node] >= 0.0:
            used = max(used, int(forest.child[tree, node]) + 2)
        node += 1
    return used


def _put_forest(out: Any, at: int, part: PresetParts) -> int:
    forest, classes = part.forest, float(part.student.shape[0])
    at = put_numbers(out, at, forest.grown, np.zeros(TREES))
    at = put_numbers(out, at, forest.seeds, np.zeros(TREES))
    for tree in range(TREES):
        if forest.seeds[tree] == 0.0:
            used = used_nodes(forest, tree)
            at = put_whole(out, at, used, 2)
            at = put_numbers(out, at, forest.feature[tree, :used] + classes, np.zeros(used))
            at = put_numbers(out, at, forest.value[tree, :used], np.zeros(used))
            at = put_numbers(out, at, forest.child[tree, :used], np.zeros(used))
    return at


def _take_forest(data: Any, at: int, part: PresetParts, kept: float) -> int:
    """Children must come after their parents, so that every path down a tree ends inside the tree."""
    forest, classes = part.forest, float(part.student.shape[0])
    nodes, features = forest.feature.shape[1], part.student.shape[1] - 1
    at = take_numbers(data, at, forest.grown, np.zeros(TREES))
    at = take_numbers(data, at, forest.seeds, np.zeros(TREES))
    for tree in range(TREES):
        if at < 0 or not (0.0 <= forest.grown[tree] <= kept) or not (0.0 <= forest.seeds[tree] < 2147483647.0):
            return BAD
        forest.feature[tree, :] = -1.0
        if forest.seeds[tree] > 0.0:
            continue
        if at + 2 > data.shape[0]:
            return BAD
        used = take_whole(data, at, 2)
        if used < 1 or used > nodes:
            return BAD
        at = take_numbers(data, at + 2, forest.feature[tree, :used], np.zeros(used))
        at = take_numbers(data, at, forest.value[tree, :used], np.zeros(used))
        at = take_numbers(data, at, forest.child[tree, :used], np.zeros(used))
        for node in range(used):
            forest.feature[tree, node] -= classes
            feature, child = forest.feature[tree, node], forest.child[tree, node]
            if not (-classes <= feature < features) or (feature >= 0.0 and not (node < child <= used - 2)):
                return BAD
    return at
