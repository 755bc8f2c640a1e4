"""Entropic geometry: exponentiated gradient on a scaled simplex, and its plus-minus form."""

from __future__ import annotations

import math

import numpy as np

from osamd.errors import reject, require_number, require_positive
from osamd.numerics import Array, lane_sum, tempered_softmax
from osamd.paper.geometry.base import DecisionSet, Geometry

TINY = float(np.finfo(np.float64).tiny)
"""Replaces weights of zero or below, for which R is not defined; every floor lies above it."""


def simplex(scale: float = 1.0, floor: float = 1e-9, *, signed: bool = False) -> Geometry:
    """R = scale sum_i w_i log w_i on {w_i >= floor, sum_i w_i = scale}: exponentiated gradient.

    1-strongly convex in the l1 norm (Pinsker). Without a floor the divergence, hence gamma, is unbounded; with it
    gamma = scale log(hi / floor), hi the largest weight K allows, and D = 2 (scale - n floor). `signed` is the
    plus-minus form: the parameters are pairs (w+, w-) on the simplex, so the weights w+ - w- lie in the l1 ball
    (Kivinen and Warmuth, 1997). The function is long because the parts share scale and floor by closure.

    >>> simplex().step(np.array([0.5, 0.5]), np.array([0.0, np.log(3.0)])).round(6).tolist()
    [0.75, 0.25]
    """
    call = "signed_simplex" if signed else "simplex"
    scale = require_positive(call, "scale", scale)
    rule = f"floor must lie between 0 and scale, which is {scale}; 1e-9 is the default."
    floor = require_number(call, "floor", floor, lambda v: TINY < v < scale, rule)

    def require_room(n: int) -> None:
        if n * floor >= scale:
            rule = f"{n} parameters of at least the floor leave no room in scale={scale}; give a lower floor."
            raise reject(call, "floor", floor, rule)

    def proximal(w: Array, a: Array, ridge: Array) -> Array:
        b = np.log(w.ravel()) - a.ravel() / scale
        return tempered_softmax(b, ridge.ravel() / scale, floor, scale).reshape(w.shape)

    def step(w: Array, a: Array) -> Array:
        return proximal(w, a, np.zeros_like(w))

    def mirror(w: Array) -> Array:
        return scale * (np.log(w) + 1.0)

    def project(w: Array) -> Array:
        require_room(w.size)
        return step(np.maximum(w, TINY), np.zeros_like(w))

    def divergence(v: Array, w: Array) -> float:
        return scale * max(0.0, float(lane_sum((v * np.log(np.maximum(v, TINY) / w) - v + w).ravel())))

    def norm(w: Array) -> float:
        return float(lane_sum(np.abs(w).ravel()))

    def dual_norm(a: Array) -> float:
        return float(np.max(np.abs(a)))

    def reach(x: Array, ridge: Array) -> float:
        """The score moves by the variance of x under w / scale, or with several classes by that of all q_s x_i."""
        return dual_norm(x) ** 2

    def gamma(n: int) -> float:
        """D(x, z) - D(y, z) is at most half the spread of scale log(x_i / z_i), times ||x - y||_1, as the sums are
        equal."""
        require_room(n)
        return scale * math.log((scale - (n - 1) * floor) / floor)

    def diameter(n: int) -> float:
        require_room(n)
        return 2.0 * (scale - n * floor)

    def start(shape: tuple[int, ...]) -> Array:
        require_room(math.prod(shape))
        return np.full(shape, scale / math.prod(shape))

    return Geometry(
        name="signed-simplex" if signed else "simplex",
        step=step,
        proximal=proximal,
        mirror=mirror,
        project=project,
        divergence=divergence,
        norm=norm,
        dual_norm=dual_norm,
        reach=reach,
        gamma=gamma,
        diameter=diameter,
        start=start,
        decision_set=DecisionSet(floor, scale, scale),
        signed=signed,
    )


def signed_simplex(scale: float = 1.0, floor: float = 1e-9) -> Geometry:
    """The plus-minus form of `simplex`, for weights of either sign with ||w||_1 <= scale.

    >>> signed_simplex().start((4,)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return simplex(scale, floor, signed=True)
