"""Drifting streams: the preset, the paper's OSAMD at the same budget, and OMD with every label.

All streams are the paper's Rotating Gaussian with a hardship or a change. Every method starts from the same `SOURCE`
labelled samples. Accuracy is measured against the true labels, even if the labels that come are noisy. There are two
groups on the same streams: in one labels come at once, in the other `LATE` rounds later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from osamd.evaluation.answers import Answers, Delay
from osamd.evaluation.intervals import Mean, mean_90
from osamd.evaluation.recovery import POINT, WINDOW, Recovery, recovery
from osamd.learner.linear import OSAMD
from osamd.paper.methods import METHODS, PRESET
from osamd.reporting.tables import Report, Table, in_seeds, in_words
from osamd.reproduce.robustness.learner_runs import RobustnessRun, play, rounds_of
from osamd.reproduce.robustness.plans import RobustnessPlan, in_percent
from osamd.reproduce.rotating_gaussian import paper_settings
from osamd.streams import (
    Changed,
    IrrelevantFeatures,
    NoisyLabels,
    RareClass,
    Rotating,
    Stream,
    UnscaledFeatures,
    abrupt,
    gradual,
    recurring,
    relabel,
    rotating_gaussian,
)

SOURCE = 200
"""The number of labelled samples of the first domain that every method starts from."""
ROUNDS, BUDGETS = 4000, (0.05,)
LATE = 200
"""The delay of a label, in rounds, in the group of late labels."""
NOISE, RATIO, IRRELEVANT = 0.1, 20.0, 20


def still(rounds: int) -> Rotating:
    """The first domain, without drift."""
    stream = rotating_gaussian(rounds)
    stream.turn = 0.0
    return stream


def flip(stream: Stream) -> Stream:
    """The stream with all labels swapped from the middle on."""
    return Changed(stream, relabel([1, 0]), abrupt(stream.rounds // 2))


def gradual_flip(stream: Stream) -> Stream:
    """The same, gradually: the share of swapped labels grows over the middle quarter."""
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
"""By name: a title, and a function from the number of rounds to the stream."""

ENDS = {"gradual": 5 / 8}
"""Streams whose recovery is counted from the end of a change and not from its start, as a share of the rounds."""

LEVEL_STREAM, LEVEL_METHOD = "rotation", "omd-all"
"""Recovered means within a point of the accuracy of this method on this stream: with all labels, and no flip."""


def _paper() -> dict[str, Any]:
    settings = paper_settings()
    named = ("eta", "sigma", "loss", "teacher", "adaptation")
    return {name: getattr(settings, name) for name in named}


class Entrant(NamedTuple):
    """A column of the tables: settings of `osamd.OSAMD`, and how its queries are answered."""

    title: str
    settings: Callable[[], dict[str, Any]]
    answers: Answers = Answers()


def _preset() -> dict[str, Any]:
    return {"method": PRESET.name}


def _paper_settings(method: str) -> dict[str, Any]:
    return {"method": method, **_paper()}


def _standardised(method: str) -> dict[str, Any]:
    return {"method": method, "standardise": True}


_OSAMD, _OMD_ALL, _LATE = METHODS["osamd"].title, METHODS["omd-all"].title, Answers(Delay(fixed=LATE))

LEARNERS: dict[str, Entrant] = {
    "osamd-preset": Entrant(PRESET.title, _preset),
    "osamd": Entrant(_OSAMD, partial(_paper_settings, "osamd")),
    "osamd-standardised": Entrant(f"{_OSAMD}, standardised", partial(_standardised, "osamd")),
    "omd-all": Entrant(_OMD_ALL, partial(_paper_settings, "omd-all")),
    "omd-all-standardised": Entrant(f"{_OMD_ALL}, standardised", partial(_standardised, "omd-all")),
    "osamd-preset-late": Entrant(f"{PRESET.title}, labels late", _preset, _LATE),
    "osamd-standardised-late": Entrant(f"{_OSAMD}, standardised, late", partial(_standardised, "osamd"), _LATE),
}
"""The paper's settings are for features as they come; standardised features use the defaults of `OSAMD`."""

DRIFT = ("osamd-preset", "osamd", "osamd-standardised", "omd-all", "omd-all-standardised")
LATE_LABELS = ("osamd-preset", "osamd-preset-late", "osamd-standardised-late", "omd-all")


class DriftTask(NamedTuple):
    """One run: a learner of `LEARNERS` on a stream of `STREAMS` and a seed."""

    stream: str
    learner: str
    seed: int
    rounds: int
    budget: float


def tasks(learners: Sequence[str], plan: RobustnessPlan) -> list[DriftTask]:
    """All runs of a plan."""
    return [
        DriftTask(stream, learner, seed, plan.rounds or ROUNDS, budget)
        for budget in plan.budgets or BUDGETS
        for stream in STREAMS
        for learner in learners
        for seed in range(plan.seeds)
    ]


def run(task: DriftTask) -> RobustnessRun:
    """Play one learner on one stream."""
    stream, entrant = STREAMS[task.stream][1](task.rounds), LEARNERS[task.learner]
    settings = entrant.settings()
    if settings["method"] != "omd-all":
        settings["budget"] = task.budget
    learner = OSAMD.from_source(*stream.source(SOURCE, task.seed), classes=[0, 1], seed=task.seed, **settings)
    return play(learner, rounds_of(stream, task.seed), entrant.answers, task.seed)


Runs = Mapping[str, Mapping[str, Sequence[RobustnessRun]]]
"""By stream and learner, one for each seed."""


def changes(stream: str, rounds: int) -> list[int]:
    """The rounds from which recovery is counted: where a flip begins, or where a gradual flip has ended."""
    if stream in ENDS:
        return [int(ENDS[stream] * rounds)]
    drift = STREAMS[stream][1](rounds).drift
    return [] if drift is None else list(drift.changes)


def report(learners: Sequence[str], when: str, plan: RobustnessPlan, done: Sequence[RobustnessRun]) -> Report:
    """Accuracy and labels of every learner on every stream, and rounds and labels to recovery after each change.

    `when` says in words when labels come.
    """
    found = dict(zip(tasks(learners, plan), done, strict=True))
    rounds, tables, contents = plan.rounds or ROUNDS, [], []
    for budget in plan.budgets or BUDGETS:
        runs = {
            stream: {
                learner: [found[DriftTask(stream, learner, seed, rounds, budget)] for seed in range(plan.seeds)]
                for learner in learners
            }
            for stream in STREAMS
        }
        level = mean_90([one.accuracy for one in runs[LEVEL_STREAM][LEVEL_METHOD]]).mean
        streams = {name: _stream(name, by, rounds, level) for name, by in runs.items()}
        contents.append({"budget": budget, "level": level, "streams": streams})
        tables += _tables(learners, when, plan, budget, level, streams)
    described = {"rounds": rounds, "source": SOURCE, "tolerance": POINT, "window": WINDOW, "late": LATE}
    return Report(tables, {**described, "budgets": contents})


drift_tasks, late_tasks = partial(tasks, DRIFT), partial(tasks, LATE_LABELS)
drift_report = partial(report, DRIFT, "labels at once")
late_report = partial(report, LATE_LABELS, f"late: by {LATE} rounds")


def _stream(name: str, by: Mapping[str, Sequence[RobustnessRun]], rounds: int, level: float) -> dict[str, Any]:
    """The results of one stream, as the report's JSON holds them."""
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
            "balanced_accuracy": mean_90([one.balanced_accuracy for one in some])._asdict(),
            "accuracy_by_class": [mean_90([one.accuracy_of(i) for one in some])._asdict() for i in (0, 1)],
            "labels": mean_90(asked.mean(axis=1))._asdict(),
            "health": [one.health for one in some],
            "recovery": backs,
        }
    return {"title": STREAMS[name][0], "changes": starts, "learners": learners}


def _tables(
    learners: Sequence[str], when: str, plan: RobustnessPlan, budget: float, level: float, streams: Mapping[str, Any]
) -> list[Table]:
    titles = [LEARNERS[name].title for name in learners]
    over = in_seeds(plan.seeds, ", mean ± half-width of the 90 % interval")
    setting = f"{plan.rounds or ROUNDS} rounds, budget {in_percent(budget)}, {when}"
    changed = {name: found for name, found in streams.items() if found["changes"]}
    return [
        Table(
            f"Accuracy % (labels %), {setting}, {over}",
            ["stream", *titles],
            [[found["title"], *(_shown(found["learners"][m]) for m in learners)] for found in streams.values()],
        ),
        Table(
            f"Rounds (labels) after each flip until back at {100 * (level - POINT):.1f} %, {when}",
            ["stream", *titles],
            [[found["title"], *(_backs(found["learners"][m]) for m in learners)] for found in changed.values()],
            [
                f"Back: the first of {WINDOW} rounds over which the mean over seeds is within a point of"
                f" {100 * level:.1f} %, what OMD (all) has without a flip.",
                "A gradual flip counts from its end.",
            ],
        ),
    ]


def _shown(found: Mapping[str, Any]) -> str:
    return f"{in_words(Mean(**found['accuracy']), 2, unit=0.01)} ({100 * found['labels']['mean']:.1f})"


def _backs(found: Mapping[str, Any]) -> str:
    return ", ".join(_back(Recovery(one["rounds"], one["labels"])) for one in found["recovery"])


def _back(found: Recovery) -> str:
    return "not" if found.rounds is None else f"{found.rounds} ({found.labels:.0f})"
