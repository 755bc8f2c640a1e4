"""The definition of a geometry."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from osamd.numerics import Array


class DecisionSet(NamedTuple):
    """K in the form that solvers take: low <= w_i <= high, sum_i w_i = total unless None, ||w||_p <= radius.

    >>> DecisionSet(radius=1.0)  # the Euclidean ball
    DecisionSet(low=-inf, high=inf, total=None, p=2.0, radius=1.0)
    """

    low: float = -math.inf
    high: float = math.inf
    total: float | None = None
    p: float = 2.0
    radius: float = math.inf


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """A mirror map R that is 1-strongly convex in its norm, and a decision set K.

    `osamd.paper.geometry` says what each function is.

    Parameters, gradients and ridges share one shape, which may be any, and are treated as one vector. They are never
    changed in place.
    """

    name: str
    step: Callable[[Array, Array], Array]
    proximal: Callable[[Array, Array, Array], Array]
    mirror: Callable[[Array], Array]
    project: Callable[[Array], Array]
    divergence: Callable[[Array, Array], float]
    norm: Callable[[Array], float]
    dual_norm: Callable[[Array], float]
    reach: Callable[[Array, Array], float]
    gamma: Callable[[int], float]
    diameter: Callable[[int], float]
    start: Callable[[tuple[int, ...]], Array]
    decision_set: DecisionSet
    isotropic: bool = False
    """R and K are unchanged by rotations of the parameters."""
    flat: bool = False
    """K is the whole space and R is quadratic, so a slope on a score moves it by exactly `reach` times the slope."""
    signed: bool = False
    """Parameters are pairs (w+, w-) that stand for w+ - w-; the model gives them (x, -x)."""
