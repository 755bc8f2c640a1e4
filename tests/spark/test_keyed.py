"""What is done for one key, without Spark: late, lost, duplicated and wrong rows, budgets, seeds and live learners."""

import json

import numpy as np
import pytest

from osamd import OSAMD, InputError
from osamd.spark import keyed, streaming
from osamd.spark.keyed import GLOBAL, LABEL, SAMPLE, Keys, Plan, Row

SEED_OF_A = 196_517_344_546_220


def plan(budget=0.5, **given):
    return Plan(OSAMD(features=2, budget=budget, window=50).to_bytes(), **given)


def rows(count, first=0, seed=0):
    rng = np.random.default_rng([seed, first])
    found = []
    for t in range(first, first + count):
        y = int(rng.integers(0, 2))
        found.append((Row(float(t), SAMPLE, t, rng.normal(size=2) + 2.0 * y, None), y))
    return found


def samples(count, first=0, seed=0):
    return [row for row, _ in rows(count, first, seed)]


def clock(row):
    return row.time


def test_a_key_goes_on_the_same_whether_its_learner_is_live_or_read():
    """Batches of any size, with live learners, without, and with some dropped on the way: the same rows and states."""
    known = rows(300)
    ends = []
    for live, size in ((8, 10), (0, 10), (1, 10), (8, 300)):
        keys, out, states = Keys(plan(live=live)), [], {}
        for first in range(0, 300, size):
            for key in ("one", "other"):
                batch = [row for row, _ in known[first : first + size]]
                said, states[key] = keys.take(key, states.get(key), batch, clock)
                asked = [row.id for row in said if row.query]
                labels = [Row(299.0, LABEL, id_, None, known[id_][1]) for id_ in asked]
                if size == 10:
                    told, states[key] = keys.take(key, states[key], labels, clock)
                    out += [(key, *row) for row in said + told]
        if size == 10:
            ends.append((states, out))
            assert (keys.decoded == 0) == (live == 8)
    assert all(end == ends[0] for end in ends)


def test_seeds_come_from_the_keys():
    """With one seed for all, every key would draw the same numbers."""
    keys = Keys(plan(budget=0.1))
    queries = []
    for key in ("a", "b", 7):
        out, _ = keys.take(key, None, samples(200), clock)
        queries.append(tuple(row.query for row in out))
    assert len(set(queries)) == 3
    assert keyed.seed_of("a") == SEED_OF_A  # on every machine, in every process


def test_labels_that_nobody_awaits_are_rows():
    keys = Keys(plan(budget=1.0))
    out, state = keys.take("k", None, samples(3), clock)
    assert [row.query for row in out] == [True] * 3
    labels = [Row(5.0, LABEL, id_, None, y) for id_, y in ((0, 1), (0, 1), (77, 0), (1, None), (2, "no class"))]
    out, state = keys.take("k", state, labels, clock)
    assert [row.event for row in out] == ["label", "unawaited", "unawaited", "expired", "refused"]
    assert "no class" in out[-1].note
    assert [query[1] for query in json.loads(state.waiting)] == [2]


def test_a_sample_that_cannot_be_used_is_a_row():
    keys = Keys(plan())
    bad = [Row(0.0, SAMPLE, 0, np.array([np.nan, 1.0]), None), Row(1.0, SAMPLE, 1, np.zeros(3), None), *samples(1)]
    out, _ = keys.take("k", None, bad, clock)
    assert [row.event for row in out] == ["refused", "refused", "decision"]
    assert "finite" in out[0].note


def test_queries_expire_by_the_clock():
    keys = Keys(plan(budget=1.0, expire_after=10.0))
    out, state = keys.take("k", None, samples(5), clock)
    assert keyed.earliest(state) == 10.0
    out, state = keys.take("k", state, samples(1, first=12), clock)
    assert [(row.id, row.event) for row in out] == [(0, "expired"), (1, "expired"), (2, "expired"), (12, "decision")]
    out, state = keys.expire("k", state, 100.0)
    assert [row.id for row in out] == [3, 4, 12]
    assert keyed.earliest(state) is None
    out, state = keys.take("k", state, [Row(101.0, LABEL, 3, None, 1)], clock)
    assert out[0].event == "unawaited"


def test_the_global_budget_is_kept_in_expectation_and_the_budget_of_a_key_always():
    """2,000 short keys: 0.5 a key and 0.1 in all. The sum of the lots lies within four deviations (1 in 16,000)."""
    keys, asked, passed, count = Keys(plan(budget=0.5, pass_on=0.2, live=0)), 0, 0, 0
    for key in range(400):
        out, _ = keys.take(key, None, samples(20, seed=key), clock)
        mine = sum(row.query for row in out)
        wanted = mine + sum(row.withheld == GLOBAL for row in out)
        assert wanted <= 0.5 * 20
        asked, passed, count = asked + wanted, passed + mine, count + 20
    assert abs(passed - 0.2 * asked) <= 4.0 * np.sqrt(asked * 0.2 * 0.8)
    assert passed <= 0.1 * count + 4.0 * np.sqrt(asked * 0.2 * 0.8)


def test_new_keys_start_from_the_newest_pooled_start_of_their_time(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    learner = OSAMD.from_source(rng.normal(size=(200, 2)) + 2.0 * y[:, None], y, budget=0.5, window=50)
    learner.save(tmp_path / "start-100.000000.osamd")
    keys = Keys(plan(pool=str(tmp_path)))
    early, _ = keys.take("early", None, samples(20, first=0), clock)
    late, state = keys.take("late", None, samples(20, first=100), clock)
    assert early[0].probabilities == [0.5, 0.5]
    assert late[0].probabilities != [0.5, 0.5]
    again, _ = keys.take("late", state, samples(20, first=120), clock)
    assert [row.event for row in again] == ["decision"] * 20


def test_what_a_user_gives_is_checked():
    made = OSAMD(features=["a", "b"], budget=0.2)
    for given, match in (
        ({"start": "pooled"}, "go together"),
        ({"start": "nothing"}, "give a learner"),
        ({"start": made, "settings": {"window": 5}}, "settings already"),
        ({"start": made, "features": ["a", "c"]}, "features"),
        ({"start": made, "global_budget": 0.3}, "at most the budget"),
        ({"expire_after": -1.0}, "expire_after"),
        ({"live": -1}, "live"),
    ):
        arguments = {
            "start": None,
            "pool": None,
            "classes": 2,
            "budget": None,
            "global_budget": None,
            "expire_after": None,
            "live": 1,
            "features": ["a", "b"],
            "settings": {},
        }
        with pytest.raises(InputError, match=match):
            streaming._plan("adapt", **(arguments | given))
    assert streaming._plan("adapt", made, None, 2, 0.4, 0.1, 9.0, 3, ["a", "b"], {}).pass_on == 0.25
