"""What a learner says of one sample, what a model must do to be asked and told, and how a round is counted.

Every core decides by a function of its own, and `counting` puts the budget and the meter around it, once for all of
them: the terms of the query, the decision, the entry in the book, the expectation of the meter. What it takes and
returns is plain, so that it is compiled together with the decision where that is compiled.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Set
from typing import Any, NamedTuple, Protocol

import numpy as np

from osamd.accounting.book import WITHHELD, terms
from osamd.accounting.meter import NO_SOURCE, NOT_GIVEN, expect
from osamd.accounting.steering import enter
from osamd.errors import InputError, reject, require_number, require_whole
from osamd.numerics import Array

PEEK = -1.0
"""In place of a uniform: observe, and count nothing."""


NO_NAMES = ("", "nan", "<na>", "nat")
"""Text, in small letters, that stands for a missing value and is taken for no new class."""


class Said(NamedTuple):
    """What a model says of a sample, before the round is counted. Classes are indices."""

    label: int
    """The decision; -1 where the sample cannot be used."""
    query: bool
    pseudolabel: int
    margin: float
    probability: float
    """The probability of asking, as it was before the draw."""
    confidence: float
    """What the rule of the query takes for the margin."""
    source: int
    """What the source model, left as it was, decides; NO_SOURCE where there is none."""
    disagreement: float
    """The weight of the experts that hold another class than the decision; NOT_GIVEN where there are none."""


class Observation(NamedTuple):
    """What a core's `observe` says of a sample. Classes are indices."""

    label: int
    """The decision; -1 where the sample cannot be used."""
    query: bool
    pseudolabel: int
    margin: float
    probability: float
    """The probability of asking, as it was before the draw."""
    withheld: int
    """Which promise of the budget withheld the query: an index of `osamd.accounting.book.WITHHELD`."""
    expected: float
    """What the meter's `expect` gave, for its `confirm`."""
    score: Any
    """The score of what decides: one number for two classes, or a vector of one per class."""


def refused() -> Said:
    """What a model says of a sample that it cannot use."""
    return Said(-1, False, 0, 0.0, 0.0, 0.0, NO_SOURCE, NOT_GIVEN)


def counting(decide: Callable[..., Any]) -> Callable[..., Any]:
    """The first half of a round around `decide(model, x, u, sigma, floor)`, which gives a `Said`.

    It returns all that an `Observation` holds but the score, which is no number that every core could return compiled.
    """

    def count(model: Any, book: Any, meter: Any, x: Any, u: Any) -> Any:
        sigma, floor, withheld = terms(book)
        said = decide(model, x, u, sigma, floor)
        expected = 0.0
        if said.label >= 0 and u >= 0.0:
            enter(book, said.confidence, said.probability, said.query)
            expected = expect(
                meter,
                said.margin,
                said.probability,
                said.query,
                said.label,
                said.pseudolabel,
                said.source,
                said.disagreement,
            )
        return said.label, said.query, said.pseudolabel, said.margin, said.probability, withheld, expected

    return count


class Core(Protocol):
    """A model with the book of its budget and the meter of its accuracy; both are vectors that it may keep anywhere."""

    book: Array
    meter: Array

    def observe(self, sample: Any, u: float) -> Observation:
        """The first half of the round; the model stays, book and meter go on by a round, unless u is PEEK."""

    def learn(self, y: int, weight: float) -> Any:
        """The second half, for the sample observed last; y is a class index or UNLABELLED.

        `weight` is the least probability of asking over that of this query; 0 for a label that was not asked for.
        """

    def await_labels(self, samples: list[Any]) -> None:
        """These are the samples of the newest queries whose labels are awaited."""

    def confirm(self, t: int, probability: float, expected: float, decision: int, pseudolabel: int, y: int) -> Any:
        """The label of a query goes to the meter: `osamd.accounting.accuracy.confirm`."""

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

    def no_samples(self) -> Array:
        """A stack of no samples, of the shape and type that kept samples have."""

    def arrays(self) -> dict[str, Array]:
        """All that the model has learned, by name, to be saved."""

    def restore(self, arrays: dict[str, Array]) -> None:
        """Take up what `arrays` gave."""


class Decision:
    """What the learner says of one x, before any label."""

    __slots__ = ("_closed", "_learner", "_sample", "_seen", "draw", "id")

    def __init__(self, number: int, seen: Observation, learner: Any, draw: float, sample: Any = None) -> None:
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
        return self._learner._classes[self._seen.label]

    @property
    def query(self) -> bool:
        """Whether the label is asked for."""
        return bool(self._seen.query)

    @property
    def pseudolabel(self) -> Any:
        """The teacher's opinion, or in the preset the mixture's."""
        return self._learner._classes[self._seen.pseudolabel]

    @property
    def margin(self) -> float:
        """The teacher's confidence: |H|, or best minus second-best score; in the preset the mixture's."""
        return float(self._seen.margin)

    @property
    def probability(self) -> float:
        """Of asking, as it was before the draw: 0 where the budget withheld the query."""
        return float(self._seen.probability)

    @property
    def withheld(self) -> str | None:
        """Why the budget did not allow a query: "rate", "window" or "max_labels"; None where it did."""
        return WITHHELD[self._seen.withheld] or None

    @property
    def score(self) -> Any:
        """Of the parameters that decided: of a linear model for two classes one number, positive for the second; else a
        vector of one a class."""
        return self._seen.score

    @property
    def probabilities(self) -> dict[Any, float]:
        """Of each class, from the score; a guide, and calibrated only where the loss is a likelihood."""
        told: dict[Any, float] = self._learner.probabilities_of(self._seen.score)
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


def new_class(y: Any, known: list[Any]) -> Any:
    """The name of a class that was not there before, as a plain Python value; what can be no class is refused."""
    name = plain(y)
    shown = ", ".join(repr(one) for one in known[:20])
    if isinstance(name, float) and name.is_integer():
        name = int(name)
    if isinstance(name, str):
        if name.strip().lower() in NO_NAMES:
            raise reject("tell", "y", y, "it stands for a missing value; for a label that will not come give None.")
    elif isinstance(name, float) and not math.isfinite(name):
        raise reject("tell", "y", y, "it is no class; for a label that will not come give None.")
    elif isinstance(name, float):
        raise reject("tell", "y", y, "a class is text or a whole number; cut a measured number into ranges first.")
    elif isinstance(name, bool) or not isinstance(name, int):
        rule = f"a class is text or a whole number, and the classes are {shown}; for a label that will not come give"
        raise reject("tell", "y", y, f"{rule} None.")
    if any(isinstance(one, str) != isinstance(name, str) for one in known):
        kind = "text" if isinstance(name, str) else "a number"
        rule = f"no such class: it is {kind}, and the classes are {shown}; name yours by classes=[...]."
        raise reject("tell", "y", y, rule)
    return name
