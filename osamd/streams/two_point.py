"""The stream of Theorem 2, on which no learner can keep up without queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osamd.errors import require_whole
from osamd.numerics import Array
from osamd.paper.losses import Loss
from osamd.streams.base import Drift, ExactStream, Labels


class TwoPoint(ExactStream):
    """x is (-1, 0) or (1, 0) with equal probability; the class of each changes halfway.

    At first (-1, 0) is of class +1; from round rounds/2 on it is of class -1. The law of x never changes, so unlabelled
    samples do not show it. With the hinge loss on the unit ball, w_t* is (-1, 0) and then (1, 0), with loss 0.
    """

    def __init__(self, rounds: int = 2000) -> None:
        self.name = "two-point"
        self.rounds = require_whole("TwoPoint", "rounds", rounds)
        self.features = 2
        self.classes = (-1, 1)

    def _orientation(self, rounds: NDArray[np.int64]) -> Array:
        """The sign of the class at (1, 0)."""
        return np.where(rounds < self.rounds // 2, -1.0, 1.0)

    @property
    def drift(self) -> Drift:
        position = 0.5 * (1.0 + self._orientation(np.arange(self.rounds)))
        return Drift("abrupt", position, (self.rounds // 2,))

    def draw(self, generator: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Array, Labels]:
        side = 2.0 * generator.integers(2, size=len(rounds)) - 1.0
        y = (side == self._orientation(rounds)).astype(np.int64)
        return self.draw_given(generator, rounds, y), y

    def draw_given(self, generator: np.random.Generator, rounds: NDArray[np.int64], y: Labels) -> Array:
        """The only x of each round and class."""
        side = np.where(y == 1, 1.0, -1.0) * self._orientation(rounds)
        return np.stack([side, np.zeros(len(rounds))], axis=1)

    def _margins(self, rounds: NDArray[np.int64], weights: Array) -> tuple[Array, Array]:
        """The labels (n x 2) of the points (-1, 0) and (1, 0) in each round, as signs, and their margins."""
        bias = weights[:, 2] if weights.shape[1] > 2 else np.zeros(len(weights))
        point = np.array([-1.0, 1.0])
        label = point * self._orientation(rounds)[:, None]
        return label, label * (weights[:, :1] * point + bias[:, None])

    def expected_loss(self, loss: Loss, rounds: NDArray[np.int64], weights: Array) -> Array:
        mean: Array = loss.value(self._margins(rounds, weights)[1]).mean(axis=1)
        return mean

    def expected_gradient(self, loss: Loss, rounds: NDArray[np.int64], weights: Array) -> Array:
        label, margins = self._margins(rounds, weights)
        slope = 0.5 * label * loss.slope(margins)
        gradient = np.zeros_like(weights)
        gradient[:, 0] = slope[:, 1] - slope[:, 0]
        if weights.shape[1] > 2:
            gradient[:, 2] = slope.sum(axis=1)
        return gradient

    def rotation(self, rounds: NDArray[np.int64]) -> Array:
        """A rotation by 180 degrees in the second half, which maps the first law to the second."""
        return -self._orientation(rounds)[:, None, None] * np.eye(2)
