"""What would have happened: the recorded stream, replayed under other settings.

Samples, labels and expiries come in the order of the log. A query that was not asked at the time has no label in the
log, so it expires at once. The accuracy of the replayed decisions is estimated from the labels of the log and the
probabilities with which they were asked for. Those were drawn independently of the replay, so the estimate is as sound
as that of the service itself (`osamd.accounting.accuracy`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql

from osamd.accounting import accuracy as accuracies
from osamd.errors import InputError, lookup
from osamd.learner.ask_tell import AskTell
from osamd.paper.methods import KNOWN
from osamd.reporting.tables import Table
from osamd.service.database_tables import about, events
from osamd.service.folder import ServiceState
from osamd.service.log import Event, Log, schema_by

WINDOW = 1000
ASKING = {"budget", "budget_window", "max_labels", "floor", "target_accuracy", "method", "sigma"}
"""Settings that make recorded changes of the budget meaningless."""


@dataclass
class ReplayedStream:
    """The outcome of the stream under some settings."""

    rounds: int = 0
    asked: int = 0
    told: int = 0
    same: int = 0
    """Rounds with the recorded decision."""
    without_label: int = 0
    """Queries without a label in the log."""
    accuracy: accuracies.Accuracy | None = None
    guesses: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    """The pending queries of this run whose labels are in the log."""


def show_replay(folder: Path, database: str | None, changes: Mapping[str, Any]) -> None:
    """The body of `osamd replay`."""
    from osamd.reporting.terminal import show
    from osamd.service.server import opened

    if "method" in changes:
        lookup("replay", "method", changes["method"], KNOWN)
    with opened(folder, database) as (state, log):
        before, after = replay(state, log, **changes)
    show(table(before, after, changes))


def table(before: ReplayedStream, after: ReplayedStream, changes: Mapping[str, Any]) -> Table:
    """Both outcomes side by side."""
    shown = ", ".join(f"{name} {value}" for name, value in changes.items()) or "the same settings"
    rows = [
        ("labels asked for", *(f"{100 * one.asked / one.rounds:.2f} %" for one in (before, after))),
        ("labels received", *(f"{one.told:,}" for one in (before, after))),
        ("accuracy", *(_accuracy(one) for one in (before, after))),
        ("decided as recorded", *(f"{100 * one.same / one.rounds:.2f} %" for one in (before, after))),
    ]
    notes = ["The accuracy is estimated from the recorded labels, with 90 % intervals."]
    if after.without_label:
        notes.append(
            f"{after.without_label:,} of the {after.asked:,} queries have no label in the log, so they taught nothing;"
            " with their labels it would have learned more."
        )
    return Table(f"{before.rounds:,} recorded rounds, and {shown}", ("", "recorded", "replayed"), rows, notes)


def _accuracy(played: ReplayedStream) -> str:
    return "not known" if played.accuracy is None else str(played.accuracy)


def replay(state: ServiceState, log: Log, **changes: Any) -> tuple[ReplayedStream, ReplayedStream]:
    """The stream as it was recorded, and the stream with these settings changed (see `AskTell.remade`)."""
    if log.last() == 0:
        raise InputError(f"{log.name} holds no samples yet; send some first, or give the database=... that it is in.")
    if (begins := log.begins()) > 0:
        raise InputError(
            f"{log.name} was archived or erased up to event {begins}, so the stream cannot be replayed from its"
            " start; use an older backup."
        )
    if _identity(log) != state.identity:
        raise InputError(f"{log.name} belongs to another learner than {state.folder}; name its own folder.")
    as_it_was = state.learner()
    changed = as_it_was.remade(**changes) if changes else as_it_was.copy()
    recorded = RecordedLog(log.last(), _answered(log), len(schema_by(log, state.schema).classes), follows_budget=True)
    before = _played(state, log, as_it_was, recorded)
    other = recorded._replace(follows_budget=not set(changes) & ASKING)
    return before, _played(state, log, changed, other)


def _identity(log: Log) -> str | None:
    with log.reading() as connection:
        found: str | None = connection.execute(sql.select(about.c.value).where(about.c.key == "start")).scalar()
    return found


def _answered(log: Log) -> set[int]:
    """The rounds with a label in the log."""
    with log.reading() as connection:
        return set(connection.execute(sql.select(events.c.round).where(events.c.kind == "label")).scalars())


def _upto(log: Log, last: int) -> Iterator[Event]:
    """The events up to this one; a running service may write more in the meantime."""
    for event in log.all_since(0):
        if event.seq > last:
            return
        yield event


class RecordedLog(NamedTuple):
    """What the replay takes from the log."""

    last: int
    """The last event."""
    answered: set[int]
    """The rounds with a label."""
    classes: int
    """The number of classes at the end."""
    follows_budget: bool
    """Whether recorded changes of the budget are applied: not if another budget is tried."""


def _played(state: ServiceState, log: Log, learner: AskTell, recorded: RecordedLog) -> ReplayedStream:
    played, meter = ReplayedStream(), accuracies.open_meter(recorded.classes, WINDOW)
    for event in _upto(log, recorded.last):
        if event.kind == "sample":
            _sample(state, learner, meter, played, event, recorded.answered)
        elif event.kind in ("label", "expire"):
            _ended(learner, meter, played, event)
        elif event.kind == "class":
            learner.add_class(json.loads(event.body or "")["name"])
        elif event.kind == "budget" and recorded.follows_budget:
            learner = learner.remade(**json.loads(event.body or ""))
    played.accuracy = accuracies.accuracy(meter)
    return played


def _sample(
    state: ServiceState,
    learner: AskTell,
    meter: Any,
    played: ReplayedStream,
    event: Event,
    answered: set[int],
) -> None:
    assert event.features is not None
    assert event.probability is not None
    decision = learner.ask(state.samples(np.frombuffer(event.features).copy()[None])[0])
    chosen, pseudolabel = learner.classes.index(decision.label), learner.classes.index(decision.pseudolabel)
    guess = accuracies.expect(meter, decision.margin, event.probability, bool(event.query), chosen, pseudolabel)
    if event.query:
        played.guesses[event.round] = (played.rounds, event.probability, guess, chosen, pseudolabel, decision)
    played.rounds += 1
    played.same += chosen == event.decision
    if not decision.query:
        learner.tell(decision)
        return
    played.asked += 1
    played.without_label += event.round not in answered
    if event.query:
        played.waiting.add(decision.id)
    else:
        learner.expire(decision)


def _ended(learner: AskTell, meter: Any, played: ReplayedStream, event: Event) -> None:
    place, probability, guess, chosen, pseudolabel, decision = played.guesses.pop(event.round)
    if event.kind == "expire":
        accuracies.lost(meter, place)
        if decision.id in played.waiting:
            learner.expire(decision.id)
            played.waiting.remove(decision.id)
        return
    assert event.label is not None
    accuracies.confirm(meter, place, probability, guess, chosen, pseudolabel, event.label)
    if decision.id in played.waiting:
        learner.tell(decision.id, learner.classes[event.label])
        played.waiting.remove(decision.id)
        played.told += 1
