"""A learner's decision on one sample, the interface of a model, and how a round is counted.

Every core has its own function that decides. `counting` wraps it with the budget and the meter, in one place for all
cores: the terms of the query, the decision, the entry in the book, the entry in the meter. It takes and returns plain
values, so it can be compiled together with the decision.
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
"""Given in place of a uniform: observe without counting anything."""


NO_NAMES = ("", "nan", "<na>", "nat")
"""Lower-case text that stands for a missing value, and never becomes a class."""


class Said(NamedTuple):
    """What a model says about a sample, before the round is counted. Classes are indices."""

    label: int
    """The decision; -1 where the sample cannot be used."""
    query: bool
    pseudolabel: int
    margin: float
    probability: float
    """The probability of asking, as it was before the draw."""
    confidence: float
    """What the query takes as the margin."""
    source: int
    """The decision of the unchanged source model; NO_SOURCE where there is none."""
    disagreement: float
    """The weight of the experts that prefer another class than the decision; NOT_GIVEN where there are no experts."""


class Observation(NamedTuple):
    """What a core's `observe` says about a sample. Classes are indices."""

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
    """What the meter's `expect` returned, for its `confirm`."""
    score: Any
    """The score behind the decision: one number for two classes, or a vector with one score per class."""


def refused() -> Said:
    """What a model says about a sample that it cannot use."""
    return Said(-1, False, 0, 0.0, 0.0, 0.0, NO_SOURCE, NOT_GIVEN)


def counting(decide: Callable[..., Any]) -> Callable[..., Any]:
    """The first half of a round around `decide(model, x, u, sigma, floor)`, which gives a `Said`.

    It returns all fields of an `Observation` except the score, whose type compiled code cannot return for every core.
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
    """A model with the book of its budget and the meter of its accuracy; both are vectors, stored where it likes."""

    book: Array
    meter: Array

    def observe(self, sample: Any, u: float) -> Observation:
        """The first half of the round; the model stays as it is, and book and meter advance unless u is PEEK."""

    def learn(self, y: int, weight: float) -> Any:
        """The second half, for the sample observed last; y is a class index or UNLABELLED.

        `weight` is the least probability of asking divided by that of this query; 0 if the label was not asked for.
        """

    def await_labels(self, samples: Iterable[Any]) -> None:
        """Take note of the samples of the pending queries, the newest first."""

    def confirm(self, t: int, probability: float, expected: float, decision: int, pseudolabel: int, y: int) -> Any:
        """Enter the label of a query into the meter: `osamd.accounting.accuracy.confirm`."""

    def copied(self, sample: Any) -> Any:
        """A copy of the sample, as the kind of array that the round is compiled for."""

    def last(self) -> Any:
        """A copy of the sample observed last."""

    def refusal(self, sample: Any) -> InputError:
        """Why `observe` gave a label below 0."""

    def probabilities(self, score: Any) -> list[float]:
        """The probabilities of the classes, from the score."""

    def stacked(self, samples: list[Any]) -> Array:
        """Stored samples as one array, to be saved."""

    def unstacked(self, samples: Array, i: int) -> Any:
        """The i-th sample of a stack."""

    def no_samples(self) -> Array:
        """An empty stack with the shape and type of stored samples."""

    def arrays(self) -> dict[str, Array]:
        """Everything that the model has learned, by name, to be saved."""

    def restore(self, arrays: dict[str, Array]) -> None:
        """Restore what `arrays` returned."""


class Decision:
    """What the learner says about one x, before any label."""

    __slots__ = ("_closed", "_learner", "_sample", "_seen", "draw", "id")

    def __init__(self, number: int, seen: Observation, learner: Any, draw: float, sample: Any = None) -> None:
        self.id = number
        """The number of decisions that the learner made before this one; -1 for a peek."""
        self.draw = draw
        """The uniform that decided on the query: it asks if this is below `probability`; nan for a peek."""
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
        """The class that stands in for a missing label: the teacher's opinion, or in the preset the mixture's."""
        return self._learner._classes[self._seen.pseudolabel]

    @property
    def margin(self) -> float:
        """The teacher's confidence: |H|, or best minus second-best score; in the preset the mixture's."""
        return float(self._seen.margin)

    @property
    def probability(self) -> float:
        """The probability of asking, as it was before the draw; 0 where the budget withheld the query."""
        return float(self._seen.probability)

    @property
    def withheld(self) -> str | None:
        """Why the budget did not allow a query: "rate", "window" or "max_labels"; None where it did."""
        return WITHHELD[self._seen.withheld] or None

    @property
    def score(self) -> Any:
        """The score behind the decision. For a linear model with two classes it is one number, positive for the second
        class; otherwise a vector with one score per class."""
        return self._seen.score

    @property
    def probabilities(self) -> dict[Any, float]:
        """The probability of each class, from the score; calibrated only where the loss is a likelihood."""
        found: dict[Any, float] = self._learner.probabilities_of(self._seen.score)
        return found

    @property
    def open(self) -> bool:
        """Whether it can still take a label: it has none yet, and has not expired."""
        return not self._closed

    def __copy__(self) -> Decision:
        return self

    def __deepcopy__(self, memo: object) -> Decision:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a Decision belongs to its learner and cannot be pickled; send its id, and tell that.")

    def __repr__(self) -> str:
        asked = "asks for the label" if self.query else f"withheld: {self.withheld}" if self.withheld else "no query"
        return f"<Decision {self.id}: {self.label!r}, margin {self.margin:.3g}, {asked}>"


def plain(value: Any) -> Any:
    """A numpy scalar as a plain Python value."""
    return value.item() if isinstance(value, np.generic) else value


def share_asked(call: str, budget: Any) -> float | None:
    """The budget that a user gave to this call, checked to be a share of the rounds; None where there is none."""
    if budget is None:
        return None
    rule = "budget is a rate, the share of rounds whose label may be asked for: above 0, at most 1; 5 % is budget=0.05."
    return require_number(call, "budget", budget, lambda v: 0.0 < v <= 1.0, rule)


def known_classes(classes: Any, call: str = "OSAMD") -> list[Any]:
    """The classes a user declared in this call, as plain Python values: a number of them, or their names."""
    if isinstance(classes, numbers.Integral) and not isinstance(classes, bool):
        return list(range(require_whole(call, "classes", classes, 2)))
    rule = "classes must be two or more different names (text or numbers) in a list, or how many there are."
    if isinstance(classes, str | bytes | Set) or not isinstance(classes, Iterable):
        raise reject(call, "classes", classes, rule)
    names = [plain(name) for name in classes]
    usable = all(isinstance(name, str) or (isinstance(name, int | float) and math.isfinite(name)) for name in names)
    if not usable or len(set(names)) != len(names) or len(names) < 2:
        raise reject(call, "classes", classes, rule)
    return names


def new_class(y: Any, known: list[Any]) -> Any:
    """The name of a new class, as a plain Python value; a value that cannot be a class is refused."""
    name = plain(y)
    shown = ", ".join(map(repr, known[:20]))
    if isinstance(name, float) and name.is_integer():
        name = int(name)
    if isinstance(name, str):
        if name.strip().lower() in NO_NAMES:
            raise reject("tell", "y", y, "it stands for a missing value; for a label that will not come, give None.")
    elif isinstance(name, float) and not math.isfinite(name):
        raise reject("tell", "y", y, "it is not a class; for a label that will not come, give None.")
    elif isinstance(name, float):
        raise reject("tell", "y", y, "a class is text or a whole number; cut a measured number into ranges first.")
    elif isinstance(name, bool) or not isinstance(name, int):
        rule = f"a class is text or a whole number, and the classes are {shown}; for a label that will not come, give"
        raise reject("tell", "y", y, f"{rule} None.")
    if any(isinstance(other, str) != isinstance(name, str) for other in known):
        kind = "text" if isinstance(name, str) else "a number"
        rule = f"there is no such class: it is {kind}, and the classes are {shown}; name yours with classes=[...]."
        raise reject("tell", "y", y, rule)
    return name
