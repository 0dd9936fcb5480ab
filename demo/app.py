"""The demo's Spark application, as a user would write it: its function works for a while and then reports to the sink.

A range may be processed twice, for example after its executor was killed or stopped. So the sink records how far it has each
partition, and accepts only later ranges. It ignores epochs: a batch continues at those it was planned with, even if a partition
has been granted to another executor meanwhile, and no other executor gets its rows.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

SINK = """
local late = tonumber(redis.call('GET', KEYS[1]) or '0') >= tonumber(ARGV[1])
redis.call('RPUSH', KEYS[2], (late and '1' or '0') .. ARGV[3])
if not late then
  redis.call('SET', KEYS[1], ARGV[2])
  redis.call('INCRBY', KEYS[3], ARGV[4])
end
redis.call('HSETNX', KEYS[4], ARGV[5], ARGV[6])
return late and 1 or 0
"""
"""Keys: the last offset, results, the number of processed messages, the time of each owner's first row. Arguments: first and last
offset of the range, result, number of messages, epoch and executor, the time of the first row."""


def report(
    server: Any, root: str, executor: str, partition: int, epoch: int, batch: int, run: str, span: tuple[int, int], began: float,
    rows: Sequence[Sequence[object]],
) -> None:  # fmt: skip
    """Report one partition's part of a batch to the sink at `server` (a client or a pipeline).

    `span`: the first and last offset, or other numbers that grow, by which the sink rejects late results: see SINK. `rows`:
    offset, timestamp (milliseconds), key, sequence, and whether it was redelivered."""
    result = {"partition": partition, "epoch": epoch, "executor": executor, "batch": batch, "run": run, "rows": rows}
    keys = [f"demo:{{{root}}}:{partition}:{each}" for each in ("taken", "results", "count", "first")]
    told = json.dumps(result, separators=(",", ":"))
    server.eval(SINK, len(keys), *keys, *span, told, len(rows), f"{epoch} {executor}", began)


SECONDS = float(os.environ.get("DEMO_SECONDS_PER_BATCH", "1.1"))
"""Seconds that an executor spends on its part of a batch, asleep, because the machine's two cores have other work."""

_SOON = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = {
    # Five executors, a driver and a cluster share the machine's cores; executors mostly sleep.
    "spark.kubernetes.executor.request.cores": "200m",
    # Halves a JVM's processor time in its first minutes; not for applications that run longer.
    "spark.driver.extraJavaOptions": _SOON,
    "spark.executor.extraJavaOptions": _SOON,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Spark's settings for a small machine and a short run."""


def work(rows: DataFrame, batch: int) -> None:
    """The user's function, called in the driver once per micro-batch; `process` runs in the executors."""
    url, root = os.environ["BATON_REDIS_URL"], os.environ["DEMO_ROOT"]
    began = time.monotonic()
    executors = max(1, rows.sparkSession.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1)
    seconds = SECONDS * executors / max(1, rows.rdd.getNumPartitions())
    rows.foreachPartition(lambda part: process(part, batch, seconds, url, root))
    took = time.monotonic() - began
    print(f"{time.strftime('%T')} batch {batch}: the function took {took:.1f} s", flush=True)
    with sink(url) as server:
        server.rpush(f"demo:{{{root}}}:batches", took)


def sink(url: str) -> Any:
    """A client of the server for results."""
    import redis

    return redis.Redis.from_url(url)


def warm_up() -> None:
    """Import what `process` needs, and connect to the sink."""
    with sink(os.environ["BATON_REDIS_URL"]) as server:
        server.ping()


def process(rows: Iterable[Row], batch: int, seconds: float, url: str, root: str) -> None:
    """Work on a task's ranges of a batch for some seconds, and report them together at the end. An interrupted task is retried as
    a whole, perhaps after it had reported: Spark numbers the attempts, and later ones are marked as redelivered."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    parts: dict[tuple[int, int], list[Row]] = defaultdict(list)
    began: dict[tuple[int, int], float] = {}
    executor, retried = os.environ.get("SPARK_EXECUTOR_POD_NAME", ""), task.attemptNumber() > 0
    for row in rows:
        began.setdefault((row.partition, row.epoch), time.time())
        parts[row.partition, row.epoch].append(row)
    if parts:
        time.sleep(seconds)
    with sink(url) as server, server.pipeline() as pipe:
        for (partition, epoch), found in parts.items():
            done = [
                [
                    str(row.offset),
                    round(row.timestamp.timestamp() * 1000),
                    row.key.decode(),
                    int(row.value),
                    row.redelivered or retried,
                ]
                for row in found
            ]
            run, span = f"{task.taskAttemptId()}-{uuid4().hex[:6]}", (found[0].offset, found[-1].offset)
            report(pipe, root, executor, partition, epoch, batch, run, span, began[partition, epoch], done)
        pipe.execute()


def main() -> None:
    from pyspark.sql import SparkSession

    import baton.spark

    group = os.environ["BATON_GROUP"]
    settings = baton.spark.conf(
        group,
        image=os.environ["EXECUTOR_IMAGE"],
        template="/application/executor.yaml",
        executors=int(os.environ["EXECUTORS"]),
        executor_memory="512m",
        executor_timeout=25,
        service_account="driver",
    )
    settings |= SMALL | {"spark.jars": f"local:{baton.spark.jar()}"}  # the pods mount the same folders
    spark = SparkSession.builder.appName(group).config(map=settings).getOrCreate()
    queues = {os.environ["QUEUE"]: os.environ["BATON_REDIS_URL"]}
    fleet = baton.spark.Fleet(spark, group=group, queues=queues, holdup_timeout=5, warm_up=warm_up)  # no task takes a second
    fleet.run(lambda rows: rows.writeStream.foreachBatch(work).option("checkpointLocation", "/checkpoint").start())


if __name__ == "__main__":
    main()
