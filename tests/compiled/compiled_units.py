"""Combinations of parts, compiled and plain; run in worker processes, since compiling is slow: 5 to 20 s each.

Every kind of round is compiled with every part that it takes in:

- the fused round of two classes with every loss, and the round row by row of several classes with every loss;
- the statement of the round, lowered as it stands, with every geometry and every loss, for two classes and for several.

Not all pairs of a geometry and a loss are compiled. In the lowered statement both are functions of their own: a loss
reads scores, a geometry moves parameters as one vector, and they meet only in the numbers that the statement passes on.
The tests of the laws take all pairs in the plain statement. OSAMD_EVERY_COMBINATION=1 in the environment takes all
combinations here, too, compiled as shipped.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from osamd import compiled
from osamd.compiled.block_kernels import kind_of_round
from osamd.paper.geometry import ball, box, euclidean, p_norm, signed_simplex, simplex
from osamd.paper.losses import LOSSES, loss
from osamd.paper.methods import METHODS, InnerLoops, Learner, Settings, learner
from osamd.paper.models import linear
from osamd.paper.play import play
from osamd.paper.scores import UNLABELLED
from osamd.streams import Arrays
from osamd.streams.base import query_generator

MADE = {
    "euclidean": euclidean,
    "ball": lambda: ball(1.5),
    "box": lambda: box(-0.7, 0.9),
    "simplex": lambda: simplex(3.0, 1e-3),
    "signed-simplex": lambda: signed_simplex(3.0, 1e-3),
    "p-norm": lambda: p_norm(1.5, 2.0),
}
ADAPTATIONS = (None, InnerLoops(4, 0.3))
PENALTIES = ((0.0, True), (0.1, True), (0.1, False))


class Unit(NamedTuple):
    """What is compiled at once: the rest (methods, queries, adaptation, L2, dimensions) are numbers."""

    geometry: str
    loss: str
    classes: int


EVERY = [Unit(*unit) for unit in itertools.product(MADE, LOSSES, (2, 3))]
FUSED = [Unit("euclidean", name, classes) for name in LOSSES for classes in (2, 3)]
"""Rounds that are fused with the loss; the unit of several classes and the hinge takes the lowered statement, too."""
LOWERED_AS_SHIPPED = [
    Unit("ball", "smoothed-hinge", 3),
    Unit("box", "softmax", 2),
    Unit("simplex", "squared-hinge", 2),
    Unit("signed-simplex", "logistic", 3),
    Unit("p-norm", "hinge", 3),
]
LOWERED = [
    *LOWERED_AS_SHIPPED,
    Unit("ball", "logistic", 2),
    Unit("box", "squared-hinge", 3),
    Unit("simplex", "softmax", 3),
    Unit("signed-simplex", "hinge", 2),
    Unit("p-norm", "smoothed-hinge", 2),
]
WHOLE = os.environ.get("OSAMD_EVERY_COMBINATION") == "1"
UNITS = EVERY if WHOLE else FUSED + LOWERED

AS_SHIPPED = [
    unit
    for unit in UNITS
    if WHOLE
    or unit in LOWERED_AS_SHIPPED
    or unit == ("euclidean", "hinge", 3)
    or (unit.geometry, unit.classes) == ("euclidean", 2)
]
"""Compiled with all of LLVM's optimisations: the round in vector instructions, and each geometry and loss once.

The others are compiled with none, in half the time. Without `fastmath` an optimisation may not change a result, so what
these find, a wrong lowering, is the same; code optimised wrongly would show in the units here and in the tests of
one sample at a time.
"""

NOT_OPTIMISED = [unit for unit in UNITS if unit not in AS_SHIPPED]


def kinds_of(unit: Unit) -> tuple[str, ...]:
    """The kinds of round that are compiled for the unit."""
    if unit.geometry != "euclidean":
        return ("general",)
    if unit.classes == 2:
        return ("flat",)
    return ("rows", "general") if WHOLE or unit.loss == "hinge" else ("rows",)


class Difference(NamedTuple):
    """The largest that was found over all runs of a unit."""

    runs: int
    queries: int
    decisions: int
    parameters: float
    losses: float


def random_stream(seed: int, features: int, classes: int) -> Arrays:
    generator = np.random.default_rng([seed, features, classes])
    y = generator.integers(classes, size=25)
    x = generator.normal(size=(25, features)) + 0.5 * y[:, None]
    return Arrays(x, y.tolist(), classes=range(classes))


def learners(unit: Unit, features: int, seed: int) -> list[Learner]:
    """Every method, adaptation and penalty for one unit, from a random start."""
    geometry = MADE[unit.geometry]()
    model = linear(features, unit.classes, signed=geometry.signed)
    start = np.random.default_rng(seed).normal(size=model.shape)
    start = geometry.project(np.exp(start) if "simplex" in unit.geometry else start)
    made = []
    for method, adaptation, (l2, free) in itertools.product(METHODS.values(), ADAPTATIONS, PENALTIES):
        settings = Settings(
            eta=0.03,  # where the squared hinge does not diverge: a chaotic run would tell nothing
            sigma=0.4,
            loss=loss(unit.loss, l2=l2, free_bias=free),
            geometry=geometry,
            adaptation=adaptation,
            label_rate=0.5,
        )
        made.append(learner(method, model, settings, start))
        if method.name == "osamd":
            made.append(learner(replace(method, query="never"), model, settings, start))
    return made


def undecided(one: Learner, x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Rounds whose two best scores are equal to rounding: the exact step levels classes, and any may be named."""
    scores = np.einsum("tsi,ti->ts", params.reshape(len(x), -1, one.model.shape[-1]), one.model.augment(x))
    best = np.sort(scores, axis=1)
    return np.zeros(len(x), dtype=bool) if best.shape[1] < 2 else best[:, -1] - best[:, -2] < 1e-9


def differences(unit: Unit) -> Difference:
    """Compiled streams against plain ones, on random streams of several dimensions, in the kinds of the unit."""
    worst = Difference(0, 0, 0, 0.0, 0.0)
    for features, seed in ((1, 0), (11, 1)):  # less than the eight lanes of a sum, and more
        stream = random_stream(seed, features, unit.classes)
        x, _ = stream.sample(seed)
        for one in (one for one in learners(unit, features, seed) if kind_of_round(one) in kinds_of(unit)):
            ours = compiled.play(one, stream, seed, keep_params=True)
            plain = play(one, stream, seed, keep_params=True)
            states = zip((*ours.state, ours.ledger.params), (*plain.state, plain.ledger.params), strict=True)
            worst = Difference(
                worst.runs + 1,
                worst.queries + int(np.sum(ours.ledger.asked != plain.ledger.asked)),
                worst.decisions
                + int(
                    np.sum((ours.ledger.decision != plain.ledger.decision) & ~undecided(one, x, plain.ledger.params))
                ),
                max(worst.parameters, *(float(np.abs(a - b).max()) for a, b in states)),
                max(worst.losses, float(np.abs(ours.ledger.loss - plain.ledger.loss).max())),
            )
    return worst


def one_by_one(unit: Unit, kinds: tuple[str, ...] = ("flat", "rows", "general")) -> Difference:
    """The one-sample functions against plain streams, for the learners of the unit with a round of these kinds."""
    worst = Difference(0, 0, 0, 0.0, 0.0)
    stream = random_stream(3, 11, unit.classes)
    x, y = stream.sample(0)
    for one in (one for one in learners(unit, 11, 3) if kind_of_round(one) in kinds):
        plain = play(one, stream, 0)
        single = compiled.StepwiseLearner(one)
        decided = []
        for row, label, u in zip(x, y.tolist(), query_generator(0).random(len(y)).tolist(), strict=True):
            decided.append(single.decide(row, u))
            single.learn(label if decided[-1][1] else UNLABELLED)
        worst = Difference(
            worst.runs + 1,
            worst.queries + int(np.sum([query for _, query in decided] != plain.ledger.asked)),
            worst.decisions + int(np.sum([label for label, _ in decided] != plain.ledger.decision)),
            max(
                worst.parameters, *(float(np.abs(a - b).max()) for a, b in zip(single.state, plain.state, strict=True))
            ),
            0.0,
        )
    return worst
