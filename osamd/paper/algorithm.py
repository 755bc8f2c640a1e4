"""The round: Algorithms 1 and 2 of the paper, stated once.

Two models live side by side. The *teacher* theta is the aggressive one: it moves only when a label was queried, and
then far; it gives the pseudolabels. The *student* w_hat is the conservative one: it moves a little every round, and
it decides. (In mean-teacher methods the teacher is the slow model; here it is the fast one.)

State is a value and randomness is an argument:

    decision = observe(state, x, u, rates)            pseudolabel, self-adapt, decide, draw the query with u
    state    = learn(state, x, decision, y, rates)    y: the label, or UNLABELLED: the pseudolabel stands in for it

A day and a person may lie between the two calls. Binary (Algorithm 1) and multiclass (Algorithm 2) differ only in how
scores are read. The six methods of Table 1 are settings of this statement. Everything here is simple enough to be
compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from osamd.numerics import Array
from osamd.paper.geometry import Geometry
from osamd.paper.losses import Loss, on_scores
from osamd.paper.models import Linear
from osamd.paper.queries import query_probability
from osamd.paper.scores import UNLABELLED, Score

SECANT = 1000
"""The limit of the exact implicit step on a curved geometry; usually a handful of steps, tens if many classes tie."""

MEMORY = 10
"""The number of recent errors that a secant step is compared with: it may not exceed all of them."""


class State(NamedTuple):
    """What the round carries: the teacher theta_t and the student w_hat_t."""

    teacher: Array
    student: Array


class RoundDecision(NamedTuple):
    """What the round says about one x, before any label is known."""

    label: int
    """The decision, made with `adapted` (for PAA, with the teacher)."""
    pseudolabel: int
    """y_hat, the teacher's opinion."""
    margin: float
    """The teacher's confidence: |H(theta)|, or best minus second-best score."""
    probability: float
    """The probability of asking for the label."""
    query: bool
    """Z_t: whether the label is asked for."""
    adapted: Array
    """w_t: the parameters that make the decision."""
    slope: Score
    """With self-training, the slope of the loss at w_t for the pseudolabel: the slope that led to w_t."""


class Rates(NamedTuple):
    """The numbers and switches of the round; methods and sweeps change these and nothing else."""

    self_training: bool
    """The student learns from pseudolabels and adapts before it decides; otherwise it learns from labels alone."""
    teacher_decides: bool
    """True for PAA, which has no student."""
    sigma: float
    floor: float
    """The query asks with probability max(floor, sigma / (sigma + confidence))."""
    eta: float
    """The student's step size."""
    cap: float
    """C: the largest teacher step tau."""
    target: float
    """m: the margin the teacher steps towards."""
    scale: float
    """0: tau is the shortfall of the margin over ||grad||_*^2. Positive: tau is this number times the shortfall."""
    inner_loops: int
    """0: the implicit step is exact. Positive: this many gradient steps approximate it, as in the experiments."""
    inner_rate: float
    penalty: Array
    """The L2 coefficient of every parameter; zero for a bias that is left free."""


class Round(NamedTuple):
    """The two halves of a round, bound to a model, a loss and a geometry."""

    observe: Callable[[State, Array, float, Rates], RoundDecision]
    learn: Callable[[State, Array, RoundDecision, int, Rates], State]


def bind(model: Linear, loss: Loss, geometry: Geometry) -> Round:
    """The round for these parts.

    It is long because both algorithms stand in it whole, line by line as in the paper, and share the parts by closure.
    """
    scores, pull, one_class = model.scores, model.pull, model.one_class
    decide, confidence, margin, margin_slope, inner = model.reading
    _, slope, implicit_slope = on_scores(loss, model.reading)
    step, proximal, mirror, dual_norm, reach = (
        geometry.step,
        geometry.proximal,
        geometry.mirror,
        geometry.dual_norm,
        geometry.reach,
    )
    secant_steps = 1 if geometry.flat else SECANT

    def gradient(w: Array, q: Score, x: Array, rates: Rates) -> Array:
        """grad f(w; x, y) from its slope q on the scores, including the L2 term."""
        return pull(q, x) + 2.0 * rates.penalty * w

    def implicit_step(student: Array, x: Array, y: int, rates: Rates) -> tuple[Array, Score]:
        """w_t = argmin_K eta f(w; x, y) + D_R(w, w_hat), exactly, and the slope on the scores that leads to it.

        An implicit step often lands on a kink, such as the hinge's at margin 1, where every slope of an interval is a
        subgradient. The appendix's lemma on implicit steps holds for the slope that led there, and the student's update
        must use the same one; if it were evaluated again, rounding would choose it.

        Let w(q) be the proximal step for a slope q on the scores. The answer is the w(q) whose slope is q. On a flat
        geometry the scores of w(q) fall linearly in q, and the loss knows the answer (its implicit slope). On a curved
        geometry this is iterated with the secant's reach: forward-backward splitting on the dual with Barzilai-Borwein
        steps. The iteration is sure to converge with the longest possible reach, so it falls back on that one when the
        error exceeds all recent errors. If many classes tie on a nearly degenerate geometry (a p-norm with p below 1.1
        and steps many times larger than the parameters), it may end after SECANT steps, short of machine precision.
        """
        ridge = 2.0 * rates.eta * rates.penalty
        longest = rates.eta * reach(x, one_class(ridge, x))
        q = 0.0 * scores(student, x)
        w = proximal(student, pull(q, x), ridge)
        s = scores(w, x)
        length = longest
        recent = np.full(MEMORY, np.inf)
        for n in range(secant_steps):
            after = implicit_slope(s + length * q, y, length)
            w = proximal(student, rates.eta * pull(after, x), ridge)
            landed = scores(w, x)
            dq, ds = after - q, landed - s
            q, s = after, landed
            moved = inner(dq, dq)
            if moved <= 1e-28 * (1.0 + inner(q, q)):
                break
            error = moved * length * length
            helps = error <= np.max(recent) and n < secant_steps // 2
            length = min(longest, max(-inner(dq, ds) / moved, 1e-12 * longest)) if helps else longest
            recent[n % MEMORY] = error
        return w, q

    def inner_gradient_loops(student: Array, x: Array, y: int, rates: Rates) -> tuple[Array, Score]:
        """w_t after K (mirror) gradient steps from w_hat on eta f + D_R(., w_hat), and the slope there."""
        w = student
        anchor = mirror(student)
        for _ in range(rates.inner_loops):
            descent = rates.eta * gradient(w, slope(scores(w, x), y), x, rates) + mirror(w) - anchor
            w = step(w, rates.inner_rate * descent)
        return w, slope(scores(w, x), y)

    def observe(state: State, x: Array, u: float, rates: Rates) -> RoundDecision:
        h = scores(state.teacher, x)
        pseudolabel = decide(h)  # pseudolabel
        adapted, reached_by = state.student, 0.0 * h
        if rates.teacher_decides:
            adapted = state.teacher
        elif rates.self_training:  # self-adaptation
            if rates.inner_loops > 0:
                adapted, reached_by = inner_gradient_loops(state.student, x, pseudolabel, rates)
            else:
                adapted, reached_by = implicit_step(state.student, x, pseudolabel, rates)
        label = decide(scores(adapted, x))
        probability = query_probability(confidence(h), rates.sigma, rates.floor)  # active query
        return RoundDecision(label, pseudolabel, confidence(h), probability, u < probability, adapted, reached_by)

    def learn(state: State, x: Array, decision: RoundDecision, y: int, rates: Rates) -> State:
        teacher, student = state
        labelled = y != UNLABELLED
        if labelled:
            h = scores(teacher, x)
            ascent = pull(margin_slope(h, y), x)
            steepness = dual_norm(ascent)
            shortfall = max(0.0, rates.target - margin(h, y))
            tau = rates.scale * shortfall if rates.scale > 0.0 else shortfall / max(steepness * steepness, 1e-300)
            teacher = step(teacher, -min(rates.cap, tau) * ascent)
        if not rates.teacher_decides and (labelled or rates.self_training):
            target = y if labelled else decision.pseudolabel
            w, q = decision.adapted, decision.slope
            if not (rates.self_training and target == decision.pseudolabel):
                q = slope(scores(w, x), target)
            student = step(student, rates.eta * gradient(w, q, x, rates))
        return State(teacher, student)

    return Round(observe, learn)
