"""Every query: a probability, falling in the confidence, that does what its name says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_cases import law

from osamd.errors import InputError
from osamd.queries import QUERIES, Query

every_query = pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
confidences = st.floats(0.0, 1e12)
parameters = st.floats(1e-9, 1.0)


@every_query
@law
@given(confidences, confidences, parameters)
def test_the_probability_is_one_and_falls_in_the_confidence(query: Query, a: float, b: float, number: float) -> None:
    query.check(number)
    unsure, sure = query.probability(min(a, b), number), query.probability(max(a, b), number)
    assert 0.0 <= sure <= unsure <= 1.0


@law
@given(confidences, parameters)
def test_the_rules_do_as_they_are_named(confidence: float, number: float) -> None:
    assert QUERIES["always"].probability(confidence, number) == 1.0
    assert QUERIES["never"].probability(confidence, number) == 0.0
    assert QUERIES["uniform"].probability(confidence, number) == number


@law
@given(st.floats(1e-6, 1e6))
def test_the_margin_rule_asks_for_certain_when_unsure_and_half_the_time_at_sigma(sigma: float) -> None:
    margin = QUERIES["margin"].probability
    assert margin(0.0, sigma) == 1.0
    assert margin(sigma, sigma) == 0.5
    assert margin(math.inf, sigma) == 0.0
    assert margin(3.0 * sigma, sigma) == pytest.approx(0.25)


@law
@given(st.floats(0.01, 10.0), st.floats(0.01, 10.0), st.floats(0.01, 10.0))
def test_a_larger_sigma_asks_more(confidence: float, a: float, b: float) -> None:
    margin = QUERIES["margin"].probability
    assert margin(confidence, min(a, b)) <= margin(confidence, max(a, b))


@pytest.mark.parametrize("sigma", [0.0, -0.1, math.inf, math.nan])
def test_a_bad_sigma_is_refused(sigma: float) -> None:
    with pytest.raises(InputError, match="sigma must be positive and finite"):
        QUERIES["margin"].check(sigma)


@pytest.mark.parametrize("rate", [-0.01, 1.01, math.nan])
def test_a_bad_rate_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="a rate of labels lies between 0 and 1"):
        QUERIES["uniform"].check(rate)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_the_ends_of_the_rates_are_rates(rate: float) -> None:
    QUERIES["uniform"].check(rate)


def test_a_query_is_registered_under_its_name() -> None:
    assert all(name == query.name for name, query in QUERIES.items())
