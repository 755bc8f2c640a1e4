"""The paper's bounds: each formula against arithmetic done by hand, and each assumption against what breaks it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osamd.errors import InputError
from osamd.evaluation import theory
from osamd.evaluation.theory import Bound, Constants

# No two constants that share a formula are equal, so a swap shows. L D + G = 3.5, so eta may be at most 1/14.
STREAM = Constants(G=2, D=3, L=0.5, F=1.5, gamma=4, C_T=0.5, V_T=1.25, R=0.8, alpha=0.0, eps_v=0.7, eps_w=0.3, T=1000)
SIGMA, ETA = 0.4, 0.05
INSEPARABLE = replace(STREAM, alpha=0.01)

# Near enough to one that no term is lost in the rounding of another.
positive = st.floats(min_value=0.1, max_value=10)


@st.composite
def streams(draw: st.DrawFn) -> Constants:
    numbers = {name: draw(positive) for name in ("G", "D", "L", "F", "gamma", "C_T", "V_T", "R", "eps_v", "eps_w")}
    return Constants(**numbers, alpha=draw(st.floats(0, 1)), T=draw(st.integers(1, 1000)))


def test_lemma1_is_its_formula() -> None:
    # 2 * 4 / 0.16 = 50; gamma C_T = 2.
    bound = theory.lemma1(STREAM, SIGMA)
    assert bound.terms == pytest.approx({"shift": 100.0, "start": 35.0})
    assert bound.value == pytest.approx(135.0)
    assert bound.holds


def test_lemma3_adds_the_errors_that_no_classifier_avoids() -> None:
    # 50 * (0.4 / 4) * 1000 * 0.01 = 50.
    bound = theory.lemma3(INSEPARABLE, SIGMA)
    assert bound.terms == pytest.approx({"shift": 100.0, "start": 35.0, "inseparable": 50.0})
    assert bound.value == pytest.approx(185.0)
    assert bound.holds


def test_lemma3_needs_no_division_by_G() -> None:
    assert theory.lemma3(replace(INSEPARABLE, G=0), SIGMA).value == pytest.approx(50.0)


def test_general_bound_is_its_formula_with_T_on_the_step() -> None:
    # (2 * 0.05 * 4 + 2 * 2 * 3) * 10 = 124; 2 * 3.5^2 * 0.05 * 1000; (0.3 + 12) / 0.05; 4 sqrt(22500 / 0.05).
    bound = theory.general_bound(STREAM, 10, ETA)
    assert bound.terms == pytest.approx(
        {"pseudolabel errors": 124.0, "step": 1225.0, "start": 246.0, "drift": 2683.2815729997}
    )
    assert bound.value == pytest.approx(4278.2815729997)
    assert bound.holds


def test_theorem1_has_the_papers_first_term() -> None:
    # 4 (0.05 * 16 + 8 * 3) / 0.16 * 2.7 = 620 * 2.7.
    bound = theory.theorem1(STREAM, SIGMA, ETA)
    assert bound.terms["pseudolabel errors"] == pytest.approx(1674.0)
    assert bound.value == pytest.approx(1674.0 + 1225.0 + 246.0 + 2683.2815729997)
    assert bound.holds


def test_theorem4_has_the_papers_first_term() -> None:
    # 620 * (2.7 + 0.1 * 1000 * 0.01) = 620 * 3.7.
    assert theory.theorem4(INSEPARABLE, SIGMA, ETA).terms["pseudolabel errors"] == pytest.approx(2294.0)


@given(streams(), positive, positive)
def test_theorem4_without_inseparability_is_theorem1(stream: Constants, sigma: float, eta: float) -> None:
    stream = replace(stream, alpha=0.0)
    assert theory.theorem4(stream, sigma, eta) == theory.theorem1(stream, sigma, eta)


def test_corollaries_are_the_theorems_at_the_papers_step() -> None:
    stream = replace(INSEPARABLE, V_T=8.0, T=10**9)
    assert theory.corollary_step(8.0, 10**9) == pytest.approx(0.002)
    assert theory.corollary2(stream, SIGMA).terms["step"] == pytest.approx(2 * 12.25 * 0.002 * 1e9)
    assert theory.corollary2(stream, SIGMA).value == pytest.approx(theory.theorem4(stream, SIGMA, 0.002).value)
    separable = replace(stream, alpha=0.0)
    assert theory.corollary1(separable, SIGMA).value == pytest.approx(theory.theorem1(separable, SIGMA, 0.002).value)


@given(streams(), positive, positive)
def test_value_is_the_sum_of_the_terms(stream: Constants, sigma: float, eta: float) -> None:
    for bound in (theory.lemma1(stream, sigma), theory.lemma3(stream, sigma), theory.theorem4(stream, sigma, eta)):
        assert bound.value == sum(bound.terms.values())


@pytest.mark.parametrize("name", ["G", "D", "L", "F", "gamma", "C_T", "V_T", "alpha", "eps_v", "eps_w"])
@given(stream=streams(), sigma=positive, eta=positive)
def test_regret_bound_grows_with_each_constant(name: str, stream: Constants, sigma: float, eta: float) -> None:
    larger = replace(stream, **{name: 2 * getattr(stream, name) + 1})
    assert theory.theorem4(larger, sigma, eta).value > theory.theorem4(stream, sigma, eta).value


@given(streams(), positive, positive)
def test_regret_bound_grows_with_the_rounds(stream: Constants, sigma: float, eta: float) -> None:
    longer = replace(stream, T=2 * stream.T)
    assert theory.theorem4(longer, sigma, eta).value > theory.theorem4(stream, sigma, eta).value


@given(streams(), positive)
def test_more_queries_lower_the_bound_on_errors(stream: Constants, sigma: float) -> None:
    assert theory.lemma1(stream, 2 * sigma).value < theory.lemma1(stream, sigma).value
    assert theory.lemma3(stream, 2 * sigma).value < theory.lemma3(stream, sigma).value


@given(st.integers(1, 60), positive, positive)
def test_start_and_drift_cover_the_best_piecewise_comparator(T: int, V_T: float, eta: float) -> None:
    """The sketched step of the proof: blocks of k whole rounds, each move at most D, 2 (k - 1) temporal variability."""
    stream = replace(STREAM, T=T, V_T=V_T, eps_w=0)
    terms = theory.general_bound(stream, 0, eta).terms
    per_move, variability = stream.gamma * stream.D / eta, 2 * stream.F * V_T
    best = min(per_move * math.ceil((T - 1) / k) + 2 * (k - 1) * variability for k in range(1, T + 1))
    assert best <= (terms["start"] + terms["drift"]) * (1 + 1e-12)


def errors_separable(stream: Constants) -> Bound:
    return theory.lemma1(stream, SIGMA)


def errors_general(stream: Constants) -> Bound:
    return theory.lemma3(stream, SIGMA)


def regret_separable(stream: Constants) -> Bound:
    return theory.theorem1(stream, SIGMA, ETA)


def regret_general(stream: Constants) -> Bound:
    return theory.theorem4(stream, SIGMA, ETA)


LEMMAS = [errors_separable, errors_general]
THEOREMS = [regret_separable, regret_general]


@pytest.mark.parametrize(
    ("results", "name", "value", "sentence"),
    [
        (THEOREMS, "V_T", math.inf, "Assumption 1 (continual domain shift) fails: V_T is infinite"),
        (LEMMAS + THEOREMS, "C_T", math.inf, "Assumption 2 (separation) fails: C_T is infinite"),
        (LEMMAS + THEOREMS, "R", math.inf, "Assumption 2 (separation) fails: R is infinite"),
        ([errors_general, regret_general], "alpha", math.inf, "Assumption 2 (separation) fails: alpha is infinite"),
        ([errors_separable, regret_separable], "alpha", 0.01, "Assumption 2 (separation) fails with alpha = 0.01"),
        (LEMMAS + THEOREMS, "G", math.inf, "Assumption 4 (Lipschitz) fails: G is infinite"),
        (THEOREMS, "L", math.inf, "Assumption 4 (smoothness) fails: L is infinite, as for the hinge"),
        (THEOREMS, "D", math.inf, "Assumption 5 (bounded decision space) fails: D is infinite"),
        (THEOREMS, "F", math.inf, "Assumption 5 (bounded function) fails: F is infinite"),
        (LEMMAS + THEOREMS, "gamma", math.inf, "Lemma 1's condition on D_R fails: gamma is infinite"),
        (LEMMAS + THEOREMS, "eps_v", math.inf, "The start fails: eps_v = D_R(v_1, theta_1) is infinite"),
        (THEOREMS, "eps_w", math.inf, "The start fails: eps_w = D_R(w_1*, w_hat_1) is infinite"),
        (LEMMAS + THEOREMS, "R", 0.3, "The condition sigma <= R fails: sigma = 0.4 exceeds R = 0.3"),
        (THEOREMS, "L", 2.0, "The step condition fails: eta = 0.05 exceeds 1 / (4 (L D + G)) = 0.03125"),
    ],
)
def test_a_broken_assumption_is_named_once_with_its_remedy(
    results: list[Callable[[Constants], Bound]], name: str, value: float, sentence: str
) -> None:
    for result in results:
        bound = result(replace(STREAM, **{name: value}))
        assert len(bound.failed) == 1
        assert bound.failed[0].startswith(sentence)
        assert "; " in bound.failed[0]
        assert not bound.holds


@pytest.mark.parametrize("name", ["V_T", "F", "L", "D", "eps_w"])
def test_what_a_lemma_does_not_use_cannot_break_it(name: str) -> None:
    stream = replace(STREAM, **{name: math.inf})
    assert theory.lemma1(stream, SIGMA).holds
    assert theory.lemma3(stream, SIGMA).holds


def test_zero_times_infinity_bounds_nothing() -> None:
    bound = theory.lemma1(replace(STREAM, gamma=np.float64(math.inf), C_T=np.float64(0)), SIGMA)
    assert bound.value == math.inf
    assert not bound.holds


def test_numpy_rounds_do_not_warn_where_zero_meets_infinity() -> None:
    bound = theory.theorem1(replace(STREAM, T=np.int64(1000), D=0, V_T=math.inf), SIGMA, ETA)  # type: ignore[arg-type]
    assert bound.terms["drift"] == math.inf


def test_corollary_with_unbounded_shift_is_a_failed_bound_not_an_error() -> None:
    bound = theory.corollary1(replace(STREAM, V_T=math.inf), SIGMA)
    assert bound.value == math.inf
    assert any("V_T is infinite" in sentence for sentence in bound.failed)


def test_step_condition_names_a_horizon_that_cures_it() -> None:
    short = theory.corollary1(STREAM, SIGMA)
    assert "at least V_T (4 (L D + G))^3 = 3430." in short.failed[0]  # 1.25 * 14^3
    assert theory.corollary1(replace(STREAM, T=3431), SIGMA).holds


def test_observed_errors_may_stand_in_for_a_lemma() -> None:
    errors = theory.lemma3(INSEPARABLE, SIGMA)
    assert theory.general_bound(INSEPARABLE, errors.value, ETA) == theory.general_bound(INSEPARABLE, errors, ETA)


def corollary_exponent(corollary: Callable[[Constants, float], Bound], stream: Constants, first: int) -> float:
    horizons = [first, 10 * first, 100 * first]
    return theory.fitted_exponent(horizons, [corollary(replace(stream, T=T), SIGMA).value for T in horizons]).exponent


def test_regret_of_corollary1_grows_like_T_to_two_thirds() -> None:
    gaps = [abs(corollary_exponent(theory.corollary1, STREAM, first) - 2 / 3) for first in (10**3, 10**6, 10**9)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-3 < gaps[0]


def test_regret_of_corollary2_is_linear_where_the_stream_is_inseparable() -> None:
    assert corollary_exponent(theory.corollary2, INSEPARABLE, 10**15) == pytest.approx(1.0, abs=1e-3)


def test_the_curve_of_a_bound_is_the_bound_at_every_horizon() -> None:
    stream = replace(INSEPARABLE, T=5, C_T=8.0, V_T=2.0)
    moves, drifts = [1.0, 0.0, 4.0, 3.0], [0.5, 0.5, 1.0, 0.0]
    curve = theory.bound_curve(regret_general, stream, moves=moves, drifts=drifts)
    for t in range(1, 6):
        shorter = replace(stream, T=t, C_T=sum(moves[: t - 1]), V_T=sum(drifts[: t - 1]))
        assert curve[t - 1] == regret_general(shorter).value
    even = theory.bound_curve(regret_general, stream)
    assert even[2] == regret_general(replace(stream, T=3, C_T=4.0, V_T=1.0)).value
    assert even[-1] == curve[-1] == regret_general(stream).value
    assert theory.bound_curve(errors_general, replace(stream, T=1, C_T=0, V_T=0)).shape == (1,)


def test_the_curve_of_a_bound_that_is_infinite_is_finite_where_nothing_has_moved() -> None:
    curve = theory.bound_curve(errors_separable, replace(STREAM, T=3, C_T=math.inf))
    assert curve.tolist() == [35.0, math.inf, math.inf]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"moves": [0.1] * 5}, r"moves=<shape \(5,\)>.*3 for T = 4"),
        ({"drifts": [0.1, -0.1, 0.1]}, "none of them negative"),
        ({"drifts": [0.1, math.nan, 0.1]}, "none of them negative"),
        ({"moves": [0.25, 0.25, 0.25]}, r"moves=0\.75.*sum to C_T = 0.5 at most"),
    ],
)
def test_steps_that_do_not_make_up_the_constants_are_refused(steps: dict[str, list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        theory.bound_curve(errors_separable, replace(STREAM, T=4), **steps)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=50))
def test_without_queries_one_of_two_streams_costs_half_the_rounds(late_decisions: list[float]) -> None:
    """Theorem 2's example: the loss of decision a is 1 + a where labels stay and 1 - a where they flip."""
    stays, flips = sum(1 + a for a in late_decisions), sum(1 - a for a in late_decisions)
    assert max(stays, flips) >= theory.lower_bound_without_queries(2 * len(late_decisions)) - 1e-9


def test_lower_bounds_are_their_formulas() -> None:
    assert theory.lower_bound_without_queries(1000) == 500.0
    assert theory.lower_bound_rate(8.0, 1000) == pytest.approx(200.0)


@given(st.floats(-2, 2), positive, st.lists(st.integers(1, 10**6), min_size=2, unique=True))
def test_fit_recovers_a_power_law(exponent: float, constant: float, horizons: list[int]) -> None:
    if max(horizons) < 1.1 * min(horizons):
        horizons = [min(horizons), 2 * max(horizons)]
    fit = theory.fitted_exponent(horizons, [constant * T**exponent for T in horizons])
    assert fit.exponent == pytest.approx(exponent, abs=1e-6)
    assert fit.constant == pytest.approx(constant, rel=1e-4)


def test_fit_is_least_squares_in_the_logarithms() -> None:
    # log regret (0, 1, 0) at log T (0, 1, 2): slope 0, mean 1/3.
    fit = theory.fitted_exponent(np.exp([0.0, 1.0, 2.0]), np.exp([0.0, 1.0, 0.0]))
    assert fit.exponent == pytest.approx(0.0, abs=1e-12)
    assert fit.constant == pytest.approx(math.exp(1 / 3))


@pytest.mark.parametrize("name", ["G", "D", "L", "F", "gamma", "C_T", "V_T", "R", "alpha", "eps_v", "eps_w"])
@pytest.mark.parametrize("value", [-1.0, math.nan, "1"])
def test_a_constant_that_is_no_size_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"`Constants\({name}={value!r}\)`: {name} must be zero or more"):
        replace(STREAM, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("T", [0, -5, 10.0, True])
def test_rounds_must_be_a_positive_integer(T: int) -> None:
    calls: dict[str, Callable[[], object]] = {
        "Constants": lambda: replace(STREAM, T=T),
        "corollary_step": lambda: theory.corollary_step(1.0, T),
        "lower_bound_without_queries": lambda: theory.lower_bound_without_queries(T),
        "lower_bound_rate": lambda: theory.lower_bound_rate(1.0, T),
    }
    for name, call in calls.items():
        with pytest.raises(InputError, match=rf"`{name}\(T={T!r}\)`: .* positive integer"):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.lemma1(STREAM, 0.0), r"`lemma1\(sigma=0.0\)`: sigma must be positive"),
        (lambda: theory.lemma3(STREAM, math.nan), r"`lemma3\(sigma=nan\)`: sigma must be positive"),
        (lambda: theory.theorem1(STREAM, SIGMA, 0.0), r"\(eta=0.0\)`: eta must be positive"),
        (lambda: theory.general_bound(STREAM, -1.0, ETA), r"\(pseudolabel_errors=-1.0\)`: .* zero or more"),
        (lambda: theory.general_bound(STREAM, math.nan, ETA), r"\(pseudolabel_errors=nan\)`: .* zero or more"),
        (
            lambda: theory.corollary1(replace(STREAM, V_T=0), SIGMA),
            r"`corollary_step\(V_T=0.0\)`: V_T must be",
        ),
        (lambda: theory.lower_bound_rate(0.0, 10), r"`lower_bound_rate\(V_T=0.0\)`: V_T must be positive and finite"),
        (lambda: theory.fitted_exponent([10, 10], [1, 2]), r"\(T_values=\[10.0, 10.0\]\)`: .* two different T"),
        (lambda: theory.fitted_exponent([], []), r"\(T_values=\[\]\)`: .* two different T"),
        (lambda: theory.fitted_exponent([1, 2], [1, 0]), r"\(regrets=\[1.0, 0.0\]\)`: .* positive"),
        (lambda: theory.fitted_exponent([0, 2], [1, 1]), r"\(T_values=\[0.0, 2.0\]\)`: .* positive"),
        (lambda: theory.fitted_exponent([1, 2, 3], [1, 2]), r"\(regrets=\[1.0, 2.0\]\)`: .* each of the 3"),
    ],
)
def test_bad_input_is_refused_by_name_and_rule(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
