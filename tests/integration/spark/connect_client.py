"""A client of Spark Connect, in a separate process, because one process cannot have a classic session and a Connect session.

`python -m tests.integration.spark.connect_client URL TASK ARGUMENTS` prints the task's answer as JSON in the last line.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.waiting import until

_SLOW = "Python worker failed to connect back"
"""Spark gives a function's process ten seconds to start, which is too short on a busy machine."""


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query, again if its function's process did not start in time."""

    def tried() -> StreamingQuery | None:
        try:
            return start()
        except PySparkException as error:
            if _SLOW in str(error):
                return None
            raise

    return until(tried, "the process of the function starts in time", 300)


def stream(spark: SparkSession, **options: Any) -> DataFrame:
    rows = spark.readStream.format("baton").option("group", "orders").options(**options).load()
    return rows.selectExpr("partition", "offset", "CAST(value AS string) AS value", "redelivered")


def ended(query: StreamingQuery) -> dict[str, Any]:
    """The query's progress, once it has ended."""
    query.awaitTermination()
    progress = query.recentProgress
    return {
        "rows": [one.numInputRows for one in progress],
        "metrics": progress[-1].sources[0].metrics,
        "batches": [one.batchId for one in progress],
    }


# -- the tasks


def to_files(spark: SparkSession, output: str) -> dict[str, Any]:
    """Read all existing entries into files, with a checkpoint beside them."""
    writer = stream(spark, maxRowsPerTrigger=200).writeStream.format("json").trigger(availableNow=True)
    return ended(writer.option("checkpointLocation", f"{output}-checkpoint").start(output))


def to_a_function(spark: SparkSession, output: str) -> dict[str, Any]:
    """The same with a `foreachBatch` function, which runs in a process beside the server."""

    def write(rows: DataFrame, batch: int) -> None:
        rows.selectExpr("*", f"{batch} AS batch").write.mode("append").json(output)

    writer = stream(spark).writeStream.foreachBatch(write).trigger(availableNow=True)
    return ended(started(writer.option("checkpointLocation", f"{output}-checkpoint").start))


def to_a_function_that_fails(spark: SparkSession, output: str) -> list[str]:
    """The lines of the error."""

    def fail(rows: DataFrame, batch: int) -> None:
        if batch > 0:
            rows.selectExpr("*", f"{batch} AS batch").write.mode("append").json(f"{output}-failed")
            raise ValueError("the sink is full")

    writer = stream(spark).writeStream.foreachBatch(fail).trigger(availableNow=True)
    query = started(writer.option("checkpointLocation", f"{output}-checkpoint").start)
    return said(query.awaitTermination)


def read(spark: SparkSession) -> dict[str, Any]:
    """Batch reads, as a DataFrame and in SQL."""
    rows = spark.read.format("baton").option("group", "orders").load()
    spark.sql("CREATE TEMPORARY VIEW orders USING baton OPTIONS (group 'orders')")
    [in_sql] = spark.sql("SELECT count(*) AS count FROM orders").collect()
    return {"values": sorted(row.value.decode() for row in rows.collect()), "in SQL": in_sql["count"]}


def errors(spark: SparkSession) -> dict[str, list[str]]:
    """The errors that a client reads, by their cause."""
    import baton.spark

    source = spark.readStream.format("baton").option("group", "orders")
    spark.conf.set("spark.sql.connect.serverStacktrace.enabled", "false")
    reading = source.load().writeStream.format("noop").start()
    until(lambda: reading.lastProgress, "one query reads")
    try:
        return {
            "group of a batch read": said(lambda: spark.read.format("baton").option("group", "nobody").load().count()),
            "group of a stream": said(lambda: spark.readStream.format("baton").option("group", "nobody").load().isStreaming),
            "second query": said(lambda: source.load().writeStream.format("noop").start().awaitTermination()),
            "fleet": said(lambda: baton.spark.Fleet(spark, group="orders", queues={"orders": "redis://redis.shop"})),
        }
    finally:
        reading.stop()


def begin_and_go(spark: SparkSession, output: str) -> None:
    """Start a query, and end abruptly, like a notebook whose machine is switched off."""
    writer = stream(spark).writeStream.format("json").option("checkpointLocation", f"{output}-checkpoint")
    query = writer.start(output)
    until(lambda: query.lastProgress, "it reads")
    print(json.dumps(query.id), flush=True)
    os._exit(0)


def come_back(spark: SparkSession) -> list[str]:
    """Stop the queries of this session, and return their ids."""
    found = [query.id for query in spark.streams.active]
    for query in spark.streams.active:
        query.stop()
    return found


def said(what: Callable[[], object]) -> list[str]:
    try:
        return [f"nothing is wrong: {what()}"]
    except Exception as error:
        return str(error).splitlines()


if __name__ == "__main__":
    url, task, *arguments = sys.argv[1:]
    tasks: list[Callable[..., Any]] = [to_files, to_a_function, to_a_function_that_fails, read, errors, begin_and_go, come_back]
    [chosen] = [one for one in tasks if one.__name__ == task]
    print(json.dumps(chosen(SparkSession.builder.remote(url).getOrCreate(), *arguments)), flush=True)
