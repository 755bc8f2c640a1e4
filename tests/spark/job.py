"""A streaming job that tests start, kill and start again: python job.py FOLDER PARTITIONS CORES.

FOLDER holds samples/ and labels/, one file per batch and each with its times in order; the job writes out/ and keeps
its checkpoint in checkpoint/, and ends when all files have been taken.
"""

import sys
from pathlib import Path

from osamd.spark import adapt
from osamd.spark.streaming import ROCKSDB

SETTINGS = {"key": "key", "id": "id", "time": "time", "features": ["a", "b"], "budget": 0.2, "window": 100}


def session(partitions, cores):
    from pyspark.sql import SparkSession

    building = SparkSession.builder.master(f"local[{cores}]")
    quiet = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "1g"}
    quiet["spark.python.authenticate.socketTimeout"] = "120s"  # a busy machine starts workers slowly
    for name, value in {**ROCKSDB, **quiet, "spark.sql.shuffle.partitions": partitions}.items():
        building = building.config(name, value)
    return building.getOrCreate()


def main(folder, partitions, cores):
    spark = session(partitions, cores)
    at = Path(folder)
    reading = spark.readStream.option("maxFilesPerTrigger", 1)
    samples = reading.schema("key string, id long, time double, a double, b double").parquet(str(at / "samples"))
    labels = reading.schema("key string, id long, time double, label long").parquet(str(at / "labels"))
    out = adapt(samples, labels, live=4, **SETTINGS)
    writing = out.writeStream.format("parquet").option("checkpointLocation", str(at / "checkpoint"))
    writing.option("path", str(at / "out")).trigger(availableNow=True).start().awaitTermination()
    states = spark.read.format("statestore").option("stateVarName", "learner").load(str(at / "checkpoint"))
    states.select("key.key", "value.*").write.mode("overwrite").parquet(str(at / "states"))


if __name__ == "__main__":
    main(*sys.argv[1:])
