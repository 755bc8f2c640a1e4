"""Streams of recorded samples: a source first, then the rounds, and facts that are reported with every result."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osamd.errors import InputError, require_whole
from osamd.numerics import Array
from osamd.streams.base import BLOCK, Labels, Stream


class RealStream(Stream):
    """Samples of a real data set: the first `source_size` are the source, the next `rounds` are the stream.

    `facts` describes the samples, in values that can be written as JSON.
    """

    drawn_by_seed = False
    """Whether another seed gives other samples, or the same samples in another order."""

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        classes: tuple[Hashable, ...],
        source_size: int,
        rounds: int,
        facts: Mapping[str, Any],
    ) -> None:
        self.name = name
        self._shape = shape
        self.features = int(np.prod(shape))
        self.classes = classes
        self.source_size, self.rounds = source_size, rounds
        self.facts: dict[str, Any] = {**facts, "source_rows": source_size, "stream_rows": rounds}

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @abstractmethod
    def take(self, seed: int, start: int, stop: int) -> tuple[Array, Labels]:
        """Samples start, ..., stop - 1, counted from the first of the source."""

    def blocks(self, seed: int) -> Iterator[tuple[Array, Labels]]:
        end = self.source_size + self.rounds
        for start in range(self.source_size, end, BLOCK):
            yield self.take(seed, start, min(start + BLOCK, end))

    def source(self, count: int | None = None, seed: int = 0) -> tuple[Array, Labels]:
        """The first `count` samples of the source, all of them by default."""
        count = self.source_size if count is None else require_whole("source", "count", count, 0)
        if count > self.source_size:
            raise InputError(
                f"`source(count={count})`: the source of {self.name} has {self.source_size} samples; ask for no more."
            )
        return self.take(seed, 0, count)


class Recorded(RealStream):
    """Samples in one fixed order, whatever the seed; they are kept as small integers until `scaled` converts a block.

    >>> stream = Recorded(
    ...     "two", (1,), ("F", "M"), 1, {}, np.array([[0], [255], [51]]), np.array([0, 1, 1]), lambda raw: raw / 255.0
    ... )
    >>> stream.sample(seed=0)[0].tolist(), stream.source()[1].tolist()
    ([[1.0], [0.2]], [0])
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        classes: tuple[Hashable, ...],
        source_size: int,
        facts: Mapping[str, Any],
        raw: NDArray[Any],
        y: Labels,
        scaled: Callable[[NDArray[Any]], Array],
    ) -> None:
        super().__init__(name, shape, classes, source_size, len(y) - source_size, facts)
        self._raw, self._y, self._scaled = raw, y, scaled

    def take(self, seed: int, start: int, stop: int) -> tuple[Array, Labels]:
        return self._scaled(self._raw[start:stop]), self._y[start:stop]
