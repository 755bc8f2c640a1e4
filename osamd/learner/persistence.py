"""Saving, copying and remaking a learner: its whole state as arrays and JSON, and back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from osamd.accounting import book as books
from osamd.accounting import budget as budgets
from osamd.accounting import meter as meters
from osamd.accounting import steering
from osamd.errors import nearest, reject
from osamd.learner import former, resuming, saving
from osamd.learner.decision import Decision, plain
from osamd.learner.reports import ReportingLearner
from osamd.numerics import Array
from osamd.paper.methods import OF_THE_PAPER, PRESET

DRAWS = 512
"""How many uniforms are drawn at a time; the sequence does not depend on it."""

_LIMITS = {
    "rate": "budget",
    "window": "budget_window",
    "max_labels": "max_labels",
    "floor": "floor",
    "target": "target_accuracy",
}
"""Fields of a `Budget`, with the arguments of a learner that they come from."""
_CHANGEABLE = ("eta", "sigma", "method", "label_rate", "expire_after", *_LIMITS.values())


class PersistentLearner(ReportingLearner):
    """A learner that can be saved, copied, pickled and remade with other settings."""

    def save(self, path: str | Path) -> None:
        """Write the whole learner to one file: parameters, generator, budget, pending queries, accuracy.

        A learner loaded from it continues bit for bit as this one does. Open decisions that are not queries are not
        saved.
        """
        saving.write(path, self._saved())

    def to_bytes(self) -> bytes:
        """The bytes that `save` writes."""
        return saving.packed(self._saved())

    def copy(self) -> Self:
        """An independent learner, equal to this one in everything."""
        return self._revive(self._saved(), *self._like())

    def __reduce__(self) -> Any:
        return type(self)._revive, (self._saved(), *self._like())

    def remade(self, **changes: Any) -> Self:
        """A learner that knows what this one knows, with other settings: any of eta, sigma, method, label_rate, budget,
        budget_window, max_labels, floor, target_accuracy and expire_after.

        If a change affects asking, the budget starts again with the next round. The rate then applies to the rounds to
        come: labels spent before do not count against it, and labels saved before are lost. `max_labels` stays the
        largest number in total, including the labels asked for before, and `asked` keeps counting all of them.

        >>> from osamd import OSAMD
        >>> OSAMD(features=2, budget=0.1, method="osamd").remade(budget=0.5, method="omd-partial")
        <OMD (partial) for 0, 1: 0 rounds, 0 labels asked for>
        """
        wanted = changes.get("method", self.method)
        if (wanted == PRESET.name) != (self.method == PRESET.name):
            rule = f"this is {self.method}, and the preset has other models than the paper's; make a new learner."
            raise reject("remade", "method", wanted, rule)
        arrays, content = self._saved()
        for name, value in changes.items():
            if name not in _CHANGEABLE:
                raise reject("remade", name, value, f"this cannot be changed. {nearest(name, _CHANGEABLE)}")
            if "settings" not in content and name in OF_THE_PAPER and value is not None:
                raise reject("remade", name, value, f"this is {self.method}, which has none; leave it out.")
            for part in (content.get("settings", {}), content):
                if name in part and name != "budget":
                    part[name] = value
        limits = {name: changes[given] for name, given in _LIMITS.items() if given in changes}
        if limits:  # the floor follows from the rate where it is not given
            content["budget"] |= {"floor": None} | limits
        if set(changes) - {"eta", "expire_after"}:
            del arrays["book"]
        return self._revive(saving.Saved(arrays, content), *self._like())

    def _like(self) -> tuple[Any, ...]:
        """What `_revive` needs besides the saved content."""
        return ()

    def _saved(self) -> saving.Saved:
        pending = list(self._pending.values())
        arrays = {} if self._core is None else self._core.arrays()
        if pending:
            arrays["pending.samples"] = self._core.stacked([query._sample for query in pending])
            arrays["pending.scores"] = _stacked([query._seen.score for query in pending])
            arrays["pending.draws"] = np.array([query.draw for query in pending])
        arrays |= {"book": self._book, "meter": self._meter, "uniforms": np.array(self._uniforms)}
        content = {
            "rounds": self._rounds,
            "told": self._told,
            "expired": self._expired,
            "expire_after": self._expire_after,
            "classes": self._classes,
            "generator": self._generator.bit_generator.state,
            "method": self._method.name,
            "budget": self._limits._asdict(),
            "window": self._window,
            "source_rows": self._source_rows,
            "pending": [[query.id, *(plain(value) for value in query._seen[:-1])] for query in pending],
        }
        return saving.Saved(arrays, content | self._recipe.described() | self._described())

    @abstractmethod
    def _described(self) -> dict[str, Any]:
        """What JSON must hold, besides what all learners have, to make a learner of this kind again."""

    @classmethod
    @abstractmethod
    def _revive(cls, saved: saving.Saved, *like: Any) -> Self:
        """The learner that `_saved` described."""

    @staticmethod
    def _asking_of(content: Mapping[str, Any]) -> dict[str, Any]:
        """The constructor arguments that learners of all kinds share."""
        limits = budgets.Budget(**content["budget"])
        kept = {name: content[name] for name in ("method", "expire_after", "window")}
        return kept | {given: getattr(limits, name) for name, given in _LIMITS.items()}

    def _resume(self, saved: saving.Saved) -> None:
        """Restore model, rounds, generator and pending queries; a model of the same kind has been made already."""
        arrays, content = saved
        former.take_up_meter(self._meter, arrays["meter"])
        if self._core is not None:
            self._core.restore(arrays)
        self._take_up_book(arrays.get("book"))
        resuming.check_counts(content, self._book, self._meter)
        resuming.check_generator(content["generator"])
        self._rounds, self._told, self._expired = (content[name] for name in ("rounds", "told", "expired"))
        self._generator.bit_generator.state = content["generator"]
        self._uniforms = resuming.checked_uniforms(arrays["uniforms"], DRAWS)
        self._source_rows = resuming.checked_source_rows(content, len(self._classes))
        if content["pending"]:
            awaited = resuming.Awaited(saved, self._core.no_samples(), len(self._classes))
            for i in range(len(awaited)):
                sample = self._core.unstacked(arrays["pending.samples"], i)
                number = awaited.number(i)
                self._pending[number] = Decision(number, awaited.seen(i), self, awaited.draw(i), sample)
        self._await_labels()

    def _take_up_book(self, saved: Array | None) -> None:
        """Continue a saved book, or start with a new one; labels asked for before it count for `max_labels`."""
        if self._limits.max_labels is not None:
            before = self._meter[meters.ASKED] - (0.0 if saved is None else saved[books.ASKED])
            steering.allow(self._book, self._limits.max_labels - before)
        former.take_up_book(self._book, self._book if saved is None else saved)


def _stacked(scores: list[Any]) -> Array:
    """Scores as one array; scores from before a class was added are shorter, and are padded with nan."""
    rows = [np.atleast_1d(score) for score in scores]
    stack = np.full((len(rows), max(map(len, rows))), np.nan)
    for place, row in zip(stack, rows, strict=True):
        place[: len(row)] = row
    return stack
