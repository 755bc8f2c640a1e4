"""The constants of the theory, computed from a stream and the parts of a learner."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from osamd.errors import InputError, require_positive
from osamd.evaluation.array_checks import finite_array
from osamd.evaluation.comparators import require_exact_match
from osamd.evaluation.regret import path_length
from osamd.evaluation.theory import Constants
from osamd.numerics import Array
from osamd.paper.geometry import Geometry
from osamd.paper.losses import LOSSES, Loss
from osamd.paper.models import Linear
from osamd.streams import ExactStream

ROUNDING = 1e-12
"""An alpha* below this times R is a rounding error of its integral, and is taken as 0."""

SAMPLES = 1000
"""The number of samples of the first domain on which `x_radius` is checked."""


def constants_for(
    stream: ExactStream,
    loss: Loss,
    model: Linear,
    geometry: Geometry,
    *,
    separators: ArrayLike,
    optima: ArrayLike,
    teacher: ArrayLike,
    student: ArrayLike,
    R: float,
    V_T: float,
    x_radius: float,
) -> Constants:
    """The constants of Assumptions 1 to 5 for a linear model on a stream of bounded features.

    `separators`: the v_t of Assumption 2, in K, (rounds x parameters), with margin `R`; they give C_T and eps_v.
    `optima`: the w_t* of `exact_optima`, (rounds x parameters); they give eps_w.
    `teacher`, `student`: theta_1 and w_hat_1, where the learner starts; they are projected onto K, as the learner does.
    `V_T`: the sum of total variations, for example from `osamd.evaluation.drift`.
    `x_radius`: the largest ||x||_2; for Gaussian noise it is infinite, and so are G, L and F.

    With X the largest dual norm of x (a constant 1 appended for a bias) and B the largest norm in K:
        G = max(X, |phi'(-B X)| X + 2 C B), L = sup phi'' X^2 + 2 C, F = phi(-B X) + C B^2,
    with C the L2 coefficient: the margin is at least -B X, and ||w||_* <= ||w||_2 <= ||w|| in every geometry here.
    alpha* is exact: E max(0, R - y H(v)) = R E hinge(y H(v / R)), the largest over the rounds.
    """
    call = "constants_for"
    require_exact_match(call, stream, model, geometry)
    require_positive(call, "R", R)
    require_positive(call, "x_radius", x_radius, infinite=True)
    rows = (stream.rounds, *model.shape)
    v, best = (
        finite_array(call, name, points, 2, like=rows)
        for name, points in (("separators", separators), ("optima", optima))
    )
    theta, w_hat = (
        geometry.project(finite_array(call, name, start, 1, like=model.shape))
        for name, start in (("teacher", teacher), ("student", student))
    )
    _require_inside(call, v, geometry)
    _require_bounded(call, stream, x_radius)
    n = model.shape[0]
    X, B = _feature_norm(model, geometry, x_radius), _largest_norm(geometry, n)
    worst, ridge = -B * X, 2.0 * loss.l2 * B if loss.l2 > 0.0 else 0.0
    hinge = stream.expected_loss(LOSSES["hinge"], np.arange(stream.rounds), model.weights(v) / R)
    alpha = R * float(hinge.max())
    return Constants(
        G=max(X, abs(float(loss.slope(worst))) * X + ridge),
        D=geometry.diameter(n),
        L=loss.smoothness * X * X + 2.0 * loss.l2,
        F=float(loss.value(worst)) + (loss.l2 * B * B if loss.l2 > 0.0 else 0.0),
        gamma=geometry.gamma(n),
        C_T=path_length(v, geometry),
        V_T=V_T,
        R=R,
        alpha=alpha if alpha > ROUNDING * R else 0.0,
        eps_v=geometry.divergence(v[0], theta),
        eps_w=geometry.divergence(best[0], w_hat),
        T=stream.rounds,
    )


def _feature_norm(model: Linear, geometry: Geometry, x_radius: float) -> float:
    """The largest dual norm, a q-norm with q >= 2, of the features as the weights take them: that of x_radius e_1."""
    if x_radius == math.inf:
        return math.inf
    return geometry.dual_norm(model.augment(x_radius * np.eye(model.features)[0]))


def _largest_norm(geometry: Geometry, n: int) -> float:
    """The largest ||w|| in K: the radius of a ball, the sum of a simplex, the corner of a box."""
    feasible = geometry.decision_set
    if feasible.total is not None:
        return feasible.total
    if feasible.low > -math.inf:
        return math.sqrt(n) * max(abs(feasible.low), abs(feasible.high))
    return feasible.radius


def _require_inside(call: str, separators: Array, geometry: Geometry) -> None:
    for t, v in enumerate(separators):
        away = float(np.abs(geometry.project(v) - v).max())
        if not away <= 1e-9 * (1.0 + float(np.abs(v).max())):
            raise InputError(
                f"`{call}(separators=...)`: v of round {t} lies {away:.2g} outside K of {geometry.name!r};"
                " Assumption 2 wants classifiers in K: scale them to fit."
            )


def _require_bounded(call: str, stream: ExactStream, x_radius: float) -> None:
    longest = float(np.linalg.norm(stream.source(SAMPLES, seed=0)[0], axis=1).max())
    if longest > x_radius * (1.0 + 1e-9):
        raise InputError(
            f"`{call}(x_radius={x_radius})`: the stream {stream.name!r} has an x of norm {longest:.3g};"
            " give the largest norm of its features, or inf where it has none."
        )
