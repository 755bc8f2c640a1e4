"""The paper's bounds as numbers: how many pseudolabel errors and how much regret its theory allows.

A bound is the sum of its named terms, together with the assumptions that the given constants violate. What the
constants cannot show is up to the caller: convexity (Assumption 3), a 1-strongly convex R, the lemmas' tau, and an
exact implicit step.

>>> stream = Constants(G=1, D=2, L=1, F=1, gamma=2, C_T=3, V_T=1, R=1, eps_v=0.5, eps_w=0.25, T=1000)
>>> lemma1(stream, sigma=0.5).terms
{'shift': 48.0, 'start': 4.0}
>>> bound = theorem1(stream, sigma=0.5, eta=0.05)
>>> {name: round(term, 1) for name, term in bound.terms.items()}
{'pseudolabel errors': 213.2, 'step': 900.0, 'start': 85.0, 'drift': 1131.4}
>>> round(bound.value, 1), bound.holds
(2329.6, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osamd.errors import InputError, reject, require_positive

# A sentence for each constant but T, which may be infinite although some result needs it to be finite.
INFINITE = {
    "V_T": "Assumption 1 (continual domain shift) fails: V_T is infinite; bound the sum of total variations.",
    "C_T": "Assumption 2 (separation) fails: C_T is infinite; choose classifiers v_t of finite path length.",
    "R": "Assumption 2 (separation) fails: R is infinite; give the margin that the classifiers v_t reach.",
    "alpha": "Assumption 2 (separation) fails: alpha is infinite; choose classifiers v_t of finite hinge loss.",
    "G": "Assumption 4 (Lipschitz) fails: G is infinite; bound the features, for example by scaling them.",
    "L": "Assumption 4 (smoothness) fails: L is infinite, as for the hinge; use the smoothed hinge or logistic loss.",
    "D": "Assumption 5 (bounded decision space) fails: D is infinite, as for the whole space; use a ball or a box.",
    "F": "Assumption 5 (bounded function) fails: F is infinite; bound the decision space and the features.",
    "gamma": "Lemma 1's condition on D_R fails: gamma is infinite; keep the decision space where grad R is bounded.",
    "eps_v": "The start fails: eps_v = D_R(v_1, theta_1) is infinite; start theta_1 inside the domain of R.",
    "eps_w": "The start fails: eps_w = D_R(w_1*, w_hat_1) is infinite; start w_hat_1 inside the domain of R.",
}


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The constants of Assumptions 1 to 5. An infinite one violates an assumption, which the bounds then name.

    G      Lipschitz constant of f and H (Assumption 4)      D      diameter of the decision space K (5)
    L      smoothness of f (4)                               F      bound of |f| (5)
    gamma  D_R(x, z) - D_R(y, z) <= gamma ||x - y||          T      rounds
    C_T    path length of the classifiers v_t (2)            V_T    sum of total variations of P_t, P_t+1 (1)
    R      margin that the v_t reach (2)                     alpha  alpha*, their expected hinge loss at R (2)
    eps_v  D_R(v_1, theta_1), the teacher's start            eps_w  D_R(w_1*, w_hat_1), the student's start

    L is measured from the norm to the dual norm, ||grad f(w) - grad f(w')||_* <= L ||w - w'||, as the proofs use it;
    the paper's Assumption 4 writes the norm on both sides. `osamd.evaluation.constants.constants_for` computes them.
    Differs from the paper: it writes D_R(theta_1, v_1) and D_R(w_hat_1, w_1*), but its proofs telescope
    D_R(v_t, theta_t) and D_R(w_t*, w_hat_t), so these orders are the ones bounded; they agree for squared norms.
    Differs from the paper: F bounds |f|, because f <= F alone does not give its sum_t sup|l_t - l_t+1| <= 2 F V_T.
    """

    G: float
    D: float
    L: float
    F: float
    gamma: float
    C_T: float
    V_T: float
    R: float
    eps_v: float
    eps_w: float
    T: int
    alpha: float = 0.0

    def __post_init__(self) -> None:
        _require_rounds("Constants", self.T)
        object.__setattr__(self, "T", int(self.T))
        for name in INFINITE:
            value = getattr(self, name)
            if not isinstance(value, Real) or not float(value) >= 0:
                raise reject("Constants", name, value, f"{name} must be zero or more; inf if its assumption fails.")
            object.__setattr__(self, name, float(value))  # NumPy scalars warn at inf * 0, plain floats do not.


class Bound(NamedTuple):
    """An upper bound: `value` is the sum of `terms`, and `failed` has a sentence for each assumption that fails."""

    value: float
    terms: dict[str, float]
    failed: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every assumption that the constants can show holds."""
        return not self.failed


def lemma1(constants: Constants, sigma: float) -> Bound:
    """Expected pseudolabel errors of a separable stream (Lemma 1): 2 G^2 / sigma^2 (gamma C_T + eps_v).

    It needs alpha = 0, sigma <= R, and tau_t = max(0, sigma - y H) / ||grad H||_*^2.
    """
    return _errors("lemma1", constants, sigma, separable=True)


def lemma3(constants: Constants, sigma: float) -> Bound:
    """Expected pseudolabel errors in general (Lemma 3): 2 G^2 / sigma^2 (gamma C_T + eps_v + sigma / G^2 T alpha).

    It needs sigma <= R, and the tau of Lemma 1 capped at sigma / G^2. The last term is 2 T alpha / sigma.

    >>> stream = Constants(G=1, D=2, L=1, F=1, gamma=2, C_T=3, V_T=1, R=1, alpha=0.01, eps_v=0.5, eps_w=0, T=1000)
    >>> lemma3(stream, sigma=0.5).terms
    {'shift': 48.0, 'start': 4.0, 'inseparable': 40.0}
    """
    return _errors("lemma3", constants, sigma, separable=False)


def general_bound(constants: Constants, pseudolabel_errors: float | Bound, eta: float) -> Bound:
    """Dynamic regret given E[sum_t M_t] <= `pseudolabel_errors`, a number or a lemma's bound (appendix, general bound).

    (2 eta G^2 + 2 G D) E[sum_t M_t] + 2 (L D + G)^2 eta T + (eps_w + gamma D) / eta + 4 sqrt(gamma D T F V_T / eta).
    Differs from the paper: the appendix puts the T on the third term, not the second; its proof, and Theorem 1, do not.
    The paper requires eta <= 1 / (4 (L D + G)), so a larger eta is reported as failed, though its proof does not need
    it.
    """
    errors = pseudolabel_errors if isinstance(pseudolabel_errors, Bound) else Bound(float(pseudolabel_errors), {}, ())
    if not errors.value >= 0:
        raise reject("general_bound", "pseudolabel_errors", errors.value, "expected errors must be zero or more.")
    require_positive("general_bound", "eta", eta, infinite=True)
    c, eta, slope = constants, float(eta), constants.L * constants.D + constants.G
    terms = {
        "pseudolabel errors": (2 * eta * c.G * c.G + 2 * c.G * c.D) * errors.value,
        "step": 2 * slope * slope * eta * c.T,
        "start": (c.eps_w + c.gamma * c.D) / eta,
        "drift": 4 * math.sqrt(c.gamma * c.D * c.T * c.F * c.V_T / eta),
    }
    failed = [*errors.failed, *_infinite(c, "V_T", "G", "L", "D", "F", "gamma", "eps_w")]
    if 0 < slope < math.inf and eta > 1 / (4 * slope):
        failed.append(
            f"The step condition fails: eta = {eta:g} exceeds 1 / (4 (L D + G)) = {1 / (4 * slope):g}; take a smaller "
            f"eta, or in the corollaries a T of at least V_T (4 (L D + G))^3 = {64 * c.V_T * slope * slope * slope:g}."
        )
    return _bound(terms, failed)


def theorem1(constants: Constants, sigma: float, eta: float) -> Bound:
    """Dynamic regret of OSAMD on a separable stream (Theorem 1): the general bound with Lemma 1's errors.

    Its first term is 4 (eta G^4 + G^3 D) / sigma^2 (gamma C_T + eps_v). The module's example runs it.
    """
    return general_bound(constants, lemma1(constants, sigma), eta)


def theorem4(constants: Constants, sigma: float, eta: float) -> Bound:
    """Dynamic regret in general (Theorem 4): the general bound with Lemma 3's errors; Theorem 1 at alpha = 0."""
    return general_bound(constants, lemma3(constants, sigma), eta)


def corollary_step(V_T: float, T: int) -> float:
    """The step eta = V_T^(1/3) T^(-1/3) of both corollaries; V_T must be positive, since a zero step learns nothing.

    >>> round(corollary_step(V_T=1.0, T=1000), 6)
    0.1
    """
    _require_rounds("corollary_step", T)
    require_positive("corollary_step", "V_T", V_T, infinite=True)
    return math.cbrt(V_T / T)


def corollary1(constants: Constants, sigma: float) -> Bound:
    """Theorem 1 at the step of `corollary_step`: O(sigma^-2 C_T + V_T^(1/3) T^(2/3)).

    The order also hides the start, (eps_w + gamma D) V_T^(-1/3) T^(1/3), which is smaller once V_T > T^(-1/2).
    """
    return theorem1(constants, sigma, corollary_step(constants.V_T, constants.T))


def corollary2(constants: Constants, sigma: float) -> Bound:
    """Theorem 4 at the step of `corollary_step`: O(sigma^-2 C_T + V_T^(1/3) T^(2/3) + alpha T / sigma)."""
    return theorem4(constants, sigma, corollary_step(constants.V_T, constants.T))


def bound_curve(
    bound: Callable[[Constants], Bound],
    constants: Constants,
    *,
    moves: ArrayLike | None = None,
    drifts: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """A bound along a run, (T,): its value at every horizon t = 1, ..., T, to draw over the run's regret or errors.

    At horizon t the constants hold with T = t, C_T the sum of the first t - 1 `moves` ||v_{s+1} - v_s||, and V_T that
    of the first t - 1 `drifts` d_TV(P_s, P_{s+1}); each (T - 1,). By default C_T and V_T grow evenly, as on a stream
    that rotates evenly. The bounds hold for any eta, so the run's own eta is used at every t. The other constants are
    kept, so the assumptions that fail are those of `bound(constants)`.

    >>> stream = Constants(G=1, D=2, L=1, F=1, gamma=2, C_T=3, V_T=1, R=1, eps_v=0.5, eps_w=0.25, T=4)
    >>> bound_curve(lambda c: lemma1(c, sigma=0.5), stream).tolist()  # the shift grows by 16 per round
    [4.0, 20.0, 36.0, 52.0]
    """
    paths = zip(_grown(constants, "C_T", "moves", moves), _grown(constants, "V_T", "drifts", drifts), strict=True)
    return np.array([bound(replace(constants, T=t, C_T=c, V_T=v)).value for t, (c, v) in enumerate(paths, 1)])


def lower_bound_without_queries(T: int) -> float:
    """Regret T/2 that some stream forces on every learner that never queries (Theorem 2), for V_T <= 2 and C_T <= 2.

    The appendix's two points may flip labels at half time. A decision a in [-1, 1] loses 1 + a if they do not and 1 - a
    if they do, and x_t shows neither, so the worse stream costs at least 1 per round over the last T/2 rounds. (The
    appendix's own learner, which stays at a good start, loses 2 per round, hence T; its T/2 is right for every
    learner.)
    """
    _require_rounds("lower_bound_without_queries", T)
    return T / 2


def lower_bound_rate(V_T: float, T: int) -> float:
    """The order V_T^(1/3) T^(2/3) of Theorem 3, even with all labels; the paper gives no constant: compare rates."""
    _require_rounds("lower_bound_rate", T)
    require_positive("lower_bound_rate", "V_T", V_T)
    return math.cbrt(V_T * T * T)


class Fit(NamedTuple):
    """Regret = constant * T^exponent."""

    exponent: float
    constant: float


def fitted_exponent(T_values: ArrayLike, regrets: ArrayLike) -> Fit:
    """Least squares line of log regret against log T; Corollary 1 predicts an exponent of 2/3.

    >>> fit = fitted_exponent([1, 8, 64], [3, 12, 48])
    >>> round(fit.exponent, 6), round(fit.constant, 6)
    (0.666667, 3.0)
    """
    rounds, losses = np.asarray(T_values, dtype=float), np.asarray(regrets, dtype=float)
    for name, values in (("T_values", rounds), ("regrets", losses)):
        if values.ndim != 1 or not (np.isfinite(values) & (values > 0)).all():
            raise reject("fitted_exponent", name, values.tolist(), "give one list of positive, finite numbers.")
    if rounds.size != losses.size:
        raise reject("fitted_exponent", "regrets", losses.tolist(), f"give one for each of the {rounds.size} T_values.")
    if np.unique(rounds).size < 2:
        raise reject("fitted_exponent", "T_values", rounds.tolist(), "a slope needs two different T; run another.")
    exponent, intercept = np.polyfit(np.log(rounds), np.log(losses), 1)
    return Fit(float(exponent), float(np.exp(intercept)))


def _errors(call: str, c: Constants, sigma: float, *, separable: bool) -> Bound:
    require_positive(call, "sigma", sigma)
    ratio = c.G / float(sigma)
    terms = {"shift": 2 * ratio * ratio * (c.gamma * c.C_T), "start": 2 * ratio * ratio * c.eps_v}
    failed = _infinite(c, "C_T", "R", "G", "gamma", "eps_v")
    if not separable:
        terms["inseparable"] = 2 * c.T * c.alpha / float(sigma)
        failed += _infinite(c, "alpha")
    elif c.alpha > 0:
        failed.append(f"Assumption 2 (separation) fails with alpha = {c.alpha:g}, not 0; use lemma3 or theorem4.")
    if sigma > c.R:
        failed.append(f"The condition sigma <= R fails: sigma = {sigma:g} exceeds R = {c.R:g}; take a smaller sigma.")
    return _bound(terms, failed)


def _bound(terms: dict[str, float], failed: list[str]) -> Bound:
    terms = {name: math.inf if math.isnan(term) else term for name, term in terms.items()}  # 0 * inf bounds nothing.
    return Bound(sum(terms.values()), terms, tuple(dict.fromkeys(failed)))


def _infinite(constants: Constants, *names: str) -> list[str]:
    return [INFINITE[name] for name in names if math.isinf(getattr(constants, name))]


def _grown(constants: Constants, name: str, argument: str, steps: ArrayLike | None) -> list[float]:
    """C_T or V_T at every horizon 1, ..., T."""
    total, T = getattr(constants, name), constants.T
    if steps is None:
        return [0.0, *(total * (t / (T - 1)) for t in range(1, T))]
    given = np.asarray(steps, dtype=np.float64)
    if given.shape != (T - 1,) or not (given >= 0).all():
        rule = f"give one number per step, {T - 1} for T = {T}, none of them negative."
        raise InputError(f"`bound_curve({argument}=<shape {given.shape}>)`: {rule}")
    if not given.sum() <= total * (1 + 1e-9):
        raise reject("bound_curve", argument, float(given.sum()), f"they must sum to {name} = {total:g} at most.")
    return [0.0, *np.cumsum(given).tolist()]


def _require_rounds(call: str, T: int) -> None:
    if not isinstance(T, Integral) or isinstance(T, bool) or T < 1:
        raise reject(call, "T", T, "T, the number of rounds, must be a positive integer.")
