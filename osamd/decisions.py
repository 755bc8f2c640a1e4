"""What a learner says of one sample, and what a model must do to be asked and told (see `osamd.asktell`)."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Set
from typing import Any, Protocol

import numpy as np

from osamd.budget import WITHHELD
from osamd.errors import InputError, reject, require_number, require_whole
from osamd.numerics import Array


class Core(Protocol):
    """A model with the book of its budget and the meter of its accuracy; both are vectors that it may keep anywhere."""

    book: Array
    meter: Array

    def observe(self, sample: Any, u: float) -> Any:
        """The first half of the round; the model stays, book and meter go on by a round.

        Says: the label (-1 where the sample cannot be used), whether it is a query, the pseudolabel, the teacher's
        margin, the probability of asking, which promise of the budget withheld it (an index of
        `osamd.budget.WITHHELD`), the guess of `osamd.honest` that the label is right, and the score of the parameters
        that decide (one number, or a vector of one a class). Classes are indices.
        """

    def peek(self, sample: Any) -> Any:
        """The same, with nothing counted."""

    def learn(self, y: int) -> Any:
        """The second half, for the sample observed last; y is a class index or UNLABELLED."""

    def confirm(self, t: int, probability: float, expected: float, decision: int, pseudolabel: int, y: int) -> Any:
        """The label of a query goes to the meter: `osamd.honest.confirm`."""

    def copied(self, sample: Any) -> Any:
        """The sample in memory of its own, of the one kind that the round is compiled for."""

    def last(self) -> Any:
        """A copy of the sample observed last."""

    def refusal(self, sample: Any) -> InputError:
        """Why `observe` gave a label below 0."""

    def probabilities(self, score: Any) -> list[float]:
        """Of the classes, from the score."""

    def stacked(self, samples: list[Any]) -> Array:
        """Kept samples as one array, to be saved."""

    def unstacked(self, samples: Array, i: int) -> Any:
        """The i-th of them again."""

    def arrays(self) -> dict[str, Array]:
        """All that the model has learned, by name, to be saved."""

    def restore(self, arrays: dict[str, Array]) -> None:
        """Take up what `arrays` gave."""


class Decision:
    """What the learner says of one x, before any label."""

    __slots__ = ("_closed", "_learner", "_sample", "_seen", "draw", "id")

    def __init__(self, number: int, seen: Any, learner: Any, draw: float, sample: Any = None) -> None:
        self.id = number
        """How many decisions the learner had made before; -1 for a peek."""
        self.draw = draw
        """The uniform that decided on the query: asked where it is below `probability`; nan for a peek."""
        self._seen = seen
        self._learner = learner
        self._sample = sample
        self._closed = ""

    @property
    def label(self) -> Any:
        """The decision: a class."""
        return self._learner._classes[self._seen[0]]

    @property
    def query(self) -> bool:
        """Whether the label is asked for."""
        return bool(self._seen[1])

    @property
    def pseudolabel(self) -> Any:
        """The teacher's opinion, or in the preset the mixture's."""
        return self._learner._classes[self._seen[2]]

    @property
    def margin(self) -> float:
        """The teacher's confidence: |H|, or best minus second-best score; in the preset the mixture's."""
        return float(self._seen[3])

    @property
    def probability(self) -> float:
        """Of asking, as it was before the draw: 0 where the budget withheld the query."""
        return float(self._seen[4])

    @property
    def withheld(self) -> str | None:
        """Why the budget did not allow a query: "rate", "window" or "max_labels"; None where it did."""
        return WITHHELD[self._seen[5]] or None

    @property
    def score(self) -> Any:
        """Of the parameters that decided: of a linear model for two classes one number, positive for the second; else a
        vector of one a class."""
        return self._seen[7]

    @property
    def probabilities(self) -> dict[Any, float]:
        """Of each class, from the score; a guide, and calibrated only where the loss is a likelihood."""
        told: dict[Any, float] = self._learner.probabilities_of(self._seen[7])
        return told

    @property
    def open(self) -> bool:
        """Whether it can still be told: it was neither told nor has it expired."""
        return not self._closed

    def __copy__(self) -> Decision:
        return self

    def __deepcopy__(self, memo: object) -> Decision:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a Decision belongs to its learner and does not travel; send its id, and tell that.")

    def __repr__(self) -> str:
        asked = "asks for the label" if self.query else f"withheld: {self.withheld}" if self.withheld else "no query"
        return f"<Decision {self.id}: {self.label!r}, margin {self.margin:.3g}, {asked}>"


def plain(value: Any) -> Any:
    """A number of numpy's as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def share_asked(budget: Any) -> float | None:
    """The budget that a user gave, a share of the rounds; None where there is none."""
    if budget is None:
        return None
    rule = "budget is a rate, the share of rounds whose label may be asked for: above 0, at most 1; 5 % is budget=0.05."
    return require_number("OSAMD", "budget", budget, lambda v: 0.0 < v <= 1.0, rule)


def known_classes(classes: Any) -> list[Any]:
    """The classes a user declared, as plain Python values: a number of them, or their names."""
    if isinstance(classes, numbers.Integral) and not isinstance(classes, bool):
        return list(range(require_whole("OSAMD", "classes", classes, 2)))
    rule = "classes must be two or more different names (text or numbers) in an order, or how many there are."
    if isinstance(classes, str | bytes | Set) or not isinstance(classes, Iterable):
        raise reject("OSAMD", "classes", classes, rule)
    names = [plain(name) for name in classes]
    usable = all(isinstance(name, str) or (isinstance(name, int | float) and math.isfinite(name)) for name in names)
    if not usable or len(set(names)) != len(names) or len(names) < 2:
        raise reject("OSAMD", "classes", classes, rule)
    return names
