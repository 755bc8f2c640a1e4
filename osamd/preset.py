"""The preset: OSAMD with a memory, six experts and a geometry that follows the stream; it needs no step size.

Beside the student of the paper, which trains itself on pseudolabels in every round, there are five experts that learn
from labels alone. Two linear teachers: a fast one, which replays the last few labels after every label, and a slow one,
which replays the whole memory. Two of naive Bayes, which forget as fast as the teachers do. And the neighbours: a vote
of the memory itself, the nearer the louder, which bends where no plane can. An arbiter (`osamd.arbiter`) weighs the six
by their discounted losses on the labels that were asked for. Its mixture of their probabilities gives the pseudolabel,
decides, and says how unsure it is.

One round, in the order of Algorithm 1, with p_e the probabilities of expert e, the student's first:

    p = sum_e a_e p_e,  a_e ~ exp(-L_e - h [e > 0])                opinion: pseudolabel, decision, margin m
    ask with probability max(floor, sigma / (sigma + m^POWER))     active query, sigma steered to the budget
    L_e <- DISCOUNT L_e - log(DOUBT + (1 - DOUBT) p_e(y))          with a label: the arbiter
    w_hat <- step by the hinge's slope for the label or the pseudolabel, then forget 1 / HORIZON of it
    theta_j <- a step by the logistic slope for each of the last n_j labels, the oldest first, with a label
    class counts, means and variances of Bayes j forget 1 / n_j and take in the label

The handicap h is HANDICAP where the model starts from somewhere, and 0 where it starts from nothing, since then the
student knows no more than the others. In that case the first labels are spent as soon as they are earned, too.

**Geometry.** Weights act on features as they come; steps are taken in the metric of features less their mean and over
their deviation (both of the last HORIZON rounds, about), R(w, b) = (||sd w||^2 + (b + w mean)^2) / 2, and divided by
the squared dual norm of the slope. So nothing changes if a feature is measured in other units, and the bias is as
quick as the rest. Neighbours are near in the same metric, with D_k = ||(x - x_k) / sd||^2 and votes exp(-D_k / b),
b = WIDTH times the mean of all D_k; Bayes takes the stream's own mean and deviation for one sample of every class.
The constants below have no unit either: they are the same on every stream.

State is one vector and every function is plain enough to be compiled (`osamd.compiled.preset`); `Places` names its
parts. Beyond the paper: no bound is proven for the six together.
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
"""Labels that the fast and the slow teacher replay, and that the fast and the slow Bayes reach back; the last of them
is how many are remembered."""
TAUS = (4.0, 0.8)
"""Their steps, over the squared norm of the slope."""
RIDGE = 0.001
"""Of the teachers, times their step."""
SHARPNESS = 4.0
"""What the student's margin of 1, at which the hinge ends, is worth in log odds."""
HANDICAP = 3.0
"""By so many nats an expert must be ahead of a student that has a source, and so has learned from far more samples."""
LEAST_SPREAD = 0.001
"""The least variance of a class in Bayes, over that of the stream."""
WIDTH = 0.1
"""Of the neighbours' votes, over the mean squared distance to all that are remembered."""
BLANK = 0.1
"""Votes of nobody, shared evenly among the classes: far from all neighbours nothing is known."""
MODELS, PACES = 3, 2
"""Linear models: student, fast and slow teacher; then the fast and the slow Bayes, and the neighbours."""
EXPERTS = MODELS + PACES + 1

# Numbers at the head of the state.
SEEN, KEPT, CLASSES, FEATURES, BEHIND, LOSS = range(6)
HEAD = LOSS + EXPERTS


class Places(NamedTuple):
    """Views of the state."""

    mean: Any
    variance: Any
    scale: Any
    """One over the deviations; 1 where there is none."""
    models: Any
    """Three models, each of one row for two classes, else a row a class, the bias last in a row."""
    kept: Any
    """The last labelled samples, a ring, feature after feature."""
    labels: Any
    counts: Any
    """Of the labels, class after class, for the fast and then for the slow Bayes; so too the next two."""
    centres: Any
    """Means of the features, class after class."""
    spreads: Any
    """Their variances."""
    x: Any
    """The sample observed last."""
    shares: Any
    """Its probabilities: of the six, then of the mixture."""
    away: Any
    """Its squared distances from those remembered."""
    slope: Any
    z: Any
    replayed: Any


def lengths(features: int, classes: int) -> Any:
    """Of the places, in their order."""
    d, ring = features, NEWEST[PACES - 1]
    return (
        d,
        d,
        d,
        MODELS * rows_of(classes) * (d + 1),
        ring * d,
        ring,
        PACES * classes,
        PACES * classes * d,
        PACES * classes * d,
        d,
        (EXPERTS + 1) * classes,
        ring,
        classes,
        d,
        d,
    )


def size(features: int, classes: int) -> int:
    """How long the state is."""
    return int(HEAD + sum(lengths(features, classes)))


def rows_of(classes: int) -> int:
    return 1 if classes == 2 else classes


def places(state: Any) -> Places:
    """The parts of the state."""
    n = lengths(int(state[FEATURES]), int(state[CLASSES]))
    a = HEAD
    b = a + n[0]
    c = b + n[1]
    d = c + n[2]
    e = d + n[3]
    f = e + n[4]
    g = f + n[5]
    h = g + n[6]
    i = h + n[7]
    j = i + n[8]
    k = j + n[9]
    m = k + n[10]
    o = m + n[11]
    p = o + n[12]
    q = p + n[13]
    return Places(
        state[a:b],
        state[b:c],
        state[c:d],
        state[d:e],
        state[e:f],
        state[f:g],
        state[g:h],
        state[h:i],
        state[i:j],
        state[j:k],
        state[k:m],
        state[m:o],
        state[o:p],
        state[p:q],
        state[q : q + n[14]],
    )


def open_state(features: int, classes: int, start: Array | None = None) -> Array:
    """A state whose linear models begin at `start` (weights with the bias last), or at zero."""
    state = np.zeros(size(features, classes))
    state[CLASSES], state[FEATURES] = classes, features
    places(state).scale[:] = 1.0
    if start is not None:
        begin(state, start)
    return state


def begin(state: Array, start: Array) -> None:
    """Let the linear models begin here; the student is the one who knows."""
    places(state).models.reshape(MODELS, -1)[:] = np.asarray(start, dtype=np.float64).reshape(-1)
    state[BEHIND] = HANDICAP


def model_of(state: Any, models: Any, expert: int) -> Any:
    """The parameters of one of the linear models, row after row."""
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
    for e in range(MODELS):
        own = part.shares[e * classes : (e + 1) * classes]
        scores_into(state, model_of(state, part.models, e), x, own)
        softmax_in_place(own, SHARPNESS if e == 0 else 1.0)
    for pace in range(PACES):
        at = (MODELS + pace) * classes
        bayes(part, pace, part.shares[at : at + classes])
    at = (EXPERTS - 1) * classes
    neighbours(state, part, part.shares[at : at + classes])
    losses, theirs = state[LOSS : LOSS + EXPERTS], part.shares[: EXPERTS * classes]
    best, margin = mix(losses, theirs, state[BEHIND], part.shares[EXPERTS * classes :])
    if not margin >= 0.0:  # a score that is no number
        return -1, False, 0.0, 0.0
    probability = query_probability(margin**POWER, sigma, floor)
    return best, u < probability, margin, probability


def bayes(part: Any, pace: int, own: Any) -> None:
    """Naive Bayes with normal features. The stream's mean and variance count as one sample of every class."""
    classes, d = own.shape[0], part.x.shape[0]
    for c in range(classes):
        count = part.counts[pace * classes + c]
        stream = 1.0 / (count + 1.0)
        known = count * stream
        at = (pace * classes + c) * d
        total, spreads = math.log(count + 1.0), 1.0
        for i in range(d):
            scale = part.scale[i]
            apart = (part.centres[at + i] - part.mean[i]) * scale
            spread = known * part.spreads[at + i] + stream * part.variance[i]
            spread = max(spread * scale * scale + known * stream * apart * apart, LEAST_SPREAD)
            off = (part.x[i] - part.mean[i]) * scale - known * apart
            total -= 0.5 * off * off / spread
            spreads *= spread
            if not 1e-100 < spreads < 1e100:
                total -= 0.5 * math.log(spreads)
                spreads = 1.0
        own[c] = total - 0.5 * math.log(spreads)
    softmax_in_place(own, 1.0)


def neighbours(state: Any, part: Any, own: Any) -> None:
    """The vote of the remembered samples."""
    classes, away = own.shape[0], part.away
    ring = away.shape[0]
    count = min(int(state[KEPT]), ring)
    for k in range(count):
        away[k] = 0.0
    for i in range(part.x.shape[0]):
        value, scale, column = part.x[i], part.scale[i], part.kept[i * ring : (i + 1) * ring]
        for k in range(count):
            gap = (value - column[k]) * scale
            away[k] += gap * gap
    total = 0.0
    for k in range(count):
        total += away[k]
    width = WIDTH * total / count if total > 0.0 else 1.0
    for c in range(classes):
        own[c] = BLANK / classes
    votes = BLANK
    for k in range(count):
        vote = math.exp(-away[k] / width)
        own[int(part.labels[k])] += vote
        votes += vote
    for c in range(classes):
        own[c] /= votes


def learn(state: Any, pseudolabel: int, y: int) -> None:
    """The second half, for the sample observed last; y is a class, or UNLABELLED: the pseudolabel stands in for it."""
    part = places(state)
    follow(state, part)
    if y != UNLABELLED:
        weigh(state[LOSS : LOSS + EXPERTS], part.shares[: EXPERTS * int(state[CLASSES])], y)
        keep(state, part, y)
    teach_student(state, part, pseudolabel if y == UNLABELLED else y)
    if y != UNLABELLED:
        for pace in range(PACES):
            replay(state, part, pace)
            tally(state, part, pace, y)


def follow(state: Any, part: Any) -> None:
    """The geometry takes in the sample: running mean and variance, of all rounds at first, then of about HORIZON."""
    state[SEEN] += 1.0
    rate = max(1.0 / state[SEEN], 1.0 / HORIZON)
    for i in range(part.mean.shape[0]):
        away = part.x[i] - part.mean[i]
        mean = part.mean[i] + rate * away
        variance = (1.0 - rate) * (part.variance[i] + rate * away * away)
        part.mean[i], part.variance[i] = mean, variance
        part.scale[i] = 1.0 / math.sqrt(variance) if variance > 1e-18 * (1e-30 + mean * mean) else 1.0


def keep(state: Any, part: Any, y: int) -> None:
    """The memory takes in the labelled sample, in place of its oldest."""
    ring = part.labels.shape[0]
    place = int(state[KEPT]) % ring
    for i in range(part.x.shape[0]):
        part.kept[i * ring + place] = part.x[i]
    part.labels[place] = float(y)
    state[KEPT] += 1.0


def tally(state: Any, part: Any, pace: int, y: int) -> None:
    """Bayes takes in the label; what it has counted before counts less."""
    classes, d = int(state[CLASSES]), part.x.shape[0]
    for c in range(classes):
        part.counts[pace * classes + c] *= 1.0 - 1.0 / NEWEST[pace]
    part.counts[pace * classes + y] += 1.0
    rate, at = 1.0 / part.counts[pace * classes + y], (pace * classes + y) * d
    for i in range(d):
        away = part.x[i] - part.centres[at + i]
        part.centres[at + i] += rate * away
        part.spreads[at + i] = (1.0 - rate) * (part.spreads[at + i] + rate * away * away)


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


def replay(state: Any, part: Any, pace: int) -> None:
    """A step of a teacher by the logistic slope for each of the labels it remembers, the oldest first."""
    ring, count, x = part.labels.shape[0], int(state[KEPT]), part.replayed
    w = model_of(state, part.models, 1 + pace)
    several = 1.0 if int(state[CLASSES]) == 2 else 2.0
    for k in range(count - min(NEWEST[pace], count), count):
        for i in range(x.shape[0]):
            x[i] = part.kept[i * ring + k % ring]
        slope = part.slope
        scores_into(state, w, x, slope)
        softmax_in_place(slope, 1.0)
        slope[int(part.labels[k % ring])] -= 1.0
        steepness = standardise(part, x)
        step(state, part, w, TAUS[pace], steepness)
        shrink(state, part, w, TAUS[pace] * RIDGE / (several * steepness))


def standardise(part: Any, x: Any) -> float:
    """Put z = (x - mean) / sd, over sd once more, where a step needs it; returns 1 + ||z||^2."""
    total = 1.0
    for i in range(x.shape[0]):
        z = (x[i] - part.mean[i]) * part.scale[i]
        total += z * z
        part.z[i] = z * part.scale[i]
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
