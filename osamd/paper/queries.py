"""Queries: the probability of asking for a label, from the teacher's confidence.

All of them are one rule, max(floor, sigma / (sigma + confidence)), with different numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from osamd.errors import require_positive, require_rate


class Query(NamedTuple):
    """The two numbers of the rule."""

    sigma: float
    floor: float


def query_probability(confidence: float, sigma: float, floor: float) -> float:
    """max(floor, sigma / (sigma + confidence)): the rule of Algorithms 1 and 2 where floor is 0.

    >>> query_probability(0.35, 0.35, 0.0), query_probability(1.0, 0.0, 0.2)
    (0.5, 0.2)
    """
    if sigma == 0.0:
        return floor
    return max(floor, sigma / (sigma + confidence))


def margin(sigma: float, floor: float = 0.0) -> Query:
    """Ask where the teacher is unsure, with probability sigma / (sigma + confidence), but at least `floor`."""
    return Query(require_positive("margin", "sigma", sigma), require_rate("margin", "floor", floor))


def uniform(rate: float) -> Query:
    """Ask for every label with the same probability."""
    return Query(0.0, require_rate("uniform", "rate", rate))


def always() -> Query:
    """Ask for every label."""
    return Query(0.0, 1.0)


def never() -> Query:
    """Ask for no label."""
    return Query(0.0, 0.0)


QUERIES: dict[str, Callable[..., Query]] = {"margin": margin, "uniform": uniform, "always": always, "never": never}
