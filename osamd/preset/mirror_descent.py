"""The paper's OSAMD (Algorithms 1 and 2), which brings its regret bound to the guard: see the page on guarantees.

With x = (z, 1) / ||(z, 1)||, z the sample in the held scale, H(w; x) linear, f the logistic loss (the softmax's with
more than two classes), R = ||w||^2 / 2 and K the ball of radius RADIUS:

    pseudolabel   y^ = argmax H(theta; x)
    decide        w = argmin_K STEP f(w; x, y^) + ||w - w^||^2 / 2
    with a label  theta <- P(theta + tau grad Psi),     tau = min{MARGIN / G^2, max{0, MARGIN - Psi} / ||grad Psi||^2}
    every round   w^ <- P(w^ - STEP grad f(w; x, y~)),  y~ the label, or y^

Psi is the margin of the teacher, and P projects onto K. It is what `osamd.paper.algorithm` states, written anew without
arrays of its own, which would take longer than the round; a test holds the two equal. Only the query differs: labels
are those that the learner asks for.

Unit vectors in a ball make the constants of the paper's assumptions known: G = 1 and L = 1 / 4 for two classes, sqrt(2)
and 1 / 2 for more. STEP is the largest step that Theorem 1 allows, 1 / (4 (L D + G)) with D = 2 RADIUS, and tau is that
of Lemma 3 with sigma = MARGIN. The implicit step is the fixed point of q -> slope of f at P(w^ - STEP q x). Projections
do not lengthen distances, so each pass comes at least 70 times closer to it.

Two classes have one row of parameters, whose score is positive for the second class.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from osamd.paper.scores import UNLABELLED
from osamd.preset.linear_models import softmax_in_place
from osamd.preset.scale import Scale
from osamd.preset.sums import score, squared_norm
from osamd.preset.views import Sizes, cut

RADIUS = 8.0
"""The radius of K: with two classes, the log odds of a unit vector are at most this."""
MARGIN = 1.0
"""The margin that the teacher steps towards; the bound needs classifiers in K that reach it."""
PASSES = 6
"""The passes of the implicit step: parameters and probabilities are then within 1e-10 of it."""


class Steepness(NamedTuple):
    """G and L: how steep the scores and the loss are, and how fast the slope of the loss changes."""

    lipschitz: float
    smoothness: float


TWO_CLASSES, SEVERAL_CLASSES = Steepness(1.0, 0.25), Steepness(math.sqrt(2.0), 0.5)
STEPS = (
    1.0 / (4.0 * (TWO_CLASSES.smoothness * 2.0 * RADIUS + TWO_CLASSES.lipschitz)),
    1.0 / (4.0 * (SEVERAL_CLASSES.smoothness * 2.0 * RADIUS + SEVERAL_CLASSES.lipschitz)),
)
"""The steps of the student, for two classes and for more."""


class MirrorDescent(NamedTuple):
    """Views of the state, one row of parameters per class (one row for two classes), the bias last."""

    teacher: Any
    student: Any


class Descended(NamedTuple):
    """What was observed last, one number per row: views of the vector that a round works in."""

    unit: Any
    """A single number: one over the length of (z, 1)."""
    taught: Any
    """The teacher's scores."""
    before: Any
    """The student's scores before it adapts."""
    slope: Any
    """The slope of the loss that led to the decision."""


def rows_for(classes: int) -> int:
    return 1 if classes == 2 else classes


def step_of(rows: int) -> float:
    return STEPS[0] if rows == 1 else STEPS[1]


def cut_descent(vector: Any, at: int, sizes: Sizes) -> Any:
    rows = rows_for(sizes.classes)
    teacher, at = cut(vector, at, rows * (sizes.features + 1))
    student, at = cut(vector, at, rows * (sizes.features + 1))
    shape = (rows, sizes.features + 1)
    return MirrorDescent(teacher.reshape(shape), student.reshape(shape)), at


def cut_descended(vector: Any, at: int, sizes: Sizes) -> Any:
    rows = rows_for(sizes.classes)
    unit, at = cut(vector, at, 1)
    taught, at = cut(vector, at, rows)
    before, at = cut(vector, at, rows)
    slope, at = cut(vector, at, rows)
    return Descended(unit, taught, before, slope), at


def size_of(weights: Any) -> float:
    """The squared norm of all parameters."""
    total = 0.0
    for c in range(weights.shape[0]):
        total += squared_norm(weights[c])
    return total


def kept_in_ball(size: float) -> float:
    """The factor of the projection onto K, for parameters of this squared norm."""
    return RADIUS / math.sqrt(size) if size > RADIUS * RADIUS else 1.0


def keep_in_ball(weights: Any) -> None:
    factor = kept_in_ball(size_of(weights))
    if factor < 1.0:
        for c in range(weights.shape[0]):
            for i in range(weights.shape[1]):
                weights[c, i] *= factor


def preferred(scores: Any) -> int:
    """The class with the highest score."""
    if scores.shape[0] == 1:
        return 1 if scores[0] >= 0.0 else 0
    best = 0
    for c in range(1, scores.shape[0]):
        best = c if scores[c] > scores[best] else best
    return best


def slope_at(own: Any, target: int, row: int, rows: int) -> float:
    """The slope of -ln p(target) in the score of a row, from the probabilities there."""
    c = 1 if rows == 1 else row
    return float(own[c] - (1.0 if c == target else 0.0))


def descent_opinion(descent: MirrorDescent, seen: Descended, z: Any, own: Any) -> None:
    """The probabilities of the classes, after the student has adapted to the teacher's pseudolabel."""
    taught, before, slope = seen.taught, seen.before, seen.slope
    rows, unit = slope.shape[0], 1.0 / math.sqrt(1.0 + squared_norm(z))
    seen.unit[0] = unit
    for c in range(rows):
        taught[c] = unit * score(descent.teacher[c], z)
        before[c] = unit * score(descent.student[c], z)
        slope[c] = 0.0
    step, size, pseudolabel = step_of(rows), size_of(descent.student), preferred(taught)
    for _ in range(PASSES):
        landed = size
        for c in range(rows):
            landed += step * slope[c] * (step * slope[c] - 2.0 * before[c])
        factor = kept_in_ball(landed)
        if rows == 1:
            own[1] = 1.0 / (1.0 + math.exp(-factor * (before[0] - step * slope[0])))
            own[0] = 1.0 - own[1]
        else:
            for c in range(rows):
                own[c] = factor * (before[c] - step * slope[c])
            softmax_in_place(own, 1.0)
        for c in range(rows):
            slope[c] = slope_at(own, pseudolabel, c, rows)


def add(weights: Any, row: int, by: float, z: Any) -> None:
    """Move a row along (z, 1)."""
    for i in range(z.shape[0]):
        weights[row, i] += by * z[i]
    weights[row, z.shape[0]] += by


def descend(descent: MirrorDescent, seen: Descended, z: Any, own: Any, y: int) -> None:
    """The second half of the round, for the sample observed last; y is a class, or UNLABELLED."""
    rows, unit, pseudolabel = seen.slope.shape[0], seen.unit[0], preferred(seen.taught)
    if y != UNLABELLED:
        instruct(descent.teacher, seen.taught, unit, z, y)
    target = pseudolabel if y == UNLABELLED else y
    for c in range(rows):
        slope = seen.slope[c] if target == pseudolabel else slope_at(own, target, c, rows)
        add(descent.student, c, -step_of(rows) * unit * slope, z)
    keep_in_ball(descent.student)


def instruct(teacher: Any, taught: Any, unit: float, z: Any, y: int) -> None:
    """The teacher's step towards the label."""
    rows = taught.shape[0]
    if rows == 1:
        sign = 1.0 if y == 1 else -1.0
        tau = min(MARGIN, max(0.0, MARGIN - sign * taught[0]))
        add(teacher, 0, sign * tau * unit, z)
    else:
        other = 1 if y == 0 else 0
        for c in range(rows):
            other = c if c != y and taught[c] > taught[other] else other
        tau = 0.5 * min(MARGIN, max(0.0, MARGIN - (taught[y] - taught[other])))
        add(teacher, y, tau * unit, z)
        add(teacher, other, -tau * unit, z)
    keep_in_ball(teacher)


def rescale(weights: Any, i: int, centre: float, inverse: float, held: Scale) -> None:
    """Convert the parameters of feature i, which was held at `centre` and `inverse`, to the scale held now."""
    bias = weights.shape[1] - 1
    for c in range(weights.shape[0]):
        per_unit = weights[c, i] * inverse
        weights[c, bias] += per_unit * (held.centre[i] - centre)
        weights[c, i] = per_unit / held.inverse[i] if held.inverse[i] > 0.0 else 0.0


def centre_column(weights: Any, i: int) -> None:
    """Let the parameters of one feature sum to 0 over the classes."""
    mean = 0.0
    for c in range(weights.shape[0]):
        mean += weights[c, i] / weights.shape[0]
    for c in range(weights.shape[0]):
        weights[c, i] -= mean


def start_descent(descent: MirrorDescent, scale: Scale, model: Any) -> None:
    """Start teacher and student from a linear model of the samples as they come: one row per class, the bias last.

    Scores are divided by the length of (z, 1), whose square is about one plus the number of features that vary. With
    one row per class, what all rows have in common is left out: it decides nothing, and a class that is added later
    begins with a row of zeros.
    """
    d, varying = scale.centre.shape[0], 1.0
    for i in range(d):
        varying += 1.0 if scale.inverse[i] > 0.0 else 0.0
    length, rows = math.sqrt(varying), descent.student.shape[0]
    for i in range(d + 1):
        for c in range(rows):
            descent.student[c, i] = length * (model[1, i] - model[0, i] if rows == 1 else model[c, i])
        if rows > 1:
            centre_column(descent.student, i)
    for i in range(d):
        rescale(descent.student, i, 0.0, 1.0, scale)
    keep_in_ball(descent.student)
    for c in range(rows):
        for i in range(d + 1):
            descent.teacher[c, i] = descent.student[c, i]
