"""The last labelled samples, standardised by the held scale: a ring that all experts but the student learn from."""

from __future__ import annotations

from typing import Any, NamedTuple

from osamd.preset.scale import CLIP, Scale
from osamd.preset.views import Sizes, cut

MOST = 512
"""Labelled samples that are remembered at most. Twice as many changed no mean over tables by 0.1 points."""
LEAST = 32
"""Room for so many at first; it doubles as labels come, so that a small stream has a small state."""


class Memory(NamedTuple):
    """Views of the state."""

    samples: Any
    """One row per labelled sample."""
    columns: Any
    """The same, one row per feature: for what runs over all samples at once."""
    labels: Any
    """Their classes."""


def cut_memory(vector: Any, at: int, sizes: Sizes) -> Any:
    samples, at = cut(vector, at, sizes.capacity * sizes.features)
    columns, at = cut(vector, at, sizes.features * sizes.capacity)
    labels, at = cut(vector, at, sizes.capacity)
    by_sample, by_feature = (sizes.capacity, sizes.features), (sizes.features, sizes.capacity)
    return Memory(samples.reshape(by_sample), columns.reshape(by_feature), labels), at


def keep(memory: Memory, kept: int, z: Any, y: int) -> int:
    """Put a sample in the place of the oldest, where `kept` were put before; says where."""
    place = kept % memory.labels.shape[0]
    for i in range(z.shape[0]):
        memory.samples[place, i] = memory.columns[i, place] = z[i]
    memory.labels[place] = float(y)
    return place


def carry_over(memory: Memory, count: int, before: Scale, after: Scale) -> None:
    """Standardise what is remembered by another held scale. What was cut off stays where it was cut off."""
    for i in range(after.centre.shape[0]):
        for k in range(count):
            x = before.centre[i]
            if before.inverse[i] > 0.0:
                x += memory.samples[k, i] / before.inverse[i]
            z = (x - after.centre[i]) * after.inverse[i]
            memory.samples[k, i] = memory.columns[i, k] = min(max(z, -CLIP), CLIP)
