"""One sample at a time, compiled, equals the plain stream: same decisions and queries, parameters within 1e-12."""

import numpy as np
import pytest
from compiled_units import Unit, one_by_one, random_stream

from osamd import compiled
from osamd.errors import InputError
from osamd.paper.losses import LOSSES, loss
from osamd.paper.methods import InnerLoops, Settings, learner
from osamd.paper.models import linear
from osamd.paper.scores import UNLABELLED
from osamd.streams.base import query_generator


@pytest.mark.parametrize(
    "unit",
    [
        Unit("euclidean", "hinge", 2),
        Unit("euclidean", "hinge", 3),
        Unit("euclidean", "softmax", 3),
        Unit("euclidean", "hinge", 10),
        Unit("signed-simplex", "logistic", 2),
        Unit("ball", "hinge", 3),
    ],
    ids=str,
)
def test_one_sample_at_a_time_agrees(unit):
    found = one_by_one(unit)
    assert found.runs == 42
    assert found.queries == found.decisions == 0
    assert found.parameters < 1e-12


@pytest.mark.parametrize("name", LOSSES)
def test_one_sample_at_a_time_agrees_row_by_row_for_every_loss(name):
    """Here the round is fused with the loss; where the statement is lowered, streams hold every loss equal."""
    found = one_by_one(Unit("euclidean", name, 3), kinds=("rows",))
    assert found.runs == 7
    assert found.queries == found.decisions == 0
    assert found.parameters < 1e-12


def of_two_classes():
    made = Settings(eta=0.01, sigma=0.35, loss=loss("hinge", l2=0.2), adaptation=InnerLoops(20, 0.01))
    return learner("osamd", linear(2), made, [0.4, 0.0, -4.0])


def by_rows(features, name="hinge"):
    """Three classes with the exact step, from a random start."""
    start = np.random.default_rng(0).normal(size=(3, features + 1))
    return learner("osamd", linear(features, 3), Settings(eta=0.05, sigma=0.3, loss=loss(name)), start)


@pytest.mark.parametrize("name", ["hinge", "softmax"])
def test_one_sample_at_a_time_is_the_stream_to_the_last_bit_with_several_classes(name):
    bound, stream = by_rows(11, name), random_stream(5, 11, 3)
    x, y = stream.sample(0)
    whole, one = compiled.play(bound, stream, 0), compiled.StepwiseLearner(bound)
    wide = np.zeros((len(x), 22))
    wide[:, ::2] = x
    for t, u in enumerate(query_generator(0).random(len(y)).tolist()):
        label, query = one.decide(wide[t, ::2], u)  # a row need not be contiguous
        assert (label, query) == (whole.ledger.decision[t], whole.ledger.asked[t])
        one.learn(int(y[t]) if query else UNLABELLED)
    np.testing.assert_array_equal(one.state.teacher, whole.state.teacher)
    np.testing.assert_array_equal(one.state.student, whole.state.student)


@pytest.mark.parametrize("bound", [of_two_classes(), by_rows(2)], ids=["two classes", "three"])
def test_one_refuses_what_it_cannot_take_and_stays_as_it_was(bound):
    one = compiled.StepwiseLearner(bound)
    before = one.state
    for x, sentence in (
        (np.zeros(3), "the model takes 2"),
        (np.array([np.nan, 1.0]), "must be finite"),
        (np.array([1.0, -np.inf]), "must be finite"),
        (np.array([1e200, 1.0]), "no longer finite"),
    ):
        with pytest.raises(InputError, match=sentence):
            one.decide(x, 0.5)
    one.decide(np.array([15.0, 0.0]), 0.0)
    for y in (bound.model.classes, -2):
        with pytest.raises(InputError, match=rf"learn\(y={y}\)"):
            one.learn(y)
    np.testing.assert_array_equal(one.state.teacher, before.teacher)
    np.testing.assert_array_equal(one.state.student, before.student)
