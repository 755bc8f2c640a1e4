"""From drift between distributions to temporal variability: Propositions 1, 2 and 3 of the paper.

The temporal variability of the expected losses l_t(w) = E_{P_t} f(w; x, y) is sum_t sup_{w in K} |l_t(w) - l_{t+1}(w)|.
Each function here bounds it by the drift V_T = sum_t d(P_t, P_{t+1}), measured by `osamd.evaluation.drift` and `.mmd`.
Throughout, `drift` is V_T itself, or the drifts of the single steps, (T-1,), which are summed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osamd.errors import InputError, reject

# Priors are compared to this, absolutely: above the rounding of sums and ratios, below any label shift one could see
# (one label more in 10^9). It costs at most F * classes * 1e-9 per step in the bound.
PRIOR_TOLERANCE = 1e-9


def temporal_variability_from_total_variation(drift: ArrayLike, bound: float) -> float:
    """Bound the temporal variability by the sum of total variations: 2 F V_T (Proposition 1).

    `drift` holds V_T = sum_t d_TV(P_t, P_{t+1}), joint laws of (X, Y) (Assumption 1); `bound` is F, the bound of the
    loss (Assumption 5). Holds for any number of classes.
    Differs from the paper: Assumption 5 reads f <= F; the proof needs, and `bound` must be, |f| <= F.

    >>> temporal_variability_from_total_variation([0.1, 0.2, 0.2], bound=3.0)
    3.0
    """
    call = "temporal_variability_from_total_variation"
    constant = _constant(
        call, "bound", bound, "Assumption 5 (bounded function): |f(w; x, y)| <= F needs a finite F >= 0"
    )
    steps = _steps(call, drift, "Assumption 1 (continual domain shift)")
    if np.ndim(drift) == 1 and (steps > 1 + 1e-9).any():
        rule = "a total variation is at most 1; halve an L1 distance of densities, which is twice the total variation."
        raise reject(call, "drift", float(steps.max()), rule)
    return 2 * constant * math.fsum(steps)


def temporal_variability_from_wasserstein(drift: ArrayLike, lipschitz: float, priors: ArrayLike | None = None) -> float:
    """Bound the temporal variability by the sum of Wasserstein infinity drifts by class: L V_T (Proposition 2).

    `drift` holds V_T = sum_t ρ(P_t, P_{t+1}), ρ = class_conditional(wasserstein_infinity, ...); `lipschitz` is L, the
    Lipschitz constant of f in x, in the norm of ρ. It holds if there is no label shift: give `priors`,
    (windows, classes) of P_t(Y), to have that checked; those of the laws, as label counts of windows always differ.

    >>> temporal_variability_from_wasserstein([0.5, 0.25], lipschitz=2.0, priors=[[0.5, 0.5]] * 3)
    1.5
    """
    call = "temporal_variability_from_wasserstein"
    constant = _constant(
        call, "lipschitz", lipschitz, "the assumption that f is Lipschitz continuous on x needs a finite L >= 0"
    )
    _no_label_shift(call, priors)
    return constant * math.fsum(_steps(call, drift, "the bounded sum of Wasserstein infinity distances"))


def temporal_variability_from_mmd(drift: ArrayLike, bound: float, priors: ArrayLike | None = None) -> float:
    """Bound the temporal variability by the sum of MMDs by class: F V_T (Proposition 3).

    `drift` holds V_T = sum_t d_MMD(P_t, P_{t+1}), d_MMD = class_conditional(mmd, ...) with one fixed kernel;
    `bound` is F, the bound of ||w|| over K, for the loss f(w; x, y) = y <w, φ(x)>.
    Differs from the paper: the proposition does not state 'no label shift', its proof uses it (one P(Y) for all t);
    give `priors`, (windows, classes) of P_t(Y), to have it checked.

    >>> temporal_variability_from_mmd(0.75, bound=2.0)
    1.5
    """
    call = "temporal_variability_from_mmd"
    rule = "the assumption of a bounded space K, ||w|| <= F, needs a finite F >= 0"
    constant = _constant(call, "bound", bound, rule)
    _no_label_shift(call, priors)
    return constant * math.fsum(_steps(call, drift, "the bounded sum of maximum mean discrepancies"))


def _constant(call: str, argument: str, value: float, rule: str) -> float:
    if not 0 <= value < math.inf:
        raise reject(call, argument, value, f"{rule}.")
    return float(value)


def _steps(call: str, drift: ArrayLike, assumption: str) -> NDArray[np.float64]:
    """The drifts of the steps, (T-1,), or the one number that is their sum, (1,)."""
    try:
        steps = np.asarray(drift, dtype=np.float64)
    except (TypeError, ValueError):
        raise reject(call, "drift", drift, "drift must be a number, or a sequence of numbers.") from None
    if steps.ndim > 1:
        raise InputError(f"`{call}(drift=<shape {steps.shape}>)`: drift must be a number, or one number per step.")
    steps = np.atleast_1d(steps)
    for step, value in enumerate(steps.tolist()):
        if not 0 <= value < math.inf:
            where = f" (step {step})" if np.ndim(drift) == 1 else ""
            raise reject(call, "drift", value, f"{assumption} needs finite drifts, not negative{where}.")
    return steps


def _no_label_shift(call: str, priors: ArrayLike | None) -> None:
    if priors is None:
        return
    table = np.asarray(priors, dtype=np.float64)
    if table.ndim != 2 or table.size == 0:
        raise InputError(f"`{call}(priors=<shape {table.shape}>)`: priors must be of shape (windows, classes).")
    if not ((table >= 0).all() and (np.abs(table.sum(axis=1) - 1) <= PRIOR_TOLERANCE).all()):
        raise reject(call, "priors", table.tolist(), "each row must be probabilities that sum to 1.")
    shifts = np.abs(table - table[0]).max(axis=1)
    window = int(shifts.argmax())
    if shifts[window] > PRIOR_TOLERANCE:
        rule = (
            f"the assumption 'no label shift' fails: window {window} differs from window 0 by {shifts[window]:.3g}; "
            "use temporal_variability_from_total_variation, which allows it."
        )
        raise reject(call, "priors", table[window].tolist(), rule)
