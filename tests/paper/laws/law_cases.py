"""What the laws run on: every entry of a registry, a few more parameters, and each decision set written out anew.

Joining a registry brings the tests; a geometry must add its decision set to `SETS`, so that its steps are checked
against a description of K other than its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from osamd.numerics import Array
from osamd.paper.geometry import GEOMETRIES, DecisionSet, Geometry, ball, box, p_norm, signed_simplex, simplex

law = settings(derandomize=True, deadline=None, max_examples=25)
"""The same examples on every run and machine."""

Value = Callable[[Array], float]
Gradient = Callable[[Array], Array]


def violation(k: DecisionSet, w: Array) -> float:
    """How far w lies outside of K, relative to its size."""
    outside = [0.0, float(np.max(k.low - w)), float(np.max(w - k.high))]
    if math.isfinite(k.radius):
        outside.append(float((np.abs(w) ** k.p).sum() ** (1 / k.p)) / k.radius - 1.0)
    if k.total is not None:
        outside.append(abs(float(w.sum()) / k.total - 1.0))
    return max(outside)


def constraints_of(k: DecisionSet, n: int) -> list[dict[str, object]]:
    """K for SLSQP, bounds apart; variables past the first n are not parameters."""
    found: list[dict[str, object]] = []
    if math.isfinite(k.radius):
        p, radius = k.p, k.radius

        def grown(v: Array) -> Array:
            return np.r_[-p * np.sign(v[:n]) * (np.abs(v[:n]) / radius) ** (p - 1), 0 * v[n:]] / radius

        found.append({"type": "ineq", "fun": lambda v: 1 - ((np.abs(v[:n]) / radius) ** p).sum(), "jac": grown})
    if k.total is not None:
        ones = np.ones(n)
        found.append({"type": "eq", "fun": lambda v: v[:n].sum() - k.total, "jac": lambda v: np.r_[ones, 0 * v[n:]]})
    return found


class Case(NamedTuple):
    geometry: Geometry
    decision_set: DecisionSet


SETS = {
    "euclidean": DecisionSet(),
    "ball": DecisionSet(radius=1.0),
    "box": DecisionSet(low=-1.0, high=1.0),
    "simplex": DecisionSet(low=1e-9, high=1.0, total=1.0),
    "signed-simplex": DecisionSet(low=1e-9, high=1.0, total=1.0),
    "p-norm": DecisionSet(p=1.5),
}

CASES = {
    **{name: Case(make(), SETS[name]) for name, make in GEOMETRIES.items()},
    "ball(0.7)": Case(ball(0.7), DecisionSet(radius=0.7)),
    "box(-0.3, 0.4)": Case(box(-0.3, 0.4), DecisionSet(low=-0.3, high=0.4)),
    "simplex(2.0, 1e-3)": Case(simplex(2.0, 1e-3), DecisionSet(low=1e-3, high=2.0, total=2.0)),
    "signed-simplex(3.0, 1e-4)": Case(signed_simplex(3.0, 1e-4), DecisionSet(low=1e-4, high=3.0, total=3.0)),
    "p-norm(1.3, 0.5)": Case(p_norm(1.3, radius=0.5), DecisionSet(p=1.3, radius=0.5)),
    "p-norm(1.05)": Case(p_norm(1.05), DecisionSet(p=1.05)),
    "p-norm(2.0, 1.5)": Case(p_norm(2.0, radius=1.5), DecisionSet(p=2.0, radius=1.5)),
}


def numbers(size: float) -> st.SearchStrategy[float]:
    """Numbers up to `size`, on a grid of thousandths of it: zeros and ties happen, and rounding stays out of it."""
    return st.integers(-1000, 1000).map(lambda i: i * size / 1000)


def vectors(n: int, size: float = 3.0) -> st.SearchStrategy[Array]:
    return st.lists(numbers(size), min_size=n, max_size=n).map(np.array)


def points(geometry: Geometry, n: int, size: float = 3.0) -> st.SearchStrategy[Array]:
    """Points of K, inside and on its border: where steps from the starting point land."""
    return vectors(n, size).map(lambda a: geometry.step(geometry.start((n,)), a))


def ridges(n: int) -> st.SearchStrategy[Array]:
    """No L2 term, one on every parameter, or one that leaves some of them free."""
    some = st.lists(st.sampled_from([0.0, 0.05, 1.0, 20.0]), min_size=n, max_size=n).map(np.array)
    return st.one_of(st.just(np.zeros(n)), st.just(np.full(n, 0.6)), some)


def argmin(
    value: Value, gradient: Gradient, k: DecisionSet, start: Array, constraints: tuple[dict[str, object], ...] = ()
) -> Array:
    """The minimiser that scipy finds over K, restarted until it stays; variables past those of `k` are free."""
    n = start.size if not constraints else start.size - 1
    bounds = [(k.low, k.high)] * n + [(None, None)] * (start.size - n)
    best = start
    for _ in range(4):
        found = minimize(
            value,
            best,
            jac=gradient,
            method="SLSQP",
            bounds=bounds,
            constraints=[*constraints_of(k, n), *constraints],
            options={"ftol": 1e-16, "maxiter": 500},
        )
        if np.max(np.abs(found.x - best)) < 1e-10:
            break
        best = found.x
    return best
