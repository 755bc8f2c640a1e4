"""A table without drift: its rows in one random order after another, for any number of rounds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osamd.errors import InputError, reject, require_whole
from osamd.numerics import Array
from osamd.streams.arrays import Arrays
from osamd.streams.base import Labels, Stream

MOST_WARMUP = 600
"""The most rows kept for the source if their number is not given; otherwise it is half of the rows."""

_SPLIT, _PASS = 7, 8  # generators apart from those of streams.base, streams.changes and streams.hardships


class Reshuffled(Stream):
    """The rows of a table, shuffled by the seed: `warmup` of them are the source, and the rest are the rounds.

    When all of the rest have been drawn they are shuffled and drawn again, so nothing drifts, however long the stream
    is. No row of the source comes back. By default `warmup` is half of the rows, but at most 600.

    >>> stream = Reshuffled([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"], rounds=6, warmup=1)
    >>> x, y = stream.sample(seed=0)
    >>> len(x), len(np.unique(x)), stream.source(1, seed=0)[0].item() in x
    (6, 3, False)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: Iterable[Hashable],
        rounds: int,
        *,
        warmup: int | None = None,
        classes: Sequence[Hashable] | None = None,
        name: str = "reshuffled",
    ) -> None:
        table = Arrays(x, y, classes=classes, name=name)
        self._x, self._y = table.sample(0)
        self.name, self.features, self.classes = name, table.features, table.classes
        self.rounds = require_whole("Reshuffled", "rounds", rounds)
        self.warmup = min(MOST_WARMUP, len(self._y) // 2)
        if warmup is not None:
            self.warmup = require_whole("Reshuffled", "warmup", warmup, 0)
        if self.warmup >= len(self._y):
            rule = f"the table has {len(self._y)} rows; leave at least one of them for the rounds."
            raise reject("Reshuffled", "warmup", warmup, rule)

    def blocks(self, seed: int) -> Iterator[tuple[Array, Labels]]:
        rest, left, number = self._order(seed)[self.warmup :], self.rounds, 0
        while left > 0:
            rows = np.random.default_rng([_PASS, seed, number]).permutation(rest)[:left]
            yield self._x[rows], self._y[rows]
            left, number = left - len(rows), number + 1

    def source(self, count: int, seed: int) -> tuple[Array, Labels]:
        count = require_whole("source", "count", count, 0)
        if count > self.warmup:
            raise InputError(f"`source(count={count})`: the stream keeps {self.warmup} warm-up rows; ask for no more.")
        rows = self._order(seed)[:count]
        return self._x[rows], self._y[rows]

    def _order(self, seed: int) -> NDArray[np.int64]:
        return np.random.default_rng([_SPLIT, seed]).permutation(len(self._y))


def still_digits(rounds: int = 2000) -> Reshuffled:
    """scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels, ten classes."""
    return _of_scikit_learn("digits", rounds)


def still_breast_cancer(rounds: int = 2000) -> Reshuffled:
    """scikit-learn's breast cancer table: 569 rows of 30 measurements, two classes."""
    return _of_scikit_learn("breast_cancer", rounds)


def still_wine(rounds: int = 2000) -> Reshuffled:
    """scikit-learn's wine table: 178 rows of 13 measurements, three classes."""
    return _of_scikit_learn("wine", rounds)


def _of_scikit_learn(name: str, rounds: int) -> Reshuffled:
    try:
        from sklearn import datasets  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError(f"`still_{name}`: the table comes with scikit-learn: pip install 'osamd[sklearn]'.") from error
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return Reshuffled(x, y, rounds, name=f"still-{name.replace('_', '-')}")
