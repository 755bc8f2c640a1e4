"""The state of the linear preset: one vector, and the views that name its parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from osamd.numerics import Array
from osamd.preset.arbiter import Arbiter, cut_arbiter, open_guard, open_trust
from osamd.preset.bayes import Bayes, cut_bayes, settle
from osamd.preset.forest import TREES, Forest, cut_forest
from osamd.preset.growing import Room, cut_room
from osamd.preset.memory import LEAST, MOST, Digest, Memory, cut_digest, cut_memory
from osamd.preset.mirror_descent import Descended, MirrorDescent, cut_descended, cut_descent, rows_for, start_descent
from osamd.preset.neighbours import Nearby, cut_nearby
from osamd.preset.regression import Regression, cut_regression
from osamd.preset.scale import FIRST_RENEWAL, Scale, cut_scale
from osamd.preset.views import Sizes, cut, named

EXPERTS = ("student", "regression", "fast regression", "bayes", "fast bayes", "neighbours", "forest")
"""The experts of the blend, in the order of their shares; the source, which never changes, is not among them."""
VOICES = (*EXPERTS, "osamd")
"""All whose shares the guard hears besides the source: the experts, and the paper's OSAMD."""
STUDENT, REGRESSION, FAST_REGRESSION, BAYES, FAST_BAYES, NEIGHBOURS, FOREST, OSAMD = range(len(VOICES))

FEATURES, CLASSES, CAPACITY, ROUNDS, KEPT, RENEWAL, SOURCED, VERIFIED, RATE, SEED, SHIFT = range(11)
"""Numbers at the head of the state: the three sizes; the numbers of rounds and labels learned from; the round at which
the held scale is renewed; whether there is a source (LINEAR or FOREIGN); the recent labels; the budget's rate; the
state of the forest's generator; how far the samples are from those of the source (NOT_YET: those are not known)."""
HEAD = 11
NOT_YET = -1.0
LINEAR, FOREIGN = 1.0, 2.0
"""The source is the linear model of the state, or a model elsewhere that writes its probabilities before each round."""
FIRST_SEED = 20_220_301.0
"""The seed of the forest's generator: any positive whole number below its modulus would do."""
UNKNOWN = -50.0
"""The bias of a class that the source has never seen: it never decides on that class."""


class PresetParts(NamedTuple):
    """Views of the state."""

    head: Any
    scale: Scale
    memory: Memory
    source: Any
    """The frozen source model: one row of weights per class, the bias last."""
    student: Any
    regression: Regression
    fast_regression: Regression
    bayes: Bayes
    fast_bayes: Bayes
    forest: Forest
    descent: MirrorDescent
    arbiter: Arbiter


class Work(NamedTuple):
    """Views of the vector that a round works in: what was observed last, and working space."""

    x: Any
    z: Any
    source: Any
    """The source's probabilities."""
    shares: Any
    """The probabilities of `VOICES`, one after the other."""
    opinions: Any
    """The same, one row each."""
    blend: Any
    trusted: Any
    mixture: Any
    """The mixture that decides."""
    digest: Digest
    nearby: Nearby
    leaves: Any
    descended: Descended
    scores: Any
    direction: Any
    room: Room


def cut_state(vector: Any, sizes: Sizes) -> Any:
    """All parts, and the length of the state."""
    weights = sizes.classes * (sizes.features + 1)
    head, at = cut(vector, 0, HEAD)
    scale, at = cut_scale(vector, at, sizes.features)
    memory, at = cut_memory(vector, at, sizes)
    source, at = cut(vector, at, weights)
    student, at = cut(vector, at, weights)
    regression, at = cut_regression(vector, at, sizes)
    fast_regression, at = cut_regression(vector, at, sizes)
    bayes, at = cut_bayes(vector, at, sizes)
    fast_bayes, at = cut_bayes(vector, at, sizes)
    forest, at = cut_forest(vector, at, sizes)
    descent, at = cut_descent(vector, at, sizes)
    arbiter, at = cut_arbiter(vector, at, len(EXPERTS), len(VOICES) - len(EXPERTS))
    shape = (sizes.classes, sizes.features + 1)
    parts = PresetParts(
        head,
        scale,
        memory,
        source.reshape(shape),
        student.reshape(shape),
        regression,
        fast_regression,
        bayes,
        fast_bayes,
        forest,
        descent,
        arbiter,
    )
    return parts, at


def cut_work(vector: Any, sizes: Sizes) -> Any:
    """All parts, and the length of the vector."""
    d, k = sizes.features, sizes.classes
    x, at = cut(vector, 0, d)
    z, at = cut(vector, at, d)
    source, at = cut(vector, at, k)
    shares, at = cut(vector, at, len(VOICES) * k)
    blend, at = cut(vector, at, k)
    trusted, at = cut(vector, at, k)
    mixture, at = cut(vector, at, k)
    digest, at = cut_digest(vector, at, sizes)
    nearby, at = cut_nearby(vector, at, sizes)
    leaves, at = cut(vector, at, TREES)
    descended, at = cut_descended(vector, at, sizes)
    scores, at = cut(vector, at, k)
    direction, at = cut(vector, at, d)
    room, at = cut_room(vector, at, sizes)
    work = Work(
        x,
        z,
        source,
        shares,
        shares.reshape((len(VOICES), k)),
        blend,
        trusted,
        mixture,
        digest,
        nearby,
        leaves,
        descended,
        scores,
        direction,
        room,
    )
    return work, at


def sizes_of(state: Any) -> Sizes:
    return Sizes(int(state[FEATURES]), int(state[CLASSES]), int(state[CAPACITY]))


def parts_of(state: Any) -> PresetParts:
    """The parts of the state."""
    parts: PresetParts = cut_state(state, sizes_of(state))[0]
    return parts


def work_of(work: Any, state: Any) -> Work:
    """The parts of the vector to work in."""
    parts: Work = cut_work(work, sizes_of(state))[0]
    return parts


class Ruler:
    """Stands in for a vector, to find out the length that a layout needs."""

    def __getitem__(self, part: slice) -> Ruler:
        return self

    def reshape(self, shape: tuple[int, ...]) -> Ruler:
        return self

    def view(self, dtype: type) -> Ruler:
        return self


def length(cutting: Any, sizes: Sizes) -> int:
    """The length of the vector that `cut_state` or `cut_work` divides."""
    return int(cutting(Ruler(), sizes)[1])


def open_state(features: int, classes: int, rate: float, capacity: int = LEAST) -> Array:
    """A state without any sample, for a budget of `rate`."""
    sizes = Sizes(features, classes, capacity)
    state = np.zeros(length(cut_state, sizes))
    state[FEATURES], state[CLASSES], state[CAPACITY] = sizes
    state[RENEWAL], state[RATE], state[SEED], state[SHIFT] = FIRST_RENEWAL, rate, FIRST_SEED, NOT_YET
    parts = parts_of(state)
    parts.scale.recent_inverse[:] = 1.0
    parts.scale.inverse[:] = 1.0
    parts.forest.feature[:] = -1.0
    settle(parts.bayes)
    settle(parts.fast_bayes)
    open_trust(parts.arbiter.trust)
    open_guard(parts.arbiter.guard, with_source=False)
    return state


def open_work(state: Array) -> Array:
    """A vector to work in, for a state of these sizes."""
    return np.zeros(length(cut_work, sizes_of(state)))


def begin(state: Array, weights: Array) -> None:
    """Make this linear model the source, and the start of the student: one row per class, the bias last."""
    parts = parts_of(state)
    parts.source[:] = weights
    parts.student[:] = weights
    start_descent(parts.descent, parts.scale, parts.student)
    state[SOURCED] = LINEAR
    open_guard(parts.arbiter.guard, with_source=True)


def begin_elsewhere(state: Array) -> None:
    """Let a model elsewhere be the source, which writes its probabilities into the work before each round."""
    state[SOURCED] = FOREIGN
    open_guard(parts_of(state).arbiter.guard, with_source=True)


def resized(state: Array, *, classes: int | None = None, capacity: int | None = None) -> Array:
    """The same state with room for more classes or more labelled samples."""
    before = sizes_of(state)
    after = Sizes(before.features, classes or before.classes, capacity or before.capacity)
    grown = open_state(*after[:2], float(state[RATE]), after.capacity)
    old, new = named(parts_of(state)), named(parts_of(grown))
    for name, part in old.items():
        if name != "head":
            new[name][tuple(slice(length) for length in part.shape)] = part
    if rows_for(before.classes) == 1 < rows_for(after.classes):  # one row for two classes becomes a row for each
        for name in ("descent.teacher", "descent.student"):
            new[name][0], new[name][1] = -0.5 * old[name][0], 0.5 * old[name][0]
    grown[:HEAD] = state[:HEAD]
    grown[CLASSES], grown[CAPACITY] = after.classes, after.capacity
    parts = parts_of(grown)
    if after.classes > before.classes:
        parts.source[before.classes :] = 0.0
        parts.source[before.classes :, -1] = UNKNOWN
        parts.student[before.classes :] = parts.student[: before.classes].mean(axis=0)
        parts.student[before.classes :, -1] -= 1.0
        settle(parts.bayes)
        settle(parts.fast_bayes)
    return grown


def widened(state: Array, features: int) -> Array:
    """The same state with room for more features, which were 0 in all samples so far."""
    before = sizes_of(state)
    grown = open_state(features, before.classes, float(state[RATE]), before.capacity)
    old, new = named(parts_of(state)), named(parts_of(grown))
    for name, part in old.items():
        if name != "head":
            new[name][tuple(slice(length) for length in part.shape)] = part
    models = ("source", "student", "regression.weights", "fast_regression.weights")
    for name in (*models, "descent.teacher", "descent.student"):
        new[name][:, before.features :] = 0.0
        new[name][:, -1] = old[name][:, -1]  # the bias stays last
    grown[:HEAD] = state[:HEAD]
    grown[FEATURES] = features
    parts = parts_of(grown)
    if state[RENEWAL] > FIRST_RENEWAL:
        parts.scale.inverse[before.features :] = 0.0  # as for every column that was constant when the scale was held
    settle(parts.bayes)
    settle(parts.fast_bayes)
    parts.forest.seeds[:] = 0.0  # with more features, the same seed would grow other trees
    return grown


def more_room(capacity: int) -> int:
    """The next capacity, once a memory of this capacity is full."""
    return min(2 * capacity, MOST)
