"""The p-norm geometry, between gradient descent (p = 2) and exponentiated gradient (p near 1)."""

from __future__ import annotations

import math

import numpy as np

from osamd.errors import require_number, require_positive
from osamd.numerics import NEWTON, Array, lane_sum
from osamd.paper.geometry.base import DecisionSet, Geometry


def _norm(w: Array, p: float) -> float:
    """||w||_p, without overflow."""
    top = float(np.max(np.abs(w)))
    if top == 0.0:
        return 0.0
    return top * float(float(lane_sum((np.abs(w).ravel() / top) ** p)) ** (1.0 / p))


def _link(w: Array, p: float) -> Array:
    """grad (||w||_p^2 / 2): sign(w_i) |w_i|^(p-1) / ||w||_p^(p-2); its inverse is the link of the dual exponent."""
    length = _norm(w, p)
    if length == 0.0:
        return np.zeros_like(w)
    image: Array = length * np.sign(w) * (np.abs(w) / length) ** (p - 1.0)
    return image


def _log_coordinates(log_z: Array, log_ridge: Array, log_a: float, p: float) -> tuple[Array, Array]:
    """The t = log v with a v^(p-1) + ridge v = z, and dt / d log a.

    The logarithm of the left side is a log-sum-exp in t: convex and increasing, so Newton's method from the right of
    the root is monotone.
    """
    t = np.minimum((log_z - log_a) / (p - 1.0), log_z - log_ridge)
    for _ in range(NEWTON):
        power, linear = np.exp(log_a + (p - 1.0) * t - log_z), np.exp(log_ridge + t - log_z)
        total = power + linear
        after = t - np.log(total) * total / ((p - 1.0) * power + linear)
        if np.all(np.abs(after - t) <= 1e-15 * (1.0 + np.abs(t))):
            break
        t = after
    power, linear = np.exp(log_a + (p - 1.0) * t - log_z), np.exp(log_ridge + t - log_z)
    return t, -power / ((p - 1.0) * power + linear)


def _log_norm(log_z: Array, log_ridge: Array, log_a: float, p: float) -> tuple[Array, float, float]:
    """The t of `_log_coordinates`, log ||v||_p, and d log ||v||_p / d log a."""
    t, falls = _log_coordinates(log_z, log_ridge, log_a, p)
    top = float(np.max(t))
    weights = np.exp(p * (t - top))
    total = float(lane_sum(weights))
    return t, top + math.log(total) / p, float(lane_sum(weights * falls)) / total


def _free_coordinates(log_z: Array, log_ridge: Array, high: float, p: float) -> tuple[Array, float]:
    """log |v| and log N = log ||v||_p of the minimiser over the whole space, where a = N^(2-p) / (p-1).

    log ||v(a(N))|| - log N falls in log N with a slope of at most -1, so the error at any point brackets the root.
    `high`, the log N without a ridge, is an upper end of the bracket.
    """
    log_n, low = high, -math.inf
    t = log_z
    for _ in range(NEWTON):
        t, length, slope = _log_norm(log_z, log_ridge, (2.0 - p) * log_n - math.log(p - 1.0), p)
        error = length - log_n
        low, high = (max(low, log_n), high) if error > 0.0 else (max(low, log_n + error), log_n)
        after = log_n - error / ((2.0 - p) * slope - 1.0)
        after = after if low <= after <= high else 0.5 * (low + high)
        if abs(after - log_n) <= 1e-15 * (1.0 + abs(log_n)):
            break
        log_n = after
    return t, log_n


def _sphere_coordinates(log_z: Array, log_ridge: Array, log_radius: float, p: float) -> Array:
    """log |v| of the minimiser with ||v||_p = radius, where a = radius^(2-p) (1/(p-1) + mu): a root in log a."""
    log_a, low, high = (2.0 - p) * log_radius - math.log(p - 1.0), -math.inf, math.inf
    t = log_z
    for _ in range(2 * NEWTON):
        t, length, slope = _log_norm(log_z, log_ridge, log_a, p)
        error = length - log_radius
        low, high = (log_a, high) if error > 0.0 else (low, log_a)
        after = log_a - error / slope if slope < 0.0 else math.inf
        if not low <= after <= high:
            after = 0.5 * (low + high) if math.isfinite(high) else log_a + 1.0
        if abs(after - log_a) <= 1e-15 * (1.0 + abs(log_a)):
            break
        log_a = after
    return t


def _ridge_step(z: Array, ridge: Array, p: float, radius: float) -> Array:
    """argmin ||v||_p^2 / (2 (p-1)) + sum_i ridge_i v_i^2 / 2 - <z, v> over ||v||_p <= radius.

    Optimality: a |v_i|^(p-1) + ridge_i |v_i| = |z_i| with a = N^(2-p) (1/(p-1) + mu), N = ||v||_p, and mu >= 0 the
    multiplier of the ball. N is found first with mu = 0; if that lies outside the ball, N = radius and mu is found.
    """
    flat_z = z.ravel()
    nonzero = flat_z != 0.0
    if not np.any(nonzero):
        return np.zeros_like(z)
    log_z = np.log(np.abs(flat_z[nonzero]))
    flat_ridge = ridge.ravel()[nonzero]
    ridged = flat_ridge > 0.0
    log_ridge = np.where(ridged, np.log(np.where(ridged, flat_ridge, 1.0)), -np.inf)
    unridged = math.log((p - 1.0) * _norm(z, p / (p - 1.0)))
    t, log_n = _free_coordinates(log_z, log_ridge, unridged, p)
    if log_n > math.log(radius):
        t = _sphere_coordinates(log_z, log_ridge, math.log(radius), p)
    v = np.zeros(z.size)
    v[nonzero] = np.sign(flat_z[nonzero]) * np.exp(t)
    return v.reshape(z.shape)


def p_norm(p: float = 1.5, radius: float = math.inf) -> Geometry:
    """R = ||w||_p^2 / (2 (p - 1)), 1 < p <= 2, on {||w||_p <= radius} (the whole space by default).

    The factor makes R 1-strongly convex in ||.||_p. The Bregman projection on the ball scales w, since the gradient
    of R is homogeneous; D = 2 radius and gamma = 2 radius / (p - 1), as ||grad R(w)||_q = ||w||_p / (p - 1).

    >>> p_norm(2.0).step(np.array([1.0, 2.0]), np.array([0.5, 0.0])).round(12).tolist()
    [0.5, 2.0]
    """
    rule = "p must lie in (1, 2]; 2 is Euclidean, and values near 1 act like exponentiated gradient."
    p = require_number("p_norm", "p", p, lambda v: 1.0 < v <= 2.0, rule)
    radius = require_positive("p_norm", "radius", radius, infinite=True)
    q = p / (p - 1.0)

    def mirror(w: Array) -> Array:
        return _link(w, p) / (p - 1.0)

    def project(w: Array) -> Array:
        length = _norm(w, p)
        return w if length <= radius else w * (radius / length)

    def step(w: Array, a: Array) -> Array:
        return project(_link((p - 1.0) * (mirror(w) - a), q))

    def proximal(w: Array, a: Array, ridge: Array) -> Array:
        if not np.any(ridge):
            return step(w, a)
        return _ridge_step(mirror(w) - a, ridge, p, radius)

    def divergence(v: Array, w: Array) -> float:
        half = 0.5 * (_norm(v, p) ** 2 - _norm(w, p) ** 2) / (p - 1.0)
        return max(0.0, half - float(lane_sum((mirror(w) * (v - w)).ravel())))

    def norm(w: Array) -> float:
        return _norm(w, p)

    def dual_norm(a: Array) -> float:
        return _norm(a, q)

    def reach(x: Array, ridge: Array) -> float:
        """R is 1-strongly convex, so its dual is 1-smooth in the dual norm; a ridge only shortens the step."""
        return dual_norm(x) ** 2

    return Geometry(
        name="p-norm",
        step=step,
        proximal=proximal,
        mirror=mirror,
        project=project,
        divergence=divergence,
        norm=norm,
        dual_norm=dual_norm,
        reach=reach,
        gamma=lambda n: 2.0 * radius / (p - 1.0),
        diameter=lambda n: 2.0 * radius,
        start=np.zeros,
        decision_set=DecisionSet(p=p, radius=radius),
    )
