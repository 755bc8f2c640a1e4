"""Regret and pseudolabel errors of OSAMD against their bounds as the horizon grows, and Theorem 2's stream.

Every constant of the theory is known: x in the unit ball, two balls of noise in 20 dimensions that turn by 180 degrees,
a decision set ||w|| <= RADIUS, and the smoothed hinge, which unlike the hinge satisfies Assumption 4. A small L2 term
puts w_t* inside the decision set, where gradients are noisy; on its boundary the regret would hardly grow at all.
`growth` measures balls that are apart (Lemma 1, Theorem 1), `general_case` balls that overlap (Lemma 3, Theorem 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from osamd.compiled import play
from osamd.evaluation.comparators import exact_optima
from osamd.evaluation.constants import constants_for
from osamd.evaluation.drift import ball_total_variation
from osamd.evaluation.many import Runner, run_many
from osamd.evaluation.regret import dynamic_regret
from osamd.evaluation.theory import (
    Bound,
    Constants,
    Fit,
    corollary_step,
    fitted_exponent,
    lemma1,
    lemma3,
    theorem1,
    theorem4,
)
from osamd.numerics import Array
from osamd.paper.geometry import ball
from osamd.paper.losses import loss
from osamd.paper.methods import METHODS, Settings, learner, lemma1_step, lemma3_step
from osamd.paper.models import linear
from osamd.streams import Rotating, TwoPoint, ball_noise

FEATURES, RADIUS = 20, 1.25
HORIZONS = (500, 1000, 2000, 4000, 8000, 16000, 32000)
GENERAL_HORIZONS = (1000, 2000, 4000, 8000, 16000)
LOSS = loss("smoothed-hinge", l2=0.1)
MODEL = linear(features=FEATURES, bias=False)
GEOMETRY = ball(RADIUS)
START = np.eye(FEATURES)[0]
"""A good classifier for the first domain, as if learned from initial data, near w_1* and far from v_1."""


@dataclass(frozen=True)
class Case:
    """Two balls of noise around +-distance e_1, rotated, and the margin R that v_t = RADIUS e_1, rotated, is to reach.

    sigma is R too, the largest value that the theory allows. Balls that are `apart` use Lemma 1's step and bounds, and
    others use Lemma 3's.
    """

    distance: float
    noise: float
    margin: float

    @property
    def apart(self) -> bool:
        return self.noise < self.distance

    def stream(self, rounds: int) -> Rotating:
        rest = [0.0] * (FEATURES - 1)
        centres = [[-self.distance, *rest], [self.distance, *rest]]
        return Rotating("rotating-balls", centres, ball_noise(self.noise, FEATURES), rounds)


SEPARABLE = Case(distance=0.5, noise=0.4375, margin=RADIUS * (0.5 - 0.4375))
OVERLAPPING = Case(distance=0.3, noise=0.7, margin=0.1)
"""The best classifier errs on 2.1 % of the samples, and alpha* is 0.0054."""


@lru_cache
def _optima(case: Case, rounds: int) -> Array:
    return exact_optima(case.stream(rounds), LOSS, MODEL, GEOMETRY)


@lru_cache
def constants(rounds: int, case: Case = SEPARABLE) -> Constants:
    """The constants of the theory for this stream, loss and geometry; V_T sums exact total variations."""
    stream = case.stream(rounds)
    chord = 2.0 * case.distance * math.sin(0.5 * stream.turn / max(rounds - 1, 1))
    return constants_for(
        stream,
        LOSS,
        MODEL,
        GEOMETRY,
        separators=stream.rotation(np.arange(rounds)) @ (RADIUS * START),
        optima=_optima(case, rounds),
        teacher=START,
        student=START,
        R=case.margin,
        V_T=(rounds - 1) * ball_total_variation(chord, case.noise, FEATURES),
        x_radius=1.0,
    )


@dataclass(frozen=True)
class TheoryTask:
    """One run: a horizon, a seed, a step size and a case."""

    rounds: int
    seed: int
    eta: float
    case: Case = SEPARABLE


class TheoryRun(NamedTuple):
    """The results of one run."""

    regret: float
    pseudolabel_errors: int
    labels: float


def run(task: TheoryTask) -> TheoryRun:
    """Play OSAMD with the teacher step of Lemma 1, or of Lemma 3 if the balls overlap, and the exact implicit step."""
    case, stream = task.case, task.case.stream(task.rounds)
    step = lemma1_step(case.margin) if case.apart else lemma3_step(case.margin, constants(task.rounds, case).G)
    settings = Settings(eta=task.eta, sigma=case.margin, loss=LOSS, geometry=GEOMETRY, teacher=step)
    bound = learner("osamd", MODEL, settings, START)
    ledger = play(bound, stream, task.seed, keep_params=True).ledger
    regret = dynamic_regret(ledger, stream, bound, _optima(case, task.rounds))
    return TheoryRun(float(regret[-1]), ledger.pseudolabel_errors, ledger.label_rate)


class Horizon(NamedTuple):
    """The runs of one horizon T, with their bounds."""

    rounds: int
    eta: float
    runs: list[TheoryRun]
    errors_bound: Bound
    regret_bound: Bound


class Growth(NamedTuple):
    """The horizons, and the power law fitted to their mean regrets."""

    horizons: list[Horizon]
    fit: Fit


def growth(
    horizons: Sequence[int] = HORIZONS,
    seeds: int = 10,
    *,
    runner: Runner | None = None,
    progress: Callable[[], None] | None = None,
) -> Growth:
    """Measure OSAMD at eta = V_T^(1/3) T^(-1/3) for each horizon, and fit the exponent of its mean regret."""
    rows = _measure(SEPARABLE, horizons, seeds, runner, progress)
    return Growth(rows, fitted_exponent(horizons, [float(np.mean([r.regret for r in row.runs])) for row in rows]))


def general_case(
    horizons: Sequence[int] = GENERAL_HORIZONS,
    seeds: int = 10,
    *,
    runner: Runner | None = None,
    progress: Callable[[], None] | None = None,
) -> list[Horizon]:
    """Measure balls that overlap, so that every classifier errs: one row per horizon, with Lemma 3 and Theorem 4."""
    return _measure(OVERLAPPING, horizons, seeds, runner, progress)


def _measure(
    case: Case, horizons: Sequence[int], seeds: int, runner: Runner | None, progress: Callable[[], None] | None
) -> list[Horizon]:
    known = {rounds: constants(rounds, case) for rounds in horizons}
    eta = {rounds: corollary_step(known[rounds].V_T, rounds) for rounds in horizons}
    # The longest come first, so that no core waits for one long run at the end.
    longest_first = sorted(horizons, reverse=True)
    tasks = [TheoryTask(rounds, seed, eta[rounds], case) for rounds in longest_first for seed in range(seeds)]
    runs = dict(zip(tasks, run_many(run, tasks, runner, progress=progress), strict=True))
    errors, regret = (lemma1, theorem1) if case.apart else (lemma3, theorem4)
    return [
        Horizon(
            rounds,
            eta[rounds],
            [runs[TheoryTask(rounds, seed, eta[rounds], case)] for seed in range(seeds)],
            errors(known[rounds], case.margin),
            regret(known[rounds], case.margin, eta[rounds]),
        )
        for rounds in horizons
    ]


def two_point_regret(method: str, rounds: int, seed: int, *, queries: bool) -> float:
    """Dynamic regret on Theorem 2's stream, from its w_1* = (-1, 0), with or without queries.

    Hinge loss on the unit ball, as in the proof.
    """
    stream, hinge, unit = TwoPoint(rounds), loss("hinge"), ball(1.0)
    chosen = METHODS[method] if queries else replace(METHODS[method], query="never")
    settings = Settings(eta=rounds ** (-1 / 3), sigma=1.0, loss=hinge, geometry=unit, label_rate=0.5)
    bound = learner(chosen, linear(features=2, bias=False), settings, (-1.0, 0.0))
    ledger = play(bound, stream, seed, keep_params=True).ledger
    optima = np.where(stream.drift.position[:, None] == 1.0, 1.0, -1.0) * np.array([1.0, 0.0])
    return float(dynamic_regret(ledger, stream, bound, optima)[-1])
