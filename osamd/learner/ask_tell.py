"""Ask and tell: decisions with ids, pending queries, and labels that come late or never.

    decision = learner.ask(x)      # decides, and draws whether to ask for the label; the model stays as it is
    learner.tell(decision, y)      # learns: the label, or None where none will come

Any number of decisions may be open at a time, and their labels may come in any order. The second half of a round is
played when its label arrives, from the state at that time: the pseudolabel and w_t are computed again from the stored
sample. So a late label teaches as if its sample had come late. Where every `tell` follows its `ask`, the round is
exactly that of `osamd.paper.algorithm`. A query whose label never comes expires, and the pseudolabel stands in for it.

The model itself is a `Core`: a compiled linear model (`osamd.learner.linear`) or a network (`osamd.learner.network`).
`osamd.learner.reports` holds the counts and reports, and `osamd.learner.persistence` saves and copies.
"""

from __future__ import annotations

import itertools
import math
import numbers
from typing import Any

from osamd.accounting import accuracy as accuracies
from osamd.accounting import budget as budgets
from osamd.accounting.target import CHECK_EVERY, steer_to_target
from osamd.errors import InputError, reject, require_whole
from osamd.learner.decision import PEEK, Decision, Observation, new_class
from osamd.learner.persistence import DRAWS, PersistentLearner
from osamd.paper.scores import UNLABELLED


class AskTell(PersistentLearner):
    """The round as an object; see the module. Use `osamd.OSAMD` or `osamd.NetworkOSAMD`.

    It is not thread-safe: if threads share a learner, put a lock around every call, including `predict`.
    """

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
            except TypeError:  # the compiled round does not take this kind of array: read-only, strided, or float32
                sample = self._core.copied(sample)
                seen = self._observe(sample, u)
            if seen.label < 0:
                raise self._refusal(x, sample)
        except BaseException:
            uniforms.append(u)
            raise
        number = self._rounds
        self._rounds = number + 1
        decision = Decision(number, seen, self, u)
        self._held = decision
        if seen.query:
            self._await(decision)
        if self._limits.target is not None:
            self._steer()
        return decision

    def tell(self, decision: Decision | int, y: Any = None) -> None:
        """Learn from a decision, or from a pending query by its id: the label y, or None where no label will come.

        Labels that were not asked for are welcome too. They teach, but they count neither for the budget nor for the
        accuracy estimate, which needs labels drawn with a known probability. The default learner of linear models
        accepts classes that are new to it; every other learner keeps the classes it was made for.
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
        """Add a class that was not there before, ahead of its first label.

        Only the default learner of linear models can do this; every other learner keeps the classes it was made for.
        """
        if not hasattr(self._core, "add_class"):
            known = ", ".join(map(repr, self._classes[:20]))
            rule = f"{self._method.title} with this model keeps the classes it was made for, {known}; only the default"
            raise reject("add_class", "name", name, f"{rule} learner of linear models can add classes: make a new one.")
        given = new_class(name, self._classes)
        if given in self._index:
            raise reject("add_class", "name", name, "this class exists already.")
        if self._held is not None:
            self._set_aside(self._held)
        self._widen(given)

    def expire(self, decision: Decision | int | None = None, *, older_than: int | None = None) -> int:
        """Give up waiting for one query, or for all queries older than `older_than` rounds; returns how many.

        The current pseudolabel stands in for the label.
        """
        if (decision is None) == (older_than is None):
            raise InputError("`expire(...)`: give a decision or its id, or older_than=rounds, and not both.")
        if older_than is None:
            late = [self._pending_one(decision, "expire")]
        else:
            last = self._rounds - 1 - require_whole("expire", "older_than", older_than, 0)
            late = list(itertools.takewhile(lambda query: query.id < last, self._pending.values()))
        for query in late:
            if query is self._held or self._observed_again(query):
                self._finish(query, UNLABELLED)
            else:  # the model can no longer score the sample, so nothing is learned from it
                self._close(query, UNLABELLED)
        return len(late)

    def peek(self, x: Any) -> Decision:
        """The decision that `ask` would make, without a round: nothing is drawn or counted, and it takes no label."""
        return self._peeked(x, "peek")

    def _peeked(self, x: Any, call: str) -> Decision:
        """`peek`, where errors name the given call."""
        if self._held is not None:
            self._set_aside(self._held)
        try:
            sample = self._sample(x)
            sample = self._core.copied(sample)
            seen: Observation = self._core.observe(sample, PEEK)
            if seen.label < 0:
                raise self._refusal(x, sample)
        except InputError as error:
            raise InputError(str(error).replace("`ask(x=", f"`{call}(x=", 1)) from error
        decision = Decision(-1, seen._replace(query=False), self, math.nan)
        decision._closed = "no round"
        return decision

    def predict(self, x: Any) -> Any:
        """The class that `ask` would decide on, without a round."""
        return self._peeked(x, "predict").label

    def predict_proba(self, x: Any) -> dict[Any, float]:
        """The probabilities of the classes that `ask` would give, without a round."""
        return self._peeked(x, "predict_proba").probabilities

    def _draw(self) -> list[float]:
        self._uniforms = self._generator.random(DRAWS)[::-1].tolist()
        return self._uniforms

    def _await(self, query: Decision) -> None:
        """Let the query in hand wait for its label."""
        self._held = query
        query._sample = self._core.last()
        self._pending[query.id] = query
        self._await_labels()

    def _steer(self) -> None:
        """Keep to the target accuracy, if there is one, every few rounds."""
        if self._limits.target is not None and self._rounds % CHECK_EVERY == 0:
            steer_to_target(self._book, self._meter)

    def _set_aside(self, held: Decision) -> None:
        """Keep the sample of the decision in hand, because the core is about to observe another one."""
        if held._sample is None:
            held._sample = self._core.last()
        self._held = None

    def _pending_one(self, decision: Any, call: str) -> Decision:
        """The pending query, given as a decision or by its id."""
        given = decision.id if isinstance(decision, Decision) else decision
        whole = isinstance(given, numbers.Integral) and not isinstance(given, bool)
        found = self._pending.get(int(given)) if whole else None
        if found is None or (isinstance(decision, Decision) and decision is not found):
            raise self._not_pending(decision, call)
        return found

    def _refusal(self, x: Any, sample: Any) -> InputError:
        """Why the core could not decide on x, which it got as `sample`."""
        error: InputError = self._core.refusal(sample)
        return error

    def _recall(self, decision: Any) -> Decision:
        """The open decision, observed again from its sample unless it is the one in hand."""
        query = not isinstance(decision, Decision) or decision.query
        found: Decision = self._pending_one(decision, "tell") if query else decision
        if found._learner is not self or found._closed:
            raise self._not_pending(decision, "tell")
        if found is not self._held and not self._observed_again(found):
            raise self._core.refusal(found._sample)
        return found

    def _observed_again(self, decision: Decision) -> bool:
        """Let the core observe the decision's sample again; says whether the model can still score it."""
        if self._held is not None:
            self._set_aside(self._held)
        return bool(self._core.observe(decision._sample, PEEK).label >= 0)

    def _take_in(self, decision: Any, y: Any) -> int:
        """The index of a class that was not there before, for a decision that can still take a label."""
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
        seen = decision._seen
        if seen.query:  # its weight is the least probability of a query divided by that of this one, at most 1
            self._learn(label, min(1.0, budgets.least(self._limits) / seen.probability))
            self._held = None
            self._close(decision, label)
        else:
            self._learn(label, 0.0)
            self._held = None
            decision._closed, decision._sample = "told", None

    def _close(self, decision: Decision, label: int) -> None:
        """Close the query: tell the meter its label, or that none came."""
        self._no_longer_pending(decision, "expired" if label == UNLABELLED else "told")
        self._await_labels()
        seen = decision._seen
        if label == UNLABELLED:
            accuracies.lost(self._meter, decision.id)
        else:
            self._core.confirm(decision.id, seen.probability, seen.expected, seen.label, seen.pseudolabel, label)

    def _no_longer_pending(self, decision: Decision, closed: str) -> None:
        """Count a query that has ended, and let go of its sample."""
        del self._pending[decision.id]
        decision._sample, decision._closed = None, closed
        if closed == "expired":
            self._expired += 1
        else:
            self._told += 1

    def _not_pending(self, decision: object, call: str) -> InputError:
        if not isinstance(decision, Decision):
            if isinstance(decision, int) and not isinstance(decision, bool) and 0 <= decision < self._rounds:
                return InputError(
                    f"`{call}({decision})`: decision {decision} is not pending: it was not a query, or it has its label"
                    " already, or it has expired; tell each decision once."
                )
        elif decision._learner is not self:
            return InputError(f"`{call}(decision={decision!r})`: it is a decision made by another learner.")
        elif decision._closed == "expired":
            return InputError(f"`{call}({decision.id})`: decision {decision.id} has expired; its label came too late.")
        elif decision._closed == "told":
            return InputError(
                f"`{call}({decision.id})`: decision {decision.id} has its label already; tell each one once."
            )
        elif not decision._closed:
            return InputError(
                f"`{call}({decision.id})`: decision {decision.id} is not a query; `tell` it, or ignore it."
            )
        return reject(call, "decision", decision, "give what `ask` returned, or the id of a pending query.")

    def _no_class(self, y: object) -> InputError:
        missing = " For a label that will not come, give None." if isinstance(y, float) and math.isnan(y) else ""
        known = ", ".join(repr(name) for name in self._classes[:20])
        return reject("tell", "y", y, f"there is no such class; the learner was made for {known}.{missing}")
