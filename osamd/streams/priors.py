"""A change of P(Y): the classes become more or less frequent, and P(X | Y) stays the same."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osamd.errors import InputError, reject, require_kind, require_numbers
from osamd.numerics import Array
from osamd.streams.base import DrawnStream, Drift, Labels
from osamd.streams.changes import Schedule


@runtime_checkable
class DrawsGivenClass(Protocol):
    """A stream with classes of equal probability that can draw x from P_t(X | Y = y)."""

    def draw_given(self, generator: np.random.Generator, rounds: NDArray[np.int64], y: Labels) -> Array:
        """One x for each round and class index."""


class PriorShift(DrawnStream):
    """A stream whose class probabilities change from equal to `priors` on a schedule; P_t(X | Y) is that of the stream.

    The stream must be able to draw an x of a given class, as `Rotating` and `TwoPoint` are.

    >>> from osamd.streams import abrupt, rotating_gaussian
    >>> stream = PriorShift(rotating_gaussian(2000), [0.1, 0.9], abrupt(1000))
    >>> y = stream.sample(seed=0)[1]
    >>> round(float(y[:1000].mean()), 1), round(float(y[1000:].mean()), 1)
    (0.5, 0.9)
    """

    def __init__(self, stream: DrawnStream, priors: ArrayLike, schedule: Schedule) -> None:
        if not (isinstance(stream, DrawnStream) and isinstance(stream, DrawsGivenClass)):
            raise InputError(
                f"`PriorShift(stream={getattr(stream, 'name', stream)!r})`: the stream cannot draw an x of a given"
                " class; shift the priors of a Rotating or TwoPoint stream, and put other changes around that."
            )
        require_kind(
            "PriorShift", "schedule", schedule, Schedule, "use abrupt(at), gradual(start, stop) or recurring(n)"
        )
        new = require_numbers("PriorShift", "priors", priors)
        if new.shape != (len(stream.classes),) or not (new >= 0.0).all() or not abs(new.sum() - 1.0) <= 1e-9:
            rule = f"give one probability for each of the {len(stream.classes)} classes, with a sum of 1."
            raise reject("PriorShift", "priors", priors, rule)
        self.stream, self.priors, self.schedule = stream, new, schedule
        self._draw_given = stream.draw_given
        self.name = f"{stream.name}, priors shifted"
        self.rounds, self.features, self.classes = stream.rounds, stream.features, stream.classes

    def draw(self, generator: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Array, Labels]:
        share = self.schedule.share(rounds)[:, None]
        reached = np.cumsum((1.0 - share) / len(self.classes) + share * self.priors, axis=1)
        y = (generator.random((len(rounds), 1)) >= reached[:, :-1]).sum(axis=1)
        return self._draw_given(generator, rounds, y), y

    def source(self, count: int, seed: int) -> tuple[Array, Labels]:
        return self.stream.source(count, seed)

    @property
    def drift(self) -> Drift:
        """The share of the new priors, and the rounds at which it jumps or begins to rise or fall."""
        return self.schedule.drift(self.stream)
