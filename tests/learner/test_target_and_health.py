"""A target of the accuracy, what was gained over the source, and what a learner says of its own health."""

import numpy as np
import pytest

from osamd import OSAMD
from osamd.errors import InputError


def classes_apart(rounds, apart, seed, turned=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rounds)
    x = rng.normal(size=(rounds, 4)) + apart * y[:, None]
    return x, (1 - y if turned else y).tolist()


def played(learner, x, y, answered=True):
    for row, label in zip(x, y, strict=True):
        decision = learner.ask(row)
        if not decision.query:
            learner.tell(decision)
        elif answered:
            learner.tell(decision, label)
    return learner


@pytest.mark.parametrize("method", [None, "osamd"])
def test_an_easy_target_spends_less_than_the_budget_and_is_kept(method):
    paper = {} if method is None else {"method": method, "standardise": True}
    x, y = classes_apart(4000, 3.0, seed=1)
    source = classes_apart(300, 3.0, seed=0)
    plain, aimed = (
        played(OSAMD.from_source(*source, budget=0.2, target_accuracy=target, **paper), x, y) for target in (None, 0.8)
    )
    assert aimed.asked < 0.7 * plain.asked
    assert aimed.limits.target == 0.8
    assert aimed.health().state == "fine"
    assert aimed.accuracy(window=True).low > 0.8


def test_a_target_that_cannot_be_kept_raises_the_alarm_and_is_saved():
    x, y = classes_apart(3000, 0.3, seed=1)
    learner = played(OSAMD.from_source(*classes_apart(300, 0.3, seed=0), budget=0.2, target_accuracy=0.95), x, y)
    health = learner.health()
    assert health.state == "alarm"
    assert "95 %" in health.why
    assert health.remedy
    loaded = OSAMD.from_bytes(learner.to_bytes())
    assert loaded.limits.target == 0.95
    assert loaded.health() == health
    assert learner.remade(target_accuracy=0.5).limits.target == 0.5


def test_a_target_that_is_no_share_or_has_no_budget_is_refused():
    with pytest.raises(InputError, match="between 0 and 1"):
        OSAMD(budget=0.1, target_accuracy=80)
    with pytest.raises(InputError, match="give rate"):
        OSAMD(method="osamd", target_accuracy=0.8)


def test_the_gain_over_the_source_is_known_where_the_stream_leaves_it_behind():
    """Labels flip after the source: left alone it is wrong nearly always."""
    learner = OSAMD.from_source(*classes_apart(300, 3.0, seed=0), budget=0.2)
    assert not learner.gain().known
    played(learner, *classes_apart(3000, 3.0, seed=1, turned=True))
    assert learner.gain(window=True).low > 0.5
    assert OSAMD.from_bytes(learner.to_bytes()).gain() == learner.gain()


def test_where_nobody_answers_health_is_never_fine_and_tells_how_long_labels_are_awaited():
    learner = OSAMD.from_source(*classes_apart(300, 3.0, seed=0), budget=0.1)
    played(learner, *classes_apart(2500, 3.0, seed=1), answered=False)
    health = learner.health()
    assert health.state == "unknown"
    assert "Nobody answers" in health.why
    assert health.oldest_pending == learner.rounds - 1 - learner.pending[0].id > 2000
    assert health.pending == len(learner.pending)


def test_where_nobody_answers_the_mix_of_the_source_is_what_decisions_are_held_against():
    """The source has both classes alike; the stream then shows one of them alone."""
    learner = OSAMD.from_source(*classes_apart(300, 3.0, seed=0), budget=0.1)
    rows = np.random.default_rng(1).normal(size=(1500, 4))
    played(learner, rows, [0] * len(rows), answered=False)
    for one in (learner, OSAMD.from_bytes(learner.to_bytes())):
        health = one.health()
        assert health.state == "alarm"
        assert "of the source's rows" in health.why
