"""What people do: answer, skip, say that they don't know or that no class fits, and correct."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Literal

from osamd.errors import InputError
from osamd.service import log as logs
from osamd.service.desk import AnsweredQuery, LabelDesk, Refusal, Waiting, ending, late, person_of, too_late
from osamd.service.fold import Fold
from osamd.service.folder import ServiceState
from osamd.service.incoming import DecidedSamples
from osamd.service.log import Event, Log
from osamd.service.writer import Writer


class People(Writer):
    """The part of the engine for annotators. Public methods run in the engine's thread unless they say otherwise, and
    refuse before they change anything."""

    def __init__(self, state: ServiceState, log: Log, clock: Callable[[], float], steady: Callable[[], float]) -> None:
        super().__init__(log, clock, steady)
        self.state = state
        self._fold: Fold | None = None
        self._desk = LabelDesk(steady)
        self._rows: list[Event | DecidedSamples] = []
        """Events that are not committed yet, in order."""
        self._fresh: dict[str, tuple[DecidedSamples, int]] = {}
        """The samples among them that have a client id: where they are, and their place there."""

    def answer(self, labels: Sequence[tuple[int | str, int, str]]) -> list[AnsweredQuery | Refusal]:
        """Take labels, each as (round or client id, class, who). The first answer stands."""
        return [self._answered(*label) for label in labels]

    def claim(self, holder: str, order: str, limit: int, lease: float) -> list[Waiting]:
        """Lease queries to this person: first those they hold, then others that nobody holds."""
        claimed = self._desk.claim(holder, order, limit, lease)
        for one, new in claimed:
            if new:
                self._write("claim", one.event.round, who=holder, until=self._clock() + lease)
        return [one for one, _ in claimed]

    def skip(self, number: int, holder: str) -> None:
        """Move a query behind those that were skipped less often."""
        one = self._at_hand(number, holder)
        one.release()
        self._write("skip", number, who=holder)

    def unsure(self, number: int, holder: str) -> Literal["unsure", "expired"]:
        """Record that this person does not know: others are asked, until enough people don't know."""
        one = self._at_hand(number, holder)
        one.release()
        one.unsure.add(person_of(holder))
        self._write("unsure", number, who=holder)
        if len(one.unsure) < self.state.config.most_unsure or one.first is not None:
            return "unsure"
        self._expired(number)
        return "expired"

    def none(self, number: int, holder: str) -> None:
        """Record that no class fits: the query ends without a label, and the model's decision stands in for it."""
        one = self._at_hand(number, holder)
        if one.first is not None:
            raise Refusal("answered", f"round {number} already has a label; correct it if no class fits.")
        self._live.learner.expire(number)
        self._desk.remove(number)
        self._write("none", number, who=holder)

    def correct(self, number: int, label: int, who: str) -> AnsweredQuery:
        """Record another label for a query that has ended. Exports contain the correction; the learner cannot unlearn
        the first answer."""
        end = self._ending(number)
        if end.kind == "sample":
            raise Refusal("not-answered", f"round {number} is still pending; answer it.")
        self._write("correct", number, label=label, who=who, decision=end.label)
        return AnsweredQuery(number, self._live.learner.classes[label], "corrected")

    def expire(self, number: int) -> Literal["expired", "repeated"]:
        """Expire one query."""
        try:
            self._pending(number)
        except Refusal as refusal:
            if refusal.code == "expired":
                return "repeated"
            raise
        self._expired(number)
        return "expired"

    def expire_older(self, rounds: int) -> int:
        """Expire the queries that were asked more than this many rounds ago, and return their number."""
        before = self._live.learner.expired
        last = self._live.learner.rounds - 1 - rounds
        waiting = self._desk.waiting
        while waiting and (oldest := next(iter(waiting))) < last:
            self._expired(oldest)
        return self._live.learner.expired - before

    # These may be called from any thread.

    def queries(self, order: str = "oldest") -> list[Waiting]:
        """The pending queries, the oldest or the least certain first; skipped ones come after the others."""
        return self._desk.ordered(order)

    def lease_left(self, one: Waiting) -> float | None:
        """Seconds until the lease of a query ends; None if nobody holds it."""
        return self._desk.left(one)

    def awaits(self, of: int | str) -> bool:
        """Whether this round, or the sample with this client id, waits for an answer."""
        return self._desk.awaits(of)

    def not_awaited(self, of: int | str, label: int) -> AnsweredQuery | Refusal | None:
        """The outcome of an answer to a query that is not pending, found in the committed log; None if the query is
        pending after all. This takes none of the engine's time."""
        try:
            with self._log.reading() as connection:
                number = of if isinstance(of, int) else _round_of(of, logs.of_clients(connection, [of]))
                end = ending(number, (), connection)
            return None if end.kind == "sample" else late(number, label, self._live.learner.classes, end)
        except Refusal as refusal:
            return refusal

    # These are used by all parts of the engine.

    @property
    def _live(self) -> Fold:
        if self._fold is None:
            raise Refusal("storage", "the log cannot be read; try again later.")
        return self._fold

    def _write(self, kind: str, number: int, **values: Any) -> Event:
        event = Event(self._live.seq + 1, self._clock(), kind, number, **values)
        self._rows.append(event)
        self._live.count(event)
        return event

    def _recorded(self, ids: Sequence[str]) -> dict[str, Event]:
        """The samples with these client ids, including those that are not committed yet."""
        found = {name: event for name in ids if (event := self._uncommitted(name)) is not None}
        others = [name for name in ids if name not in found]
        if others:
            found |= {str(event.client_id): event for event in logs.of_clients(self._connection, others)}
        return found

    def _uncommitted(self, name: str) -> Event | None:
        """The sample with this client id, if it is not committed yet."""
        decided, place = self._fresh.get(name, (None, 0))
        return None if decided is None else decided.event(place)

    def _ending(self, number: int) -> Event:
        """The event that ended the query of a round, committed or not: see `ending`."""
        fresh = [one.of_round(number) if isinstance(one, DecidedSamples) else [one] for one in self._rows]
        return ending(number, chain.from_iterable(fresh), self._connection)

    def _expired(self, number: int) -> None:
        self._live.learner.expire(number)
        self._desk.remove(number)
        self._write("expire", number)

    def _answered(self, of: int | str, label: int, who: str) -> AnsweredQuery | Refusal:
        live = self._live
        try:
            number = of if isinstance(of, int) else _round_of(of, list(self._recorded([of]).values()))
            name = live.learner.classes[label]
            if number in self._desk.waiting:
                live.learner.tell(number, name)
                sample = self._desk.remove(number).event
                self._desk.check(sample, self._write("label", number, label=label, who=who))
                return AnsweredQuery(number, name, "learned")
            one = self._desk.checks.get(number)
            if one is not None and one.first is not None and one.suits(person_of(who)):
                del self._desk.checks[number]
                self._write("second", number, label=label, who=who, decision=one.first.label)
                return AnsweredQuery(number, name, "second")
            return late(number, label, live.learner.classes, self._ending(number))
        except Refusal as refusal:
            return refusal
        except InputError as error:  # the model can no longer score the sample
            return Refusal("refused", str(error))

    def _at_hand(self, number: int, holder: str) -> Waiting:
        """The query, or the sample for a second opinion, if nobody else holds it."""
        one = self._desk.checks.get(number) or self._pending(number)
        if self._desk.left(one) is not None and one.holder != holder:
            raise Refusal("held", f"round {number} is held by somebody else; leave it to them.")
        return one

    def _pending(self, number: int) -> Waiting:
        if number not in self._desk.waiting:
            if self._ending(number).kind == "expire":
                raise too_late(number)
            raise Refusal("answered", f"round {number} was already answered.")
        return self._desk.waiting[number]


def _round_of(client_id: str, found: Sequence[Event]) -> int:
    if not found:
        raise Refusal("unknown", f"there is no sample with the id {client_id!r}.")
    return found[0].round
