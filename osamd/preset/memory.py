"""The last labelled samples, standardised by the held scale: a ring that all experts except the student learn from."""

from __future__ import annotations

from typing import Any, NamedTuple

from osamd.preset.scale import CLIP, Scale
from osamd.preset.views import Sizes, cut

MOST = 512
"""The most labelled samples that are remembered. With twice as many, no mean over tables changed by 0.1 points."""
LEAST = 32
"""The capacity at the start; it doubles as labels come, so that a short stream has a small state."""


class Memory(NamedTuple):
    """Views of the state."""

    samples: Any
    """One row per labelled sample."""
    columns: Any
    """The transpose, one row per feature: for loops over all samples at once."""
    labels: Any
    """Their classes."""


def cut_memory(vector: Any, at: int, sizes: Sizes) -> Any:
    samples, at = cut(vector, at, sizes.capacity * sizes.features)
    columns, at = cut(vector, at, sizes.features * sizes.capacity)
    labels, at = cut(vector, at, sizes.capacity)
    by_sample, by_feature = (sizes.capacity, sizes.features), (sizes.features, sizes.capacity)
    return Memory(samples.reshape(by_sample), columns.reshape(by_feature), labels), at


def keep(memory: Memory, kept: int, z: Any, y: int) -> int:
    """Store a sample in place of the oldest one, if `kept` were stored before; returns its place."""
    place = int(kept % memory.labels.shape[0])
    for i in range(z.shape[0]):
        memory.samples[place, i] = memory.columns[i, place] = z[i]
    memory.labels[place] = float(y)
    return place


def carry_over(memory: Memory, count: int, i: int, centre: float, inverse: float, held: Scale) -> None:
    """Convert feature i, which was held at `centre` and `inverse`, to the scale held now. Clipped values stay where
    they were clipped."""
    for k in range(count):
        x = centre
        if inverse > 0.0:
            x += memory.samples[k, i] / inverse
        z = (x - held.centre[i]) * held.inverse[i]
        memory.samples[k, i] = memory.columns[i, k] = min(max(z, -CLIP), CLIP)
