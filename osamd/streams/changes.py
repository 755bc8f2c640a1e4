"""Changes around any stream: abrupt, gradual or recurring, of the labels or of the features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osamd.errors import InputError, reject
from osamd.numerics import Array
from osamd.streams.base import Drift, Labels, Stream

Schedule = Callable[[NDArray[np.int64]], Array]
"""The share of the new concept in each round, 0 to 1."""

Change = Callable[[Array, Labels], tuple[Array, Labels]]
"""A sample of the old concept to one of the new."""

_CHANGE = 3  # beside the source, the stream and the queries of streams.base


def abrupt(at: int) -> Schedule:
    """All old before round `at`, all new from it on."""
    return lambda rounds: (rounds >= at).astype(np.float64)


def gradual(start: int, stop: int) -> Schedule:
    """The share of the new concept grows linearly from round `start` to `stop`; each round is one or the other."""
    if not start < stop:
        raise reject("gradual", "start, stop", (start, stop), "start must come before stop; use abrupt(at) for a jump.")
    return lambda rounds: np.clip((rounds - start) / (stop - start), 0.0, 1.0)


def recurring(period: int) -> Schedule:
    """Old and new take turns, `period` rounds each."""
    if period < 1:
        raise reject("recurring", "period", period, "a period is at least one round.")
    return lambda rounds: ((rounds // period) % 2).astype(np.float64)


def relabel(order: Sequence[int]) -> Change:
    """Class index i becomes order[i]: a change of P(Y | X).

    >>> flip = relabel([1, 0])
    >>> flip(np.zeros((2, 1)), np.array([0, 1]))[1].tolist()
    [1, 0]
    """
    if sorted(order) != list(range(len(order))):
        raise reject("relabel", "order", list(order), "give each class index once, as in [1, 0].")
    table = np.array(order, dtype=np.int64)
    return lambda x, y: (x, table[y])


def transform(matrix: ArrayLike = 1.0, shift: ArrayLike = 0.0) -> Change:
    """x becomes matrix x + shift: a change of P(X). A number or a vector as `matrix` scales the features."""
    a, b = np.asarray(matrix, dtype=np.float64), np.asarray(shift, dtype=np.float64)
    return lambda x, y: ((x @ a.T if a.ndim == 2 else x * a) + b, y)


class Changed(Stream):
    """A stream in which a change takes hold on a schedule.

    >>> from osamd.streams import rotating_gaussian
    >>> stream = Changed(rotating_gaussian(4000), relabel([1, 0]), abrupt(2000))
    >>> stream.drift.kind, stream.drift.changes
    ('change', (2000,))
    """

    def __init__(self, stream: Stream, change: Change, schedule: Schedule) -> None:
        self.stream, self.change, self.schedule = stream, change, schedule
        self.name = f"{stream.name}, changed"
        self.rounds, self.features, self.classes = stream.rounds, stream.features, stream.classes
        x, y = change(np.zeros((len(self.classes), self.features)), np.arange(len(self.classes)))
        if x.shape[1] != self.features or y.min() < 0 or y.max() >= len(self.classes):
            raise InputError(
                f"`Changed({stream.name!r}, ...)`: the change must keep the number of features and classes."
            )

    def blocks(self, seed: int) -> Iterator[tuple[Array, Labels]]:
        generator = np.random.default_rng([_CHANGE, seed])
        start = 0
        for x, y in self.stream.blocks(seed):
            new = generator.random(len(y)) < self.schedule(np.arange(start, start + len(y)))
            changed_x, changed_y = self.change(x, y)
            yield np.where(new[:, None], changed_x, x), np.where(new, changed_y, y)
            start += len(y)

    def source(self, count: int, seed: int) -> tuple[Array, Labels]:
        return self.stream.source(count, seed)

    @property
    def drift(self) -> Drift:
        """The share of the new concept, and the rounds at which it starts to move or jumps."""
        share = self.schedule(np.arange(self.rounds))
        still = np.concatenate([[True], np.diff(share) == 0.0])
        begins = np.flatnonzero(~still & np.concatenate([[True], still[:-1]]))
        return Drift("change", share, tuple(int(t) for t in begins))
