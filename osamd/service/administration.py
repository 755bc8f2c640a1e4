"""What admins do while a stream runs: change its budget or classes, archive old events, erase a person's data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.service import log as logs
from osamd.service import retention
from osamd.service.desk import Refusal
from osamd.service.people import People
from osamd.service.retention import Old
from osamd.service.schema import Schema


class Changes(People):
    """The part of the engine for admins. The methods run in the engine's thread and refuse before they change
    anything."""

    _decided: Array
    """Decisions for each class since the last point of the history."""
    _wrote_early = False
    """Whether events were written before the end of the transaction."""

    def change_budget(self, changes: dict[str, Any], who: str) -> dict[str, Any]:
        """Change the budget from the next round on (`AskTell.remade`), and return the new limits."""
        self._change("budget", changes, who)
        return self._live.learner.limits._asdict()

    def add_class(self, named: dict[str, Any], who: str) -> list[Any]:
        """Add a class, and return all classes."""
        self._change("class", named, who)
        self._decided = np.append(self._decided, 0.0)
        return self._live.learner.classes

    def archivable(self, before: float) -> Old | None:
        """Take a snapshot, and return the events before this time (seconds since 1970) that can be archived."""
        self._keep_snapshot()
        upto = retention.last_before(self._connection, before, self._live.seq)
        return Old(upto, frozenset(self._desk.waiting) | frozenset(self._desk.checks)) if upto else None

    def drop_archived(self, old: Old, file: str, who: str) -> int:
        """Delete the events that were written into this file, and return their number."""
        number = retention.drop_old(self._connection, old)
        body = json.dumps({"upto": old.upto, "events": number, "file": file})
        self._write("archive", self._live.learner.rounds, who=who, body=body)
        return number

    def erase(self, ids: Sequence[str], rounds: Sequence[int], labeller: str | None, who: str) -> dict[str, int]:
        """Blank the samples with these client ids or rounds, and all answers of a labeller. The learner keeps what it
        has learned from them; their pending queries expire."""
        known = {name: event.round for name, event in self._recorded(ids).items()}
        missing = [name for name in ids if name not in known]
        if missing:
            raise Refusal("unknown", f"there is no sample with the id {missing[0]!r}; nothing was erased.")
        chosen = {*known.values(), *rounds}
        for number in sorted(chosen & set(self._desk.waiting)):
            self._expired(number)
        for number in chosen & set(self._desk.checks):
            del self._desk.checks[number]
        if labeller is not None:
            self._desk.forget(labeller)
        event = self._write("erase", self._live.learner.rounds, who=who)
        self._keep_snapshot()
        told = {"samples": retention.erase_samples(self._connection, chosen), "answers": 0}
        if labeller is not None:
            told["answers"] = retention.erase_answers(self._connection, labeller)
        logs.begin_at(self._connection, event.seq)
        logs.describe(self._connection, event.seq, json.dumps(told))
        return told

    def _keep_snapshot(self) -> None:
        """Write the events so far and a snapshot into the transaction."""
        self._commit(self._connection, True)
        self._wrote_early = True

    @property
    def schema(self) -> Schema:
        """The current schema. It may be read from any thread."""
        return self.state.schema if self._fold is None else self._fold.schema

    def _change(self, kind: str, body: dict[str, Any], who: str) -> None:
        live = self._live
        try:
            live.change(kind, body)
        except InputError as error:
            raise Refusal("refused", str(error)) from error
        self._write(kind, live.learner.rounds, who=who, body=json.dumps(body, allow_nan=False))
