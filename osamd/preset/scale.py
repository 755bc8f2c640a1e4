"""The scale of the features: running means and deviations that survive trends, outliers and constant columns.

There are two horizons. The *recent* one covers about HORIZON rounds; the student takes its steps in that metric, so its
metric moves with the stream. The *long* one covers all rounds, and standardises the memory: with recent statistics, a
column with a trend, such as a date or a counter, would push remembered samples far away.

What samples looked like when the source was made is kept too: how far the recent means have moved since says whether
the source may still be taken for what it was.

Samples are compared with the memory in a *held* copy of the long scale, z = clip((x - centre) / deviation). It is
renewed whenever the number of rounds has grown by half, and the memory is then converted to it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from osamd.preset.views import cut

HORIZON = 250.0
"""The number of rounds that the recent scale and the student remember; on the paper's first stream its student forgets
2 eta C = 1 / 250 per round."""
CLIP = 5.0
"""Standardised features are clipped here: a larger value is an outlier, and says only that it is large."""
SETTLED = 4.0 * HORIZON
"""After this many rounds, the samples so far may stand for those of a source that came without rows. Were they fewer,
the long and the recent means would be nearly the same even on a stream that drifts."""
STEADY = 20.0
"""After this many rounds, deviations are trusted enough to clip values more than CLIP + 1 of them away."""
RENEWED = 1.5
"""The held scale is renewed when the number of rounds has grown by this factor."""
FIRST_RENEWAL = 10.0
SPOILT = 25.0
"""A long variance this many times larger than recent rounds explain was inflated by outliers before STEADY."""
CONSTANT = 1e-18
"""A variance below this share of the squared mean is the rounding error of a constant column."""


class Scale(NamedTuple):
    """Views of the state, one number per feature."""

    mean: Any
    variance: Any
    recent_mean: Any
    recent_variance: Any
    recent_inverse: Any
    """One over the recent deviations; 1 for a constant column."""
    centre: Any
    inverse: Any
    """One over the held deviations; 0 for a constant column, which is then ignored."""
    source_mean: Any
    source_inverse: Any
    """One over the deviations of the source's samples; 0 for a column that was constant."""


def cut_scale(vector: Any, at: int, features: int) -> Any:
    mean, at = cut(vector, at, features)
    variance, at = cut(vector, at, features)
    recent_mean, at = cut(vector, at, features)
    recent_variance, at = cut(vector, at, features)
    recent_inverse, at = cut(vector, at, features)
    centre, at = cut(vector, at, features)
    inverse, at = cut(vector, at, features)
    source_mean, at = cut(vector, at, features)
    source_inverse, at = cut(vector, at, features)
    return Scale(
        mean,
        variance,
        recent_mean,
        recent_variance,
        recent_inverse,
        centre,
        inverse,
        source_mean,
        source_inverse,
    ), at


def follow(scale: Scale, x: Any, rounds: float) -> None:
    """Update the statistics by the sample of the round with this number, counted from 1."""
    long, recent = 1.0 / rounds, max(1.0 / rounds, 1.0 / HORIZON)
    for i in range(x.shape[0]):
        away = kept_near(x[i] - scale.mean[i], scale.variance[i], rounds)
        scale.mean[i] += long * away
        scale.variance[i] = (1.0 - long) * (scale.variance[i] + long * away * away)
        away = kept_near(x[i] - scale.recent_mean[i], scale.recent_variance[i], rounds)
        mean = scale.recent_mean[i] + recent * away
        variance = (1.0 - recent) * (scale.recent_variance[i] + recent * away * away)
        scale.recent_mean[i], scale.recent_variance[i] = mean, variance
        scale.recent_inverse[i] = 1.0 / math.sqrt(variance) if varies(variance, mean) else 1.0


def kept_near(away: float, variance: float, rounds: float) -> float:
    """A distance from the mean, clipped if it is an outlier's."""
    if rounds <= STEADY or variance <= 0.0:
        return away
    limit = (CLIP + 1.0) * math.sqrt(variance)
    return min(max(away, -limit), limit)


def varies(variance: float, mean: float) -> bool:
    return variance > CONSTANT * (1e-30 + mean * mean)


def note_source(scale: Scale) -> None:
    """Take the samples so far for those of the source."""
    for i in range(scale.mean.shape[0]):
        mean, variance = scale.mean[i], scale.variance[i]
        scale.source_mean[i] = mean
        scale.source_inverse[i] = 1.0 / math.sqrt(variance) if varies(variance, mean) else 0.0


def shift_from_source(scale: Scale) -> float:
    """How far recent samples are from those of the source: the largest shift of a mean, in deviations."""
    farthest = 0.0
    for i in range(scale.mean.shape[0]):
        farthest = max(farthest, abs(scale.recent_mean[i] - scale.source_mean[i]) * scale.source_inverse[i])
    return farthest


def hold(scale: Scale, i: int) -> None:
    """Renew the held scale of a feature; a long variance that outliers have spoilt restarts from the recent rounds."""
    apart = scale.mean[i] - scale.recent_mean[i]
    explained = scale.recent_variance[i] + apart * apart
    if explained > 0.0 and scale.variance[i] > SPOILT * explained:
        scale.mean[i], scale.variance[i] = scale.recent_mean[i], scale.recent_variance[i]
    scale.centre[i] = scale.mean[i]
    variance = scale.variance[i]
    scale.inverse[i] = 1.0 / math.sqrt(variance) if varies(variance, scale.mean[i]) else 0.0


def standardise_into(scale: Scale, x: Any, z: Any) -> None:
    for i in range(x.shape[0]):
        z[i] = min(max((x[i] - scale.centre[i]) * scale.inverse[i], -CLIP), CLIP)
