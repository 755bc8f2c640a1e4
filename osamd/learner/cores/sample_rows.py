"""What the cores of linear models share: how a sample becomes a row of numbers, and how a label enters the meter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from osamd.accounting.meter import confirm
from osamd.compiled.lowering import jit, lower
from osamd.errors import ENCODE, LONGEST, InputError, require_numbers
from osamd.numerics import Array


class LinearSamples(ABC):
    """What the cores of linear models share: their samples are rows of a fixed number of features."""

    book: Array
    meter: Array
    too_large = "x holds numbers that are too large for the model; leave them out or scale them down."

    def __init__(self, features: int) -> None:
        self.features = features

    def copied(self, sample: Array) -> Array:
        return np.array(require_numbers("ask", "x", sample, remedy=ENCODE))

    def refusal(self, sample: Array) -> InputError:
        if len(sample) != self.features:
            return InputError(
                f"`ask(x=...)`: x has {len(sample)} numbers; the model takes {self.features}, one per feature."
            )
        if not np.isfinite(sample).all():
            return InputError(
                f"`ask(x=...)`: x holds {str(sample.tolist())[:LONGEST]}; features must be finite, so fill or drop"
                " missing values first."
            )
        return InputError(f"`ask(x=...)`: {self.too_large}")

    def await_labels(self, samples: Iterable[Array]) -> None:  # noqa: B027
        """Most models ask without regard to the labels that are pending."""

    def stacked(self, samples: list[Array]) -> Array:
        return np.array(samples)

    def unstacked(self, samples: Array, i: int) -> Array:
        sample: Array = samples[i].copy()
        return sample

    def arrays(self) -> dict[str, Array]:
        return {name: place.copy() for name, place in self._places().items()}

    def no_samples(self) -> Array:
        """An empty stack of samples."""
        return np.zeros((0, self.features))

    @abstractmethod
    def restore(self, arrays: dict[str, Array]) -> None:
        """Check and restore what `arrays` returned."""

    @abstractmethod
    def _places(self) -> dict[str, Array]:
        """What has been learned, by name, as views that can be saved and restored."""


@lru_cache
def confirming() -> Any:
    """`osamd.accounting.accuracy.confirm`, compiled."""
    lower(confirm)

    def enter_label(
        meter: Any, t: Any, probability: Any, expected: Any, decision: Any, pseudolabel: Any, y: Any
    ) -> Any:
        confirm(meter, t, probability, expected, decision, pseudolabel, y)

    return jit(enter_label)
