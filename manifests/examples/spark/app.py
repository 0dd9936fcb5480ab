"""Counts the orders of each customer, batch by batch. Copy this and put your own work into `process`."""

import logging
import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import baton.spark


def process(orders: DataFrame, batch_id: int) -> None:
    """Called once per micro-batch, in the driver. What it was given is committed at the queue when it returns.

    Columns: queue, partition, offset, key, value, timestamp, epoch, redelivered. The rows of one key are in order. A row that is
    `redelivered` may have been seen before: write the result so that a second time does no harm.
    """
    counts = orders.groupBy(F.col("key").cast("string").alias("customer")).agg(
        F.count("*").alias("orders"), F.sum(F.col("redelivered").cast("int")).alias("redelivered")
    )
    counts.write.mode("overwrite").parquet(f"{os.environ['OUTPUT']}/batch={batch_id}")


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    group = os.environ["BATON_GROUP"]
    settings = baton.spark.conf(
        group, image=os.environ["EXECUTOR_IMAGE"], template="/app/executor.yaml", executors=int(os.environ["EXECUTORS"])
    )
    spark = SparkSession.builder.appName(group).config(map=settings).getOrCreate()
    fleet = baton.spark.Fleet(spark, group=group, queues={"orders": os.environ["REDIS_URL"]})
    fleet.run(process, checkpoint=os.environ["CHECKPOINT"])


if __name__ == "__main__":
    main()
