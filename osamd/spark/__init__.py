"""One learner per key on Apache Spark: many small drifting streams, with the same learner and the same promises.

    from osamd.spark import adapt, replay, prequential

    decisions = adapt(samples, labels, key="pump", id="id", time="time", features=["x", "y"], budget=0.05)

Needs `pip install osamd[spark]` and Java 17. `osamd.spark.keyed` is what is done for one key, without Spark.
"""

from osamd.spark.streaming import adapt, pool, prequential, replay

__all__ = ["adapt", "pool", "prequential", "replay"]
