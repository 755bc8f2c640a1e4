"""Three streams in one service, two of them networks, outlive kill -9 and a change of cores; `make kills` does it sixty
times."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch", reason="networks need PyTorch: pip install 'osamd[deep]'")

from benchmarks.stream_kills import STREAMS, kills

KILLS = int(os.environ.get("OSAMD_KILLS", "1"))
NOTHING_WRONG = {"kills": KILLS, "lost": 0, "duplicated": 0, "consecutive": True, "replay_equal": True}


def right(found):
    for name in STREAMS:
        print(name, found[name])
        assert {key: found[name][key] for key in NOTHING_WRONG} == NOTHING_WRONG
        assert found[name]["acknowledged_samples"] > 0


def test_three_streams_outlive_kills_in_sqlite(tmp_path):
    right(kills(tmp_path / "streams", KILLS, seed=1))


def test_three_streams_outlive_kills_in_postgresql(tmp_path, postgres):
    right(kills(tmp_path / "streams", KILLS, seed=2, database=postgres.fresh()))
