"""Writes orders to Parquet files, each exactly once. Copy this and put your own work into `start`."""

import logging
import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import baton.spark


def start(orders: DataFrame) -> StreamingQuery:
    """Called when the fleet is up, and again when the query has failed.

    Columns: queue, partition, offset, key, value, headers, timestamp, epoch, redelivered. The entries of a partition are in order
    within a batch.
    """
    rows = orders.select(
        "partition",
        "offset",
        F.col("key").cast("string").alias("customer"),
        F.col("value").cast("string").alias("value"),
        "timestamp",
    )
    return (
        rows.writeStream.format("parquet")
        .option("path", os.environ["OUTPUT"])
        .option("checkpointLocation", os.environ["CHECKPOINT"])
        .trigger(processingTime="5 seconds")
        .start()
    )


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    group = os.environ["BATON_GROUP"]
    settings = baton.spark.conf(
        group,
        image=os.environ.get("EXECUTOR_IMAGE"),
        template=os.environ.get("EXECUTOR_TEMPLATE"),
        executor_cpu=os.environ.get("EXECUTOR_CPU"),
    )
    spark = SparkSession.builder.appName(group).config(map=settings).getOrCreate()
    # Asked to stop, its pod has 60 s: 40 of them for the batch that runs.
    fleet = baton.spark.Fleet(spark, group=group, queues={"orders": os.environ["BATON_REDIS_URL"]}, grace=40, metrics_port=8090)
    fleet.run(start)


if __name__ == "__main__":
    main()
