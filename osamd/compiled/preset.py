"""The preset for ask and tell: the plain functions of `osamd.preset`, compiled, with the book and the meter."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numba
import numpy as np

from osamd import preset
from osamd.arbiter import POWER
from osamd.budget import enter, hasten, terms
from osamd.compiled.core import PEEK, Rows, confirming
from osamd.compiled.lowering import jit, lower
from osamd.errors import InputError
from osamd.honest import expect
from osamd.numerics import Array
from osamd.preset import learn, observe

KEPT = ("mean", "variance", "scale", "models", "kept", "labels", "counts", "centres", "spreads")
"""The places of the state that are saved; the others are of the last sample."""


class PresetCore(Rows):
    """The experts of the preset, for `osamd.asktell`."""

    def __init__(self, features: int, classes: int, book: Array, meter: Array) -> None:
        super().__init__(features)
        self._classes, self._state = classes, preset.open_state(features, classes)
        self._pseudolabel = 0
        hasten(book, on=True)
        self.book, self.meter = book, meter
        self._ask, self._tell = _halves()
        self.confirm: Callable[..., Any] = partial(confirming(), meter)

    def observe(self, sample: Array, u: float) -> Any:
        seen = self._ask(self._state, self.book, self.meter, sample, u)
        self._pseudolabel = seen[0]
        return *seen, self._score() if seen[0] >= 0 else math.nan

    def learn(self, y: int) -> None:
        self._tell(self._state, self._pseudolabel, y)

    def peek(self, sample: Array) -> Any:
        return self.observe(sample, PEEK)

    def last(self) -> Array:
        sample: Array = preset.places(self._state).x.copy()
        return sample

    def probabilities(self, score: Any) -> list[float]:
        logs = np.array([0.0, score]) if self._classes == 2 else np.asarray(score)
        shares = np.exp(logs - logs.max())
        return list((shares / shares.sum()).tolist())

    def weights(self, *, teacher: bool) -> Array:
        """The plain weights of the student, or of the slow teacher."""
        models = preset.places(self._state).models.reshape(preset.MODELS, -1, self.features + 1)
        held: Array = models[2 if teacher else 0].copy()
        return held[0] if self._classes == 2 else held

    def start(self, weights: Array) -> None:
        """Let the linear models begin here, where there is no more need to hurry for labels."""
        preset.begin(self._state, weights)
        hasten(self.book, on=False)

    def gather(self, rows: Array) -> None:
        """Begin the geometry with a table, as if its rows had come one after the other."""
        part = preset.places(self._state)
        for row in rows[-4 * int(preset.HORIZON) :]:
            part.x[:] = row
            preset.follow(self._state, part)
        if not np.isfinite(part.variance).all():
            raise InputError("`from_source(X=...)`: X holds numbers too large to be squared; scale its columns.")

    def restore(self, arrays: dict[str, Array]) -> None:
        super().restore(arrays)
        hasten(self.book, on=self._state[preset.BEHIND] == 0.0 and self._state[preset.KEPT] == 0.0)  # a book made anew

    def _places(self) -> dict[str, Array]:
        part = preset.places(self._state)
        return {"head": self._state[: preset.HEAD], **{name: getattr(part, name) for name in KEPT}}

    def _score(self) -> Any:
        """The logarithms of the mixture: for two classes the log odds of the second."""
        mixture = preset.places(self._state).shares[preset.EXPERTS * self._classes :]
        logs = np.log(np.maximum(mixture, 1e-300))
        return float(logs[1] - logs[0]) if self._classes == 2 else logs


@lru_cache
def _halves() -> tuple[Any, Any]:
    for helper in (terms, enter, expect, observe, learn):
        lower(helper)

    def ask(state: Any, book: Any, meter: Any, x: Any, u: Any) -> Any:
        sigma, floor, withheld = terms(book)
        label, query, margin, probability = observe(state, x, u, sigma, floor)
        expected = 0.0
        if label >= 0 and u >= 0.0:
            enter(book, margin**POWER, probability, query)
            expected = expect(meter, margin, probability, query, label, label)
        return label, query, label, margin, probability, withheld, expected

    def tell(state: Any, pseudolabel: Any, y: Any) -> Any:
        learn(state, pseudolabel, y)

    halves: tuple[Any, Any] = jit(ask), jit(tell)
    row, number, label = numba.types.float64[::1], numba.types.float64, numba.types.int64
    signatures = ((row, row, row, row, number), (row, label, label))
    for half, signature in zip(halves, signatures, strict=True):
        half.compile(signature)
        half.disable_compile()  # another kind of array is copied, which takes no seconds
    return halves
