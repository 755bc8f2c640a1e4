"""Classes that were not there before: the default learner takes them in, the paper's methods say that they cannot."""

import numpy as np
import pytest

from osamd import OSAMD
from osamd.errors import InputError

CENTRES = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [5.0, 5.0]])


def stream(rounds, classes, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, classes, rounds)
    return CENTRES[kind] + rng.normal(size=(rounds, 2)), ["abcd"[k] for k in kind]


def started(found=2, **settings):
    return OSAMD.from_source(*stream(100, found), budget=0.2, **settings)


def pending(learner, x):
    """A query that waits for its label."""
    decision = learner.ask(x)
    while not decision.query:
        learner.tell(decision)
        decision = learner.ask(x)
    return decision


@pytest.mark.parametrize("classes", [2, 3])
def test_new_classes_are_learned(classes):
    learner = started(classes)
    x, y = stream(2500, 4, seed=1)
    right = []
    for row, label in zip(x, y, strict=True):
        decision = learner.ask(row)
        right.append(decision.label == label)
        learner.tell(decision, label if decision.query else None)
    assert sorted(learner.classes) == list("abcd")
    assert np.mean(right[-1000:]) > 0.93
    estimate = learner.accuracy(window=True)
    assert estimate.low <= np.mean(right[-1000:]) <= estimate.high
    assert learner.gain().low > 0.1  # the source knows nothing of the new ones


def test_an_open_decision_keeps_the_classes_of_its_time_also_in_a_file():
    learner = started(2)
    waiting = pending(learner, [2.5, 0.0])
    before = waiting.probabilities
    learner.tell(learner.ask([0.0, 5.0]), "c")
    assert waiting.probabilities == before
    assert list(before) == ["a", "b"]
    assert list(learner.ask([0.0, 5.0]).probabilities) == ["a", "b", "c"]
    loaded = OSAMD.from_bytes(learner.to_bytes())
    assert loaded.classes == ["a", "b", "c"]
    assert loaded.pending[0].probabilities == before
    for one in (learner, loaded):
        one.tell(waiting.id, "d")  # a late label may name a new class too
        assert one.classes == ["a", "b", "c", "d"]
        assert one.told == 1
    x, y = stream(200, 4, seed=2)
    for row, label in zip(x, y, strict=True):
        decisions = [one.ask(row) for one in (learner, loaded)]
        assert decisions[0].query == decisions[1].query
        assert decisions[0].probabilities == decisions[1].probabilities
        for one, decision in zip((learner, loaded), decisions, strict=True):
            one.tell(decision, label if decision.query else None)


def test_a_label_of_a_new_class_teaches_like_one_of_a_class_that_was_declared():
    new, declared = started(2), started(2, classes=["a", "b", "c"])
    for learner in (new, declared):
        for _ in range(5):
            learner.tell(learner.ask([0.0, 5.0]), "c")
    assert new.predict([0.0, 5.0]) == declared.predict([0.0, 5.0]) == "c"


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (float("nan"), "give None"),
        (np.float64("nan"), "give None"),
        (np.datetime64("NaT"), "give None"),
        ("", "missing value"),
        ("NaN", "missing value"),
        ([1], "text or a whole number"),
        (2.5, "cut a measured number into ranges"),
        (True, "text or a whole number"),
        (7, "it is a number, and the classes are 'a', 'b'"),
    ],
)
def test_what_can_be_no_class_is_refused_in_a_sentence_and_changes_nothing(label, words):
    learner = started(2)
    decision = learner.ask([0.0, 5.0])
    with pytest.raises(InputError, match=words):
        learner.tell(decision, label)
    assert learner.classes == ["a", "b"]
    assert decision.open
    learner.tell(decision, "c")
    assert learner.classes == ["a", "b", "c"]


def test_a_new_class_for_a_decision_that_cannot_be_told_is_not_taken_in():
    learner = started(2)
    decision = learner.ask([0.0, 5.0])
    learner.tell(decision)
    with pytest.raises(InputError, match="has its label already"):
        learner.tell(decision, "c")
    assert learner.classes == ["a", "b"]


def test_methods_of_the_paper_keep_the_classes_they_were_made_for():
    learner = started(2, method="osamd", standardise=True)
    with pytest.raises(InputError, match="no such class; the learner was made for 'a', 'b'"):
        learner.tell(learner.ask([0.0, 5.0]), "c")
