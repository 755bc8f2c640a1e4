"""A sample close to a query that is still pending is asked about for the sake of the audit alone."""

import numpy as np
import pytest

from osamd import OSAMD
from osamd.preset.pending import CLOSE, NEWEST_PENDING

FLOOR = 0.005


def started(**settings):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    learner = OSAMD.from_source(rng.normal(size=(400, 3)) + 2.0 * y[:, None], y, budget=0.2, floor=FLOOR, **settings)
    for row, label in zip(rng.normal(size=(400, 3)) + 1.0, rng.integers(0, 2, 400).tolist(), strict=True):
        decision = learner.ask(row)
        learner.tell(decision, label if decision.query else None)
    return learner


def undecided(learner):
    """A sample that the learner would gladly ask about."""
    rng = np.random.default_rng(1)
    return min(rng.normal(size=(300, 3)) + 1.0, key=lambda row: learner.peek(row).margin)


def queried(learner, x):
    while not (decision := learner.ask(x)).query:
        learner.tell(decision)
    return decision


def test_a_sample_close_to_a_pending_query_has_the_probability_of_the_audit():
    learner = started()
    x = undecided(learner)
    deviation = 1.0 / learner._core._parts.scale.inverse
    near = x + 0.9 * CLOSE * deviation
    far = min((x + sign * 2.0 * CLOSE * deviation for sign in (1.0, -1.0)), key=lambda row: learner.peek(row).margin)
    assert min(learner.peek(row).probability for row in (near, far)) > FLOOR
    waiting = queried(learner, x)
    assert learner.peek(near).probability == FLOOR
    assert learner.peek(far).probability > FLOOR
    learner.expire(waiting)
    assert learner.peek(near).probability > FLOOR


def test_loaded_learners_and_copies_know_what_is_pending():
    learner = started()
    x = undecided(learner)
    queried(learner, x)
    for other in (learner.copy(), OSAMD.from_bytes(learner.to_bytes())):
        assert other.peek(x).probability == learner.peek(x).probability <= FLOOR


def test_repeated_samples_are_not_asked_about_again_and_again():
    """200 times the same sample, and nobody answers: the audit alone asks, at most with its probability."""
    learner = started()
    x = undecided(learner)
    before = learner.asked
    for _ in range(200):
        decision = learner.ask(x)
        if not decision.query:
            learner.tell(decision)
    # Binomial(200, 0.05) is above 22 with a probability of 2e-4; without the rule 40 labels would be spent.
    assert 1 <= learner.asked - before <= 23


def test_only_the_newest_pending_queries_are_compared():
    learner = started()
    rows = np.random.default_rng(2).normal(size=(NEWEST_PENDING + 10, 3)) * 100.0
    learner._core.await_labels(list(rows))
    assert len(learner._core._waiting) == NEWEST_PENDING


def test_pending_queries_are_found_by_their_ids():
    learner = OSAMD(features=3, budget=1.0)
    first, second = learner.ask(np.zeros(3)), learner.ask(np.ones(3))
    assert first.query
    assert second.query
    learner.tell(first, 1)
    assert not learner.awaits(first)
    assert not learner.awaits(first.id)
    assert learner.awaits(second)
    assert learner.awaits(np.int64(second.id))
    assert not learner.awaits(True)  # it is no id, though 1 is one
    assert not learner.copy().awaits(second)  # a decision belongs to its learner, an id does not
    assert learner.copy().awaits(second.id)
    assert second.id in learner.pending
    assert second in learner.pending
    assert first.id not in learner.pending


@pytest.mark.parametrize("method", ["osamd-preset", "osamd"])
def test_arrays_that_others_own_are_taken_without_a_detour(method):
    """Arrow hands out read-only arrays; the compiled round takes a copy, and no error is raised on the way."""
    x = np.random.default_rng(0).normal(size=(50, 3))
    locked = x.copy()
    locked.flags.writeable = False
    kinds = (x, locked, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2])
    learners = [OSAMD(features=3, method=method, budget=0.5) for _ in kinds]
    for learner, rows in zip(learners, kinds, strict=True):
        learner.ask(rows[0])
        learner._core.copied = None  # the detour
        for row in rows[1:]:
            learner.ask(row)
    assert len({learner.to_state() for learner in learners}) == 1
