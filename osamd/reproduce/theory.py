"""Regret and pseudolabel errors of OSAMD against their bounds as the horizon grows, and Theorem 2's stream.

The stream is separable and every constant of the theory is known: x in the unit ball, two balls of noise in 20
dimensions that turn by 180 degrees, a decision set ||w|| <= RADIUS, and the smoothed hinge, which unlike the hinge
meets Assumption 4. A small L2 term puts w_t* inside the decision set, where gradients are noisy; on its boundary the
regret would hardly grow at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from osamd.evaluation.comparators import exact_optima
from osamd.evaluation.drift import ball_total_variation
from osamd.evaluation.many import run_many
from osamd.evaluation.regret import dynamic_regret, path_length
from osamd.evaluation.theory import Bound, Constants, Fit, corollary_step, fitted_exponent, lemma1, theorem1
from osamd.geometry import ball
from osamd.losses import loss
from osamd.methods import METHODS, Settings, learner, lemma1_step
from osamd.models import linear
from osamd.numerics import Array
from osamd.play import play
from osamd.streams import Rotating, TwoPoint, rotating_balls

FEATURES, DISTANCE, NOISE, RADIUS = 20, 0.5, 0.4375, 1.25
MARGIN = RADIUS * (DISTANCE - NOISE)
"""R of Assumption 2, reached by v_t = RADIUS e_1, rotated. The largest sigma that the theory allows, and ours."""
HORIZONS = (500, 1000, 2000, 4000, 8000, 16000, 32000)
LOSS = loss("smoothed-hinge", l2=0.1)
MODEL = linear(features=FEATURES, bias=False)
GEOMETRY = ball(RADIUS)
START = np.eye(FEATURES)[0]
"""A perfect classifier of the first domain, as learned from initial data, near w_1* and far from v_1."""


def _stream(rounds: int) -> Rotating:
    return rotating_balls(rounds, FEATURES, distance=DISTANCE, radius=NOISE)


@lru_cache
def _optima(rounds: int) -> Array:
    return exact_optima(_stream(rounds), LOSS, MODEL, GEOMETRY)


def constants(rounds: int) -> Constants:
    """The constants of the theory for this stream, loss and geometry.

    ||x|| <= 1, so G and L are the loss's own, plus those of its L2 term on the ball; F is the loss at the worst margin,
    -RADIUS. C_T is the length of the path of v_t; V_T sums the exact total variations between consecutive laws.
    """
    stream = _stream(rounds)
    separators = stream.rotation(np.arange(rounds)) @ (RADIUS * START)
    chord = 2.0 * DISTANCE * math.sin(0.5 * stream.turn / (rounds - 1))
    return Constants(
        G=LOSS.lipschitz + 2.0 * LOSS.l2 * RADIUS,
        D=GEOMETRY.diameter(FEATURES),
        L=LOSS.smoothness + 2.0 * LOSS.l2,
        F=float(LOSS.value(-RADIUS)) + LOSS.l2 * RADIUS**2,
        gamma=GEOMETRY.gamma(FEATURES),
        C_T=path_length(separators, GEOMETRY),
        V_T=(rounds - 1) * ball_total_variation(chord, NOISE, FEATURES),
        R=MARGIN,
        eps_v=GEOMETRY.divergence(separators[0], START),
        eps_w=GEOMETRY.divergence(_optima(rounds)[0], START),
        T=rounds,
    )


@dataclass(frozen=True)
class Task:
    rounds: int
    seed: int
    eta: float


class Run(NamedTuple):
    regret: float
    pseudolabel_errors: int
    labels: float


def run(task: Task) -> Run:
    """OSAMD with Lemma 1's teacher step and the exact implicit step."""
    stream = _stream(task.rounds)
    settings = Settings(eta=task.eta, sigma=MARGIN, loss=LOSS, geometry=GEOMETRY, teacher=lemma1_step(MARGIN))
    bound = learner("osamd", MODEL, settings, START)
    ledger = play(bound, stream, task.seed, keep_params=True).ledger
    regret = dynamic_regret(ledger, stream, bound, _optima(task.rounds))
    return Run(float(regret[-1]), ledger.pseudolabel_errors, ledger.label_rate)


class Horizon(NamedTuple):
    """The runs of one T, beside their bounds."""

    rounds: int
    eta: float
    runs: list[Run]
    errors_bound: Bound
    regret_bound: Bound


class Growth(NamedTuple):
    horizons: list[Horizon]
    fit: Fit


def growth(
    horizons: Sequence[int] = HORIZONS,
    seeds: int = 10,
    *,
    workers: int | None = None,
    progress: Callable[[], None] | None = None,
) -> Growth:
    """Measure OSAMD at eta = V_T^(1/3) T^(-1/3) for each horizon, and fit the exponent of its mean regret."""
    known = {rounds: constants(rounds) for rounds in horizons}
    eta = {rounds: corollary_step(known[rounds].V_T, rounds) for rounds in horizons}
    # The longest first, so that no core waits for one long run at the end.
    tasks = [Task(rounds, seed, eta[rounds]) for rounds in sorted(horizons, reverse=True) for seed in range(seeds)]
    runs = dict(zip(tasks, run_many(run, tasks, workers=workers, progress=progress), strict=True))
    rows = [
        Horizon(
            rounds,
            eta[rounds],
            [runs[Task(rounds, seed, eta[rounds])] for seed in range(seeds)],
            lemma1(known[rounds], MARGIN),
            theorem1(known[rounds], MARGIN, eta[rounds]),
        )
        for rounds in horizons
    ]
    return Growth(rows, fitted_exponent(horizons, [float(np.mean([r.regret for r in row.runs])) for row in rows]))


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
