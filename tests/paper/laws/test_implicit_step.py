"""The self-adaptation step: exact, it is the minimiser; by inner loops, it approaches the exact one."""

from __future__ import annotations

import math
import zlib
from typing import NamedTuple

import numpy as np
import pytest
from law_cases import CASES, Case, argmin, violation

from osamd.numerics import Array
from osamd.paper.algorithm import State
from osamd.paper.losses import LOSSES, loss, on_scores, score_constants
from osamd.paper.methods import InnerLoops, Learner, Settings, learner
from osamd.paper.models import linear

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
every_loss = pytest.mark.parametrize("name", LOSSES)
FEATURES = 2


class Problem(NamedTuple):
    """One self-adaptation: argmin_K eta f(w; x, y) + D_R(w, student), and the learner that is to solve it."""

    case: Case
    learner: Learner
    state: State
    x: Array
    y: int
    eta: float

    def adapted(self) -> Array:
        decision = self.learner.round.observe(self.state, self.x, 0.5, self.learner.rates)
        assert decision.pseudolabel == self.y
        return decision.adapted

    def around(self, w: Array) -> float:
        """The L2 term and the divergence."""
        penalty = self.learner.rates.penalty
        return self.eta * float((penalty * w * w).sum()) + self.case.geometry.divergence(w, self.state.student)

    def value(self, w: Array) -> float:
        model = self.learner.model
        return self.eta * on_scores(self.learner.loss, model.reading).value(model.scores(w, self.x), self.y) + (
            self.around(w)
        )


def problem(
    case: Case,
    name: str,
    classes: int,
    eta: float,
    *,
    l2: float = 0.0,
    free_bias: bool = True,
    seed: int = 0,
    adaptation: InnerLoops | None = None,
) -> Problem:
    geometry = case.geometry
    rng = np.random.default_rng([seed, classes, zlib.crc32(f"{geometry.name} {name}".encode())])
    model = linear(FEATURES, classes, signed=geometry.signed)
    settings = Settings(
        eta=eta,
        sigma=0.35,
        loss=loss(name, l2=l2, free_bias=free_bias),
        geometry=geometry,
        adaptation=adaptation,
    )
    held = learner("osamd", model, settings)
    teacher, student = (geometry.step(held.state.student, rng.normal(size=model.shape)) for _ in range(2))
    x = model.augment(2.0 * rng.normal(size=FEATURES))
    y = model.reading.decide(model.scores(teacher, x))
    return Problem(case, held, State(teacher, student), x, y, eta)


def numeric_minimiser(p: Problem, start: Array) -> Array:
    """By scipy: with the margin as a variable below every margin to another class, which makes the objective smooth."""
    model, f, geometry = p.learner.model, p.learner.loss, p.case.geometry
    shape, n = model.shape, math.prod(model.shape)
    anchor = geometry.mirror(p.state.student)

    def around_gradient(w: Array) -> Array:
        return 2.0 * p.eta * p.learner.rates.penalty * w + geometry.mirror(w) - anchor

    if f.scores is not None and model.classes > 2:
        slope = f.scores.slope

        def gradient(v: Array) -> Array:
            w = v.reshape(shape)
            return (p.eta * model.pull(slope(model.scores(w, p.x), p.y), p.x) + around_gradient(w)).ravel()

        return argmin(lambda v: p.value(v.reshape(shape)), gradient, p.case.decision_set, start.ravel()).reshape(shape)

    # Each row is a direction whose product with w is a margin to another class.
    if model.classes == 2:
        rows = model.pull(1.0 if p.y == 1 else -1.0, p.x).reshape(1, n)
    else:
        unit = np.eye(model.classes)
        others = [s for s in range(model.classes) if s != p.y]
        rows = np.array([model.pull(unit[p.y] - unit[s], p.x).ravel() for s in others])
    rows = np.hstack([rows, -np.ones((len(rows), 1))])
    constraints: list[dict[str, object]] = [{"type": "ineq", "fun": lambda v: rows @ v, "jac": lambda v: rows}]
    phi, phi_slope = f.value, f.slope
    if math.isinf(f.smoothness):  # the hinge: a line as far as its kink, which the margin variable need not pass
        (kink,) = f.kinks
        steepness = f.slope(kink - 1.0)
        phi, phi_slope = lambda m: f.value(kink) + steepness * (m - kink), lambda m: steepness
        stop = np.append(np.zeros(n), -1.0)[None]
        constraints.append({"type": "ineq", "fun": lambda v: kink - v[-1:], "jac": lambda v: stop})

    def value(v: Array) -> float:
        return p.eta * phi(v[-1]) + p.around(v[:-1].reshape(shape))

    def gradient_with_margin(v: Array) -> Array:
        return np.append(around_gradient(v[:-1].reshape(shape)).ravel(), p.eta * phi_slope(v[-1]))

    margin = model.reading.margin(model.scores(start, p.x), p.y)
    first = np.append(start.ravel(), min([margin, *f.kinks[-1:]]))
    found = argmin(value, gradient_with_margin, p.case.decision_set, first, tuple(constraints))
    return found[:-1].reshape(shape)


@every_case
@every_loss
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("l2", "free_bias"), [(0.0, True), (0.3, True), (0.3, False)])
def test_the_exact_step_is_the_minimiser_that_scipy_finds(
    case: Case, name: str, classes: int, l2: float, free_bias: bool
) -> None:
    seed = int(10 * l2) + free_bias
    p = problem(case, name, classes, eta=(0.1, 0.8)[seed % 2], l2=l2, free_bias=free_bias, seed=seed)
    ours = p.adapted()
    theirs = numeric_minimiser(p, p.state.student)
    assert violation(case.decision_set, ours) <= 1e-12
    assert p.value(ours) <= p.value(case.geometry.project(theirs)) + 1e-12
    assert p.value(ours) == pytest.approx(p.value(theirs), abs=1e-8)
    assert ours == pytest.approx(theirs, abs=1e-4)


@every_case
@every_loss
@pytest.mark.parametrize(("classes", "eta"), [(2, 3.0), (3, 1e-3), (5, 3.0)])
def test_nothing_near_the_exact_step_is_better(case: Case, name: str, classes: int, eta: float) -> None:
    geometry = case.geometry
    p = problem(case, name, classes, eta, l2=0.1, seed=7)
    ours = p.adapted()
    best = p.value(ours)
    rng = np.random.default_rng(0)
    for scale in 10.0 ** np.arange(-7, 1):
        for _ in range(6):
            nearby = geometry.step(ours, scale * rng.normal(size=ours.shape))
            assert p.value(nearby) >= best - 1e-12 * (1.0 + best)


@every_case
@every_loss
@pytest.mark.parametrize("classes", [2, 4])
def test_a_vanishing_rate_is_the_identity(case: Case, name: str, classes: int) -> None:
    p = problem(case, name, classes, eta=1e-13)
    assert p.adapted() == pytest.approx(p.state.student, rel=1e-9, abs=1e-9)


@every_case
@every_loss
@pytest.mark.parametrize("classes", [2, 4])
def test_a_sample_of_zeros_teaches_nothing(case: Case, name: str, classes: int) -> None:
    model = linear(FEATURES, classes, bias=False, signed=case.geometry.signed)
    held = learner("osamd", model, Settings(eta=0.5, sigma=0.35, loss=loss(name), geometry=case.geometry))
    student = case.geometry.step(held.state.student, np.random.default_rng(0).normal(size=model.shape))
    decision = held.round.observe(State(student, student), np.zeros(model.shape[-1]), 0.5, held.rates)
    assert decision.adapted == pytest.approx(student, rel=1e-12)


def relative_smoothness(p: Problem) -> float:
    """A constant L with eta f + D_R(., student) L-smooth relative to R."""
    f = p.learner.loss
    curvature = score_constants(f, p.learner.model.classes)[1]
    return 1.0 + p.eta * (curvature * p.case.geometry.dual_norm(p.x) ** 2 + 2.0 * f.l2)


SMOOTH = [(name, k) for k in (2, 4) for name, f in LOSSES.items() if math.isfinite(score_constants(f, k)[1])]


@every_case
@pytest.mark.parametrize(("name", "classes"), SMOOTH)
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_inner_loops_converge_geometrically_on_smooth_losses(case: Case, name: str, classes: int, l2: float) -> None:
    # Mirror descent on an objective that is L-smooth and 1-strongly convex relative to R, with a rate of 1/L:
    # D_R(w*, w_K) <= (1 - rate)^K D_R(w*, w_0) (Lu, Freund and Nesterov, 2018).
    divergence = case.geometry.divergence
    exact = problem(case, name, classes, eta=0.3, l2=l2)
    rate = 1.0 / relative_smoothness(exact)
    there = exact.adapted()
    for count in (1, 10, 100):
        loops = problem(case, name, classes, eta=0.3, l2=l2, adaptation=InnerLoops(count, rate))
        left = divergence(there, loops.adapted())
        assert left <= (1.0 - rate) ** count * divergence(there, exact.state.student) + 1e-10


@every_case
@pytest.mark.parametrize("name", [name for name, f in LOSSES.items() if math.isfinite(f.lipschitz)])
@pytest.mark.parametrize("classes", [2, 4])
def test_inner_loops_come_as_near_as_their_rate_on_lipschitz_losses(case: Case, name: str, classes: int) -> None:
    # The three-point inequality at every step, with slopes of eta G at most, gives
    # D_R(w*, w_K) <= (1 - r)^K D_R(w*, w_0) + 2 r (eta G)^2 / (1 - r).
    divergence = case.geometry.divergence
    exact = problem(case, name, classes, eta=0.3)
    there, away = exact.adapted(), divergence(exact.adapted(), exact.state.student)
    steepness = exact.eta * exact.learner.loss.lipschitz * case.geometry.dual_norm(exact.x)
    steepness *= 1.0 if classes == 2 else 2.0  # ||e_y - e_s|| is at most 2 in every norm
    for rate, count in ((0.2, 20), (0.02, 200)):
        loops = problem(case, name, classes, eta=0.3, adaptation=InnerLoops(count, rate))
        left = divergence(there, loops.adapted())
        assert left <= (1.0 - rate) ** count * away + 2.0 * rate * steepness**2 / (1.0 - rate) + 1e-10
