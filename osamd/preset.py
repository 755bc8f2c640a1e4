"""The preset: OSAMD with a memory, two teachers and a geometry that follows the stream; it needs no step size.

Beside the student of the paper, which trains itself on pseudolabels in every round, there are two teachers that learn
from labels alone: a fast one, which replays the last few of them after every label, and a slow one, which replays many.
An arbiter weighs the three by their discounted losses on the labels that were asked for. Its mixture of their
probabilities gives the pseudolabel, decides, and says how unsure it is.

One round, in the order of Algorithm 1, with p_e the probabilities of student (e = 0), fast (1) and slow teacher (2):

    p = sum_e a_e p_e,  a_e ~ exp(-L_e - HANDICAP [e > 0])         opinion: pseudolabel, decision, margin m
    ask with probability max(floor, sigma / (sigma + m^POWER))     active query, sigma steered to the budget
    L_e <- DISCOUNT L_e - log(DOUBT + (1 - DOUBT) p_e(y))          with a label: the arbiter
    w_hat <- step by the hinge's slope for the label or the pseudolabel, then forget 1 / HORIZON of it
    theta_e <- a step by the logistic slope for each of the last n_e labels, the oldest first, with a label

**Geometry.** Weights act on features as they come; steps are taken in the metric of features less their mean and over
their deviation (both of the last HORIZON rounds, about), R(w, b) = (||sd w||^2 + (b + w mean)^2) / 2, and divided by
the squared dual norm of the slope. So nothing changes if a feature is measured in other units, and the bias is as
quick as the rest. The constants below have no unit either: they are the same on every stream.

State is one vector and every function is plain enough to be compiled (`osamd.compiled.preset`); `Places` names its
parts. Beyond the paper: no bound is proven for the three together.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from osamd.arbiter import POWER, mix, weigh
from osamd.numerics import Array
from osamd.queries import query_probability
from osamd.scores import UNLABELLED

HORIZON = 250.0
"""Rounds that geometry and student remember; on the paper's first stream its student forgets 2 eta C = 1 / 250."""
ETA = 0.1
"""The student's step, over the squared norm of its slope."""
NEWEST = (8, 128)
"""Labels that the fast and the slow teacher replay."""
TAUS = (4.0, 0.8)
"""Their steps, over the squared norm of the slope."""
RIDGE = 0.001
"""Of the teachers, times their step."""
SHARPNESS = 4.0
"""What the student's margin of 1, at which the hinge ends, is worth in log odds."""
HANDICAP = 2.0
"""By so many nats a teacher must be ahead of the student, which has learned from far more samples."""
EXPERTS = 3

# Numbers at the head of the state.
SEEN, KEPT, LOSS, CLASSES, FEATURES = 0, 1, 2, 5, 6
HEAD = 7


class Places(NamedTuple):
    """Views of the state."""

    mean: Any
    variance: Any
    models: Any
    """Three models, each of one row for two classes, else a row a class, the bias last in a row."""
    kept: Any
    """The last labelled samples, a ring, row after row."""
    labels: Any
    x: Any
    """The sample observed last."""
    shares: Any
    """Its probabilities: of the three, then of the mixture."""
    slope: Any
    z: Any


def size(features: int, classes: int) -> int:
    """How long the state is."""
    rows, ring = rows_of(classes), NEWEST[1]
    return HEAD + 2 * features + EXPERTS * rows * (features + 1) + ring * (features + 1) + 2 * features + 5 * classes


def rows_of(classes: int) -> int:
    return 1 if classes == 2 else classes


def places(state: Any) -> Places:
    """The parts of the state."""
    d, classes = int(state[FEATURES]), int(state[CLASSES])
    models, ring = EXPERTS * rows_of(classes) * (d + 1), NEWEST[1]
    a = HEAD
    b = a + d
    c = b + d
    e = c + models
    f = e + ring * d
    g = f + ring
    h = g + d
    i = h + 4 * classes
    j = i + classes
    return Places(
        state[a:b], state[b:c], state[c:e], state[e:f], state[f:g], state[g:h], state[h:i], state[i:j], state[j : j + d]
    )


def open_state(features: int, classes: int, start: Array | None = None) -> Array:
    """A state whose three models begin at `start` (weights with the bias last), or at zero."""
    state = np.zeros(size(features, classes))
    state[CLASSES], state[FEATURES] = classes, features
    if start is not None:
        models = places(state).models.reshape(EXPERTS, -1)
        models[:] = np.asarray(start, dtype=np.float64).reshape(-1)
    return state


def model_of(state: Any, models: Any, expert: int) -> Any:
    """The parameters of one of the three, row after row."""
    length = rows_of(int(state[CLASSES])) * (int(state[FEATURES]) + 1)
    return models[expert * length : (expert + 1) * length]


def scores_into(state: Any, w: Any, x: Any, scores: Any) -> None:
    """H as one score a class; for two classes -H / 2 and H / 2, so that their difference is H."""
    d = int(state[FEATURES])
    for row in range(rows_of(int(state[CLASSES]))):
        at = row * (d + 1)
        total = w[at + d]
        for i in range(d):
            total += w[at + i] * x[i]
        scores[row] = total
    if int(state[CLASSES]) == 2:
        h = scores[0]
        scores[0], scores[1] = -0.5 * h, 0.5 * h


def softmax_in_place(scores: Any, sharpness: float) -> None:
    most = scores[0]
    for c in range(1, scores.shape[0]):
        most = max(most, scores[c])
    total = 0.0
    for c in range(scores.shape[0]):
        scores[c] = math.exp(sharpness * (scores[c] - most))
        total += scores[c]
    for c in range(scores.shape[0]):
        scores[c] /= total


def observe(state: Any, x: Any, u: float, sigma: float, floor: float) -> Any:
    """The first half of the round, on a model that stays: label (-1 where the sample cannot be used), whether to ask,
    the margin of the mixture, the probability of asking."""
    part = places(state)
    classes = int(state[CLASSES])
    if x.shape[0] != int(state[FEATURES]):
        return -1, False, 0.0, 0.0
    for i in range(x.shape[0]):
        part.x[i] = x[i]
    for e in range(EXPERTS):
        own = part.shares[e * classes : (e + 1) * classes]
        scores_into(state, model_of(state, part.models, e), x, own)
        softmax_in_place(own, SHARPNESS if e == 0 else 1.0)
    losses, theirs = state[LOSS : LOSS + EXPERTS], part.shares[: EXPERTS * classes]
    best, margin = mix(losses, theirs, HANDICAP, part.shares[EXPERTS * classes :])
    if not margin >= 0.0:  # a score that is no number
        return -1, False, 0.0, 0.0
    probability = query_probability(margin**POWER, sigma, floor)
    return best, u < probability, margin, probability


def learn(state: Any, pseudolabel: int, y: int) -> None:
    """The second half, for the sample observed last; y is a class, or UNLABELLED: the pseudolabel stands in for it."""
    part = places(state)
    follow(state, part)
    if y != UNLABELLED:
        weigh(state[LOSS : LOSS + EXPERTS], part.shares[: EXPERTS * int(state[CLASSES])], y)
        keep(state, part, y)
    teach_student(state, part, pseudolabel if y == UNLABELLED else y)
    if y != UNLABELLED:
        for teacher in range(EXPERTS - 1):
            replay(state, part, teacher)


def follow(state: Any, part: Any) -> None:
    """The geometry takes in the sample: running mean and variance, of all rounds at first, then of about HORIZON."""
    state[SEEN] += 1.0
    rate = max(1.0 / state[SEEN], 1.0 / HORIZON)
    for i in range(part.mean.shape[0]):
        away = part.x[i] - part.mean[i]
        part.mean[i] += rate * away
        part.variance[i] = (1.0 - rate) * (part.variance[i] + rate * away * away)


def keep(state: Any, part: Any, y: int) -> None:
    """The memory takes in the labelled sample, in place of its oldest."""
    d = int(state[FEATURES])
    place = int(state[KEPT]) % part.labels.shape[0]
    for i in range(d):
        part.kept[place * d + i] = part.x[i]
    part.labels[place] = float(y)
    state[KEPT] += 1.0


def teach_student(state: Any, part: Any, target: int) -> None:
    """A step by the slope of the multiclass hinge, and forgetting."""
    w = model_of(state, part.models, 0)
    scores = part.slope
    scores_into(state, w, part.x, scores)
    other = -1
    for c in range(scores.shape[0]):
        if c != target and (other < 0 or scores[c] > scores[other]):
            other = c
    short = scores[target] - scores[other] < 1.0
    steepness = standardise(part, part.x)
    if short:
        for c in range(scores.shape[0]):
            scores[c] = 0.0
        scores[target], scores[other] = -1.0, 1.0
        step(state, part, w, ETA, steepness)
    shrink(state, part, w, 1.0 / HORIZON)


def replay(state: Any, part: Any, teacher: int) -> None:
    """A step of the teacher by the logistic slope for each of the labels it remembers, the oldest first."""
    d, ring, count = int(state[FEATURES]), part.labels.shape[0], int(state[KEPT])
    w = model_of(state, part.models, 1 + teacher)
    several = 1.0 if int(state[CLASSES]) == 2 else 2.0
    for k in range(count - min(NEWEST[teacher], count), count):
        x = part.kept[(k % ring) * d : (k % ring + 1) * d]
        slope = part.slope
        scores_into(state, w, x, slope)
        softmax_in_place(slope, 1.0)
        slope[int(part.labels[k % ring])] -= 1.0
        steepness = standardise(part, x)
        step(state, part, w, TAUS[teacher], steepness)
        shrink(state, part, w, TAUS[teacher] * RIDGE / (several * steepness))


def standardise(part: Any, x: Any) -> float:
    """Put z = (x - mean) / sd, over sd once more, where a step needs it; returns 1 + ||z||^2."""
    total = 1.0
    for i in range(x.shape[0]):
        variance, mean = part.variance[i], part.mean[i]
        deviation = math.sqrt(variance) if variance > 1e-18 * (1e-30 + mean * mean) else 1.0
        z = (x[i] - mean) / deviation
        total += z * z
        part.z[i] = z / deviation
    return total


def step(state: Any, part: Any, w: Any, rate: float, steepness: float) -> None:
    """Against `part.slope`, in the geometry, over the squared dual norm of the margin's slope."""
    d, classes, slope = int(state[FEATURES]), int(state[CLASSES]), part.slope
    length = rate / (steepness if classes == 2 else 2.0 * steepness)
    centred = 1.0
    for i in range(d):
        centred -= part.z[i] * part.mean[i]
    for row in range(rows_of(classes)):
        moved = -length * (0.5 * (slope[1] - slope[0]) if classes == 2 else slope[row])
        at = row * (d + 1)
        for i in range(d):
            w[at + i] += moved * part.z[i]
        w[at + d] += moved * centred


def shrink(state: Any, part: Any, w: Any, share: float) -> None:
    """The L2 term in the geometry: weights lose this share, and the score of the mean sample stays."""
    d = int(state[FEATURES])
    for row in range(rows_of(int(state[CLASSES]))):
        at = row * (d + 1)
        for i in range(d):
            w[at + d] += share * w[at + i] * part.mean[i]
            w[at + i] *= 1.0 - share
