"""What a learner holds, and what it reports about itself: counts, classes, accuracy, gain and health."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from osamd.accounting import accuracy as accuracies
from osamd.accounting import book as books
from osamd.accounting import budget as budgets
from osamd.accounting import gain
from osamd.accounting import meter as meters
from osamd.accounting.health import Health, health
from osamd.errors import require_whole
from osamd.learner.decision import Core, Decision
from osamd.learner.recipes import Recipe
from osamd.streams.base import query_generator


class Pending(list[Decision]):
    """Pending queries; they are found by themselves and by their ids."""

    def __contains__(self, sought: object) -> bool:
        if isinstance(sought, numbers.Integral) and not isinstance(sought, bool):
            return any(query.id == sought for query in self)
        return super().__contains__(sought)


class ReportingLearner(ABC):
    """The state of a learner, and all that reads it without a round."""

    def __init__(
        self,
        recipe: Recipe,
        limits: budgets.Budget,
        classes: list[Any],
        expire_after: int | None,
        window: int,
        seed: int,
    ) -> None:
        self._recipe, self._limits = recipe.within(limits), limits
        self._method = recipe.method
        self._window = require_whole("OSAMD", "window", window)
        self._book = self._recipe.book(limits)
        self._source_rows: list[int] | None = None  # how many labelled rows of each class it started from
        self._name_classes(classes)
        self._expire_after = None if expire_after is None else require_whole("OSAMD", "expire_after", expire_after)
        self._generator = query_generator(require_whole("OSAMD", "seed", seed, 0))
        self._uniforms: list[float] = []
        self._pending: dict[int, Decision] = {}
        self._held: Decision | None = None
        self._rounds = self._told = self._expired = 0
        self._core: Any = None  # a Core, once the first sample has shown what it must be like
        self._sample: Callable[[Any], Any] = self._meet

    def _name_classes(self, names: list[Any]) -> None:
        """Use these classes; the list is empty where they are not known yet."""
        self._classes = names
        self._index = {name: i for i, name in enumerate(names)}
        self._meter = accuracies.open_meter(max(2, len(names)), self._window)

    @abstractmethod
    def _meet(self, x: Any) -> Any:
        """Make the model that the first sample calls for, `_bind` it, and return the sample as the core takes it."""

    def _bind(self, core: Core, sample: Callable[[Any], Any]) -> None:
        """Use this core from now on; `sample` checks what the user gives, and returns what the core observes."""
        self._core = core
        self._book, self._meter = core.book, core.meter
        # Kept here, since an attribute look-up through the core costs as much as a short round.
        self._sample = sample
        self._observe: Callable[[Any, float], Any] = core.observe
        self._learn: Callable[[int, float], Any] = core.learn

    def __repr__(self) -> str:
        classes = ", ".join(repr(name) for name in self._classes[:5]) + (", ..." if len(self._classes) > 5 else "")
        pending = f", {len(self._pending)} pending" if self._pending else ""
        return f"<{self._method.title} for {classes}: {self.rounds} rounds, {self.asked} labels asked for{pending}>"

    def probabilities_of(self, score: Any) -> dict[Any, float]:
        """The probabilities of the classes that existed when the decision with this score was made."""
        return dict(zip(self._classes, self._core.probabilities(score), strict=False))

    def accuracy(self, *, window: bool = False, level: float = 0.9) -> accuracies.Accuracy:
        """The accuracy over all rounds or over the window, estimated only from the labels that were asked for."""
        return accuracies.accuracy(self._meter, window=window, level=level)

    def recent_rounds(self) -> accuracies.Window:
        """The rounds of the window, one number per round in each column."""
        return accuracies.window_of(self._meter)

    def gain(self, *, window: bool = False, level: float = 0.9) -> gain.Gain:
        """The accuracy minus that of the unchanged source model, estimated from the labels that were asked for.

        It is known only for the default learner of linear models, if it started from a source.
        """
        return gain.gain(self._meter, window=window, level=level)

    def health(self) -> Health:
        """How the learner does in the window: "fine", "unknown" or "alarm", with the reason and what to do."""
        found = health(self._meter, self._classes, reference_mix=self._source_rows, target=self._limits.target)
        oldest = next(iter(self._pending), None)
        return found if oldest is None else found._replace(oldest_pending=self._rounds - 1 - oldest)

    @property
    def rounds(self) -> int:
        """How many samples the learner has decided on."""
        return self._rounds

    @property
    def asked(self) -> int:
        """How many labels were asked for."""
        return int(self._meter[meters.ASKED])

    @property
    def counted(self) -> books.Counted:
        """The rounds and labels that the budget counts: all of them, or those since the budget was changed."""
        return books.Counted(int(self._book[books.ROUNDS]), books.asked(self._book))

    @property
    def told(self) -> int:
        """How many of the labels asked for have arrived."""
        return self._told

    @property
    def expired(self) -> int:
        """How many of the labels asked for were given up."""
        return self._expired

    @property
    def pending(self) -> Pending:
        """The queries that wait for their labels, oldest first; `number in learner.pending` looks for an id.

        >>> from osamd import OSAMD
        >>> learner = OSAMD(features=1, budget=1.0)
        >>> learner.ask([0.0]).id in learner.pending, 7 in learner.pending
        (True, False)
        """
        return Pending(self._pending.values())

    def awaits(self, decision: Decision | int) -> bool:
        """Whether a query, given as a decision or by its id, waits for its label.

        >>> from osamd import OSAMD
        >>> learner = OSAMD(features=1, budget=1.0)
        >>> decision = learner.ask([0.0])
        >>> learner.awaits(decision), learner.awaits(decision.id), learner.awaits(7)
        (True, True, False)
        """
        if isinstance(decision, Decision):
            return self._pending.get(decision.id) is decision
        whole = isinstance(decision, numbers.Integral) and not isinstance(decision, bool)
        return whole and int(decision) in self._pending

    @property
    def method(self) -> str:
        """The name of the method, one of `osamd.paper.methods`."""
        return self._method.name

    @property
    def limits(self) -> budgets.Budget:
        """The budget it keeps."""
        return self._limits

    @property
    def expire_after(self) -> int | None:
        """For how many rounds the learner waits for a label; None means forever."""
        return self._expire_after

    @property
    def classes(self) -> list[Any]:
        """The classes, in the order of their scores."""
        return list(self._classes)

    def _await_labels(self) -> None:
        """Let the core know the newest pending queries."""
        if self._core is not None:
            self._core.await_labels(query._sample for query in reversed(self._pending.values()))
