"""A server that is killed under load has kept all that it acknowledged, once, and replays to what it served."""

from benchmarks.service_kills import kills

NOTHING_WRONG = {"lost": 0, "duplicated": 0, "consecutive": True, "replay_equal": True}


def test_what_was_acknowledged_outlives_kill_9_in_sqlite(tmp_path):
    found = kills(tmp_path / "state", 5, seed=1)
    assert {name: found[name] for name in NOTHING_WRONG} == NOTHING_WRONG
    assert found["kills"] == 5
    assert found["acknowledged_samples"] > 50
    assert found["acknowledged_labels"] > 5


def test_what_was_acknowledged_outlives_kill_9_in_postgresql(tmp_path, postgres):
    found = kills(tmp_path / "state", 3, seed=2, database=postgres.fresh())
    assert {name: found[name] for name in NOTHING_WRONG} == NOTHING_WRONG
    assert found["acknowledged_samples"] > 50
    assert found["acknowledged_labels"] > 5
