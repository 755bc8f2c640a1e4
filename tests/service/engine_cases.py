"""What the tests of the engine share: learners, a clock to set, and an engine to drive, stop and kill."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import sqlalchemy as sql

import osamd
from benchmarks.service_kills import content_of
from osamd.service import engine as engines
from osamd.service.desk import Refusal
from osamd.service.engine import Engine
from osamd.service.fold import Fold
from osamd.service.folder import ServiceState, create, open_state
from osamd.service.inferred_schema import of_learner
from osamd.service.log import Event, Log
from osamd.service.schema import Schema

WIDTH = 3


class Clock:
    """Seconds since 1970, as a test sets them."""

    def __init__(self, now: float = 1.7e9) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def linear_state(folder: Path, classes: int = 2, limits: dict[str, Any] | None = None, **settings: Any) -> ServiceState:
    names = ["cat", "dog", "owl"][:classes]
    numbers = range(1000, 1060)
    learner = osamd.OSAMD.from_source(
        [row(n) for n in numbers],
        [names[label_of(n, classes)] for n in numbers],
        **({"sigma": 1.0, "seed": 5} | settings),
    )
    return create(folder, learner, **(limits or {}))


def small_module() -> Any:
    """What a service imports by its name."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, 3))


def module_state(folder: Path, **settings: Any) -> ServiceState:
    torch = pytest.importorskip("torch", reason="networks need PyTorch: pip install 'osamd[deep]'")
    torch.set_num_threads(1)  # small tensors gain nothing from more, and a busy machine loses much
    from osamd.learner.network import NetworkOSAMD

    names = ["cat", "dog", "owl"]
    learner = NetworkOSAMD(small_module(), classes=names, seed=5, **(settings or {"eta": 0.02, "sigma": 0.5}))
    schema: Schema = of_learner(names, WIDTH, "networks")
    return create(folder, learner, schema=schema, module="engine_cases:small_module")


def row(number: int) -> Any:
    """The sample of this number."""
    return np.random.default_rng(number).normal(size=WIDTH) + 1.5 * np.eye(WIDTH)[number % WIDTH]


def label_of(number: int, classes: int) -> int:
    """The class of that sample."""
    return min(number % WIDTH, classes - 1)


class Service:
    """An engine over a log. Leaving it stops the engine; `kill` leaves the log as it is."""

    def __init__(self, state: ServiceState, url: str | Path, clock: Clock | None = None) -> None:
        self.state, self.clock = state, clock or Clock()
        self.log = Log(url)
        self.engine = Engine(state, self.log, self.clock, self.clock)
        self._going = False

    def __enter__(self) -> Self:
        self.engine.start()
        self._going = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._going:
            self.stop()

    def stop(self) -> None:
        self._going = False
        self.engine.stop()

    def kill(self) -> None:
        """As if the process had ended at once: nothing more is written, and the system lets go of files and locks."""
        self._going = False
        self.engine._done = lambda group, stopping: [None for _ in group]  # type: ignore[method-assign]
        self.engine.stop()

    def again(self) -> Service:
        """Another process on the same log, not started yet."""
        return Service(open_state(self.state.folder), self.log._url.render_as_string(hide_password=False), self.clock)

    def do(self, name: str, *arguments: Any) -> Any:
        """Let the engine do one of its methods."""
        return asyncio.run(self.engine.do(getattr(self.engine, name), *arguments))

    def tried(self, name: str, *arguments: Any) -> Any:
        """The same, with the code of a refusal in place of the error."""
        try:
            return self.do(name, *arguments)
        except Refusal as refusal:
            return refusal.code

    def send(self, *numbers: int, ids: bool = False) -> list[Any]:
        """Samples by their numbers, and with `ids` a client id for each."""
        return list(self.do("observe", [(f"id-{n}" if ids else None, row(n)) for n in numbers]))

    def ask(self, number: int) -> list[int]:
        """Send samples until so many more queries wait; the rounds of all that wait."""
        want, n = len(self.engine.queries()) + number, 0
        while len(self.engine.queries()) < want:
            self.send(n)
            n += 1
        return [one.event.round for one in self.engine.queries()]

    def tell(self, *labels: tuple[int | str, int]) -> list[Any]:
        """Labels by round or client id: their status, or the code of the refusal."""
        told = self.do("answer", [(of, label, "me") for of, label in labels])
        return [one.code if isinstance(one, Refusal) else one.status for one in told]

    @property
    def events(self) -> list[Event]:
        return list(self.log.all_since(0))

    @property
    def learner(self) -> Any:
        assert self.engine._fold is not None
        return self.engine._fold.learner

    @property
    def waiting(self) -> list[tuple[Any, ...]]:
        """What is known of the queries that wait."""
        return [(one.event, one.skips, one.holder, one.holder and one.until) for one in self.engine.queries()]

    @property
    def points(self) -> list[str]:
        return self.log.points(10_000)

    def agrees(self) -> None:
        """The learner is the fold of the log, from its start and from its last snapshot."""
        fold = from_the_start(self.state, self.log)
        live = self.engine._fold
        assert live is not None
        assert (fold.seq, fold.today) == (live.seq, live.today)
        assert bits(fold.learner) == bits(live.learner)
        assert bits(engines.folded(self.state, self.log).learner) == bits(live.learner)


def bits(learner: Any) -> Any:
    """All that a learner is, to the last bit."""
    return content_of(learner.to_bytes())


def from_the_start(state: ServiceState, log: Log) -> Fold:
    """The whole log, folded without a snapshot."""
    fold = Fold(state, None)
    for event in log.all_since(0):
        fold.repeat(event)
    return fold


def break_commits(monkeypatch: Any, log: Log) -> None:
    """Let the writer's next statements fail as a full disk lets them; a new connection is whole again."""
    writer = log._writer
    assert writer is not None

    def refuse(*_: object, **__: object) -> None:
        raise sql.exc.OperationalError("COMMIT", {}, Exception("no space left"))

    monkeypatch.setattr(writer, "_commit_impl", refuse)
