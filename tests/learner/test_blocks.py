"""Rounds in blocks are the rounds of ask and tell, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import osamd
from osamd.learner import blocks
from osamd.learner.blocks import Patience

ROUNDS = 400
GAPS = (50, 51, 200)
"""Samples that no model can use."""
ANSWERS_EVERY = 90
"""Samples between two times at which answers come."""


def source(classes):
    generator = np.random.default_rng(classes)
    y = generator.integers(0, classes, 200)
    return generator.normal(size=(200, 5)) + 2.0 * np.eye(5)[y], y


def stream(classes):
    generator = np.random.default_rng(10 + classes)
    y = generator.integers(0, classes, ROUNDS)
    x = generator.normal(size=(ROUNDS, 5)) + 1.5 * np.eye(5)[y]
    x[120:160], x[301:399:2] = x[80:120], x[300:398:2]  # repeated ones: the default learner asks about one of them
    x[list(GAPS), 2] = np.nan
    return x, y.tolist()


def bits(learner):
    arrays, content = learner._saved()
    return {name: held.tobytes() for name, held in arrays.items()}, content


def answered(learner, places, labels):
    """Answer every third query that waits; `places` holds the place of each round in the stream."""
    for number in [one.id for one in learner.pending]:
        if number % 3 == 0:
            learner.tell(number, labels[places[number]])


def expired(learner, patience):
    """Let queries expire as the patience says, in plain words."""
    gone = []
    while learner.pending:
        oldest = learner.pending[0].id
        too_many = patience.most is not None and len(learner.pending) > patience.most
        too_old = patience.rounds is not None and learner.rounds - 1 - oldest > patience.rounds
        if not too_many and not too_old:
            break
        learner.expire(oldest)
        gone.append(oldest)
    return gone


def one_by_one(learner, x, y, patience):
    told, places, gone = [], [], []
    for place, row in enumerate(x):
        if place % ANSWERS_EVERY == 0:
            answered(learner, places, y)
        try:
            decision = learner.ask(row)
        except osamd.InputError as error:
            told.append(str(error))
            continue
        places.append(place)
        told.append((decision.id, decision.draw, *decision._seen[:-1], np.asarray(decision.score).tobytes()))
        if not decision.query:
            learner.tell(decision)
        gone += [(learner.rounds, number) for number in expired(learner, patience)]
    return told, gone


def in_blocks(learner, x, y, patience):
    told, places, gone = [], [], []
    while (place := len(told)) < len(x):
        if place % ANSWERS_EVERY == 0:
            answered(learner, places, y)
        try:
            played = blocks.play(learner, x[place : place + ANSWERS_EVERY - place % ANSWERS_EVERY], patience)
        except osamd.InputError as error:
            told.append(str(error))
            continue
        places += range(place, place + len(played))
        columns = zip(played.draws, *played.seen[:-1], strict=True)
        told += [(played.first + i, *values, played.seen.score[i].tobytes()) for i, values in enumerate(columns)]
        gone += [(played.first + after, number) for after, number in played.expired]
        assert [one.id for one in played.queries] == [
            played.first + i for i, query in enumerate(played.seen.query) if query
        ]
    return told, gone


@pytest.mark.parametrize(
    "patience",
    [Patience(), Patience(rounds=25, most=6), Patience(rounds=3), Patience(most=2), Patience(rounds=33)],
    ids=["endless", "both", "short", "few", "long"],
)
@pytest.mark.parametrize(
    ("classes", "settings"),
    [
        (2, {"budget": 0.3}),
        (3, {"budget": 0.3, "target_accuracy": 0.8}),
        (3, {"method": "osamd", "budget": 0.1, "budget_window": 50}),
        (2, {"method": "osamd", "sigma": 0.5, "standardise": True, "max_labels": 60}),
    ],
    ids=["default", "target", "window", "standardised"],
)
def test_a_block_is_its_rounds_one_by_one(classes, settings, patience):
    learner = osamd.OSAMD.from_source(*source(classes), **settings)
    other = learner.copy()
    x, y = stream(classes)
    found = in_blocks(learner, x, y, patience)
    assert found == one_by_one(other, x, y, patience)
    assert bits(learner) == bits(other)
    assert learner.rounds == ROUNDS - len(GAPS)
    assert 0 < learner.asked < ROUNDS / 2
    assert (learner.expired > 0) == bool(found[1]) == (patience != Patience())


@pytest.mark.parametrize("method", [None, "osamd"])
def test_a_block_plays_on_after_its_queries_and_leaves_them_open(method):
    settings = {} if method is None else {"method": method}
    learner = osamd.OSAMD.from_source(*source(2), budget=0.5, **settings)
    x, _ = stream(2)
    played = blocks.play(learner, x[:40])
    assert len(played) == 40
    assert [one.id for one in learner.pending] == [one.id for one in played.queries]
    assert len(played.queries) > 3
    learner.tell(played.queries[-1], 0)  # the last one is perhaps still in hand, the first one is not
    learner.tell(played.queries[0], 1)
    assert learner.told == 2


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
    patience = Patience(rounds=10)
    assert in_blocks(learner, rows[:60], labels, patience) == one_by_one(other, rows[:60], labels, patience)
    assert bits(learner) == bits(other)
