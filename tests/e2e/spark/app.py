"""The application of the end-to-end test: writes into Redis what it was given, from the executors. Runs in pods."""

import json
import logging
import os
import time
from collections.abc import Iterable
from functools import partial

from pyspark.sql import DataFrame, Row, SparkSession

import baton.spark

SECONDS = 0.4
"""What an executor spends on its part of a batch, so that hand-offs meet work in flight."""


def process(rows: DataFrame, batch: int) -> None:
    rows.foreachPartition(partial(record, os.environ["REDIS_URL"], batch))


def record(url: str, batch: int, rows: Iterable[Row]) -> None:
    import redis

    pod = os.environ["SPARK_EXECUTOR_POD_NAME"]
    results = [
        json.dumps([row.partition, row.offset, row.key.decode(), int(row.value), row.redelivered, row.epoch, batch, pod])
        for row in rows
    ]
    if not results:
        return
    time.sleep(SECONDS)
    with redis.Redis.from_url(url) as server:
        server.rpush("results", *results)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    group = os.environ["BATON_GROUP"]
    settings = baton.spark.conf(
        group,
        image=os.environ["EXECUTOR_IMAGE"],
        template="/app/executor.yaml",
        executors=int(os.environ["EXECUTORS"]),
        executor_cpu="50m",
        executor_memory="512m",
    )
    settings["spark.ui.enabled"] = "false"
    spark = SparkSession.builder.appName(group).config(map=settings).getOrCreate()
    fleet = baton.spark.Fleet(spark, group=group, queues={"orders": os.environ["REDIS_URL"]})
    fleet.run(process, checkpoint=os.environ["CHECKPOINT"])


if __name__ == "__main__":
    main()
