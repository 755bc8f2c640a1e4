"""On a real local Spark: static frames, timers, and the example of the guide."""

import os
import re
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="no pyspark here: run make test-spark")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("no Java here: install openjdk-17-jre-headless", allow_module_level=True)

import pandas as pd
from job import session

from osamd import OSAMD
from osamd.spark import adapt, pool, prequential, replay
from osamd.spark.keyed import seed_of

pytestmark = pytest.mark.filterwarnings("ignore")  # those of Spark and Arrow are not ours
NAMES = {"key": "key", "id": "id", "time": "time", "features": ["a", "b"]}
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "many-keys.md"


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = "120"  # a busy machine starts workers slowly
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    found = session(2, 2)
    yield found
    found.stop()


def table(rounds=150, keys=3):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rounds * keys)
    columns = {"key": np.arange(rounds * keys) % keys, "id": np.arange(rounds * keys)}
    columns |= {"time": np.arange(rounds * keys) / 10.0, "a": rng.normal(size=len(y)) + 2.0 * y}
    return pd.DataFrame(columns | {"b": rng.normal(size=len(y)), "label": y})


def test_a_prequential_run_gives_the_numbers_of_plain_learners(spark):
    rows = table()
    report = prequential(spark.createDataFrame(rows), **NAMES, label="label", budget=0.2)
    keys = report.keys.toPandas().set_index("key")
    right = asked = 0
    for key, mine in rows.groupby("key"):
        learner = OSAMD(features=["a", "b"], budget=0.2, seed=seed_of(int(key)))
        hits = 0
        for row in mine.itertuples():
            decision = learner.ask(np.array([row.a, row.b]))
            hits += decision.label == row.label
            learner.tell(decision, row.label if decision.query else None)
        found = keys.loc[key]
        assert (found["rounds"], found["labels"]) == (learner.rounds, learner.asked)
        assert found["accuracy"] == hits / learner.rounds
        right, asked = right + hits, asked + learner.asked
    total = report.total.toPandas().iloc[0]
    assert (total["keys"], total["rounds"], total["labels"]) == (3, len(rows), asked)
    assert total["accuracy"] == pytest.approx(right / len(rows))


def test_in_a_replay_queries_expire_by_the_times_of_rows(spark):
    found = replay(spark.createDataFrame(table()), **NAMES, label="label", budget=0.5, expire_after=5.0).toPandas()
    expired = found[found["event"] == "expired"]
    asked = found[found["query"].fillna(False).astype(bool)]
    assert 0 < len(expired) < len(asked)
    assert set(expired["id"]) < set(asked["id"])


def test_a_timer_expires_the_queries_of_a_silent_key(spark, tmp_path):
    rows = table(rounds=20)
    place = tmp_path / "samples"
    place.mkdir()
    rows.drop(columns="label").to_parquet(place / "0.parquet", index=False)
    reading = spark.readStream.schema("key long, id long, time double, a double, b double").parquet(str(place))
    (tmp_path / "labels").mkdir()
    labels = spark.readStream.schema("key long, id long, time double, label long").parquet(str(tmp_path / "labels"))
    out = adapt(reading, labels, **NAMES, budget=0.5, expire_after=0.5)
    query = out.writeStream.format("memory").queryName("silent").start()
    try:
        deadline = time.monotonic() + 240.0
        while time.monotonic() < deadline:
            asked = spark.table("silent").where("query").count()
            if asked and spark.table("silent").where("event = 'expired'").count() == asked:
                break
            time.sleep(0.5)
        else:
            raise AssertionError("the queries did not expire")
    finally:
        query.stop()


def test_a_pooled_start_helps_new_keys_from_their_first_sample(spark, tmp_path):
    rows = spark.createDataFrame(table(rounds=100, keys=4))
    pool(rows, tmp_path, time=20.0, features=["a", "b"], label="label", budget=0.2)
    pooled = {"start": "pooled", "pool": tmp_path, "budget": 0.2}
    late = table(rounds=60, keys=4)
    late["time"] += 100.0
    found = prequential(spark.createDataFrame(late), **NAMES, label="label", **pooled).total.toPandas()
    alone = prequential(spark.createDataFrame(late), **NAMES, label="label", budget=0.2).total.toPandas()
    assert found["accuracy"][0] > alone["accuracy"][0]


def test_the_example_of_the_guide_runs(spark, capsys):
    block = re.findall(r"```py\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)[0]
    exec(compile(block.replace("10_000", "50"), str(GUIDE), "exec"), {})
    assert "accuracy" in capsys.readouterr().out
