"""The last labelled samples, standardised by the held scale: a ring that all experts except the student learn from."""

from __future__ import annotations

from typing import Any, NamedTuple

from osamd.preset.scale import CLIP, Scale
from osamd.preset.sums import squared_norm
from osamd.preset.views import Sizes, cut, cut_single

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


class Digest(NamedTuple):
    """What is computed from the memory, to spare time: views of the vector that a round works in."""

    columns: Any
    """The memory's columns in single precision."""
    norms: Any
    """The squared norms of the samples."""
    when: Any
    """When it was computed: the labels kept, the next renewal of the scale, and the capacity."""


def cut_digest(vector: Any, at: int, sizes: Sizes) -> Any:
    columns, at = cut_single(vector, at, sizes.features * sizes.capacity)
    norms, at = cut(vector, at, sizes.capacity)
    when, at = cut(vector, at, 3)
    return Digest(columns.reshape((sizes.features, sizes.capacity)), norms, when), at


def digest_memory(memory: Memory, digest: Digest, kept: int, renewal: float) -> None:
    """Compute anew what has changed: one sample per label, or everything once the scale was renewed."""
    ring, when = memory.labels.shape[0], digest.when
    same = when[1] == renewal and when[2] == ring
    if same and when[0] == kept:
        return
    first, last = 0, min(kept, ring)
    if same and when[0] == kept - 1:
        first = (kept - 1) % ring
        last = first + 1
    for i in range(memory.columns.shape[0]):
        for k in range(first, last):
            digest.columns[i, k] = memory.columns[i, k]
    for k in range(first, last):
        digest.norms[k] = squared_norm(memory.samples[k])
    when[0], when[1], when[2] = kept, renewal, ring


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
