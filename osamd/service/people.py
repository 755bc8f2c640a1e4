"""What people do: they answer, skip, cannot tell, find no class that fits, and correct."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from osamd.errors import InputError
from osamd.service import log as logs
from osamd.service.desk import AnsweredQuery, LabelDesk, Refusal, Waiting, ending, late, person_of, too_late
from osamd.service.fold import Fold
from osamd.service.log import Event, Log
from osamd.service.state import ServiceState
from osamd.service.writer import Writer


class People(Writer):
    """The half of the engine that people use. Methods without an underscore run in the engine's thread, but for those
    that say otherwise; a refusal comes before any change."""

    def __init__(self, state: ServiceState, log: Log, clock: Callable[[], float], steady: Callable[[], float]) -> None:
        super().__init__(log, clock, steady)
        self.state = state
        self._fold: Fold | None = None
        self._desk = LabelDesk(steady)
        self._rows: list[Event] = []
        self._fresh: dict[str, Event] = {}

    def answer(self, labels: Sequence[tuple[int | str, int, str]]) -> list[AnsweredQuery | Refusal]:
        """Tell labels: (round or client id, class, who). The first answer stands."""
        return [self._answered(*label) for label in labels]

    def claim(self, holder: str, order: str, limit: int, lease: float) -> list[Waiting]:
        """Let this person have queries for a while: those held already, then others that nobody holds."""
        claimed = self._desk.claim(holder, order, limit, lease)
        for one, new in claimed:
            if new:
                self._write("claim", one.event.round, who=holder, until=self._clock() + lease)
        return [one for one, _ in claimed]

    def skip(self, number: int, holder: str) -> None:
        """Put a query behind those that were skipped less often."""
        one = self._at_hand(number, holder)
        one.release()
        self._write("skip", number, who=holder)

    def unsure(self, number: int, holder: str) -> Literal["unsure", "expired"]:
        """This person cannot tell: others are asked, and once enough could not tell, nobody."""
        one = self._at_hand(number, holder)
        one.release()
        one.unsure.add(person_of(holder))
        self._write("unsure", number, who=holder)
        if len(one.unsure) < self.state.config.most_unsure or one.first is not None:
            return "unsure"
        self._expired(number)
        return "expired"

    def none(self, number: int, holder: str) -> None:
        """No class fits, says this person: the query ends without a label, and the model's own opinion stands in."""
        one = self._at_hand(number, holder)
        if one.first is not None:
            raise Refusal("answered", f"round {number} has a label already; correct it, if no class fits.")
        self._live.learner.expire(number)
        self._desk.remove(number)
        self._write("none", number, who=holder)

    def correct(self, number: int, label: int, who: str) -> AnsweredQuery:
        """Keep another label for a query that has ended. The learner has learned from the first answer, and cannot
        unlearn it; exports have the correction."""
        end = ending(number, self._rows, self._connection)
        if end.kind == "sample":
            raise Refusal("not-answered", f"round {number} still waits for its label; answer it.")
        self._write("correct", number, label=label, who=who, decision=end.label)
        return AnsweredQuery(number, self._live.learner.classes[label], "corrected")

    def expire(self, number: int) -> Literal["expired", "repeated"]:
        """Give up waiting for one label."""
        try:
            self._pending(number)
        except Refusal as refusal:
            if refusal.code == "expired":
                return "repeated"
            raise
        self._expired(number)
        return "expired"

    def expire_older(self, rounds: int) -> int:
        """Give up waiting for labels that were asked for more than so many rounds ago."""
        before = self._live.learner.expired
        last = self._live.learner.rounds - 1 - rounds
        waiting = self._desk.waiting
        while waiting and (oldest := next(iter(waiting))) < last:
            self._expired(oldest)
        return self._live.learner.expired - before

    # What may be called from any thread.

    def queries(self, order: str = "oldest") -> list[Waiting]:
        """The queries that wait, the oldest or the least certain first, those that were skipped behind the others."""
        return self._desk.ordered(order)

    def lease_left(self, one: Waiting) -> float | None:
        """Seconds until the lease of a query lapses; None where nobody holds it."""
        return self._desk.left(one)

    def awaits(self, of: int | str) -> bool:
        """Whether an answer to this round, or to the sample with this client id, is awaited."""
        return self._desk.awaits(of)

    def not_awaited(self, of: int | str, label: int) -> AnsweredQuery | Refusal | None:
        """What becomes of an answer that nobody awaits, from what was committed; None where it is awaited after all.
        It takes none of the engine's time."""
        try:
            with self._log.reading() as connection:
                number = of if isinstance(of, int) else _round_of(of, logs.of_clients(connection, [of]))
                end = ending(number, (), connection)
            return None if end.kind == "sample" else late(number, label, self._live.learner.classes, end)
        except Refusal as refusal:
            return refusal

    # What both halves use.

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
        """The samples with these client ids, among them those that are not committed yet."""
        found = {name: self._fresh[name] for name in ids if name in self._fresh}
        others = [name for name in ids if name not in found]
        if others:
            found |= {str(event.client_id): event for event in logs.of_clients(self._connection, others)}
        return found

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
            return late(number, label, live.learner.classes, ending(number, self._rows, self._connection))
        except Refusal as refusal:
            return refusal
        except InputError as error:  # the model can make nothing of the sample any more
            return Refusal("refused", str(error))

    def _at_hand(self, number: int, holder: str) -> Waiting:
        """A query, or a sample for a second opinion, that nobody else holds."""
        one = self._desk.checks.get(number) or self._pending(number)
        if self._desk.left(one) is not None and one.holder != holder:
            raise Refusal("held", f"round {number} is held by somebody else; leave it to them.")
        return one

    def _pending(self, number: int) -> Waiting:
        if number not in self._desk.waiting:
            if ending(number, self._rows, self._connection).kind == "expire":
                raise too_late(number)
            raise Refusal("answered", f"round {number} was answered already.")
        return self._desk.waiting[number]


def _round_of(client_id: str, found: Sequence[Event]) -> int:
    if not found:
        raise Refusal("unknown", f"there is no sample with the id {client_id!r}.")
    return found[0].round
