"""Hardships for any stream: wrong labels, a rare class, and irrelevant, unscaled, trending or outlying features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osamd.errors import (
    InputError,
    reject,
    require_finite,
    require_kind,
    require_number,
    require_numbers,
    require_positive,
    require_whole,
)
from osamd.numerics import Array
from osamd.streams.base import DrawnStream, Drift, Labels, Stream

_HARDSHIP, _HARDSHIP_SOURCE, _UNITS = 4, 5, 6  # generators apart from those of streams.base and streams.changes

STREAM = "use one such as rotating_gaussian() or Arrays(x, y)"


class Draws(NamedTuple):
    """What a hardship knows about the samples that it is applied to."""

    rounds: NDArray[np.int64]
    """Their rounds; source samples come before the stream and have negative rounds."""
    generator: np.random.Generator
    fixed: Any
    """What `Hardship.fixed` returned for the seed."""


class Hardship(Stream):
    """What the wrappers here share: rounds, classes and drift are those of the original stream.

    A hardship draws a fixed number of values per round from one generator, whatever the blocks of the stream are. Each
    wrapper has its own generator, which depends on its depth.
    """

    def __init__(self, stream: Stream, name: str, features: int = 0) -> None:
        require_kind(type(self).__name__, "stream", stream, Stream, STREAM)
        self.stream = stream
        self.name = f"{stream.name}, {name}"
        self.rounds, self.features, self.classes = stream.rounds, stream.features + features, stream.classes
        self.depth = _wrappers(stream)

    @abstractmethod
    def hardened(self, x: Array, y: Labels, draws: Draws) -> tuple[Array, Labels]:
        """Samples of the original stream, with the hardship applied."""

    def fixed(self, seed: int) -> Any:
        """What all rounds of a seed share; None unless a hardship overrides it."""

    def truth(self, seed: int) -> Labels:
        """The true labels of all rounds, to measure accuracy against."""
        within = self.stream
        return within.truth(seed) if isinstance(within, Hardship) else within.sample(seed)[1]

    def blocks(self, seed: int) -> Iterator[tuple[Array, Labels]]:
        generator, fixed, first = np.random.default_rng([_HARDSHIP, seed, self.depth]), self.fixed(seed), 0
        for x, y in self.stream.blocks(seed):
            yield self.hardened(x, y, Draws(np.arange(first, first + len(y)), generator, fixed))
            first += len(y)

    def source(self, count: int, seed: int) -> tuple[Array, Labels]:
        x, y = self.stream.source(count, seed)
        generator = np.random.default_rng([_HARDSHIP_SOURCE, seed, self.depth])
        return self.hardened(x, y, Draws(np.arange(-len(y), 0), generator, self.fixed(seed)))

    @property
    def drift(self) -> Drift | None:
        return self.stream.drift


class NoisyLabels(Hardship):
    """A stream in which a share of the labels is wrong: one of the other classes, all equally probable.

    A query is answered with the wrong label, and the source has wrong labels too; `truth` gives the right ones. Apply
    it outside of changes, not inside them: a change does not keep the truth.

    >>> from osamd.streams import rotating_gaussian
    >>> stream = NoisyLabels(rotating_gaussian(2000), share=0.1)
    >>> wrong = stream.sample(seed=0)[1] != stream.truth(seed=0)
    >>> round(float(wrong.mean()), 2)
    0.1
    """

    def __init__(self, stream: Stream, share: float) -> None:
        super().__init__(stream, "noisy labels")
        rule = "share is the share of wrong labels: a number between 0 and 1."
        self.share = require_number("NoisyLabels", "share", share, lambda v: 0.0 <= v <= 1.0, rule)

    def hardened(self, x: Array, y: Labels, draws: Draws) -> tuple[Array, Labels]:
        drawn, which = draws.generator.random((len(y), 2)).T
        classes = len(self.classes)
        other = (y + 1 + (which * (classes - 1)).astype(np.int64)) % classes
        return x, np.where(drawn < self.share, other, y)


class IrrelevantFeatures(Hardship):
    """A stream with `count` additional features, standard normal and independent of everything; they come last.

    >>> from osamd.streams import rotating_gaussian
    >>> IrrelevantFeatures(rotating_gaussian(2000), count=20).sample(seed=0)[0].shape
    (2000, 22)
    """

    def __init__(self, stream: Stream, count: int) -> None:
        self.count = require_whole("IrrelevantFeatures", "count", count)
        super().__init__(stream, "irrelevant features", self.count)

    def hardened(self, x: Array, y: Labels, draws: Draws) -> tuple[Array, Labels]:
        return np.hstack([x, draws.generator.standard_normal((len(x), self.count))]), y


class UnscaledFeatures(Hardship):
    """A stream whose features are measured in other units: x * scale + shift, with one scale and one shift per feature.

    If they are not given, the seed draws them once for all rounds: scale = 10^u with u uniform in [-3, 3],
    and shift = 10 scale n with n standard normal.

    >>> from osamd.streams import rotating_gaussian
    >>> x, _ = UnscaledFeatures(rotating_gaussian(2000), scale=[1000.0, 0.001]).sample(seed=0)
    >>> x.std(axis=0).round(3).tolist()
    [8060.777, 0.005]
    """

    def __init__(self, stream: Stream, scale: ArrayLike | None = None, shift: ArrayLike | None = None) -> None:
        super().__init__(stream, "unscaled features")
        self.scale, self.shift = self._given("scale", scale), self._given("shift", shift)
        if self.scale is not None and not (self.scale != 0.0).all():
            raise reject("UnscaledFeatures", "scale", scale, "a scale of 0 removes a feature; give other scales.")

    def _given(self, argument: str, values: ArrayLike | None) -> Array | None:
        if values is None:
            return None
        numbers = require_numbers("UnscaledFeatures", argument, values).copy()
        require_finite("UnscaledFeatures", argument, numbers)
        if numbers.shape != (self.features,):
            rule = f"give one number for each of the {self.features} features, or leave it out to have them drawn."
            raise reject("UnscaledFeatures", argument, values, rule)
        return numbers

    def fixed(self, seed: int) -> tuple[Array, Array]:
        return self.units(seed)

    def units(self, seed: int) -> tuple[Array, Array]:
        """The scale and the shift of each feature for this seed; if only a scale is given, the shift is 0."""
        generator = np.random.default_rng([_UNITS, seed, self.depth])
        drawn = 10.0 ** generator.uniform(-3.0, 3.0, self.features)
        away = 10.0 * drawn * generator.standard_normal(self.features)
        scale = drawn if self.scale is None else self.scale
        shift = away if self.scale is None else np.zeros(self.features)
        return scale, shift if self.shift is None else self.shift

    def hardened(self, x: Array, y: Labels, draws: Draws) -> tuple[Array, Labels]:
        scale, shift = draws.fixed
        return x * scale + shift, y


class TrendingColumn(Hardship):
    """A stream with one additional feature that grows by `step` per round, like a counter, an id or a date; it comes
    last.

    It is 0 in the first round; the rows of the source come before, one per round. It says nothing about the class.

    >>> from osamd.streams import rotating_gaussian
    >>> stream = TrendingColumn(rotating_gaussian(2000), step=0.5)
    >>> stream.sample(seed=0)[0][:3, 2].tolist(), stream.source(2, seed=0)[0][:, 2].tolist()
    ([0.0, 0.5, 1.0], [-1.0, -0.5])
    """

    def __init__(self, stream: Stream, step: float = 1.0) -> None:
        super().__init__(stream, "a trending column", 1)
        rule = "step is the growth of the column per round: a finite number other than 0."
        self.step = require_number("TrendingColumn", "step", step, lambda v: 0.0 < abs(v) < float("inf"), rule)

    def hardened(self, x: Array, y: Labels, draws: Draws) -> tuple[Array, Labels]:
        return np.column_stack([x, self.step * draws.rounds]), y


class Outliers(Hardship):
    """A stream in which a `share` of the cells are outliers, up or down by `size` standard deviations of their feature.

    The cells are drawn independently. The deviation of a feature is taken over all rounds of the original stream, which
    are held in memory for it.

    >>> from osamd.streams import rotating_gaussian
    >>> x, _ = Outliers(rotating_gaussian(2000), share=0.005).sample(seed=0)
    >>> astray = np.abs(x) > 1000.0
    >>> bool(0.003 < astray.mean() < 0.007)
    True
    """

    def __init__(self, stream: Stream, share: float = 0.005, size: float = 10_000.0) -> None:
        super().__init__(stream, "outliers")
        rule = "share is the share of cells that are outliers: a number between 0 and 1."
        self.share = require_number("Outliers", "share", share, lambda v: 0.0 <= v <= 1.0, rule)
        self.size = require_positive("Outliers", "size", size)

    def fixed(self, seed: int) -> Array:
        deviations: Array = self.stream.sample(seed)[0].std(axis=0)
        return deviations

    def hardened(self, x: Array, y: Labels, draws: Draws) -> tuple[Array, Labels]:
        drawn, side = np.moveaxis(draws.generator.random((len(x), 2, self.features)), 1, 0)
        away = np.where(side < 0.5, -self.size, self.size) * draws.fixed
        return x + np.where(drawn < self.share, away, 0.0), y


class RareClass(DrawnStream):
    """A stream that keeps one in `ratio` samples of the class with index `rare`, and draws new samples for the others.

    Each round is drawn from the stream's P_t, thinned: two equally probable classes become 20 : 1 with a ratio of 20.
    The round stays the same, and so does the drift. Only a stream that is drawn from a law can give another sample of
    the same round, so apply other hardships outside of this one.

    >>> from osamd.streams import rotating_gaussian
    >>> y = RareClass(rotating_gaussian(2000), rare=1, ratio=20).sample(seed=0)[1]
    >>> bool(0.03 < y.mean() < 0.06)
    True
    """

    def __init__(self, stream: DrawnStream, rare: int = 1, ratio: float = 20.0) -> None:
        if not isinstance(stream, DrawnStream):
            raise InputError(
                f"`RareClass(stream={getattr(stream, 'name', stream)!r})`: the stream cannot draw another sample of"
                " a round; thin a class of rotating_gaussian() or the like, and put other wrappers around that; of"
                " arrays, leave out rows."
            )
        self.rare = require_whole("RareClass", "rare", rare, 0)
        if self.rare >= len(stream.classes):
            raise reject("RareClass", "rare", rare, f"give the index of a class, 0 to {len(stream.classes) - 1}.")
        rule = "one in `ratio` samples is kept: give a finite number of at least 1."
        self.ratio = require_number("RareClass", "ratio", ratio, lambda v: 1.0 <= v < float("inf"), rule)
        self.stream = stream
        self.name = f"{stream.name}, a rare class"
        self.rounds, self.features, self.classes = stream.rounds, stream.features, stream.classes

    def draw(self, generator: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Array, Labels]:
        x, y = self.stream.draw(generator, rounds)
        x, y = x.copy(), y.copy()
        left = np.arange(len(rounds))
        while len(left):
            left = left[(y[left] == self.rare) & (generator.random(len(left)) * self.ratio >= 1.0)]
            if len(left):
                x[left], y[left] = self.stream.draw(generator, rounds[left])
        return x, y

    @property
    def drift(self) -> Drift | None:
        return self.stream.drift


def _wrappers(stream: Any) -> int:
    """How many streams this one wraps."""
    within = getattr(stream, "stream", None)
    return 0 if within is None else 1 + _wrappers(within)
