"""The linear preset for ask and tell: the plain functions of `osamd.preset`, compiled, with the book and the meter."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from osamd.accounting import book as books
from osamd.accounting.few_bytes import BAD
from osamd.accounting.meter import ROUNDS, widened
from osamd.accounting.steering import hasten
from osamd.checks import require_that
from osamd.errors import InputError, require_place
from osamd.learner.cores.block_playing import BlockQueries, Observations, observations, played
from osamd.learner.cores.compiled_packing import opened_state, packing
from osamd.learner.cores.preset_halves import COMPILED, NO_SAMPLE
from osamd.learner.cores.sample_rows import LinearSamples, confirming
from osamd.learner.decision import Observation
from osamd.learner.source import FrozenSource
from osamd.numerics import Array
from osamd.paper.scores import UNLABELLED
from osamd.preset import state as layout
from osamd.preset.memory import LEAST, MOST
from osamd.preset.mirror_descent import start_descent
from osamd.preset.pending import NEWEST_PENDING
from osamd.preset.scale import HORIZON
from osamd.preset.sound_state import CAPACITIES, check_capacity, check_state
from osamd.preset.views import named

_observation: Any = tuple.__new__  # what `Observation._make` does, less a call
NOTHING = -1
"""In the place of a pseudolabel: nothing is left to learn."""
FROM_SOURCE = MOST // 2
"""The most rows of the source that are remembered: half of the memory stays free for labels of the stream."""

NOT_ALWAYS_SAVED = (
    "forest.grown",
    "forest.seeds",
    "scale.source_mean",
    "scale.source_inverse",
    "descent.teacher",
    "descent.student",
)
"""Parts of the state that earlier files do not hold; 0 says that they are unknown, or have learned nothing."""
FORMER_HEAD = layout.SHIFT
"""The length of the head in files from before it held the shift of the samples."""
FORMER_GUARD = 2 + len(layout.EXPERTS)
"""The number of the guard's members in files from before the paper's OSAMD was one."""


class PresetCore(LinearSamples):
    """The default learner's experts and arbiter, for `osamd.learner.ask_tell`."""

    def __init__(self, features: int, classes: int, book: Array, meter: Array) -> None:
        super().__init__(features)
        rate = float(book[books.RATE])
        self._pseudolabel = 0
        self._take(layout.open_state(features, classes, rate))
        hasten(book, on=True)
        self.book, self.meter = book, meter
        self._waiting = np.zeros((0, features))
        self._compiled = COMPILED
        self._leafless = False  # whether the forest is yet to be grown again from its seeds
        self._foreign: FrozenSource | None = None
        self.confirm: Callable[..., Any] = partial(confirming(), meter)

    def _take(self, state: Array) -> None:
        self._vector, self._work = state, layout.open_work(state)
        self._owed = NOTHING
        self._seen = layout.work_of(self._work, state)
        self._classes, self._capacity = int(state[layout.CLASSES]), int(state[layout.CAPACITY])

    @property
    def _state(self) -> Array:
        """The state, once everything that was told has been learned."""
        self._learn_now()
        return self._vector

    def _learn_now(self, y: int = UNLABELLED, weight: float = 0.0) -> None:
        """Learn what is owed."""
        if self._owed != NOTHING:
            model = self._vector, self._work, self.book, self.meter, self._waiting
            self._compiled.turn(*model, self._seen.x, NO_SAMPLE, self._owed, y, weight)
            self._owed = NOTHING

    @property
    def _parts(self) -> layout.PresetParts:
        """All parts of the state; most learners never need them by name."""
        return layout.parts_of(self._state)

    def observe(self, sample: Array, u: float) -> Observation:
        if self._leafless:
            self._grow_again()
        if self._foreign is not None and len(sample) == self.features and np.isfinite(sample).all():
            self._learn_now()  # before it speaks about another sample
            self._seen.source[:] = self._foreign.probabilities(sample, self._classes)
        model = self._vector, self._work, self.book, self.meter, self._waiting
        seen = self._compiled.turn(*model, sample, u, self._owed, UNLABELLED, 0.0)
        self._owed, self._pseudolabel = NOTHING, seen[2]
        if self._classes > 2:  # compiled code that returns an array cannot be kept on disk
            seen = (*seen[:-1], np.log(np.maximum(self._seen.mixture, 1e-300)))
        observed: Observation = _observation(Observation, seen)
        return observed

    @property
    def in_blocks(self) -> bool:
        """Whether rounds can be played in blocks: a foreign source speaks before each round."""
        return self._foreign is None

    def play(self, rows: Array, draws: Array, pending: BlockQueries) -> tuple[Observations, list[int]]:
        """Rounds without labels: see `osamd.learner.blocks`."""
        if self._leafless:
            self._grow_again()
        model, newest = (self._state, self._work, self.book, self.meter), self._waiting[::-1]
        width = self._classes if self._classes > 2 else 1
        block = played(self._compiled.block, model, rows, draws, width, pending, newest, NEWEST_PENDING)
        score = block.scores[:, 0] if width == 1 else np.log(np.maximum(block.scores, 1e-300))
        seen = observations(block.numbers, score)
        if seen.label:
            self._pseudolabel = seen.pseudolabel[-1]
        return seen, block.expired_after

    def await_labels(self, samples: Iterable[Array]) -> None:
        newest = list(itertools.islice(samples, NEWEST_PENDING))
        self._waiting = np.array(newest) if newest else np.zeros((0, self.features))

    def learn(self, y: int, weight: float = 0.0) -> None:
        if y == UNLABELLED:
            self._owed = self._pseudolabel  # it is learned in the same call as the next decision
            return
        if self._state[layout.KEPT] >= self._capacity < MOST:
            before = named(self._seen)
            self._take(layout.resized(self._state, capacity=layout.more_room(self._capacity)))
            for name, place in named(self._seen).items():
                if place.shape == before[name].shape:  # what is longer now is working space
                    place[:] = before[name]
        self._owed = self._pseudolabel
        self._learn_now(y, weight)

    def last(self) -> Array:
        sample: Array = self._seen.x.copy()
        return sample

    def probabilities(self, score: Any) -> list[float]:
        if type(score) is float or np.ndim(score) == 0:  # two classes: numpy would take ten times as long
            less = math.exp(-abs(score))
            low, high = less / (1.0 + less), 1.0 / (1.0 + less)
            return [low, high] if score > 0.0 else [high, low]
        logs = np.asarray(score)
        shares = np.exp(logs - logs.max())
        return list((shares / shares.sum()).tolist())

    def weights(self, *, teacher: bool) -> Array:
        """The weights of the student, or of the regression over the whole memory, for unscaled features.

        For two classes it is one row, whose score is positive for the second class.
        """
        parts = self._parts
        held: Array = parts.student.copy()
        if teacher:
            held = parts.regression.weights.copy()
            held[:, :-1] *= parts.scale.inverse
            held[:, -1] -= held[:, :-1] @ parts.scale.centre
        return held[1] - held[0] if self._classes == 2 else held

    def start(self, weights: Array) -> None:
        """Let this model be the source; the first labels are then not urgent."""
        layout.begin(self._state, np.stack([-0.5 * weights, 0.5 * weights]) if self._classes == 2 else weights)
        hasten(self.book, on=False)
        if self._foreign is not None:
            self.start_elsewhere(self._foreign)

    def start_elsewhere(self, source: FrozenSource) -> None:
        """Let this model be the source, which stays as it is; the student keeps its start."""
        self._foreign = source
        layout.begin_elsewhere(self._state)
        hasten(self.book, on=False)

    def gather(self, rows: Array) -> None:
        """Start the scale from the last rows of a table."""
        self._compiled.gather(self._state, self._work, np.ascontiguousarray(rows[-4 * int(HORIZON) :]))
        if not np.isfinite(self._parts.scale.variance).all():
            raise InputError("`from_source(X=...)`: X holds numbers too large to be squared; scale its columns.")

    def remember(self, rows: Array, labels: Array) -> None:
        """Teach the experts rows of the source, evenly spread over the table."""
        chosen = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), FROM_SOURCE)).astype(np.int64))
        capacity = self._capacity
        while capacity < len(chosen):
            capacity = layout.more_room(capacity)
        self._take(layout.resized(self._state, capacity=capacity))
        self._compiled.remember(
            self._state, self._work, np.ascontiguousarray(rows[chosen]), labels[chosen].astype(np.int64)
        )

    @property
    def state(self) -> Array:
        """A copy of the state, as `osamd.preset.state` divides it."""
        self._grow_again()
        return self._state.copy()

    def like_the_stream(self, generator: np.random.Generator, count: int) -> Array:
        """Samples like those of the stream, as far as the state tells: normal, but every second next to a remembered
        sample."""
        parts, kept = self._parts, min(int(self._state[layout.KEPT]), self._capacity)
        deviation = np.divide(1.0, parts.scale.inverse, where=parts.scale.inverse > 0.0, out=np.ones(self.features))
        z = generator.normal(size=(count, self.features))
        if kept:
            chosen = generator.integers(kept, size=len(z[::2]))
            z[::2] = parts.memory.samples[chosen] + 0.1 * z[::2]
        samples: Array = parts.scale.centre + z * deviation
        return samples

    def add_class(self) -> None:
        """Make room for a new class, here and in the meter; observe again before learning."""
        self._take(layout.resized(self._state, classes=self._classes + 1))
        self.meter = widened(self.meter, self._classes)
        self.confirm = partial(confirming(), self.meter)

    def arrays(self) -> dict[str, Array]:
        self._grow_again()
        return super().arrays()

    def restore(self, arrays: dict[str, Array]) -> None:
        if "scale.centre" not in arrays:
            raise InputError(
                "`load(...)`: the file holds the default learner of an earlier version, which had other experts;"
                " load it with the osamd that wrote it, or make a new learner with from_source."
            )
        if len(arrays.get("head", ())) == FORMER_HEAD:
            arrays = arrays | {"head": np.append(arrays["head"], layout.NOT_YET)}
        if len(arrays.get("arbiter.guard", ())) == FORMER_GUARD:  # a new member starts with no weight, and gains it
            arrays = arrays | {"arbiter.guard": np.append(arrays["arbiter.guard"], 0.0)}
        head = require_place(arrays, "head", (layout.HEAD,))
        self._take(layout.resized(self._state, capacity=check_capacity(head)))
        sizes = self._state[: layout.ROUNDS].copy()
        for name, place in named(self._parts).items():
            if name in arrays or name not in NOT_ALWAYS_SAVED:
                place[:] = require_place(arrays, name, place.shape)
        if "descent.teacher" not in arrays:  # a file from before the paper's OSAMD was a member
            start_descent(self._parts.descent, self._parts.scale, self._parts.student)
        require_that(self._state[: layout.ROUNDS] == sizes, f"head holds the sizes {head[: layout.ROUNDS].tolist()}")
        self.check()
        self._state[layout.RATE] = self.book[books.RATE]
        sourced, kept = self._state[layout.SOURCED] > 0.0, self._state[layout.KEPT] > 0.0
        hasten(self.book, on=not sourced and not kept)  # for a book that was just opened

    def _places(self) -> dict[str, Array]:
        return named(self._parts)

    def size(self) -> int:
        """The most numbers that `packed` writes."""
        return len(self._state)

    def packed(self, out: Any, at: int) -> int:
        """Write what has been learned as few bytes; returns where they end."""
        out[at] = (self._capacity // LEAST).bit_length() - 1
        opened = opened_state(self.features, self._classes, float(self._state[layout.RATE]), self._capacity)
        return int(packing().put_state(out, at + 1, self._state, opened))

    def twin(self, classes: int, book: Array, meter: Array) -> PresetCore:
        """A core for the same samples that has learned nothing, with the book and the meter as they are."""
        other = copy.copy(self)
        other.book, other.meter, other._classes, other._pseudolabel = book, meter, classes, 0
        other._waiting = np.zeros((0, self.features))
        other.confirm = partial(confirming(), meter)
        return other

    def unpack(self, data: Any, at: int) -> int:
        """Take up what `packed` wrote; returns where it ends, or BAD. The first sample makes the forest grow again."""
        if at >= len(data) or data[at] >= len(CAPACITIES):
            return BAD
        opened = opened_state(self.features, self._classes, float(self.book[books.RATE]), LEAST << int(data[at]))
        state = np.zeros(len(opened))
        state[: layout.HEAD] = opened[: layout.HEAD]
        at = int(packing().take_state(data, at + 1, state, opened))
        if at >= 0:
            self._take(state)
            self._leafless = True
        return at

    def check(self) -> None:
        """Refuse a state that cannot belong to a learner."""
        check_state(self._parts, int(self.meter[ROUNDS]))
        foreign = self._state[layout.SOURCED] == layout.FOREIGN
        require_that(foreign == (self._foreign is not None), "its head and its source model do not fit together")

    def _grow_again(self) -> None:
        """Grow the forest of a state that was just read."""
        if self._leafless:
            packing().grow_again(self._state, self._work)
            self._leafless = False
