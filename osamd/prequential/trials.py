"""Runs of the comparison on tables, and the file that keeps the scores of the peers.

A peer's score depends on the rows, the budget, its draws and its version, but not on our learner. The peers take nearly
all of the time, so each is played once and its score is kept: one line of JSON per run.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from osamd.errors import InputError
from osamd.learner.linear import OSAMD
from osamd.prequential.compared_streams import ALL
from osamd.prequential.label_runs import score
from osamd.prequential.peers import PEERS, TABLE_STEP, Peer, PeerRows, RunScore
from osamd.prequential.refitted import REFITTED, stand_in

OURS = "osamd"
RIVALS: dict[str, Peer] = REFITTED | PEERS
"""All peers that can be named; the default ones come first."""

HELD = 128
"""How many drawn streams a process keeps, since many learners play each: enough for all streams of a seed."""


class Trial(NamedTuple):
    """One run: a learner at a budget, on at most `rounds` rows that the seed draws from a stream."""

    stream: str
    seed: int
    budget: float
    learner: str
    rounds: int


class Size(NamedTuple):
    """The size of the rows that a seed draws from a stream, and a digest that identifies them."""

    rounds: int
    features: int
    classes: int
    digest: str


class Key(NamedTuple):
    """What a peer's score depends on; its title says its settings."""

    rows: str
    seed: int
    budget: float
    peer: str
    version: str


@lru_cache(maxsize=HELD)
def drawn(stream: str, seed: int, rounds: int) -> PeerRows:
    """The rows that a seed draws from a stream, without a source."""
    x, y = ALL[stream](seed, rounds)
    x, y = np.ascontiguousarray(x, np.float64), np.ascontiguousarray(y, np.int64)
    return PeerRows((x[:0], y[:0]), (x, y), int(y.max()) + 1, TABLE_STEP)


@cache
def size(stream: str, seed: int, rounds: int) -> Size:
    rows = drawn(stream, seed, rounds)
    x, y = rows.stream
    return Size(len(y), int(x.shape[1]), rows.classes, hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest()[:16])


def standing_in(trial: Trial) -> Trial:
    """The equivalent run of another peer, if the window of labels holds all that can be asked for."""
    most = math.floor(trial.budget * size(trial.stream, trial.seed, trial.rounds).rounds)
    return trial._replace(learner=stand_in(trial.learner, most))


def key(trial: Trial) -> Key:
    peer = RIVALS[trial.learner]
    rows = size(trial.stream, trial.seed, trial.rounds).digest
    return Key(rows, trial.seed, trial.budget, peer.title, f"{peer.package} {peer.version}")


def identity(trial: Trial) -> str:
    """What our learner's score depends on, besides the sources of this package."""
    return repr((size(trial.stream, trial.seed, trial.rounds).digest, trial))


def play(trial: Trial) -> RunScore:
    """Play one trial; a peer must keep the budget at every round, as our learner does."""
    rows = drawn(trial.stream, trial.seed, trial.rounds)
    x, y = rows.stream
    if trial.learner == OURS:
        learner = OSAMD(
            features=int(x.shape[1]), classes=list(range(rows.classes)), budget=trial.budget, seed=trial.seed
        )
        return score(learner, x, y.tolist())
    return RIVALS[trial.learner].play(rows, trial.budget, trial.seed, strict=True)


def keep(path: Path, trial: Trial, found: RunScore) -> None:
    """Append a line; a write this short is atomic, even if several comparisons write at once."""
    line = {"stream": trial.stream, "rounds": trial.rounds} | key(trial)._asdict() | found._asdict()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")


def kept_scores(path: Path) -> dict[Key, RunScore]:
    """The scores in the file; none if it does not exist. A last line that an interruption cut short is ignored."""
    if not path.exists():
        return {}
    found = {}
    lines = path.read_text().split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line) if line else None
        except json.JSONDecodeError as error:
            if number < len(lines):
                raise InputError(
                    f"`compare(kept={str(path)!r})`: line {number} is no JSON; delete the line, or the file."
                ) from error
            entry = None
        if entry:
            found[Key(*(entry[name] for name in Key._fields))] = RunScore(*(entry[name] for name in RunScore._fields))
    return found


def cheapest_first(trials: Sequence[Trial]) -> list[Trial]:
    """Slow runs come last, and among them those with many labels, so that an interrupted comparison has most runs."""

    def order(trial: Trial) -> tuple[bool, float, int]:
        return trial.learner != OURS and RIVALS[trial.learner].slow, trial.budget, trial.seed

    return sorted(trials, key=order)
