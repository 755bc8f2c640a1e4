"""Propositions 1-3 against temporal variability computed in full, on finite laws and grids of w."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osamd.errors import InputError
from osamd.evaluation.drift import class_conditional, wasserstein_infinity
from osamd.evaluation.propositions import (
    temporal_variability_from_mmd,
    temporal_variability_from_total_variation,
    temporal_variability_from_wasserstein,
)

ANGLES = np.linspace(0, 2 * np.pi, 360, endpoint=False)
SPHERE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)  # w on the unit circle of the plane
seeds = st.integers(0, 2**32 - 1)


def variability(losses):
    """sum_t sup_w |l_t(w) - l_{t+1}(w)| of the expected losses, (windows, grid of w)."""
    return np.abs(np.diff(losses, axis=0)).max(axis=1).sum()


# Proposition 1


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(2, 5), st.integers(2, 6))
def test_proposition_1_bounds_the_variability_of_any_bounded_loss(seed, windows, atoms):
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.full(atoms, 0.3), size=windows)  # joint laws on (x, y) atoms, labels shifting freely
    bound = rng.uniform(0.1, 3)
    values = rng.uniform(-bound, bound, size=(atoms, 50))  # f(w; atom) for 50 w
    drifts = np.abs(np.diff(laws, axis=0)).sum(axis=1) / 2
    ceiling = temporal_variability_from_total_variation(drifts, bound)
    assert variability(laws @ values) <= ceiling + 1e-12


def test_proposition_1_is_attained_by_disjoint_laws_and_a_loss_of_both_signs():
    laws, values = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([[3.0], [-3.0]])
    assert temporal_variability_from_total_variation([1.0, 1.0], bound=3.0) == variability(laws @ values) == 12.0


# Proposition 2


def moving_windows(seed, windows, classes=2):
    """Uniform laws on four atoms a class, whose atoms move; x (windows, 4 classes, 2) and the labels."""
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(1, 4 * classes, 2))
    moves = rng.normal(size=(windows - 1, 4 * classes, 2)) * rng.uniform(0, 0.5)
    return np.cumsum(np.concatenate([start, moves]), axis=0), np.repeat(np.arange(classes), 4)


def class_drifts(measure, x, y):
    return [class_conditional(measure, before, y, after, y) for before, after in itertools.pairwise(x)]


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 4), st.floats(0.05, 0.95))
def test_proposition_2_bounds_the_variability_of_the_hinge_loss(seed, windows, positive):
    x, y = moving_windows(seed, windows)
    sign, weight = np.where(y == 1, 1.0, -1.0), np.where(y == 1, positive, 1 - positive) / 4
    hinge = np.maximum(0, 1 - sign[:, None] * (x @ SPHERE.T))  # 1-Lipschitz in x, as ||w|| = 1
    losses = np.einsum("i,tiw->tw", weight, hinge)
    priors = [[1 - positive, positive]] * windows
    ceiling = temporal_variability_from_wasserstein(class_drifts(wasserstein_infinity, x, y), 1.0, priors)
    assert variability(losses) <= ceiling + 1e-12


def test_proposition_2_is_attained_by_a_translation_and_a_linear_loss():
    x, y = np.array([[[0.0], [1.0]], [[0.5], [1.5]], [[2.5], [3.5]]]), [1, -1]
    losses = 2.0 * x.mean(axis=1)  # f(w; x, y) = 2 x: Lipschitz with L = 2
    ceiling = temporal_variability_from_wasserstein(class_drifts(wasserstein_infinity, x, y), 2.0)
    assert ceiling == variability(losses) == 5.0


def test_proposition_2_fails_under_label_shift_which_the_priors_reveal():
    x, y = np.array([[[0.0], [10.0]]] * 2), [0, 1]
    priors = np.array([[0.9, 0.1], [0.2, 0.8]])
    losses = np.einsum("ti,tid->td", priors, x)  # f(w; x, y) = x, L = 1: the conditionals stand still, the loss moves
    drifts = class_drifts(wasserstein_infinity, x, y)
    assert variability(losses) == pytest.approx(7.0)
    assert temporal_variability_from_wasserstein(drifts, 1.0) == 0.0
    with pytest.raises(InputError, match=r"'no label shift' fails: window 1 .* by 0\.7; use .*_total_variation"):
        temporal_variability_from_wasserstein(drifts, 1.0, priors)


# Proposition 3


def mean_distance(p, q):
    """MMD of the two uniform laws on the atoms themselves, φ the identity: no sampling, so no estimate."""
    return float(np.linalg.norm(p.mean(axis=0) - q.mean(axis=0)))


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 4), st.floats(0.05, 0.95), st.floats(0.1, 5))
def test_proposition_3_bounds_the_variability_of_linear_losses(seed, windows, positive, bound):
    x, y = moving_windows(seed, windows)
    signed = np.where(y == 1, positive, -(1 - positive)) / 4
    losses = np.einsum("i,tid,wd->tw", signed, x, bound * SPHERE)  # the sup over ||w|| <= F lies on the sphere
    priors = [[1 - positive, positive]] * windows
    ceiling = temporal_variability_from_mmd(class_drifts(mean_distance, x, y), bound, priors)
    assert variability(losses) <= ceiling + 1e-12


def test_proposition_3_is_attained_when_the_classes_part():
    x, y = np.array([[[1.0, 0.0], [-1.0, 0.0]], [[1.5, 0.0], [-1.5, 0.0]]]), np.array([1, -1])
    losses = np.einsum("i,tid,wd->tw", y / 2, x, 3.0 * SPHERE)
    assert temporal_variability_from_mmd(class_drifts(mean_distance, x, y), 3.0) == pytest.approx(variability(losses))


def test_proposition_3_too_needs_no_label_shift():
    x, y = np.array([[[2.0, 0.0], [2.0, 0.0]]] * 2), np.array([1, -1])
    priors = np.array([[0.5, 0.5], [0.0, 1.0]])
    losses = np.einsum("ti,tid,wd->tw", priors * y, x, SPHERE)
    drifts = class_drifts(mean_distance, x, y)
    assert variability(losses) == pytest.approx(2.0)
    assert temporal_variability_from_mmd(drifts, 1.0) == 0.0
    with pytest.raises(InputError, match="'no label shift' fails"):
        temporal_variability_from_mmd(drifts, 1.0, priors)


# What all three share

ALL = [
    (temporal_variability_from_total_variation, "Assumption 1", r"Assumption 5 \(bounded function\)"),
    (temporal_variability_from_wasserstein, "Wasserstein infinity", "Lipschitz continuous on x"),
    (temporal_variability_from_mmd, "maximum mean discrepancies", r"bounded space K"),
]


@pytest.mark.parametrize(("proposition", "about_drift", "about_constant"), ALL)
def test_a_sum_and_its_steps_give_the_same_bound(proposition, about_drift, about_constant):
    steps = [0.25, 0.5, 0.0, 0.125]
    assert proposition(steps, 2.0) == proposition(np.array(steps), 2.0) == proposition(0.875, 2.0) > 0
    assert proposition([], 2.0) == 0.0  # one window: nothing moved


@pytest.mark.parametrize("bad", [-0.5, math.nan, math.inf])
@pytest.mark.parametrize(("proposition", "about_drift", "about_constant"), ALL)
def test_the_error_names_the_assumption_that_fails(proposition, about_drift, about_constant, bad):
    with pytest.raises(InputError, match=about_constant):
        proposition(0.5, bad)
    with pytest.raises(InputError, match=about_drift):
        proposition(bad, 1.0)
    with pytest.raises(InputError, match=rf"{about_drift}.*\(step 1\)"):
        proposition([0.5, bad], 1.0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: temporal_variability_from_total_variation([0.2, 1.5], 1.0), "at most 1; halve an L1 distance"),
        (lambda: temporal_variability_from_mmd([[0.1]], 1.0), "one number per step"),
        (lambda: temporal_variability_from_mmd("far", 1.0), "must be a number, or a sequence"),
        (lambda: temporal_variability_from_wasserstein(0.1, 1.0, [0.5, 0.5]), r"shape \(windows, classes\)"),
        (lambda: temporal_variability_from_wasserstein(0.1, 1.0, [[0.5, 0.6]]), "sum to 1"),
        (lambda: temporal_variability_from_wasserstein(0.1, 1.0, [[math.nan, 1.0]]), "sum to 1"),
    ],
)
def test_bad_arguments_are_refused_with_the_rule(call, says):
    with pytest.raises(InputError, match=says):
        call()
