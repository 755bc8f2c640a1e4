"""Every query: a probability, falling in the confidence, that does what its name says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_cases import law

from osamd.errors import InputError
from osamd.paper.queries import QUERIES, Query, always, margin, never, query_probability, uniform

rates = st.floats(0.0, 1.0)
sigmas = st.floats(1e-9, 1e9)
MADE = {
    "margin": st.builds(margin, sigmas, rates),
    "uniform": st.builds(uniform, rates),
    "always": st.builds(always),
    "never": st.builds(never),
}
confidences = st.floats(0.0, 1e12)


@pytest.mark.parametrize("name", QUERIES)
@law
@given(st.data(), confidences, confidences)
def test_the_probability_is_one_and_falls_in_the_confidence(name: str, data: st.DataObject, a: float, b: float) -> None:
    query: Query = data.draw(MADE[name])
    unsure, sure = query_probability(min(a, b), *query), query_probability(max(a, b), *query)
    assert query.floor <= sure <= unsure <= 1.0


@law
@given(confidences, rates)
def test_the_rules_do_as_they_are_named(confidence: float, rate: float) -> None:
    assert query_probability(confidence, *always()) == 1.0
    assert query_probability(confidence, *never()) == 0.0
    assert query_probability(confidence, *uniform(rate)) == rate


@law
@given(st.floats(1e-6, 1e6))
def test_the_margin_rule_asks_for_certain_when_unsure_and_half_the_time_at_sigma(sigma: float) -> None:
    assert query_probability(0.0, *margin(sigma)) == 1.0
    assert query_probability(sigma, *margin(sigma)) == 0.5
    assert query_probability(math.inf, *margin(sigma)) == 0.0
    assert query_probability(math.inf, *margin(sigma, 0.1)) == 0.1
    assert query_probability(3.0 * sigma, *margin(sigma)) == pytest.approx(0.25)


@law
@given(st.floats(0.01, 10.0), st.floats(0.01, 10.0), st.floats(0.01, 10.0))
def test_a_larger_sigma_asks_more(confidence: float, a: float, b: float) -> None:
    assert query_probability(confidence, *margin(min(a, b))) <= query_probability(confidence, *margin(max(a, b)))


@pytest.mark.parametrize("sigma", [0.0, -0.1, math.inf, math.nan])
def test_a_bad_sigma_is_refused(sigma: float) -> None:
    with pytest.raises(InputError, match="sigma must be positive and finite"):
        margin(sigma)


@pytest.mark.parametrize("rate", [-0.01, 1.01, math.nan])
def test_a_rate_outside_0_to_1_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        uniform(rate)
    with pytest.raises(InputError, match="between 0 and 1"):
        margin(1.0, rate)
