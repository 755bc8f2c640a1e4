"""Hard streams: the preset beside the paper's OSAMD at the same budget, and OMD with every label.

All streams are the paper's Rotating Gaussian with a hardship or a change around it. Every method begins from the same
`SOURCE` labelled samples. Accuracy is against the true labels, also where those that are told are noisy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.evaluation.intervals import Mean, mean_90
from osamd.evaluation.many import run_many
from osamd.evaluation.recovery import POINT, WINDOW, Recovery, recovery
from osamd.learner import OSAMD
from osamd.methods import METHODS, PRESET
from osamd.reproduce.results import Report, Table, in_seeds, in_words
from osamd.reproduce.rotating_gaussian import paper_settings
from osamd.streams import (
    Changed,
    Hardship,
    IrrelevantFeatures,
    NoisyLabels,
    RareClass,
    Stream,
    UnscaledFeatures,
    abrupt,
    gradual,
    recurring,
    relabel,
    rotating_gaussian,
)

SOURCE = 200
"""Labelled samples of the first domain that every method starts from."""
ROUNDS, RATE = 4000, 0.05
NOISE, RATIO, IRRELEVANT = 0.1, 20.0, 20


def still(rounds: int) -> Stream:
    """The first domain for ever."""
    stream = rotating_gaussian(rounds)
    stream.turn = 0.0
    return stream


def flip(stream: Stream) -> Stream:
    """All labels swapped from the middle on."""
    return Changed(stream, relabel([1, 0]), abrupt(stream.rounds // 2))


def gradual_flip(stream: Stream) -> Stream:
    """The same, a round at a time: the share of swapped labels grows over the middle quarter."""
    return Changed(stream, relabel([1, 0]), gradual(3 * stream.rounds // 8, 5 * stream.rounds // 8))


STREAMS: dict[str, tuple[str, Callable[[int], Stream]]] = {
    "no-drift": ("no drift", still),
    "rotation": ("rotation (the paper's)", rotating_gaussian),
    "flip": ("rotation, abrupt flip", lambda n: flip(rotating_gaussian(n))),
    "recurring": (
        "rotation, recurring flips",
        lambda n: Changed(rotating_gaussian(n), relabel([1, 0]), recurring(n // 4)),
    ),
    "gradual": ("rotation, gradual flip", lambda n: gradual_flip(rotating_gaussian(n))),
    "noise": ("label noise 10 %", lambda n: NoisyLabels(rotating_gaussian(n), NOISE)),
    "imbalance": ("imbalance 20:1", lambda n: RareClass(rotating_gaussian(n), ratio=RATIO)),
    "irrelevant": ("20 irrelevant features", lambda n: IrrelevantFeatures(rotating_gaussian(n), IRRELEVANT)),
    "unscaled": ("unscaled features", lambda n: UnscaledFeatures(rotating_gaussian(n))),
    "noise-flip": ("label noise 10 %, flip", lambda n: NoisyLabels(flip(rotating_gaussian(n)), NOISE)),
    "irrelevant-flip": (
        "20 irrelevant features, flip",
        lambda n: IrrelevantFeatures(flip(rotating_gaussian(n)), IRRELEVANT),
    ),
}
"""By name: a title, and the stream of so many rounds."""

ENDS = {"gradual": 5 / 8}
"""Where recovery begins at the end of a change and not where it begins to move: the share of the rounds."""

LEVEL_STREAM, LEVEL_METHOD = "rotation", "omd-all"
"""Back is back within a point of the accuracy of this method on this stream: all labels, and no flip."""


def _paper() -> dict[str, Any]:
    settings = paper_settings()
    named = ("eta", "sigma", "loss", "teacher", "adaptation")
    return {name: getattr(settings, name) for name in named}


LEARNERS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "osamd-preset": (PRESET.title, lambda: {"method": PRESET.name}),
    "osamd": (METHODS["osamd"].title, lambda: {"method": "osamd", **_paper()}),
    "osamd-standardised": (f"{METHODS['osamd'].title}, standardised", lambda: {"method": "osamd", "standardise": True}),
    "omd-all": (METHODS["omd-all"].title, lambda: {"method": "omd-all", **_paper()}),
    "omd-all-standardised": (
        f"{METHODS['omd-all'].title}, standardised",
        lambda: {"method": "omd-all", "standardise": True},
    ),
}
"""By name: a title, and settings of `osamd.OSAMD`. The paper's settings are for features as they come; on standardised
ones stand the defaults of the class."""


@dataclass(frozen=True)
class Task:
    """One run: a learner of `LEARNERS` on a stream of `STREAMS` and a seed."""

    stream: str
    learner: str
    seed: int
    rounds: int
    rate: float


class Run(NamedTuple):
    """By round: whether the decision was right, whether the label was asked for, and the true class."""

    right: NDArray[np.bool_]
    asked: NDArray[np.bool_]
    truth: NDArray[np.int64]

    def accuracy_of(self, index: int) -> float:
        """Among the rounds of one class, of which a short stream may have none: then it is 1."""
        right = self.right[self.truth == index]
        return float(right.mean()) if len(right) else 1.0


def run(task: Task) -> Run:
    """Play one learner on one stream; labels come at once."""
    stream = STREAMS[task.stream][1](task.rounds)
    settings = LEARNERS[task.learner][1]()
    if settings["method"] != "omd-all":
        settings["budget"] = task.rate
    learner = OSAMD.from_source(*stream.source(SOURCE, task.seed), classes=[0, 1], seed=task.seed, **settings)
    x, y = stream.sample(task.seed)
    truth = stream.truth(task.seed) if isinstance(stream, Hardship) else y
    decided, asked = np.zeros(len(y), dtype=np.int64), np.zeros(len(y), dtype=np.bool_)
    for t, (row, label) in enumerate(zip(x, y.tolist(), strict=True)):
        decision = learner.ask(row)
        decided[t], asked[t] = decision.label, decision.query
        learner.tell(decision, label if decision.query else None)
    return Run(decided == truth, asked, truth)


Runs = Mapping[str, Mapping[str, Sequence[Run]]]


def number_of_runs(seeds: int) -> int:
    """How many runs `experiment` makes, for a progress bar."""
    return len(STREAMS) * len(LEARNERS) * seeds


def experiment(
    seeds: int,
    rounds: int = ROUNDS,
    rate: float = RATE,
    *,
    workers: int | None = None,
    progress: Callable[[], None] | None = None,
) -> Runs:
    """All runs, by stream and learner, one for each seed 0, ..., seeds - 1."""
    tasks = [Task(s, m, seed, rounds, rate) for s in STREAMS for m in LEARNERS for seed in range(seeds)]
    done = dict(zip(tasks, run_many(run, tasks, workers=workers, progress=progress), strict=True))
    return {s: {m: [done[Task(s, m, seed, rounds, rate)] for seed in range(seeds)] for m in LEARNERS} for s in STREAMS}


def changes(stream: str, rounds: int) -> list[int]:
    """The rounds from which recovery is counted: where a flip begins, or where a gradual one has ended."""
    if stream in ENDS:
        return [int(ENDS[stream] * rounds)]
    drift = STREAMS[stream][1](rounds).drift
    return [] if drift is None else list(drift.changes)


def report(runs: Runs, rounds: int, rate: float) -> Report:
    """Accuracy and labels of every learner on every stream, and rounds and labels until back after each change."""
    seeds = len(runs[LEVEL_STREAM][LEVEL_METHOD])
    level = mean_90([one.right.mean() for one in runs[LEVEL_STREAM][LEVEL_METHOD]]).mean
    streams = {name: _stream(name, by, rounds, level) for name, by in runs.items()}
    titles = [title for title, _ in LEARNERS.values()]
    over = in_seeds(seeds, ", mean ± half-width of the 90 % interval")
    changed = {name: found for name, found in streams.items() if found["changes"]}
    return Report(
        [
            Table(
                f"Accuracy % (labels %), {rounds} rounds, budget {100 * rate:g} %, {over}",
                ["stream", *titles],
                [[found["title"], *(_shown(found["learners"][m]) for m in LEARNERS)] for found in streams.values()],
            ),
            Table(
                f"Rounds (labels) after each flip until back at {100 * (level - POINT):.1f} %",
                ["stream", *titles],
                [[found["title"], *(_backs(found["learners"][m]) for m in LEARNERS)] for found in changed.values()],
                [
                    f"Back: the first of {WINDOW} rounds over which the mean over seeds is within a point of"
                    f" {100 * level:.1f} %, what OMD (all) has without a flip.",
                    "A gradual flip counts from its end.",
                ],
            ),
        ],
        {
            "rounds": rounds,
            "seeds": seeds,
            "budget": rate,
            "source": SOURCE,
            "level": level,
            "tolerance": POINT,
            "window": WINDOW,
            "streams": streams,
        },
    )


def _stream(name: str, by: Mapping[str, Sequence[Run]], rounds: int, level: float) -> dict[str, Any]:
    """What is written of one stream."""
    starts = changes(name, rounds)
    learners = {}
    for learner, some in by.items():
        right, asked = np.stack([one.right for one in some]), np.stack([one.asked for one in some])
        backs = [
            {
                "change": start,
                **recovery(right, asked, change=start, stop=stop, level=level)._asdict(),
                "rounds_by_seed": [
                    recovery(one.right, one.asked, change=start, stop=stop, level=level).rounds for one in some
                ],
            }
            for start, stop in pairwise([*starts, rounds])
        ]
        learners[learner] = {
            "accuracy": mean_90(right.mean(axis=1))._asdict(),
            "accuracy_by_class": [mean_90([one.accuracy_of(i) for one in some])._asdict() for i in (0, 1)],
            "labels": mean_90(asked.mean(axis=1))._asdict(),
            "recovery": backs,
        }
    return {"title": STREAMS[name][0], "changes": starts, "learners": learners}


def _shown(found: Mapping[str, Any]) -> str:
    return f"{in_words(Mean(**found['accuracy']), 2, unit=0.01)} ({100 * found['labels']['mean']:.1f})"


def _backs(found: Mapping[str, Any]) -> str:
    return ", ".join(_back(Recovery(one["rounds"], one["labels"])) for one in found["recovery"])


def _back(found: Recovery) -> str:
    return "not" if found.rounds is None else f"{found.rounds} ({found.labels:.0f})"
