"""Euclidean geometries: the whole space, a ball and a box."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from osamd.errors import InputError, require_number
from osamd.numerics import NEWTON, Array, dot
from osamd.paper.geometry.base import DecisionSet, Geometry

FAR = 1e100
"""A radius lies between 1 / FAR and FAR, so that its square is finite; points beyond sqrt(FAR) radii are scaled."""


def l2_norm(w: Array) -> float:
    """||w||_2, summed in the stated order."""
    return math.sqrt(dot(w.ravel(), w.ravel()))


def _identity(w: Array) -> Array:
    return w


def _euclidean_divergence(v: Array, w: Array) -> float:
    """||v - w||_2^2 / 2."""
    return 0.5 * dot((v - w).ravel(), (v - w).ravel())


def _euclidean_reach(x: Array, ridge: Array) -> float:
    """sum_i x_i^2 / (1 + ridge_i), exact until K stops the step: a projection in that metric only shortens the step."""
    return dot(x / (1.0 + ridge), x)


def _euclidean_family(
    name: str, keep: Callable[[Array, Array], Array], diameter: Callable[[int], float], decision_set: DecisionSet
) -> Geometry:
    """R = ||w||_2^2 / 2 on the set that `keep(z, c)` = argmin_K sum_i c_i v_i^2 / 2 - z_i v_i keeps to.

    D_R(x, z) - D_R(y, z) = <(x + y)/2 - z, x - y>, so gamma is the diameter.
    """

    def step(w: Array, a: Array) -> Array:
        return keep(w - a, np.ones_like(w))

    def proximal(w: Array, a: Array, ridge: Array) -> Array:
        return keep(w - a, 1.0 + ridge)

    def project(w: Array) -> Array:
        return keep(w, np.ones_like(w))

    def start(shape: tuple[int, ...]) -> Array:
        return project(np.zeros(shape))

    return Geometry(
        name=name,
        step=step,
        proximal=proximal,
        mirror=_identity,
        project=project,
        divergence=_euclidean_divergence,
        norm=l2_norm,
        dual_norm=l2_norm,
        reach=_euclidean_reach,
        gamma=diameter,
        diameter=diameter,
        start=start,
        decision_set=decision_set,
        isotropic=decision_set.low == -math.inf,
        flat=decision_set == DecisionSet(),
    )


def euclidean() -> Geometry:
    """R = ||w||_2^2 / 2 on the whole space: gradient descent.

    >>> euclidean().step(np.array([1.0, 2.0]), np.array([0.5, 0.0])).tolist()
    [0.5, 2.0]
    """

    def keep(z: Array, c: Array) -> Array:
        return z / c

    return _euclidean_family("euclidean", keep, lambda n: math.inf, DecisionSet())


def ball(radius: float = 1.0) -> Geometry:
    """R = ||w||_2^2 / 2 on {||w||_2 <= radius}; D = gamma = 2 radius.

    >>> ball(1.0).project(np.array([3.0, 4.0])).tolist()
    [0.6, 0.8]
    """
    rule = f"radius must be positive and finite, from {1.0 / FAR:g} to {FAR:g}; scale the features."
    radius = require_number("ball", "radius", radius, lambda v: 1.0 / FAR <= v <= FAR, rule)

    def keep(z: Array, c: Array) -> Array:
        """z / (c + mu) with mu >= 0 the multiplier of the ball.

        mu is the root of 1 / ||z / (c + mu)|| = 1 / radius; the left side is concave in mu and nearly linear, so
        Newton's method from the left is monotone and fast (Moré and Sorensen, 1983). For a z so far out that its square
        may overflow, z and c are divided by the largest entry of z, which moves no minimiser, and mu starts at the
        bound max |z| / radius - max c.
        """
        mu = 0.0
        top = float(np.max(np.abs(z)))
        if top > math.sqrt(FAR) * radius:
            z, c = z / top, c / top
            mu = max(0.0, 1.0 / radius - float(np.max(c)))
        w = z / (c + mu)
        for _ in range(NEWTON):
            length = l2_norm(w)
            if length <= radius * (1.0 + 1e-15):
                break
            mu += (length / radius - 1.0) * length * length / dot(w.ravel(), (w / (c + mu)).ravel())
            w = z / (c + mu)
        return w

    return _euclidean_family("ball", keep, lambda n: 2.0 * radius, DecisionSet(radius=radius))


def box(low: float = -1.0, high: float = 1.0) -> Geometry:
    """R = ||w||_2^2 / 2 on {low <= w_i <= high}; D = gamma = (high - low) sqrt(n).

    >>> box(-1.0, 1.0).step(np.array([0.5, 0.5]), np.array([-2.0, 1.0])).tolist()
    [1.0, -0.5]
    """
    low = require_number("box", "low", low, math.isfinite, "low must be a finite number; it is the smallest weight.")
    high = require_number("box", "high", high, math.isfinite, "high must be a finite number; it is the largest weight.")
    if not low < high:
        raise InputError(f"`box(low={low}, high={high})`: low must be below high.")

    def keep(z: Array, c: Array) -> Array:
        return np.minimum(np.maximum(z / c, low), high)

    return _euclidean_family("box", keep, lambda n: (high - low) * math.sqrt(n), DecisionSet(low, high))
