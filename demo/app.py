"""The demo's Spark application, as a user would write it: its function works for a while and then tells the sink what it did.

The sink is fenced as every sink of an at-least-once pipeline should be: it knows the epoch that is in force and does not take a
result from before. Here it can ask the owner record itself, for sink and queue are one Redis.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession

SINK = """
local late = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0') > tonumber(ARGV[1])
redis.call('RPUSH', KEYS[2], (late and '1' or '0') .. ARGV[2])
if not late then redis.call('INCRBY', KEYS[3], ARGV[3]) end
return late and 1 or 0
"""
"""Keys: owner record, results, count of processed messages. Arguments: epoch, result, number of messages."""

SECONDS = float(os.environ.get("DEMO_SECONDS_PER_BATCH", "1.1"))
"""What an executor spends on its part of a batch. It sleeps, for the demo's two cores have other work."""

_SOON = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = {
    # Five executors, their driver and a cluster share this machine's cores; an executor of the demo mostly sleeps.
    "spark.kubernetes.executor.request.cores": "200m",
    # Halves what a JVM burns in its first minutes; an application that runs for longer would not want it.
    "spark.driver.extraJavaOptions": _SOON,
    "spark.executor.extraJavaOptions": _SOON,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings for a small machine and a short run."""


def work(rows: DataFrame, batch: int) -> None:
    """The user's function: once per micro-batch, in the driver; `process` runs in the executors."""
    url, root = os.environ["REDIS_URL"], os.environ["DEMO_ROOT"]
    began = time.monotonic()
    executors = max(1, rows.sparkSession.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1)
    seconds = SECONDS * executors / max(1, rows.rdd.getNumPartitions())  # one task for each range; an owner has several
    rows.foreachPartition(lambda part: process(part, batch, seconds, url, root))
    print(f"{time.strftime('%T')} batch {batch}: the function took {time.monotonic() - began:.1f} s", flush=True)


def process(rows: Iterable[Row], batch: int, seconds: float, url: str, root: str) -> None:
    """One range of a batch: some work, reported when it is done."""
    import redis

    task = TaskContext.get()
    assert task is not None
    parts: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        parts[row.partition, row.epoch].append(row)
    with redis.Redis.from_url(url) as server:
        sink = server.register_script(SINK)
        for (partition, epoch), found in parts.items():
            time.sleep(seconds)
            result = {
                "partition": partition,
                "epoch": epoch,
                "executor": os.environ.get("SPARK_EXECUTOR_POD_NAME", ""),
                "batch": batch,
                "run": f"{task.taskAttemptId()}-{uuid4().hex[:6]}",
                "rows": [
                    [str(row.offset), round(row.timestamp.timestamp() * 1000), row.key.decode(), int(row.value), row.redelivered]
                    for row in found
                ],
            }
            place = f"{{{root}}}:{partition}"
            keys = [f"pq:{place}:owner", f"demo:{place}:results", f"demo:{place}:count"]
            sink(keys, [epoch, json.dumps(result, separators=(",", ":")), len(found)])


def main() -> None:
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
    settings |= SMALL
    spark = SparkSession.builder.appName(group).config(map=settings).getOrCreate()
    fleet = baton.spark.Fleet(spark, group=group, queues={os.environ["QUEUE"]: os.environ["REDIS_URL"]})
    fleet.run(lambda rows: rows.writeStream.foreachBatch(work).option("checkpointLocation", "/checkpoint").start())


if __name__ == "__main__":
    main()
