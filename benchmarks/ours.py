"""Our side of the benchmark: workers for the whole stream, for one sample at a time, and for the C reference."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers.common import Fresh, Run, serve
from benchmarks.reference import check, compile_reference, draw
from benchmarks.settings import CASES, SEED, Case
from osamd.compiled import StepwiseLearner, play
from osamd.learner.linear import OSAMD
from osamd.numerics import Array
from osamd.paper.methods import experiments_step
from osamd.paper.scores import UNLABELLED
from osamd.streams import Arrays
from osamd.streams.base import Labels

COLUMNS = ("decision", "asked")
"""What the whole-stream call keeps of every round, as the C reference does."""

CHECKED = 2000
"""Rounds over which the C reference is held against the plain path before it is timed."""


def case_of(x: Array, classes: int) -> Case:
    """The stream that x belongs to."""
    return next(case for case in CASES.values() if (case.features, case.classes) == (x.shape[1], classes))


def whole_stream(x: Array, y: Labels, classes: int) -> Fresh:
    """One call; it draws its uniforms itself."""
    learner, stream = case_of(x, classes).learner(), Arrays(x, y.tolist())

    def run() -> tuple[int, int]:
        totals = play(learner, stream, SEED, columns=COLUMNS).totals
        return totals.right, totals.asked

    return lambda: run


def one_sample(x: Array, y: Labels, classes: int) -> Fresh:
    """`decide` and `learn` for every sample; rows, labels and uniforms are at hand."""
    learner = case_of(x, classes).learner()
    rows, labels, uniforms = list(x), y.tolist(), draw(len(y)).tolist()

    def fresh() -> Run:
        one = StepwiseLearner(learner)

        def run() -> tuple[int, int]:
            right = asked = 0
            for row, label, u in zip(rows, labels, uniforms, strict=True):
                decision, query = one.decide(row, u)
                right += decision == label
                asked += query
                one.learn(label if query else UNLABELLED)
            return right, asked

        return run

    return fresh


def ask_tell(x: Array, y: Labels, classes: int) -> Fresh:
    """The paper's OSAMD as people hold it, with its budget, its pending queries and its estimate of the accuracy."""
    case = case_of(x, classes)
    settings = {
        "method": "osamd",
        "eta": case.eta,
        "sigma": case.sigma,
        "loss": case.loss,
        "teacher": experiments_step(cap=case.cap),
    }
    return held(x, y, classes, settings)


def default(x: Array, y: Labels, classes: int) -> Fresh:
    """The default learner, which needs nothing but the budget."""
    return held(x, y, classes, {})


def held(x: Array, y: Labels, classes: int, settings: dict[str, Any]) -> Fresh:
    """A learner with a budget of 5 %, asked and told one sample at a time."""
    rows, labels = list(x), y.tolist()

    def fresh() -> Run:
        learner = OSAMD(features=x.shape[1], classes=classes, budget=0.05, **settings)

        def run() -> tuple[int, int]:
            right = asked = 0
            for row, label in zip(rows, labels, strict=True):
                decision = learner.ask(row)
                right += decision.label == label
                asked += decision.query
                learner.tell(decision, label if decision.query else None)
            return right, asked

        return run

    return fresh


def c_reference(x: Array, y: Labels, classes: int) -> Fresh:
    """The same call in C; the uniforms are drawn in the timed part, as ours are."""
    learner = case_of(x, classes).learner()
    with tempfile.TemporaryDirectory() as folder:
        c_play = compile_reference(Path(folder))
    check(c_play, learner, x[:CHECKED], y[:CHECKED])

    def run() -> tuple[int, int]:
        decision, asked = c_play(learner, x, y, draw(len(y)))
        return int((decision == y).sum()), int(asked.sum())

    return lambda: run


if __name__ == "__main__":
    variants = {"stream": whole_stream, "one": one_sample, "ask": ask_tell, "default": default, "c": c_reference}
    serve(variants, ("osamd", "numba", "numpy"))
