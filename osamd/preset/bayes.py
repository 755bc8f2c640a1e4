"""Naive Bayes with normal features: a fast one, which looks back a few labels, and a slow one, which looks back many.

Classes are counted with forgetting, by 1 / REACH per label. The stream's own mean and variance, 0 and 1 in the held
scale, count as one sample of every class, so one label is enough to start.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from osamd.preset.linear_models import softmax_in_place
from osamd.preset.memory import Memory
from osamd.preset.sums import weighted_distance
from osamd.preset.views import Sizes, cut

REACH = (8.0, 256.0)
"""How many labels the fast and the slow one look back. The fast one recovers from flipped labels."""
LEAST_SPREAD = 0.001
"""The least variance of a feature within a class, as a share of that of the stream."""


class Bayes(NamedTuple):
    """Views of the state; what follows from means and variances is computed once per label."""

    counts: Any
    means: Any
    variances: Any
    centres: Any
    """The means, shrunk towards that of the stream."""
    precisions: Any
    """One over the variances, which are shrunk likewise."""
    constants: Any
    """The terms that do not depend on the sample: log count - log det / 2."""


def cut_bayes(vector: Any, at: int, sizes: Sizes) -> Any:
    k, table = sizes.classes, sizes.classes * sizes.features
    counts, at = cut(vector, at, k)
    means, at = cut(vector, at, table)
    variances, at = cut(vector, at, table)
    centres, at = cut(vector, at, table)
    precisions, at = cut(vector, at, table)
    constants, at = cut(vector, at, k)
    shape = (k, sizes.features)
    views = Bayes(
        counts,
        means.reshape(shape),
        variances.reshape(shape),
        centres.reshape(shape),
        precisions.reshape(shape),
        constants,
    )
    return views, at


def count_in(bayes: Bayes, z: Any, y: int, reach: float) -> None:
    """Count a label; earlier labels then count less."""
    for c in range(bayes.counts.shape[0]):
        bayes.counts[c] *= 1.0 - 1.0 / reach
    bayes.counts[y] += 1.0
    rate = 1.0 / bayes.counts[y]
    for i in range(z.shape[0]):
        away = z[i] - bayes.means[y, i]
        bayes.means[y, i] += rate * away
        bayes.variances[y, i] = (1.0 - rate) * (bayes.variances[y, i] + rate * away * away)


def settle(bayes: Bayes) -> None:
    """Compute what an opinion needs."""
    for c in range(bayes.counts.shape[0]):
        count = bayes.counts[c]
        stream = 1.0 / (count + 1.0)
        known = count * stream
        total = math.log(count + 1.0)
        for i in range(bayes.means.shape[1]):
            mean = bayes.means[c, i]
            spread = max(known * bayes.variances[c, i] + stream + known * stream * mean * mean, LEAST_SPREAD)
            bayes.centres[c, i], bayes.precisions[c, i] = known * mean, 1.0 / spread
            total -= 0.5 * math.log(spread)
        bayes.constants[c] = total


def recount(bayes: Bayes, memory: Memory, kept: int, reach: float) -> None:
    """Count all labels again, after the memory was converted to another scale."""
    ring = memory.labels.shape[0]
    bayes.counts[:] = 0.0
    bayes.means[:] = 0.0
    bayes.variances[:] = 0.0
    for k in range(max(0, kept - ring), kept):
        count_in(bayes, memory.samples[k % ring], int(memory.labels[k % ring]), reach)
    settle(bayes)


def bayes_opinion(bayes: Bayes, z: Any, own: Any) -> None:
    """The probabilities of the classes."""
    for c in range(own.shape[0]):
        own[c] = bayes.constants[c] - 0.5 * weighted_distance(z, bayes.centres[c], bayes.precisions[c])
    softmax_in_place(own, 1.0)
