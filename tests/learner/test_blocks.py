"""Rounds in blocks are the rounds of ask and tell, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import osamd
from osamd.learner import blocks

ROUNDS = 400
GAPS = (50, 51, 200)
"""Samples that no model can use."""


def source(classes):
    generator = np.random.default_rng(classes)
    y = generator.integers(0, classes, 200)
    return generator.normal(size=(200, 5)) + 2.0 * np.eye(5)[y], y


def stream(classes):
    generator = np.random.default_rng(10 + classes)
    y = generator.integers(0, classes, ROUNDS)
    x = generator.normal(size=(ROUNDS, 5)) + 1.5 * np.eye(5)[y]
    x[list(GAPS), 2] = np.nan
    return x, y.tolist()


def bits(learner):
    arrays, content = learner._saved()
    return {name: held.tobytes() for name, held in arrays.items()}, content


def answered(learner, waiting, rounds, labels):
    """Answer every third query ten rounds later, and let the oldest one expire when five others wait."""
    while waiting and waiting[0][0] + 10 <= rounds:
        number, place = waiting.pop(0)
        if number % 3 == 0:
            learner.tell(number, labels[place])
    if len(learner.pending) > 5:
        learner.expire(learner.pending[0].id)
        waiting[:] = [one for one in waiting if one[0] in learner._pending]


def one_by_one(learner, x, y):
    told, waiting = [], []
    for place, row in enumerate(x):
        try:
            decision = learner.ask(row)
        except osamd.InputError as error:
            told.append(str(error))
            continue
        told.append((decision.id, decision.draw, *decision._seen[:-1], np.asarray(decision.score).tobytes()))
        if not decision.query:
            learner.tell(decision)
            continue
        waiting.append((decision.id, place))
        answered(learner, waiting, learner.rounds, y)
    return told


def in_blocks(learner, x, y):
    told, waiting = [], []
    while len(told) < len(x):
        place = len(told)
        try:
            played = blocks.play(learner, x[place:])
        except osamd.InputError as error:
            told.append(str(error))
            continue
        columns = zip(played.draws, *played.seen[:-1], strict=True)
        told += [(played.first + i, *values, played.seen.score[i].tobytes()) for i, values in enumerate(columns)]
        if played.query is not None:
            waiting.append((played.query.id, len(told) - 1))
            answered(learner, waiting, learner.rounds, y)
    return told


@pytest.mark.parametrize(
    ("classes", "settings"),
    [
        (2, {"budget": 0.1}),
        (3, {"budget": 0.3, "target_accuracy": 0.8}),
        (3, {"method": "osamd", "budget": 0.1, "budget_window": 50}),
        (2, {"method": "osamd", "sigma": 0.5, "standardise": True, "max_labels": 30}),
    ],
    ids=["default", "target", "window", "standardised"],
)
def test_a_block_is_its_rounds_one_by_one(classes, settings):
    learner = osamd.OSAMD.from_source(*source(classes), **settings)
    other = learner.copy()
    x, y = stream(classes)
    assert in_blocks(learner, x, y) == one_by_one(other, x, y)
    assert bits(learner) == bits(other)
    assert learner.rounds == ROUNDS - len(GAPS)
    assert 0 < learner.asked < ROUNDS / 2


def test_a_block_ends_with_its_only_query_and_leaves_it_open():
    learner = osamd.OSAMD.from_source(*source(2), method="osamd", budget=0.2)
    x, _ = stream(2)
    queries = []
    while learner.rounds < 40:
        played = blocks.play(learner, x[learner.rounds : 40])
        assert sum(played.seen.query) == (played.query is not None)
        assert played.first + len(played) == learner.rounds
        queries += [] if played.query is None else [played.query.id]
    assert [one.id for one in learner.pending] == queries != []


def test_a_learner_that_expires_queries_itself_plays_them_one_by_one():
    learner = osamd.OSAMD.from_source(*source(2), budget=0.5, expire_after=5)
    other = learner.copy()
    x, _ = stream(2)
    for place in range(40):
        assert len(blocks.play(learner, x[place:])) == 1
        decision = other.ask(x[place])
        if not decision.query:
            other.tell(decision)
    assert bits(learner) == bits(other)
    assert learner.expired > 0


def test_a_source_of_another_kind_speaks_before_each_round():
    trees = pytest.importorskip("sklearn.tree", reason="the source is a tree: pip install scikit-learn")
    x, y = source(2)
    learner = osamd.OSAMD.from_sklearn(trees.DecisionTreeClassifier(max_depth=3, random_state=0).fit(x, y), budget=0.1)
    other = learner.copy()
    rows, labels = stream(2)
    assert in_blocks(learner, rows[:60], labels) == one_by_one(other, rows[:60], labels)
    assert bits(learner) == bits(other)
