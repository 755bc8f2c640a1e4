"""Changes that can be applied to any stream: abrupt, gradual or recurring, of the labels or of the features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osamd.errors import InputError, reject, require_finite, require_kind, require_numbers, require_whole
from osamd.numerics import Array
from osamd.paper.losses import Loss
from osamd.streams.base import Drift, ExactStream, Labels, Stream

Change = Callable[[Array, Labels], tuple[Array, Labels]]
"""Maps samples of the old concept to samples of the new one, many at once."""

_CHANGE = 3  # marks a generator apart from those of streams.base


class Schedule(NamedTuple):
    """The kind of a drift, and the share of the new concept in each round, from 0 to 1."""

    kind: str
    share: Callable[[NDArray[np.int64]], Array]

    def drift(self, stream: Stream) -> Drift:
        """The true drift of a stream with a change on this schedule; a ramp counts once, where it begins to rise or
        fall."""
        share = self.share(np.arange(stream.rounds))
        moves = np.sign(np.diff(share, prepend=share[:1]))
        begins = np.flatnonzero((moves != 0.0) & (moves != np.concatenate([[0.0], moves[:-1]])))
        return Drift(self.kind, share, tuple(begins.tolist()), stream.drift)


def abrupt(at: int) -> Schedule:
    """The old concept before round `at`, the new one from then on."""
    at = require_whole("abrupt", "at", at, 0)
    return Schedule("abrupt", lambda rounds: (rounds >= at).astype(np.float64))


def gradual(start: int, stop: int) -> Schedule:
    """The share of the new concept grows linearly from round `start` to `stop`; each round is of one or the other."""
    start, stop = require_whole("gradual", "start", start, 0), require_whole("gradual", "stop", stop, 0)
    if not start < stop:
        rule = "start must come before stop; use abrupt(at) for a jump."
        raise InputError(f"`gradual(start={start}, stop={stop})`: {rule}")
    return Schedule("gradual", lambda rounds: np.clip((rounds - start) / (stop - start), 0.0, 1.0))


def recurring(period: int) -> Schedule:
    """The old and the new concept alternate, `period` rounds each."""
    period = require_whole("recurring", "period", period)
    return Schedule("recurring", lambda rounds: ((rounds // period) % 2).astype(np.float64))


@dataclass(frozen=True, eq=False)
class Relabel:
    """A change of the labels; build one with `relabel`."""

    order: NDArray[np.int64]

    def __call__(self, x: Array, y: Labels) -> tuple[Array, Labels]:
        return x, self.order[y]

    def weights(self, features: int) -> Array:
        """The M of `ExactChanged`, for two classes: swapping the labels changes the sign of the score."""
        return np.eye(features + 1) * (1.0 if self.order[0] == 0 else -1.0)


@dataclass(frozen=True, eq=False)
class Transform:
    """An affine change of the features; build one with `transform`."""

    matrix: Array
    shift: Array

    def __call__(self, x: Array, y: Labels) -> tuple[Array, Labels]:
        return (x @ self.matrix.T if self.matrix.ndim == 2 else x * self.matrix) + self.shift, y

    def weights(self, features: int) -> Array:
        """The M of `ExactChanged`: w . (A x + b) + bias = (A^T w) . x + (b . w + bias)."""
        old = np.eye(features + 1)
        old[:features, :features] = self.matrix.T if self.matrix.ndim == 2 else np.eye(features) * self.matrix
        old[features, :features] = self.shift
        return old


def relabel(order: Sequence[int]) -> Relabel:
    """Class index i becomes order[i]: a change of P(Y | X).

    >>> flip = relabel([1, 0])
    >>> flip(np.zeros((2, 1)), np.array([0, 1]))[1].tolist()
    [1, 0]
    """
    table = require_numbers("relabel", "order", order)
    if table.ndim != 1 or len(table) == 0 or np.sort(table).tolist() != list(range(len(table))):
        raise reject("relabel", "order", order, "give each class index once, as in [1, 0].")
    return Relabel(table.astype(np.int64))


def transform(matrix: ArrayLike = 1.0, shift: ArrayLike = 0.0) -> Transform:
    """x becomes matrix x + shift: a change of P(X). A number or a vector as `matrix` scales the features."""
    found = []
    for argument, values, axes in (("matrix", matrix, 2), ("shift", shift, 1)):
        found.append(require_numbers("transform", argument, values))
        require_finite("transform", argument, found[-1])
        if found[-1].ndim > axes:
            raise InputError(f"`transform({argument}=...)`: it has shape {found[-1].shape}, more than {axes} axes.")
    return Transform(*found)


class Changed(Stream):
    """A stream that changes on a schedule; `changed` builds one with exact losses where possible.

    >>> from osamd.streams import rotating_gaussian
    >>> stream = Changed(rotating_gaussian(4000), relabel([1, 0]), abrupt(2000))
    >>> stream.drift.kind, stream.drift.changes, stream.drift.inner.kind
    ('abrupt', (2000,), 'rotation')
    """

    def __init__(self, stream: Stream, change: Change, schedule: Schedule) -> None:
        require_kind("Changed", "stream", stream, Stream, "use one such as rotating_gaussian() or Arrays(x, y)")
        require_kind("Changed", "schedule", schedule, Schedule, "use abrupt(at), gradual(start, stop) or recurring(n)")
        self.stream, self.change, self.schedule = stream, change, schedule
        self.name = f"{stream.name}, changed"
        self.rounds, self.features, self.classes = stream.rounds, stream.features, stream.classes
        self.depth: int = stream.depth + 1 if isinstance(stream, Changed) else 0
        if not self._fits():
            raise InputError(
                f"`Changed({stream.name!r}, ...)`: the change must be a function of x and y, such as relabel(order) or"
                f" transform(matrix, shift), and keep the number of features and classes, {self.features} and"
                f" {len(self.classes)} here."
            )

    def _fits(self) -> bool:
        """Whether the change maps samples of the stream to valid samples; no two axes of the probe have one length."""
        classes = len(self.classes)
        if isinstance(self.change, Relabel):
            return len(self.change.order) == classes
        y = np.arange(classes + self.features + 1) % classes
        try:
            new_x, new_y = self.change(np.zeros((len(y), self.features)), y)
            same = new_x.shape == (len(y), self.features) and new_y.shape == y.shape
        except (TypeError, ValueError, IndexError, AttributeError):
            return False
        return same and bool(((new_y >= 0) & (new_y < classes)).all())

    def _mixed(
        self, x: Array, y: Labels, generator: np.random.Generator, rounds: NDArray[np.int64]
    ) -> tuple[Array, Labels]:
        """Each sample, changed with a probability equal to the share of its round."""
        new = generator.random(len(y)) < self.schedule.share(rounds)
        changed_x, changed_y = self.change(x, y)
        return np.where(new[:, None], changed_x, x), np.where(new, changed_y, y)

    def blocks(self, seed: int) -> Iterator[tuple[Array, Labels]]:
        generator = np.random.default_rng([_CHANGE, seed, self.depth])  # changes within changes are independent
        start = 0
        for x, y in self.stream.blocks(seed):
            yield self._mixed(x, y, generator, np.arange(start, start + len(y)))
            start += len(y)

    def source(self, count: int, seed: int) -> tuple[Array, Labels]:
        return self.stream.source(count, seed)

    @property
    def drift(self) -> Drift:
        """The share of the new concept, and the rounds at which it jumps or begins to rise or fall."""
        return self.schedule.drift(self.stream)


class ExactChanged(Changed, ExactStream):
    """A changed stream whose expected loss is known: l_t(w) = (1 - s_t) l(w) + s_t l(M w), with s_t the share of the
    new concept.

    l is the expected loss of the original stream, and M maps weights w (bias last) to those that score an old x as w
    scores the new one. Build one with `changed`.
    """

    stream: ExactStream

    def __init__(self, stream: ExactStream, change: Relabel | Transform, schedule: Schedule) -> None:
        super().__init__(stream, change, schedule)
        self._old = change.weights(stream.features)

    def draw(self, generator: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Array, Labels]:
        return self._mixed(*self.stream.draw(generator, rounds), generator, rounds)

    def expected_loss(self, loss: Loss, rounds: NDArray[np.int64], weights: Array) -> Array:
        share, w = self._parts(rounds, weights)
        before, after = (self.stream.expected_loss(loss, rounds, v) for v in (w, w @ self._old.T))
        return (1.0 - share) * before + share * after

    def expected_gradient(self, loss: Loss, rounds: NDArray[np.int64], weights: Array) -> Array:
        share, w = self._parts(rounds, weights)
        before, after = (self.stream.expected_gradient(loss, rounds, v) for v in (w, w @ self._old.T))
        mixed: Array = (1.0 - share)[:, None] * before + share[:, None] * (after @ self._old)
        return mixed[:, : weights.shape[1]]

    def _parts(self, rounds: NDArray[np.int64], weights: Array) -> tuple[Array, Array]:
        """The shares, and the weights with a bias, which is zero if they have none."""
        bias = np.zeros((len(weights), self.features + 1 - weights.shape[1]))
        return self.schedule.share(rounds), np.hstack([weights, bias])

    def rotation(self, rounds: NDArray[np.int64]) -> None:
        return None


def changed(stream: Stream, change: Change, schedule: Schedule) -> Changed:
    """A stream that changes on a schedule; for `relabel` and `transform` it is exact if the original stream is.

    >>> from osamd.streams import TwoPoint
    >>> isinstance(changed(TwoPoint(100), transform(shift=[0.0, 1.0]), gradual(20, 60)), ExactStream)
    True
    """
    if isinstance(stream, ExactStream) and len(stream.classes) == 2 and isinstance(change, Relabel | Transform):
        return ExactChanged(stream, change, schedule)
    return Changed(stream, change, schedule)
