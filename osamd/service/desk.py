"""The desk: pending queries, who holds which, and second opinions.

It is kept in memory and rebuilt from the log. Leases use a clock that never jumps. The log has only the first claim of
a query by a person, not its renewals, so a lease that was renewed before a crash may end early.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sql

from osamd.service import log as logs
from osamd.service.log import Event

LONGEST_LEASE = 3600.0
"""Seconds."""
MOST_CHECKS = 200
"""The most answered samples that wait for a second opinion; beyond it, the oldest go without one."""
ENDS = ("label", "expire", "none")
"""The kinds of events that end a query."""


class Refusal(Exception):
    """A request that cannot be fulfilled, with a stable code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class AnsweredQuery(NamedTuple):
    """The outcome of a label: learned, repeated (the same as before), or kept as a second opinion or correction."""

    round: int
    label: Any
    status: str


@dataclass
class Waiting:
    """A pending query, or an answered one that waits for a second opinion."""

    event: Event
    skips: int = 0
    holder: str | None = None
    until: float = 0.0
    """When the lease ends, by the steady clock."""
    unsure: set[str] = field(default_factory=set)
    """People who did not know."""
    first: Event | None = None
    """The first answer, if this waits for a second opinion."""

    def held(self, now: float) -> bool:
        return self.holder is not None and self.until > now

    def release(self) -> None:
        self.skips, self.holder = self.skips + 1, None

    def suits(self, person: str) -> bool:
        """Whether this person can be asked: they have neither said that they don't know nor given the first answer."""
        return person not in self.unsure and (self.first is None or person_of(self.first.who or "") != person)


def person_of(who: str) -> str:
    """The person who signed an event: the name of the token, or without tokens the name of the tab."""
    name, _, _ = who.partition("/")
    return who if name == "local" else name


class LabelDesk:
    """See the module; `steady` is a clock that never jumps, in seconds."""

    def __init__(self, steady: Callable[[], float], second_opinion: float = 0.0) -> None:
        self._steady, self._share = steady, second_opinion
        self.waiting: dict[int, Waiting] = {}
        self.checks: dict[int, Waiting] = {}
        self._ids: dict[str, int] = {}

    def restore(self, connection: sql.Connection, pending: Sequence[int], wall: float) -> None:
        """Restore these queries from the log; `wall` is the current time in seconds since 1970."""
        for event in logs.of_rounds(connection, pending, ("sample",)):
            self.add(event)
        for event in logs.of_rounds(connection, pending, ("claim", "skip", "unsure")):
            one = self.waiting[event.round]
            if event.kind == "claim":
                left = min((event.until or 0.0) - wall, LONGEST_LEASE)
                one.holder, one.until = event.who, self._steady() + left
            else:
                one.release()
                one.unsure |= {person_of(event.who or "")} if event.kind == "unsure" else set()
        if self._share > 0.0:
            self._restore_checks(connection)

    def _restore_checks(self, connection: sql.Connection) -> None:
        recent = logs.recent(connection, ("label", "second", "correct"), most=20 * MOST_CHECKS)
        done = {event.round for event in recent if event.kind != "label"}
        first = {event.round: event for event in recent if event.kind == "label" and event.label is not None}
        for sample in logs.of_rounds(connection, [n for n in first if n not in done and self._chosen(n)], ("sample",)):
            self.check(sample, first[sample.round])

    def add(self, event: Event) -> None:
        """Add a pending query."""
        self.waiting[event.round] = Waiting(event)
        if event.client_id is not None:
            self._ids[event.client_id] = event.round

    def remove(self, number: int) -> Waiting:
        """Remove a query that is no longer pending."""
        one = self.waiting.pop(number)
        self._ids.pop(one.event.client_id or "", None)
        return one

    def forget(self, name: str) -> None:
        """Forget the claims and the "don't know" answers of this labeller, and second opinions on their answers."""
        for one in (*self.waiting.values(), *self.checks.values()):
            one.unsure = {who for who in one.unsure if not _is(who, name)}
            if _is(one.holder or "", name):
                one.holder = None
        self.checks = {k: v for k, v in self.checks.items() if not _is((v.first and v.first.who) or "", name)}

    def check(self, sample: Event, first: Event) -> None:
        """Ask a second person, if this sample was chosen for a second opinion."""
        if not self._chosen(sample.round):
            return
        self.checks[sample.round] = Waiting(sample, first=first)
        while len(self.checks) > MOST_CHECKS:
            del self.checks[next(iter(self.checks))]

    def _chosen(self, number: int) -> bool:
        """Whether two people judge this round; a digest of the round decides, so the log need not record it."""
        return zlib.crc32(str(number).encode()) < self._share * 2**32

    def awaits(self, of: int | str) -> bool:
        """Whether this round, or the sample with this client id, waits for an answer. It is safe from any thread."""
        number = of if isinstance(of, int) else self._ids.get(of, -1)
        return number in self.waiting or number in self.checks

    def ordered(self, order: str = "oldest") -> list[Waiting]:
        """The pending queries, the oldest or the least certain first; skipped ones come after the others."""
        return _sorted(list(self.waiting.values()), order)

    def held(self) -> int:
        """The number of queries that somebody holds."""
        now = self._steady()
        return sum(one.held(now) for one in list(self.waiting.values()))

    def claim(self, holder: str, order: str, limit: int, lease: float) -> list[tuple[Waiting, bool]]:
        """Lease queries to this person: first those they hold (skipped ones last), then free ones, then samples for a
        second opinion. Each comes with whether it is new to them."""
        now, person = self._steady(), person_of(holder)
        everything = list(self.waiting.values()) + list(self.checks.values())
        own = sorted((one for one in everything if one.holder == holder and one.held(now)), key=lambda one: one.skips)
        free = [one for one in self.ordered(order) if not one.held(now) and one.suits(person)]
        second = [one for one in _sorted(list(self.checks.values()), order) if not one.held(now) and one.suits(person)]
        chosen = (own + free + second)[:limit]
        new = [one.holder != holder or not one.held(now) for one in chosen]
        for one in chosen:
            one.holder, one.until = holder, now + lease
        return list(zip(chosen, new, strict=True))

    def left(self, one: Waiting) -> float | None:
        """Seconds until the lease ends; None if nobody holds the query."""
        now = self._steady()
        return one.until - now if one.held(now) else None


def _is(who: str, name: str) -> bool:
    return who == name or who.startswith(f"{name}/")


def _sorted(waiting: list[Waiting], order: str) -> list[Waiting]:
    if order == "valuable":
        return sorted(waiting, key=lambda one: (one.skips, one.event.margin))
    return sorted(waiting, key=lambda one: (one.skips, one.event.round))


def ending(number: int, rows: Iterable[Event], connection: sql.Connection) -> Event:
    """The event that ended the query of a round, from uncommitted events or from the log; a refusal if the round was
    no query. If the query is still pending, its event of the kind "sample"."""
    fresh = [one for one in rows if one.round == number]
    known = fresh + logs.of_rounds(connection, [number], ("sample", *ENDS))
    ended = [one for one in known if one.kind in ENDS]
    samples = [one for one in known if one.kind == "sample"]
    if ended:
        return ended[-1]
    if not samples:
        raise Refusal("unknown", f"there is no round {number}.")
    if not samples[0].query:
        raise Refusal("not-asked", f"round {number} was no query; the learner has already learned from its sample.")
    return samples[0]


def late(number: int, label: int, names: Sequence[Any], end: Event) -> AnsweredQuery:
    """The outcome of an answer to a round that has already ended: repeated if it is the same, else refused."""
    if end.kind == "expire":
        raise too_late(number)
    if end.kind == "none" or end.label != label:
        given = "none of these" if end.kind == "none" else repr(names[end.label or 0])
        given = "an answer that was erased" if end.who == "(erased)" else given
        raise Refusal("answered", f"round {number} was already answered: {given}; the first answer stands.")
    return AnsweredQuery(number, names[label], "repeated")


def too_late(number: int) -> Refusal:
    return Refusal("expired", f"round {number} has expired and takes no answer any more.")
