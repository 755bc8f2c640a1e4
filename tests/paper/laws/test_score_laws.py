"""Scores: the binary reading and the multiclass one agree on two classes, and ties are read as stated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_cases import law, numbers, vectors

from osamd.numerics import Array
from osamd.paper.scores import BINARY, MULTICLASS, runner_up


@law
@given(numbers(5.0).filter(lambda h: h != 0.0))
def test_two_classes_are_read_alike(h: float) -> None:
    pair = np.array([-h / 2, h / 2])
    assert MULTICLASS.decide(pair) == BINARY.decide(h)
    assert MULTICLASS.confidence(pair) == BINARY.confidence(h) == abs(h)
    for y, sign in ((0, -1.0), (1, 1.0)):
        assert MULTICLASS.margin(pair, y) == BINARY.margin(h, y) == sign * h
        # d pair / dh = (-1/2, 1/2) carries one slope to the other.
        assert float(MULTICLASS.margin_slope(pair, y) @ [-0.5, 0.5]) == BINARY.margin_slope(h, y) == sign


@law
@given(st.integers(2, 6), st.data())
def test_the_confidence_is_the_margin_of_the_decision_and_no_other_class_has_one(n: int, data: st.DataObject) -> None:
    h = data.draw(vectors(n))
    decision, ranked = MULTICLASS.decide(h), np.sort(h)
    assert h[decision] == ranked[-1]
    assert MULTICLASS.confidence(h) == MULTICLASS.margin(h, decision) == ranked[-1] - ranked[-2]
    assert MULTICLASS.confidence(h) >= 0.0
    for y in range(n):
        assert MULTICLASS.margin(h, y) == h[y] - np.max(np.delete(h, y))
        assert y == decision or MULTICLASS.margin(h, y) <= 0.0


@law
@given(st.integers(2, 6), st.data())
def test_the_margin_is_linear_in_its_slope(n: int, data: st.DataObject) -> None:
    h, y = data.draw(vectors(n)), data.draw(st.integers(0, n - 1))
    slope = MULTICLASS.margin_slope(h, y)
    assert MULTICLASS.inner(slope, h) == pytest.approx(MULTICLASS.margin(h, y), abs=1e-12)
    assert slope.sum() == 0.0
    other = data.draw(vectors(n))
    # Psi is concave in the scores, so its slope bounds it from above everywhere.
    assert MULTICLASS.margin(other, y) <= MULTICLASS.inner(slope, other) + 1e-12
    assert BINARY.inner(float(h[0]), float(other[0])) == h[0] * other[0]


def test_a_binary_score_of_zero_is_read_as_class_one_with_no_confidence() -> None:
    assert BINARY.decide(0.0) == BINARY.decide(-0.0) == 1
    assert BINARY.confidence(0.0) == 0.0


@pytest.mark.parametrize(
    ("h", "decision", "second"), [([2.0, 2.0, 2.0], 0, 1), ([1.0, 2.0, 2.0], 1, 2), ([1.0, 2.0, 1.0], 1, 0)]
)
def test_the_first_of_equal_classes_wins_and_the_first_of_equal_others_is_runner_up(
    h: list[float], decision: int, second: int
) -> None:
    scores: Array = np.array(h)
    assert MULTICLASS.decide(scores) == decision
    assert runner_up(scores, decision) == second
