"""Queries: the probability of asking for a label, from the teacher's confidence and one number.

Each is a plain function (confidence, parameter) -> probability; the parameter is sigma for the margin rule and the
rate for the uniform one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from osamd.errors import reject, require_positive


class Query(NamedTuple):
    """A rule that asks: its probability, and the check of its one parameter.

    >>> QUERIES["margin"].probability(0.35, 0.35), QUERIES["uniform"].probability(0.35, 0.1)
    (0.5, 0.1)
    """

    name: str
    probability: Callable[[float, float], float]
    """(confidence >= 0, parameter) -> a number in [0, 1] that falls, or stays, as the confidence grows."""
    check: Callable[[float], None]
    """Refuses a parameter that the rule cannot use."""


def margin_probability(confidence: float, sigma: float) -> float:
    """sigma / (sigma + confidence), as in Algorithms 1 and 2.

    >>> margin_probability(0.0, 0.35), margin_probability(0.35, 0.35)
    (1.0, 0.5)
    """
    return sigma / (sigma + confidence)


def uniform_probability(confidence: float, rate: float) -> float:
    """The same for every sample: OMD (partial), and OSAMD without active query."""
    return rate


def always_probability(confidence: float, parameter: float) -> float:
    """1: OMD (all)."""
    return 1.0


def never_probability(confidence: float, parameter: float) -> float:
    """0: self-training alone."""
    return 0.0


def _check_sigma(sigma: float) -> None:
    require_positive("query", "sigma", sigma)


def _check_rate(rate: float) -> None:
    if not 0.0 <= rate <= 1.0:
        raise reject("query", "label_rate", rate, "a rate of labels lies between 0 and 1.")


def _check_nothing(parameter: float) -> None:
    """The rule has no parameter."""


QUERIES = {
    query.name: query
    for query in (
        Query("margin", margin_probability, _check_sigma),
        Query("uniform", uniform_probability, _check_rate),
        Query("always", always_probability, _check_nothing),
        Query("never", never_probability, _check_nothing),
    )
}
