"""The definition of a stream: blocks of samples, a labelled source to start from, and its true drift if known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osamd.errors import require_whole
from osamd.numerics import Array
from osamd.paper.losses import Loss

Labels = NDArray[np.int64]

BLOCK = 1024
"""Rounds per block; each block of a random stream has its own generator, so no draw depends on how it is read."""

_SOURCE, _STREAM, _QUERIES = 0, 1, 2


def query_generator(seed: int) -> np.random.Generator:
    """The generator of the uniforms that draw the queries; it is separate from those of the stream.

    Methods that are compared on one seed get the same samples and the same uniforms.
    """
    return np.random.default_rng([_QUERIES, seed])


@dataclass(frozen=True)
class Drift:
    """The true drift: the position of the concept in each round, and the rounds at which a new concept begins.

    `position` is an angle in radians for a rotation, and the share of the new concept (0 to 1) for a change that is
    abrupt, gradual or recurring. `inner` is the drift of the stream that the change was applied to.
    """

    kind: str
    position: Array
    changes: tuple[int, ...] = ()
    inner: Drift | None = None


class Stream(ABC):
    """Samples (x, y) in rounds; y is an index into `classes`."""

    name: str
    rounds: int
    features: int
    classes: tuple[Hashable, ...]

    @abstractmethod
    def blocks(self, seed: int) -> Iterator[tuple[Array, Labels]]:
        """The samples of all rounds in order, as blocks x (n x features) and y (n)."""

    @abstractmethod
    def source(self, count: int, seed: int) -> tuple[Array, Labels]:
        """Labelled samples from the first domain, for a learner to start from."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample for a network; a row of x is the flattened sample."""
        return (self.features,)

    @property
    def drift(self) -> Drift | None:
        """The true drift, if it is known."""
        return None

    def sample(self, seed: int) -> tuple[Array, Labels]:
        """All samples at once, for streams that fit in memory."""
        blocks = list(self.blocks(seed))
        return np.concatenate([x for x, _ in blocks]), np.concatenate([y for _, y in blocks])


class DrawnStream(Stream):
    """A stream that is drawn from a law P_t in each round."""

    @abstractmethod
    def draw(self, generator: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Array, Labels]:
        """One sample from P_t for each t in `rounds`."""

    def blocks(self, seed: int) -> Iterator[tuple[Array, Labels]]:
        for start in range(0, self.rounds, BLOCK):
            rounds = np.arange(start, min(start + BLOCK, self.rounds))
            yield self.draw(np.random.default_rng([_STREAM, seed, start // BLOCK]), rounds)

    def source(self, count: int, seed: int) -> tuple[Array, Labels]:
        count = require_whole("source", "count", count, 0)
        return self.draw(np.random.default_rng([_SOURCE, seed]), np.zeros(count, dtype=np.int64))


class ExactStream(DrawnStream):
    """A binary stream whose expected loss l_t(w) = E f(w; x, y) and its gradient are known, so its regret is exact."""

    @abstractmethod
    def expected_loss(self, loss: Loss, rounds: NDArray[np.int64], weights: Array) -> Array:
        """E phi(y w.x), without the L2 term, for one row of `weights` (bias last, or none) in each of `rounds`."""

    @abstractmethod
    def expected_gradient(self, loss: Loss, rounds: NDArray[np.int64], weights: Array) -> Array:
        """The gradient of `expected_loss` in the weights, one row per round."""

    @abstractmethod
    def rotation(self, rounds: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """(n x features x features): P_t is P_0 with x rotated by these matrices; None if no rotation relates them."""
