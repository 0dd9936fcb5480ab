"""The application of the end-to-end test, which runs in pods: its executors write into Redis what they were given."""

import json
import logging
import os
import time
from collections.abc import Iterable
from functools import partial

from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession

import baton.spark

SECONDS = 0.1
"""What an executor spends before it writes its part of a batch, and once more behind it: hand-offs and kills meet work in
flight, and work that is done of which the driver does not know."""
WORK = float(os.environ.get("WORK_SECONDS", "0"))
"""Seconds per row."""
SOON = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Halves what a JVM burns in its first minutes, and it has no more here."""


def process(rows: DataFrame, batch: int) -> None:
    rows.foreachPartition(partial(record, os.environ["BATON_REDIS_URL"], WORK, batch))


def record(url: str, work: float, batch: int, rows: Iterable[Row]) -> None:
    import redis

    task = TaskContext.get()
    again = task is not None and task.attemptNumber() > 0
    pod = os.environ["SPARK_EXECUTOR_POD_NAME"]
    results = [
        json.dumps(
            [row.partition, str(row.offset), row.key.decode(), int(row.value), row.redelivered or again, row.epoch, batch, pod]
        )
        for row in rows
    ]
    if not results:
        return
    time.sleep(SECONDS + work * len(results))
    with redis.Redis.from_url(url) as server:
        server.rpush("results", *results)
    time.sleep(SECONDS)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    group = os.environ["BATON_GROUP"]
    settings = baton.spark.conf(
        group,
        image=os.environ["EXECUTOR_IMAGE"],
        template=os.environ["EXECUTOR_TEMPLATE"],
        executor_cpu=os.environ["EXECUTOR_CPU"],
        executor_memory="512m",
        executor_timeout=30,  # on a busy machine one may stand still for ten seconds
    ) | {
        "spark.driver.extraJavaOptions": SOON,
        "spark.executor.extraJavaOptions": SOON,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.appName(group).config(map=settings).getOrCreate()
    fleet = baton.spark.Fleet(spark, group=group, queues={"orders": os.environ["BATON_REDIS_URL"]})
    fleet.run(
        lambda rows: rows.writeStream.foreachBatch(process).option("checkpointLocation", os.environ["CHECKPOINT"]).start(),
        options={"maxRowsPerTrigger": os.environ.get("MOST_ROWS", "200000")},
    )


if __name__ == "__main__":
    main()
