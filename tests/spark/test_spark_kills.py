"""On a real local Spark: killed inside batches, started again with other partitions, and nothing is different."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="no pyspark here: run make test-spark")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("no Java here: install openjdk-17-jre-headless", allow_module_level=True)

import pandas as pd

from osamd import OSAMD
from osamd.learner.lean import round_window
from osamd.spark.keyed import HEALTH_EVERY, seed_of

JOB = Path(__file__).with_name("job.py")
KEYS, BATCHES, ROWS = 6, 10, 40
"""Keys, batches, and samples of a key in a batch."""
KILLS = 5


def written(folder):
    """Samples and labels, a file per batch: of the labels some come late, out of order, twice, or never."""
    rng = np.random.default_rng(0)
    samples, labels = [], []
    for t in range(BATCHES * ROWS):
        for k in range(KEYS):
            y = int(rng.integers(0, 2))
            a, b = rng.normal(2.0 * y), rng.normal(np.sin(t / 60.0))
            id_ = t * KEYS + k
            samples.append((t // ROWS, f"key {k}", id_, float(t), a, b))
            for _ in range(int(rng.choice([0, 1, 2], p=[0.1, 0.8, 0.1]))):
                late = int(rng.integers(0, 90))
                if (t + late) // ROWS < BATCHES:
                    labels.append(((t + late) // ROWS, f"key {k}", id_, float(t + late), y))
    order = rng.permutation(len(labels))
    for name, rows, columns in (
        ("samples", samples, ["batch", "key", "id", "time", "a", "b"]),
        ("labels", [labels[i] for i in order], ["batch", "key", "id", "time", "label"]),
    ):
        (folder / name).mkdir()
        table = pd.DataFrame(rows, columns=columns)
        for batch in range(BATCHES):
            place = folder / name / f"{batch:03}.parquet"
            table[table["batch"] == batch].drop(columns="batch").to_parquet(place, index=False)
            stamp = 1_700_000_000 + batch
            os.utime(place, (stamp, stamp))  # Spark takes files by their times
    return pd.DataFrame(samples, columns=["batch", "key", "id", "time", "a", "b"]), labels


def started(folder, partitions, cores):
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment["SPARK_AUTH_SOCKET_TIMEOUT"] = "120"  # a busy machine starts workers slowly
    command = [sys.executable, str(JOB), str(folder), str(partitions), str(cores)]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def committed(folder):
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def planned(folder):
    return len(list((folder / "checkpoint" / "offsets").glob("[0-9]*")))


def killed_inside_a_batch(folder, partitions, cores, wait):
    """Kill Python and the JVM some time after a batch has begun and before it is committed; says whether it was so."""
    job, done = started(folder, partitions, cores), committed(folder)
    try:
        while job.poll() is None and planned(folder) <= max(done, committed(folder)):
            time.sleep(0.01)
        time.sleep(wait)
        inside = planned(folder) > committed(folder)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    return inside


def plainly(samples, labels):
    """What plain learners do, key by key, with the rows of every batch in the order of time and id."""
    out, states = {}, {}
    for key, rows in samples.groupby("key"):
        learner = OSAMD(features=["a", "b"], budget=0.2, window=100, seed=seed_of(key))
        waiting, health = {}, "unknown"
        told = [label for label in labels if label[1] == key]
        for batch in range(BATCHES):
            mine = rows[rows["batch"] == batch]
            events = [(r.time, r.id, 0, np.array([r.a, r.b])) for r in mine.itertuples()]
            events += [(time_, id_, 1, y) for b, _, id_, time_, y in told if b == batch]
            for _, id_, kind, content in sorted(events, key=lambda event: event[:3]):
                if kind == 0:
                    decision = learner.ask(content)
                    if decision.id % HEALTH_EVERY == HEALTH_EVERY - 1:
                        round_window(learner)
                        health = learner.health().state
                    said = (decision.id, decision.label, decision.margin, decision.query, decision.probability)
                    out[key, id_] = (*said, decision.withheld, health, list(decision.probabilities.values()))
                    if decision.query:
                        waiting[id_] = decision.id
                    else:
                        learner.tell(decision, None)
                elif id_ in waiting:
                    learner.tell(waiting.pop(id_), content)
                else:
                    out.setdefault("unawaited", []).append((key, id_))
        states[key] = learner.to_state()
        assert learner.asked <= 0.2 * learner.rounds
    return out, states


def test_a_job_that_is_killed_five_times_gives_what_plain_learners_give(tmp_path):
    samples, labels = written(tmp_path)
    draws = random.Random(0)
    inside = 0
    for attempt in range(4 * KILLS):
        if inside == KILLS or committed(tmp_path) >= BATCHES - 1:
            break
        inside += killed_inside_a_batch(tmp_path, 2 + attempt % 3, 1 + attempt % 2, wait=draws.random())
    last = started(tmp_path, 5, 2)
    assert last.wait() == 0, (tmp_path / "log").read_text()[-3000:]
    assert inside >= KILLS
    found = pd.read_parquet(tmp_path / "out")
    expected, states = plainly(samples, labels)
    unawaited = sorted(expected.pop("unawaited"))
    assert unawaited  # duplicated labels, and those of samples that were not asked about
    assert sorted(found[found["event"] == "unawaited"][["key", "id"]].itertuples(index=False, name=None)) == unawaited
    decisions = found[found["event"] == "decision"]
    assert len(decisions) == len(expected) == KEYS * BATCHES * ROWS  # every row once
    for row in decisions.itertuples():
        said = (row.round, row.label, row.margin, row.query, row.probability, row.withheld, row.health)
        assert (*said, list(row.probabilities)) == expected[row.key, row.id]
    kept = pd.read_parquet(tmp_path / "states")
    assert {row.key: bytes(row.learner) for row in kept.itertuples()} == states
    for _, rows in decisions.sort_values("round").groupby("key"):
        asked = np.cumsum(rows["query"].to_numpy(dtype=float))
        assert (asked <= 0.2 * np.arange(1, len(rows) + 1)).all()  # the budget, after every round
