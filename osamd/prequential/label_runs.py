"""One run of a label curve: its samples, and the method that plays them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import InputError, nearest
from osamd.learner.linear import OSAMD
from osamd.numerics import Array
from osamd.paper.methods import PRESET
from osamd.prequential.peers import PEERS, STREAM_STEP, TABLE_STEP, PeerRows, RunScore, scored
from osamd.reproduce.rotating_gaussian import paper_settings
from osamd.streams import (
    PriorShift,
    Rotating,
    Stream,
    TwoPoint,
    abrupt,
    changed,
    recurring,
    relabel,
    rotating_balls,
    rotating_gaussian,
    transform,
)
from osamd.tables import rows


def still_gaussian(rounds: int) -> Rotating:
    """The Rotating Gaussian without rotation."""
    moving = rotating_gaussian(rounds)
    return Rotating("gaussian", moving.centres.tolist(), moving.noise, rounds, turn=0.0)


STREAMS: dict[str, Callable[[int], Stream]] = {
    "rotating-gaussian": rotating_gaussian,
    "rotating-balls": rotating_balls,
    "gaussian-flip": lambda rounds: changed(still_gaussian(rounds), relabel([1, 0]), abrupt(rounds // 2)),
    "gaussian-recurring": lambda rounds: changed(
        still_gaussian(rounds), transform(-1.0), recurring(max(1, rounds // 8))
    ),
    "gaussian-priors": lambda rounds: PriorShift(rotating_gaussian(rounds), [0.1, 0.9], abrupt(rounds // 2)),
    "two-point": TwoPoint,
}
"""The streams by name: the paper's first stream; separable balls that turn; labels that swap halfway; features that
change sign and back, eight times; the paper's stream with one class in nine of ten rounds from halfway on; Theorem 2's
stream."""


class LabelRun(NamedTuple):
    """One run of a method. `place` is the name of a stream, or a file that holds a table's numbers."""

    place: str
    rounds: int
    warmup: int
    name: str
    budget: float | None
    seed: int
    strict: bool = False
    """Whether a peer must keep the budget after every round, as our methods do."""


def hold(
    where: Any, label: str | None, place: str, warmup: int, rounds: int | None, options: Mapping[str, Any]
) -> tuple[str, int]:
    """Read a table and store its numbers at `place`; returns its name, and how many rounds it has."""
    if isinstance(where, str) and where != "-" and not Path(where).exists():
        raise InputError(
            f"`labels {where}`: there is no such file, and no stream of that name. {nearest(where, STREAMS)}"
        )
    if warmup < 1:
        raise InputError(
            f"`label_curve(warmup={warmup})`: all methods start from labelled rows; give a warm-up of 1 or more."
        )
    data = rows(where, label, warmup=warmup, **options)
    blocks, count = [], 0
    for x, y in data.blocks():
        blocks.append((x, y))
        count += len(y)
        if rounds is not None and count >= rounds:
            data.close()
            break
    if not count:
        raise InputError(f"{data.name}: no row after the warm-up has a label; give a table with labelled rows.")
    x, y = (np.concatenate(part)[:rounds] for part in zip(*blocks, strict=True))
    np.savez(place, x=x, y=y, first=data.source[0], known=data.source[1], classes=len(data.classes))
    return data.name, len(y)


def digest_of(place: str) -> str:
    """A digest of the rows that were stored at `place`."""
    return hashlib.sha256(Path(place).read_bytes()).hexdigest()


def identity(rows: str, task: LabelRun) -> str:
    """What the score of a run depends on: of a table the digest of its rows, and the version of a peer."""
    version = PEERS[task.name].version if task.name in PEERS else None
    return repr((rows, task._replace(place="") if rows else task, version))


@lru_cache(maxsize=8)
def read(place: str, rounds: int, warmup: int, seed: int) -> PeerRows:
    """The source and the rows of a run; a table has the same ones for every seed."""
    if place in STREAMS:
        stream = STREAMS[place](rounds)
        return PeerRows(stream.source(warmup, seed), stream.sample(seed), len(stream.classes), STREAM_STEP)
    with np.load(place) as held:
        return PeerRows((held["first"], held["known"]), (held["x"], held["y"]), int(held["classes"]), TABLE_STEP)


def played(task: LabelRun) -> RunScore:
    """Play one method at one budget on one seed."""
    held = read(task.place, task.rounds, task.warmup, task.seed if task.place in STREAMS else 0)
    if task.name in PEERS:
        assert task.budget is not None
        return PEERS[task.name].play(held, task.budget, task.seed, task.strict)
    settings: dict[str, Any] = {"method": task.name, "seed": task.seed}
    if task.name != PRESET.name:
        settings |= own_settings(task.place)
    if task.budget is not None:
        settings["budget"] = task.budget
    return score_on(held, settings)


def score_on(rows: PeerRows, settings: Mapping[str, Any]) -> RunScore:
    """Play a learner with these settings of `osamd.OSAMD`; it starts from the source, if there is one."""
    (first, known), (x, y), count, _ = rows
    classes = list(range(count))
    if not len(known):
        return score(OSAMD(features=int(x.shape[1]), classes=classes, **settings), x, y.tolist())
    return score(OSAMD.from_source(first, known.tolist(), classes=classes, **settings), x, y.tolist())


def score(learner: OSAMD, x: Array, y: list[int]) -> RunScore:
    """Test, then train, row by row; a label is told only where it is asked for."""
    ask, tell, decided = learner.ask, learner.tell, []
    for row, label in zip(np.ascontiguousarray(x), y, strict=True):
        decision = ask(row)
        decided.append(decision.label)
        tell(decision, label if decision.query else None)
    return scored(decided, np.array(y), learner.asked)


def own_settings(place: str) -> dict[str, Any]:
    """Settings of the paper's methods: the paper's own on its first stream, else the defaults of `osamd run`."""
    if place != "rotating-gaussian":
        return {"standardise": True}
    paper = paper_settings()
    return {
        "eta": paper.eta,
        "sigma": paper.sigma,
        "loss": paper.loss,
        "teacher": paper.teacher,
        "adaptation": paper.adaptation,
    }
