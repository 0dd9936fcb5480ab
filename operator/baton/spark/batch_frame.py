"""The batch's DataFrame: made so that each of its partitions is computed in one chosen executor."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from baton.queues.entry import Entry
from baton.spark.batch import Task
from baton.spark.executors import scala_seq
from baton.spark.locality import Executor, location

SCHEMA = (
    "queue string, partition int, offset string, key binary, value binary, timestamp timestamp, epoch bigint, redelivered boolean"
)
"""What a user's function gets. `timestamp` is when the producer sent the entry; `offset` orders the entries of one partition."""

_ARROW = pa.schema(
    [
        ("queue", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("epoch", pa.int64()),
        ("redelivered", pa.bool_()),
    ]
)

Read = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def record_batch(entries: Sequence[Entry]) -> pa.RecordBatch:
    """Entries as rows of the batch."""
    columns = [
        [entry.queue for entry in entries],
        [entry.partition for entry in entries],
        [entry.offset for entry in entries],
        [entry.key for entry in entries],
        [entry.value for entry in entries],
        [entry.timestamp * 1000 for entry in entries],
        [entry.epoch for entry in entries],
        [entry.redelivered for entry in entries],
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )


def task_texts(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """In a task: the descriptions that it was given."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def batch_frame(session: SparkSession, tasks: Sequence[Task], batch: str, read: Read) -> DataFrame:
    """What the tasks read, computed once and then kept."""
    return _given(session, tasks, batch).mapInArrow(read, SCHEMA).persist(StorageLevel.MEMORY_AND_DISK)


def materialise(rows: DataFrame) -> None:
    """Compute and keep every partition, in one job of one stage; nothing of it comes to the driver."""
    rows._jdf.queryExecution().toRdd().count()


def warm_up(session: SparkSession, executor: Executor, read: Read) -> None:
    """Run an empty task in the executor: its Python is started, and has imported what it needs."""
    materialise(_given(session, [Task(executor, 0, ())], "warm-up").mapInArrow(read, SCHEMA))


def _given(session: SparkSession, tasks: Sequence[Task], batch: str) -> DataFrame:
    """One partition per task, each with its owner's process as the only preferred location.

    `SparkContext.makeRDD(Seq[(T, Seq[location])])` is the one public way to say where an element is to be computed; Python does
    not have it. Neither do data sources in Python: they have no preferred locations.
    """
    gateway: Any = session.sparkContext._gateway
    jvm = gateway.jvm
    rows = []
    for task in tasks:
        cells = gateway.new_array(jvm.java.lang.Object, 1)
        cells[0] = task.to_json(batch)
        rows.append(
            jvm.scala.Tuple2(jvm.org.apache.spark.sql.RowFactory.create(cells), scala_seq(gateway, [location(task.executor)]))
        )
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("org.apache.spark.sql.Row"))
    rdd = session.sparkContext._jsc.sc().makeRDD(scala_seq(gateway, rows), tag).toJavaRDD()
    schema = jvm.org.apache.spark.sql.types.DataType.fromJson(json.dumps(_TASK.jsonValue()))
    return DataFrame(session._jsparkSession.createDataFrame(rdd, schema), session)


_TASK = StructType([StructField("task", StringType())])
