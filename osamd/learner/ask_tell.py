"""Ask and tell: decisions with their ids, queries that are pending, labels that come late or never.

    decision = learner.ask(x)      # decides, and draws whether to ask for the label; the model stays as it is
    learner.tell(decision, y)      # learns: the label, or None where none will come

Any number of decisions may be open at a time, and they are told in any order. The second half of a round is played when
its label is told, from the state of then: the pseudolabel and w_t are computed anew from the sample that was kept. So a
late label teaches as if its sample had come late, and where every `tell` follows its `ask` it is the round of
`osamd.paper.algorithm` exactly. A query whose label never comes expires: the pseudolabel stands in for it.

What the model is, is left to a `Core`: compiled linear models (`osamd.learner.linear`) or networks
(`osamd.learner.network`).
"""

from __future__ import annotations

import itertools
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from osamd.accounting import accuracy as honest
from osamd.accounting import book as books
from osamd.accounting import budget as budgets
from osamd.accounting import gain, steering
from osamd.accounting import meter as meters
from osamd.accounting.health import Health, health
from osamd.accounting.target import CHECK_EVERY, steer_to_target
from osamd.errors import InputError, nearest, reject, require_whole
from osamd.learner import former, resuming, saving
from osamd.learner.decision import PEEK, Core, Decision, Observation, new_class, plain
from osamd.learner.recipes import Recipe
from osamd.numerics import Array
from osamd.paper.methods import OF_THE_PAPER, PRESET
from osamd.paper.scores import UNLABELLED
from osamd.preset.pending import NEWEST_PENDING
from osamd.streams.base import query_generator

DRAWS = 512
"""Uniforms that are drawn at a time; the sequence is the same whatever their number."""

_LIMITS = {
    "rate": "budget",
    "window": "budget_window",
    "max_labels": "max_labels",
    "floor": "floor",
    "target": "target_accuracy",
}
"""What a `Budget` calls the arguments of a learner."""
_CHANGEABLE = ("eta", "sigma", "method", "label_rate", "expire_after", *_LIMITS.values())


class AskTell(ABC):
    """The round as an object; see the module. `osamd.OSAMD` and `osamd.NetworkOSAMD` are the two to use.

    It is not for several threads at once: whoever shares one puts a lock around every call, `predict` included.
    """

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
        self._source_rows: list[int] | None = None  # labelled rows of each class that it started from
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
        """Take these classes, none where they are not known yet."""
        self._classes = names
        self._index = {name: i for i, name in enumerate(names)}
        self._meter = honest.open_meter(max(2, len(names)), self._window)

    @abstractmethod
    def _meet(self, x: Any) -> Any:
        """The first sample, which says what the model must be like: make it, `_bind` it, and return the sample."""

    def _bind(self, core: Core, sample: Callable[[Any], Any]) -> None:
        """Take this core from now on; `sample` checks what the user gives, and returns what the core observes."""
        self._core = core
        self._book, self._meter = core.book, core.meter
        # Held here, since a look-up through the core costs as much as a short round.
        self._sample = sample
        self._observe: Callable[[Any, float], Any] = core.observe
        self._learn: Callable[[int, float], Any] = core.learn

    def __repr__(self) -> str:
        classes = ", ".join(repr(name) for name in self._classes[:5]) + (", ..." if len(self._classes) > 5 else "")
        pending = f", {len(self._pending)} pending" if self._pending else ""
        return f"<{self._method.title} for {classes}: {self.rounds} rounds, {self.asked} labels asked for{pending}>"

    def ask(self, x: Any) -> Decision:
        """Decide on one sample, and draw whether to ask for its label. The model stays as it is."""
        held = self._held
        if held is not None:
            self._set_aside(held)
        sample = self._sample(x)
        uniforms = self._uniforms or self._draw()
        u = uniforms.pop()
        try:
            try:
                seen = self._observe(sample, u)
            except TypeError:  # an array of a kind that the compiled round is not for: read-only, strided, of float32
                sample = self._core.copied(sample)
                seen = self._observe(sample, u)
            if seen.label < 0:
                raise self._core.refusal(sample)
        except BaseException:
            uniforms.append(u)
            raise
        number = self._rounds
        self._rounds = number + 1
        decision = Decision(number, seen, self, u)
        self._held = decision
        if seen.query:
            decision._sample = self._core.last()
            self._pending[number] = decision
            self._await_labels()
        if self._limits.target is not None and self._rounds % CHECK_EVERY == 0:
            steer_to_target(self._book, self._meter)
        return decision

    def tell(self, decision: Decision | int, y: Any = None) -> None:
        """Learn from a decision, or from a pending query by its id: the label y, or None where none will come.

        Labels that were not asked for are welcome too: they teach, and count neither for the budget nor for the
        estimate of the accuracy, whose queries are drawn. The default learner of linear models takes in a class that
        was not there before; every other one has the classes that it was made for.
        """
        label = UNLABELLED
        if y is not None:
            try:
                label = self._index[y]
            except (KeyError, TypeError):
                label = self._take_in(decision, y)
        if decision is not self._held or decision is None:
            decision = self._recall(decision)
        self._finish(decision, label)
        if self._expire_after is not None and self._pending:
            self.expire(older_than=self._expire_after)

    def add_class(self, name: Any) -> None:
        """Take in a class that was not there before, ahead of its first label.

        The default learner of linear models can; every other one has the classes that it was made for.
        """
        if not hasattr(self._core, "add_class"):
            known = ", ".join(repr(one) for one in self._classes[:20])
            rule = f"{self._method.title} with this model has the classes it was made for, {known}; the default"
            raise reject("add_class", "name", name, f"{rule} learner of linear models takes in others: make one anew.")
        given = new_class(name, self._classes)
        if given in self._index:
            raise reject("add_class", "name", name, "there is such a class already.")
        if self._held is not None:
            self._set_aside(self._held)
        self._widen(given)

    def expire(self, decision: Decision | int | None = None, *, older_than: int | None = None) -> int:
        """Give up waiting for one query, or for all asked more than `older_than` rounds ago; returns how many.

        The pseudolabel of now stands in for the label.
        """
        if (decision is None) == (older_than is None):
            raise InputError("`expire(...)`: give a decision or its id, or older_than=rounds, and not both.")
        if older_than is None:
            late = [self._pending_one(decision, "expire")]
        else:
            last = self._rounds - 1 - require_whole("expire", "older_than", older_than, 0)
            late = list(itertools.takewhile(lambda one: one.id < last, self._pending.values()))
        for one in late:
            if one is self._held or self._observed_again(one):
                self._finish(one, UNLABELLED)
            else:  # the model can make nothing of the sample any more, so nothing is learned from it
                self._close(one, UNLABELLED)
        return len(late)

    def peek(self, x: Any) -> Decision:
        """The decision that `ask` would make, without a round: nothing is drawn or counted, and it cannot be told."""
        return self._peeked(x, "peek")

    def _peeked(self, x: Any, call: str) -> Decision:
        """`peek` for a call that errors are to name."""
        if self._held is not None:
            self._set_aside(self._held)
        try:
            sample = self._sample(x)
            sample = self._core.copied(sample)
            seen: Observation = self._core.observe(sample, PEEK)
            if seen.label < 0:
                raise self._core.refusal(sample)
        except InputError as error:
            raise InputError(str(error).replace("`ask(x=", f"`{call}(x=", 1)) from error
        decision = Decision(-1, seen._replace(query=False), self, math.nan)
        decision._closed = "no round"
        return decision

    def predict(self, x: Any) -> Any:
        """The class that `ask` would decide for, without a round."""
        return self._peeked(x, "predict").label

    def predict_proba(self, x: Any) -> dict[Any, float]:
        """The probabilities of the classes that `ask` would give, without a round."""
        return self._peeked(x, "predict_proba").probabilities

    def probabilities_of(self, score: Any) -> dict[Any, float]:
        """The probabilities of the classes, from the score of a decision: of those that there were at its time."""
        return dict(zip(self._classes, self._core.probabilities(score), strict=False))

    def accuracy(self, *, window: bool = False, level: float = 0.9) -> honest.Accuracy:
        """The accuracy over all rounds, or the last ones, from the labels that were asked for alone."""
        return honest.accuracy(self._meter, window=window, level=level)

    def gain(self, *, window: bool = False, level: float = 0.9) -> gain.Gain:
        """The accuracy less that of the source model, had it been left alone, from the labels that were asked for.

        It is known for the default learner of linear models alone, where it started from a source.
        """
        return gain.gain(self._meter, window=window, level=level)

    def health(self) -> Health:
        """How it has been doing of late: "fine", "unknown" or "alarm", why, and what to do about it."""
        found = health(self._meter, self._classes, reference_mix=self._source_rows, target=self._limits.target)
        oldest = next(iter(self._pending), None)
        return found if oldest is None else found._replace(oldest_pending=self._rounds - 1 - oldest)

    def save(self, path: str | Path) -> None:
        """Write all that the learner is into one file: parameters, generator, budget, pending queries, accuracy.

        A learner that is loaded from it goes on bit for bit as this one does. Decisions that were not queries and have
        not been told yet are not kept.
        """
        saving.write(path, self._saved())

    def to_bytes(self) -> bytes:
        """What `save` writes, in memory."""
        return saving.packed(self._saved())

    def copy(self) -> Self:
        """A learner of its own, equal to this one in everything."""
        return self._revive(self._saved(), *self._like())

    def __reduce__(self) -> Any:
        return type(self)._revive, (self._saved(), *self._like())

    def remade(self, **changes: Any) -> Self:
        """A learner that has learned what this one has, with other settings: any of eta, sigma, method, label_rate,
        budget, budget_window, max_labels, floor, target_accuracy and expire_after.

        Where asking is changed, the budget begins anew with the next round: a rate is that of the rounds to come, so
        labels that were spent before are neither owed nor held against it, and none are saved up. `max_labels` is the
        largest number in all, those of before among them, and `asked` goes on counting all.

        >>> from osamd import OSAMD
        >>> OSAMD(features=2, budget=0.1, method="osamd").remade(budget=0.5, method="omd-partial")
        <OMD (partial) for 0, 1: 0 rounds, 0 labels asked for>
        """
        wanted = changes.get("method", self.method)
        if (wanted == PRESET.name) != (self.method == PRESET.name):
            rule = f"this is {self.method}, and the preset has other models than the paper's; make a learner anew."
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
        """What `_revive` needs beside what was saved."""
        return ()

    def _saved(self) -> saving.Saved:
        pending = list(self._pending.values())
        arrays = {} if self._core is None else self._core.arrays()
        if pending:
            arrays["pending.samples"] = self._core.stacked([one._sample for one in pending])
            arrays["pending.scores"] = _stacked([one._seen.score for one in pending])
            arrays["pending.draws"] = np.array([one.draw for one in pending])
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
            "pending": [[one.id, *(plain(value) for value in one._seen[:-1])] for one in pending],
        }
        return saving.Saved(arrays, content | self._recipe.described() | self._described())

    @abstractmethod
    def _described(self) -> dict[str, Any]:
        """What JSON must hold, beside what all learners have, to make one of this kind anew."""

    @classmethod
    @abstractmethod
    def _revive(cls, saved: saving.Saved, *like: Any) -> Self:
        """The learner that `_saved` described."""

    @staticmethod
    def _asking_of(content: Mapping[str, Any]) -> dict[str, Any]:
        """What a learner was made with that learners of all kinds have."""
        limits = budgets.Budget(**content["budget"])
        kept = {name: content[name] for name in ("method", "expire_after", "window")}
        return kept | {given: getattr(limits, name) for name, given in _LIMITS.items()}

    def _resume(self, saved: saving.Saved) -> None:
        """Take up rounds, generator and pending queries; the model has been made alike."""
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
        """Go on with a saved book, or with one just opened; what was asked before it counts for `max_labels`."""
        if self._limits.max_labels is not None:
            before = self._meter[meters.ASKED] - (0.0 if saved is None else saved[books.ASKED])
            steering.allow(self._book, self._limits.max_labels - before)
        former.take_up_book(self._book, self._book if saved is None else saved)

    @property
    def rounds(self) -> int:
        """How many samples were asked about."""
        return self._rounds

    @property
    def asked(self) -> int:
        """How many labels were asked for."""
        return int(self._meter[meters.ASKED])

    @property
    def counted(self) -> books.Counted:
        """Rounds and labels that the budget counts: all of them, or those since it was changed."""
        return books.Counted(int(self._book[books.ROUNDS]), books.asked(self._book))

    @property
    def told(self) -> int:
        """How many of those were told."""
        return self._told

    @property
    def expired(self) -> int:
        """How many of those never came."""
        return self._expired

    @property
    def pending(self) -> list[Decision]:
        """The queries whose labels are awaited, the oldest first."""
        return list(self._pending.values())

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
        """For how many rounds a label is awaited; for ever where it is None."""
        return self._expire_after

    @property
    def classes(self) -> list[Any]:
        """The classes, in the order of their scores."""
        return list(self._classes)

    def _draw(self) -> list[float]:
        self._uniforms = self._generator.random(DRAWS)[::-1].tolist()
        return self._uniforms

    def _set_aside(self, held: Decision) -> None:
        """Keep the sample of the decision in hand, for the core is about to observe another."""
        if held._sample is None:
            held._sample = self._core.last()
        self._held = None

    def _pending_one(self, decision: Any, call: str) -> Decision:
        """The pending query that is meant, by itself or by its id."""
        given = decision.id if isinstance(decision, Decision) else decision
        whole = isinstance(given, numbers.Integral) and not isinstance(given, bool)
        found = self._pending.get(int(given)) if whole else None
        if found is None or (isinstance(decision, Decision) and decision is not found):
            raise self._not_pending(decision, call)
        return found

    def _recall(self, decision: Any) -> Decision:
        """The open decision, observed anew from its sample where it is not the one in hand."""
        query = not isinstance(decision, Decision) or decision.query
        found: Decision = self._pending_one(decision, "tell") if query else decision
        if found._learner is not self or found._closed:
            raise self._not_pending(decision, "tell")
        if found is not self._held and not self._observed_again(found):
            raise self._core.refusal(found._sample)
        return found

    def _observed_again(self, decision: Decision) -> bool:
        """Let the core observe the decision's sample again; whether the model can still score it."""
        if self._held is not None:
            self._set_aside(self._held)
        return bool(self._core.observe(decision._sample, PEEK).label >= 0)

    def _await_labels(self) -> None:
        """Let the core know the newest of the queries that are pending."""
        if self._core is not None:
            newest = itertools.islice(reversed(self._pending.values()), NEWEST_PENDING)
            self._core.await_labels([one._sample for one in newest])

    def _take_in(self, decision: Any, y: Any) -> int:
        """The index of a class that was not there before, for a decision that can be told."""
        if not hasattr(self._core, "add_class"):
            raise (self._no_class(y) if self._classes else self._not_pending(decision, "tell")) from None
        name = new_class(y, self._classes)
        if decision is not self._held or decision is None:
            decision = self._recall(decision)
        self._set_aside(decision)
        self._widen(name)
        if not self._observed_again(decision):
            raise self._core.refusal(decision._sample)
        self._held = decision
        return self._index[name]

    def _widen(self, name: Any) -> None:
        """Make room for a class, in the model and in the meter."""
        self._core.add_class()
        self._meter = self._core.meter
        self._index[name] = len(self._classes)
        self._classes.append(name)
        if self._source_rows is not None:
            self._source_rows.append(0)

    def _finish(self, decision: Decision, label: int) -> None:
        """Play the second half of the round for the decision in hand."""
        self._learn(label, self._weight(decision))
        self._held = None
        if decision._seen.query:
            self._close(decision, label)
        else:
            decision._closed, decision._sample = "told", None

    def _weight(self, decision: Decision) -> float:
        """The least probability of a query over that of this one, at most 1; 0 for a label that was not asked for."""
        return min(1.0, budgets.least(self._limits) / decision._seen.probability) if decision._seen.query else 0.0

    def _close(self, decision: Decision, label: int) -> None:
        """The query is answered: its label, or that none came, goes to the meter."""
        del self._pending[decision.id]
        self._await_labels()
        decision._sample = None
        seen = decision._seen
        if label == UNLABELLED:
            decision._closed = "expired"
            self._expired += 1
            honest.lost(self._meter, decision.id)
        else:
            decision._closed = "told"
            self._told += 1
            self._core.confirm(decision.id, seen.probability, seen.expected, seen.label, seen.pseudolabel, label)

    def _not_pending(self, decision: object, call: str) -> InputError:
        if not isinstance(decision, Decision):
            if isinstance(decision, int) and not isinstance(decision, bool) and 0 <= decision < self._rounds:
                return InputError(
                    f"`{call}({decision})`: decision {decision} is not pending: it was no query, or it was told, or it"
                    " has expired; tell each decision once."
                )
        elif decision._learner is not self:
            return InputError(f"`{call}(decision={decision!r})`: it is a decision of another learner.")
        elif decision._closed == "expired":
            return InputError(f"`{call}({decision.id})`: decision {decision.id} has expired; its label came too late.")
        elif decision._closed == "told":
            return InputError(f"`{call}({decision.id})`: decision {decision.id} was told already; tell each one once.")
        elif not decision._closed:
            return InputError(f"`{call}({decision.id})`: decision {decision.id} is no query; `tell` it, or leave it.")
        return reject(call, "decision", decision, "give what `ask` returned, or the id of a pending query.")

    def _no_class(self, y: object) -> InputError:
        missing = " For a label that will not come give None." if isinstance(y, float) and math.isnan(y) else ""
        known = ", ".join(repr(name) for name in self._classes[:20])
        return reject("tell", "y", y, f"no such class; the learner was made for {known}.{missing}")


def _stacked(scores: list[Any]) -> Array:
    """Scores as one array; those from before a class was added are shorter, and are filled up with nan."""
    rows = [np.atleast_1d(score) for score in scores]
    stack = np.full((len(rows), max(map(len, rows))), np.nan)
    for place, row in zip(stack, rows, strict=True):
        place[: len(row)] = row
    return stack
