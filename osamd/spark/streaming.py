"""`adapt` on Structured Streaming; `replay` and `prequential` on a static frame; `pool` for the start of new keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from osamd.errors import InputError, reject, require_number, require_positive, require_whole
from osamd.learner.linear import OSAMD
from osamd.spark.keyed import LABEL, SAMPLE, Plan

POOLED = "pooled"
MOST_POOLED = 10_000
"""The most labelled rows that a pooled start is fitted to: the driver holds them."""


class KeyedReport(NamedTuple):
    """The numbers of a prequential run: test, then train."""

    keys: Any
    """One row per key: key, rounds, labels, share, accuracy, health."""
    total: Any
    """One row: keys, rounds, labels, share, accuracy."""


def adapt(
    samples: Any,
    labels: Any,
    *,
    key: str,
    id: str,
    time: str,
    features: Sequence[str],
    label: str = "label",
    start: OSAMD | str | None = None,
    pool: str | Path | None = None,
    classes: int | Sequence[Any] = 2,
    budget: float | None = None,
    global_budget: float | None = None,
    expire_after: float | None = None,
    live: int = 256,
    **settings: Any,
) -> Any:
    """Decide on streams of samples, one learner per key, and learn from the stream of labels as they come.

    `samples` has the columns `key`, `id`, `time` and the `features`; `labels` has `key`, `id`, `time` and `label`. Both
    are streaming frames. Within a batch the rows of a key are taken by (time, id). A label is joined to its sample by
    the id, inside the state of its key: there is no watermark, and it may come batches late.

    New keys start from `start`: a learner; None for one that knows nothing, made with `classes`, `budget` and other
    `settings` of `OSAMD`; or "pooled", for the newest learner in the folder `pool` (see `osamd.spark.pool`).

    `budget` is the largest share of a key's samples whose label is asked for; it is never exceeded. A `global_budget`,
    lower than it, is a share of the samples of all keys: each query is passed on with the probability
    global_budget / budget, by a lot drawn from key and round. It is kept in expectation: with n queries in all, the
    number passed on deviates by about its square root. It is no cap, and moves no labels from one key to another.

    A query expires after `expire_after` seconds without its label, by a timer. `live` is how many learners each worker
    keeps between batches; for others the state is read.

    The frame that it returns has the columns key, id, event, round, label, probabilities (in the order of the classes),
    margin, query, probability, withheld, health and note. Write it with a checkpoint, and set the state store to
    RocksDB (`osamd.spark.streaming.ROCKSDB`).
    """
    plan = _plan("adapt", start, pool, classes, budget, global_budget, expire_after, live, features, settings)
    frame = _together(samples, labels, key, id, time, list(features), label)
    return _processed(frame, plan, len(features), timed=expire_after is not None)


def replay(
    samples: Any,
    labels: Any = None,
    *,
    key: str,
    id: str,
    time: str,
    features: Sequence[str],
    label: str = "label",
    start: OSAMD | str | None = None,
    pool: str | Path | None = None,
    classes: int | Sequence[Any] = 2,
    budget: float | None = None,
    global_budget: float | None = None,
    expire_after: float | None = None,
    **settings: Any,
) -> Any:
    """`adapt` on static frames, by the same processor; queries expire by the times of the rows.

    Without `labels`, nobody answers.
    """
    plan = _plan("replay", start, pool, classes, budget, global_budget, expire_after, 0, features, settings)
    frame = _together(samples, labels, key, id, time, list(features), label)
    return _processed(frame, plan, len(features), timed=False)


def prequential(
    frame: Any, *, key: str, id: str, time: str, features: Sequence[str], label: str, **given: Any
) -> KeyedReport:
    """Replay a frame whose labels are known, where every label asked for comes at once; test, then train.

    `given` are the other arguments of `replay`.
    """
    from pyspark.sql import functions as f

    out = replay(frame, frame, key=key, id=id, time=time, features=features, label=label, **given)
    truth = frame.select(f.col(key).alias("key"), f.col(id).alias("id"), f.col(label).alias("truth"))
    found = out.where(f.col("event") == "decision").join(truth, ["key", "id"])
    right = f.avg((f.col("label") == f.col("truth")).cast("double")).alias("accuracy")
    asked = f.col("query").cast("long")
    numbers = (f.count("*").alias("rounds"), f.sum(asked).alias("labels"), f.avg(asked).alias("share"), right)
    return KeyedReport(
        found.groupBy("key").agg(*numbers, f.max_by("health", "round").alias("health")),
        found.agg(f.count_distinct("key").alias("keys"), *numbers),
    )


def pool(
    labelled: Any,
    folder: str | Path,
    *,
    time: float,
    features: Sequence[str],
    label: str,
    budget: float | None = None,
    most: int = MOST_POOLED,
    **settings: Any,
) -> Path:
    """Fit a start for new keys to what other keys were told: a batch job, to be run now and then.

    `labelled` is a static frame of samples with their labels, of all keys. The learner is written to the `folder`, for
    keys whose first row has this `time` (in seconds) or a later one. A time that is still ahead makes sure that a batch
    which is run again finds the same start. Give the budget and the settings that `adapt` has.
    """
    from pyspark.sql import functions as f

    rows = labelled.select(*features, label).dropna().orderBy(f.rand(0)).limit(require_whole("pool", "most", most))
    table = rows.toPandas()
    if table.empty:
        raise InputError("`pool(labelled=...)`: it has no row without missing values; run it once there are labels.")
    learner = OSAMD.from_source(table[list(features)], table[label].tolist(), budget=budget, **settings)
    place = Path(folder) / f"start-{float(time):.6f}.osamd"
    place.parent.mkdir(parents=True, exist_ok=True)
    learner.save(place)
    return place


ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
"""The setting of a Spark session that `adapt` needs: keyed state with timers is kept in RocksDB."""


def _plan(
    call: str,
    start: OSAMD | str | None,
    pool: str | Path | None,
    classes: Any,
    budget: float | None,
    global_budget: float | None,
    expire_after: float | None,
    live: int,
    features: Sequence[str],
    settings: dict[str, Any],
) -> Plan:
    """The plan for all keys, from what a user gave."""
    if (start == POOLED) != (pool is not None):
        raise InputError(f"`{call}(start={start!r})`: start='pooled' and pool=folder go together; give both or none.")
    if isinstance(start, OSAMD):
        if settings:
            raise reject(call, next(iter(settings)), settings, "the learner given as start has its settings already.")
        learner = start if budget is None else start.remade(budget=budget)
        if learner.features not in (None, list(features)):
            raise reject(call, "features", list(features), f"the learner given as start has {learner.features}.")
    elif start is None or start == POOLED:
        learner = OSAMD(features=list(features), classes=classes, budget=budget, **settings)
    else:
        raise reject(call, "start", start, "give a learner, 'pooled' with pool=folder, or nothing.")
    share, rate = 1.0, learner.limits.rate
    if global_budget is not None:
        rule = f"it is a share of the samples of all keys, above 0 and at most the budget of a key, {rate}."
        most = 1.0 if rate is None else rate
        share = require_number(call, "global_budget", global_budget, lambda v: 0.0 < v <= most, rule) / most
    if expire_after is not None:
        expire_after = require_positive(call, "expire_after", expire_after)
    folder = None if pool is None else str(pool)
    return Plan(learner.to_bytes(), folder, share, expire_after, require_whole(call, "live", live, 0))


def _together(samples: Any, labels: Any, key: str, id: str, time: str, features: list[str], label: str) -> Any:
    """Samples and labels in one frame with the columns key, kind, id, time, x0, x1, ... and label."""
    from pyspark.sql import functions as f

    told = samples if labels is None else labels
    if label in told.columns:
        kind = told.schema[label].dataType.simpleString()
    elif labels is None:
        kind = "string"
    else:
        raise reject("adapt", "label", label, f"labels has no such column; it has {told.columns}.")
    missing = [name for name in (key, id, time, *features) if name not in samples.columns]
    if missing:
        raise reject("adapt", "samples", missing, f"there are no such columns; it has {samples.columns}.")

    def shared(frame: Any, which: int) -> list[Any]:
        stamp = f.col(time).cast("double").alias("time")
        return [f.col(key).alias("key"), f.lit(which).alias("kind"), f.col(id).alias("id"), stamp]

    rows = samples.select(
        *shared(samples, SAMPLE),
        *(f.col(name).cast("double").alias(f"x{i}") for i, name in enumerate(features)),
        f.lit(None).cast(kind).alias("label"),
    )
    if labels is None:
        return rows
    nothing = (f.lit(None).cast("double").alias(f"x{i}") for i in range(len(features)))
    return rows.unionByName(labels.select(*shared(labels, LABEL), *nothing, f.col(label).alias("label")))


def _processed(frame: Any, plan: Plan, features: int, *, timed: bool) -> Any:
    from osamd.spark.processor import processor

    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    schema = (
        f"key {kinds['key']}, id {kinds['id']}, event string, round long, label {kinds['label']},"
        " probabilities array<double>, margin double, query boolean, probability double, withheld string,"
        " health string, note string"
    )
    return frame.groupBy("key").transformWithStateInPandas(
        statefulProcessor=processor(plan, features, timed=timed),
        outputStructType=schema,
        outputMode="Append",
        timeMode="ProcessingTime" if timed else "None",
    )
