"""Checks a saved state of the linear preset: all that its compiled rounds use as an index, count or divisor."""

from __future__ import annotations

import math

import numpy as np

from osamd.checks import ROUNDING, require_finite_in, require_probability_like, require_that, require_within
from osamd.numerics import Array
from osamd.preset import state as layout
from osamd.preset.arbiter import DISCOUNT, DOUBT, Arbiter
from osamd.preset.bayes import LEAST_SPREAD, REACH, Bayes
from osamd.preset.forest import Forest
from osamd.preset.growing import MODULUS
from osamd.preset.memory import LEAST, MOST, Memory
from osamd.preset.mirror_descent import RADIUS
from osamd.preset.scale import CLIP, FIRST_RENEWAL, HORIZON, RENEWED, Scale
from osamd.preset.state import PresetParts

CAPACITIES = tuple(LEAST * 2**k for k in range(int(math.log2(MOST / LEAST)) + 1))
"""The possible capacities of the memory."""
WORST_LOSS = -math.log(DOUBT) / (1.0 - DISCOUNT)
"""The largest possible discounted sum of losses."""
FROM_SOURCE = 4 * int(HORIZON)
"""The most rows of a source that are gathered or remembered."""


def check_capacity(head: Array) -> int:
    """The capacity of the memory, from the head of a saved state."""
    capacity = head[layout.CAPACITY]
    require_that(capacity in CAPACITIES, f"head.capacity is {capacity}, but must be one of {CAPACITIES}")
    return int(capacity)


def check_state(parts: PresetParts, rounds: int) -> None:
    """Check the parts of a saved state, whose shapes fit; `rounds` is how many the learner has played."""
    check_head(parts.head, rounds)
    _check_scale(parts.scale)
    classes, features = parts.student.shape[0], parts.student.shape[1] - 1
    _check_memory(parts.memory, classes)
    for name in ("source", "student"):
        require_finite_in(name, getattr(parts, name))
    for name in ("regression", "fast_regression"):
        for part in ("weights", "duals"):
            require_finite_in(f"{name}.{part}", getattr(getattr(parts, name), part))
    for name, part in parts.descent._asdict().items():
        require_within(f"descent.{name}", part, -RADIUS - ROUNDING, RADIUS + ROUNDING)
    _check_bayes("fast_bayes", parts.fast_bayes, REACH[0])
    _check_bayes("bayes", parts.bayes, REACH[1])
    _check_forest(parts.forest, features, classes, parts.head[layout.KEPT])
    check_arbiter(parts.arbiter, sourced=parts.head[layout.SOURCED] > 0.0)


def check_head(head: Array, rounds: int) -> None:
    """Check the numbers at the head, except the sizes."""
    learned, kept = head[layout.ROUNDS], head[layout.KEPT]
    require_within("head.rounds", learned, 0, rounds + FROM_SOURCE, whole=True)
    require_within("head.kept", kept, 0, rounds + FROM_SOURCE, whole=True)
    capacity = head[layout.CAPACITY]
    require_that(capacity == MOST or kept <= capacity, f"head.kept is {kept}, but there is room for {capacity}")
    require_within("head.renewal", head[layout.RENEWAL], 1e-300, max(FIRST_RENEWAL, RENEWED * learned))
    require_within("head.sourced", head[layout.SOURCED], 0, layout.FOREIGN, whole=True)
    require_within("head.verified", head[layout.VERIFIED], 0.0, rounds)
    require_within("head.seed", head[layout.SEED], 1, MODULUS - 1, whole=True)
    require_within("head.shift", head[layout.SHIFT], layout.NOT_YET, math.inf)


def _check_scale(scale: Scale) -> None:
    for name, part in scale._asdict().items():
        require_finite_in(f"scale.{name}", part)
    for name in ("variance", "recent_variance", "inverse", "source_inverse"):
        require_within(f"scale.{name}", getattr(scale, name), 0.0, math.inf)
    require_that(scale.recent_inverse > 0.0, "scale.recent_inverse is not positive")


def _check_memory(memory: Memory, classes: int) -> None:
    require_within("memory.samples", memory.samples, -CLIP, CLIP)
    require_that(memory.columns == memory.samples.T, "memory.columns is not the transpose of memory.samples")
    require_within("memory.labels", memory.labels, 0, classes - 1, whole=True)


def _check_bayes(name: str, bayes: Bayes, reach: float) -> None:
    for part, values in bayes._asdict().items():
        require_finite_in(f"{name}.{part}", values)
    require_within(f"{name}.counts", bayes.counts, 0.0, reach + 1.0)
    require_within(f"{name}.variances", bayes.variances, 0.0, 4.0 * CLIP * CLIP)
    require_within(f"{name}.means", bayes.means, -CLIP - ROUNDING, CLIP + ROUNDING)
    require_within(f"{name}.precisions", bayes.precisions, 1e-9, (1.0 + ROUNDING) / LEAST_SPREAD)


def _check_forest(forest: Forest, features: int, classes: int, kept: float) -> None:
    """Check that children come after their parents, so that every path down a tree ends inside the tree."""
    trees, nodes = forest.feature.shape
    require_within("forest.feature", forest.feature, -classes, features - 1, whole=True)
    splits = forest.feature >= 0.0
    parents = np.broadcast_to(np.arange(nodes), (trees, nodes))[splits]
    children = forest.child[splits]
    require_within("forest.child", children, 1, nodes - 2, whole=True)
    require_that(children > parents, "forest.child holds a node that comes before its parent")
    require_within("the thresholds of forest.value", forest.value[splits], -CLIP, CLIP)
    require_within("the counts of forest.value", forest.value[~splits], 0.0, 1e300)
    require_within("forest.grown", forest.grown, 0, kept, whole=True)
    require_within("forest.seeds", forest.seeds, 0, MODULUS - 1, whole=True)


def check_arbiter(arbiter: Arbiter, *, sourced: bool) -> None:
    """Check the losses and weights of an arbiter."""
    require_within("arbiter.losses", arbiter.losses, 0.0, WORST_LOSS + ROUNDING)
    require_probability_like("arbiter.trust", arbiter.trust)
    require_probability_like("arbiter.guard", arbiter.guard)
    require_that(sourced or arbiter.guard[1] <= ROUNDING, "arbiter.guard trusts a source that does not exist")
