"""What keys cost on Spark: CPU seconds and memory of a streaming job with one learner per key, beside a 24-byte state.

    python -m benchmarks.spark_keys --keys 1000 --samples 1000 --batches 10 --out results/spark

It runs in an environment with `osamd[spark]` and Java 17. The job with a learner (`learner`), the same job with a state
of 24 bytes and no learner (`counter`), and the learners in one loop without Spark (`plain`) take the same rows: every
key has one row per sample in each batch, and labels of a tenth of the samples come a batch late. CPU seconds are those
of all processes of a job, read from /proc; memory is the largest sum over its processes at one time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SETTINGS: dict[str, Any] = {"key": "key", "id": "id", "time": "time", "features": ["a", "b", "c"]}
PARTITIONS = 4
TOLD = 0.1
"""The share of the samples whose label comes, whether it was asked for or not."""


def rows(keys: int, samples: int, batches: int, batch: int) -> tuple[Any, Any]:
    """The samples of a batch, and the labels that come with it, as frames."""
    import pandas as pd  # type: ignore[import-untyped]

    each = samples // batches
    rng = np.random.default_rng(batch)
    t = np.tile(np.arange(batch * each, (batch + 1) * each), keys)
    key = np.repeat(np.arange(keys), each)
    y = rng.integers(0, 2, len(t))
    drift = 1.5 * np.where(y == 1, 1.0, -1.0) * np.cos(t / samples * 3.0 + key)
    x = rng.normal(size=(len(t), 3)) + drift[:, None] * (1.0, 0.5, 0.0)
    frame = pd.DataFrame({"key": key, "id": t, "time": t.astype(np.float64), "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]})
    told = rng.random(len(t)) < TOLD
    labels = pd.DataFrame({"key": key[told], "id": t[told], "time": t[told] + float(each), "label": y[told]})
    return frame, labels


def write(folder: Path, keys: int, samples: int, batches: int) -> None:
    """Write one file of samples and one of labels per batch; labels come a batch late."""
    for name in ("samples", "labels"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for batch in range(batches):
        frame, labels = rows(keys, samples, batches, batch)
        for name, table, number in (("samples", frame, batch), ("labels", labels, batch + 1)):
            place = folder / name / f"{number:04}.parquet"
            table.to_parquet(place, index=False)
            os.utime(place, (1_700_000_000 + number, 1_700_000_000 + number))
        if batch == 0:
            labels[:0].to_parquet(folder / "labels" / "0000.parquet", index=False)
            os.utime(folder / "labels" / "0000.parquet", (1_700_000_000, 1_700_000_000))


def stream(folder: Path, kind: str) -> None:
    """The streaming job, to its end."""
    from pyspark.sql import SparkSession

    from osamd.spark import processor, streaming

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    building = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    settings = {**streaming.ROCKSDB, "spark.sql.shuffle.partitions": PARTITIONS, "spark.log.level": "ERROR"}
    for name, value in {**settings, "spark.driver.memory": "2g"}.items():
        building = building.config(name, value)
    spark = building.getOrCreate()
    if kind == "counter":
        made = processor.processor

        def counting(*given: Any, **named: Any) -> Any:
            found = made(*given, **named)
            found.__class__ = type("Counting", (type(found),), {"handleInputRows": counted})
            return found

        processor.processor = counting
    reading = spark.readStream.option("maxFilesPerTrigger", 1)
    columns = "key long, id long, time double, a double, b double, c double"
    samples = reading.schema(columns).parquet(str(folder / "samples"))
    labels = reading.schema("key long, id long, time double, label long").parquet(str(folder / "labels"))
    out = streaming.adapt(samples, labels, **SETTINGS, live=1000)
    writing = out.writeStream.format("parquet").option("checkpointLocation", str(folder / f"{kind}-checkpoint"))
    writing.option("path", str(folder / f"{kind}-out")).trigger(availableNow=True).start().awaitTermination()


def counted(self: Any, key: Any, rows: Any, timerValues: Any) -> Any:
    """The same job with a state of 24 bytes: rows are read, sorted and written, and nothing is learned."""
    from osamd.spark.keyed import OutputRow
    from osamd.spark.processor import frame_of, rows_of

    found = self._state.get()
    seen = 0 if found is None else int.from_bytes(bytes(found[0])[:8], "little")
    out = []
    for row in rows_of(rows, self._features):
        out.append(OutputRow(row.id, "decision", seen, 0, [0.5, 0.5], 0.0, False, 0.0, None, "unknown"))
        seen += 1
    self._state.update((seen.to_bytes(24, "little"), "[]", ""))
    yield frame_of(key[0], out)


def plain(folder: Path) -> None:
    """One learner per key in a loop, without Spark and without any state."""
    import pandas as pd

    from osamd import OSAMD
    from osamd.spark.keyed import seed_of

    samples = pd.concat(pd.read_parquet(file) for file in sorted((folder / "samples").glob("*.parquet")))
    labels = pd.concat(pd.read_parquet(file) for file in sorted((folder / "labels").glob("*.parquet")))
    told = {key: dict(zip(mine["id"], mine["label"], strict=True)) for key, mine in labels.groupby("key")}
    for key, mine in samples.groupby("key"):
        learner = OSAMD(features=["a", "b", "c"], seed=seed_of(int(key)))
        known = told.get(key, {})
        for id_, x in zip(mine["id"].tolist(), mine[["a", "b", "c"]].to_numpy(), strict=True):
            decision = learner.ask(x)
            learner.tell(decision, known.get(id_) if decision.query else None)


def measured(command: list[str]) -> dict[str, float]:
    """CPU seconds, seconds and the largest memory (MB) of a command with all its processes."""
    begun = time.monotonic()
    job = subprocess.Popen(command, start_new_session=True)
    spent: dict[int, float] = {}
    most: dict[str, float] = {"driver": 0.0, "workers": 0.0}
    while job.poll() is None:
        memory = {"driver": 0.0, "workers": 0.0}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                numbers = (place / "stat").read_text().rsplit(")", 1)[1].split()
                name = (place / "comm").read_text().strip()
            except OSError:
                continue
            if int(numbers[3]) == job.pid:  # the session
                spent[int(place.name)] = (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
                part = "driver" if name == "java" or int(place.name) == job.pid else "workers"
                memory[part] += int(numbers[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        most = {part: max(most[part], memory[part]) for part in most}
        time.sleep(0.3)
    if job.returncode:
        raise SystemExit(job.returncode)
    return {"cpu_s": round(sum(spent.values()), 1), "wall_s": round(time.monotonic() - begun, 1)} | {
        f"{part}_mb": round(value) for part, value in most.items()
    }


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--keys", type=int, default=1000)
    given.add_argument("--samples", type=int, default=1000)
    given.add_argument("--batches", type=int, default=10)
    given.add_argument("--out", type=Path, default=Path("results/spark"))
    given.add_argument("--kinds", default="plain,counter,learner")
    given.add_argument("--one", help=argparse.SUPPRESS)
    asked = given.parse_args()
    folder = asked.out / f"{asked.keys}x{asked.samples}"
    if asked.one:
        plain(folder) if asked.one == "plain" else stream(folder, asked.one)
        return
    if not (folder / "samples").exists():
        write(folder, asked.keys, asked.samples, asked.batches)
    for kind in asked.kinds.split(","):
        command = [sys.executable, "-m", "benchmarks.spark_keys", "--keys", str(asked.keys)]
        command += ["--samples", str(asked.samples), "--out", str(asked.out), "--one", kind]
        found = measured(command) | {"keys": asked.keys, "samples": asked.samples, "kind": kind}
        with open(asked.out / "measured.jsonl", "a") as file:
            file.write(json.dumps(found) + "\n")
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
