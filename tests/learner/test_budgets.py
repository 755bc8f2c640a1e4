"""The budget as a user sees it: never exceeded, spent, and said why."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import osamd
from osamd.paper.methods import KNOWN, METHODS


def stream(rng, rounds, kind):
    """Two classes in three features: still, turning, jumping, or without a pattern."""
    y = rng.integers(0, 2, rounds)
    angle = {
        "still": np.zeros(rounds),
        "turning": np.linspace(0.0, 6.0, rounds),
        "jumping": 3.0 * (np.arange(rounds) > rounds // 2),
        "noise": rng.normal(size=rounds) * 100.0,
    }[kind]
    x = rng.normal(size=(rounds, 3)) * rng.choice([0.1, 1.0, 10.0])
    x[:, 0] += (2 * y - 1) * np.cos(angle)
    x[:, 1] += (2 * y - 1) * np.sin(angle)
    return list(x), y.tolist()


def play(held, x, y, rng, delay):
    """Ask about every row and tell late, crossed or never; yields after every ask."""
    waiting: deque = deque()
    for t, row in enumerate(x):
        decision = held.ask(row)
        yield decision
        if decision.query:
            waiting.append((t + int(rng.integers(0, delay + 1)), decision))
        else:
            held.tell(decision, None)
        while waiting and waiting[0][0] <= t:
            _, due = waiting.popleft()
            held.tell(due, None if rng.random() < 0.1 else y[due.id])


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["still", "turning", "jumping", "noise"]),
    st.one_of(st.none(), st.floats(0.01, 1.0)),
    st.one_of(st.none(), st.integers(100, 200)),
    st.one_of(st.none(), st.integers(1, 60)),
    st.integers(0, 80),
    st.sampled_from(list(KNOWN)),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=200, deadline=None)
def test_never_exceeded_whatever_the_stream_the_budget_and_the_delay(
    seed, kind, rate, window, max_labels, delay, method, sigma
):
    rng = np.random.default_rng(seed)
    x, y = stream(rng, 400, kind)
    held = osamd.OSAMD(
        features=3,
        method=method,
        label_rate=0.3 if method in METHODS else None,
        sigma=None if method == "osamd-preset" else sigma,
        budget=rate,
        budget_window=window if rate is not None else None,
        max_labels=max_labels,
        seed=seed,
    )
    asked: list[bool] = []
    for decision in play(held, x, y, rng, delay):
        asked.append(decision.query)
        t, count = len(asked), sum(asked)
        assert count == held.asked
        if rate is not None and window is None:
            assert count <= rate * t
        if rate is not None and window is not None:
            assert sum(asked[-window:]) <= rate * window
        if max_labels is not None:
            assert count <= max_labels
        if decision.withheld:
            assert decision.probability == 0.0
            assert not decision.query
        elif rate is not None:
            assert decision.probability >= (rate / 4 if method in METHODS else rate / 10 * (1.0 - 1e-12))


@pytest.mark.parametrize("kind", ["still", "turning", "jumping", "noise"])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("delay", [0, 500])
@pytest.mark.parametrize("method", ["osamd-preset", "osamd"])
def test_spent_to_within_five_percent_over_ten_thousand_rounds(method, kind, rate, delay):
    rng = np.random.default_rng(7)
    x, y = stream(rng, 10_000, kind)
    held = osamd.OSAMD(features=3, budget=rate, method=method)
    for _ in play(held, x, y, rng, delay):
        pass
    assert 0.95 * rate <= held.asked / held.rounds <= rate


def test_why_a_query_was_withheld_is_said():
    held = osamd.OSAMD(features=1, max_labels=2, sigma=1e9)
    decisions = [held.ask([0.0]) for _ in range(4)]
    assert [d.query for d in decisions] == [True, True, False, False]
    assert [d.withheld for d in decisions] == [None, None, "max_labels", "max_labels"]
    assert osamd.OSAMD(features=1, budget=0.1).ask([0.0]).withheld == "rate"
    held = osamd.OSAMD(features=1, budget=0.1, budget_window=10, sigma=1e9)
    decisions = [held.ask([0.0]) for _ in range(5)]
    assert "window" in [d.withheld for d in decisions]
