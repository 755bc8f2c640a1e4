"""Do no harm: the default learner on streams without drift, compared with its unchanged source model.

Nothing drifts, so the model that people had is as good at the end as at the start, and the learner must not be worse,
whatever the samples and answers are. Each stream is played for every way of answering at each of its budgets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from osamd.evaluation.answers import Answers, Delay
from osamd.learner.linear import OSAMD
from osamd.reproduce.robustness.drifting import still
from osamd.reproduce.robustness.learner_runs import RobustnessRun, Rounds, left_alone, play, rounds_of
from osamd.reproduce.robustness.plans import RobustnessPlan
from osamd.streams import (
    MachineTable,
    Reshuffled,
    Stream,
    logistic_table,
    overlapping_gaussians,
    still_breast_cancer,
    still_digits,
    still_wine,
)

SOURCE = 600
"""The number of labelled rows that the source model is fitted to; a table of fewer than 1,200 rows gives half."""
ROUNDS = 20_000

STREAMS: dict[str, tuple[str, Callable[[int], Stream]]] = {
    "digits": ("digits", still_digits),
    "breast-cancer": ("breast cancer", still_breast_cancer),
    "wine": ("wine", still_wine),
    "logistic": ("logistic table", logistic_table),
    "gaussians": ("three Gaussians", overlapping_gaussians),
    "rotating-gaussian": ("Rotating Gaussian, still", still),
    "machine": ("machine table", MachineTable),
}
"""By name: a title, and a function from the number of rounds to the stream. The slowest comes first."""


class Bar(NamedTuple):
    """How many points the accuracy may lie below the source model's: in the mean over seeds, and on the worst seed."""

    mean: float
    worst: float | None


class Way(NamedTuple):
    """A way of answering, the budgets it is played at, and the bar that must hold."""

    title: str
    answers: Answers
    budgets: tuple[float, ...]
    bar: Bar


UNSURE = (0.01, 0.05, 0.2)
"""Budgets for answers that are missing, late or wrong."""

WAYS: dict[str, Way] = {
    "nobody": Way("nobody answers", Answers(nobody=True), UNSURE, Bar(0.5, 1.5)),
    "lost": Way("half of the answers are lost", Answers(Delay(lost=0.5)), UNSURE, Bar(0.5, 1.5)),
    "late": Way("answers come 1,000 rounds late", Answers(Delay(fixed=1000)), UNSURE, Bar(0.5, 1.5)),
    "wrong": Way("20 % of the answers are wrong", Answers(wrong=0.2), UNSURE, Bar(1.0, 1.5)),
    "all": Way("all are answered at once", Answers(), (0.01, 0.02, 0.05, 0.1), Bar(0.5, None)),
}


class HarmTask(NamedTuple):
    """All ways and budgets on one stream and seed, which share the rounds and the source model."""

    stream: str
    seed: int
    rounds: int
    budgets: tuple[float, ...] | None


class HarmCell(NamedTuple):
    """One cell of the tables: a way of `WAYS` at one budget."""

    way: str
    budget: float


class RunSummary(NamedTuple):
    """One run in numbers, as fractions."""

    accuracy: float
    balanced_accuracy: float
    last_quarter: float
    """The accuracy over the last quarter of the rounds, where slow harm shows most."""
    labels: float
    health: str


class Harm(NamedTuple):
    """All runs of one task, and the unchanged source model."""

    alone: RunSummary
    played: dict[HarmCell, RunSummary]


def settings(budgets: tuple[float, ...] | None) -> list[HarmCell]:
    """All ways at these budgets, or each at its own."""
    return [HarmCell(name, budget) for name, way in WAYS.items() for budget in budgets or way.budgets]


def tasks(plan: RobustnessPlan) -> list[HarmTask]:
    """All runs of a plan."""
    still_wine(1)  # refuses here, before any group has run, if scikit-learn is missing
    budgets = None if plan.budgets is None else tuple(plan.budgets)
    return [HarmTask(name, seed, plan.rounds or ROUNDS, budgets) for name in STREAMS for seed in range(plan.seeds)]


def run(task: HarmTask) -> Harm:
    """Play every way at every budget on one stream and seed."""
    stream = STREAMS[task.stream][1](task.rounds)
    count = min(SOURCE, stream.warmup) if isinstance(stream, Reshuffled) else SOURCE
    rounds = rounds_of(stream, task.seed)
    alone = left_alone(stream, rounds, count, task.seed)
    played = {one: _outcome(_played(stream, count, rounds, one, task.seed)) for one in settings(task.budgets)}
    return Harm(_outcome(alone), played)


def _played(stream: Stream, count: int, rounds: Rounds, setting: HarmCell, seed: int) -> RobustnessRun:
    classes = list(range(len(stream.classes)))
    learner = OSAMD.from_source(*stream.source(count, seed), classes=classes, budget=setting.budget, seed=seed)
    return play(learner, rounds, WAYS[setting.way].answers, seed)


def _outcome(run: RobustnessRun) -> RunSummary:
    quarter = run.right[-max(1, len(run.right) // 4) :]
    return RunSummary(run.accuracy, run.balanced_accuracy, float(quarter.mean()), run.labels, run.health)
