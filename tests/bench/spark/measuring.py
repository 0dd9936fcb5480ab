"""Runs of a query, and measurements from its progress."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tests.waiting import until

_SENT = "cast(substring(cast(value AS string), 1, 20) AS bigint) AS sent"
_NOW = "1000000 * cast(reflect('java.lang.System', 'currentTimeMillis') AS bigint) AS processed"


@contextmanager
def beside(work: Callable[[Event], None]) -> Iterator[None]:
    """Run `work` in a thread, which ends when its event is set."""
    ended = Event()
    thread = Thread(target=work, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True)
class Throughput:
    """The measurements of a run, without its first batch."""

    per_second: float
    batch_seconds: float
    """The median."""


@dataclass(frozen=True)
class Drained:
    """The measurements of a queue read to its end with AvailableNow."""

    per_second: float
    worked: tuple[float, ...]
    """CPU seconds of the watched processes per million rows."""


def throughput(frame: DataFrame, batches: int, folder: Path) -> Throughput:
    """Measure this many batches after the first, with Spark's sink that writes nothing."""
    with TemporaryDirectory(dir=folder) as checkpoint:
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            _await(query, lambda progress: progress["batchId"] > batches)  # ours begins with one that has no rows
            found = [one for one in map(progress_of, query.recentProgress) if one["numInputRows"]][: batches + 1]
        finally:
            query.stop()
    first, rest = found[0], found[1:]
    rows = sum(one["numInputRows"] for one in rest)
    return Throughput(rows / (_end(rest[-1]) - _end(first)), median(_took(one) for one in rest))


def drained(frame: DataFrame, rows: int, watched: Collection[Callable[[], float]], folder: Path) -> Drained:
    """Measure reading all entries, from the start of the query to its end. Raises RuntimeError if the number of rows is wrong."""
    with TemporaryDirectory(dir=folder) as checkpoint:
        before, began = [worked() for worked in watched], time.monotonic()
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        took, after = time.monotonic() - began, [worked() for worked in watched]
        read = sum(progress_of(one)["numInputRows"] for one in query.recentProgress)
    if read != rows:
        raise RuntimeError(f"{read} rows were read of {rows}")
    return Drained(rows / took, tuple(1e6 * (later - earlier) / rows for earlier, later in zip(before, after, strict=True)))


def delays(frame: DataFrame, seconds: float, settle: float, folder: Path) -> list[float]:
    """Milliseconds from the sending of a row to the task that has it in hand, sorted; of rows that were sent for so long, after
    `settle`."""
    spark = frame.sparkSession
    with TemporaryDirectory(dir=folder) as checkpoint:
        sink = frame.selectExpr(_SENT, _NOW).writeStream.format("memory").queryName("delays")
        query = sink.option("checkpointLocation", checkpoint).start()
        try:
            _await(query, lambda progress: progress["numInputRows"] > 0)
            begin = time.time_ns() + round(1e9 * settle)
            end = begin + round(1e9 * seconds)
            time.sleep(settle + seconds)
            until(lambda: spark.table("delays").where(f"sent > {end}").take(1), "rows that were sent later are there")
            rows = spark.table("delays").where(f"sent BETWEEN {begin} AND {end}")
            return sorted(row.delay for row in rows.selectExpr("(processed - sent) / 1e6 AS delay").collect())
        finally:
            query.stop()
            spark.catalog.dropTempView("delays")


def at_rest(
    frame: DataFrame, watched: Collection[Callable[[], float]], seconds: float, settle: float, folder: Path
) -> list[float]:
    """CPU seconds per minute of each of these while there is nothing to read."""
    with TemporaryDirectory(dir=folder) as checkpoint:
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            time.sleep(settle)
            before, began = [worked() for worked in watched], time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - began
            return [60 * (worked() - earlier) / took for worked, earlier in zip(watched, before, strict=True)]
        finally:
            query.stop()


def _await(query: StreamingQuery, reached: Callable[[Mapping[str, Any]], bool]) -> None:
    def seen() -> bool:
        if (failure := query.exception()) is not None:
            raise RuntimeError(str(failure))
        last = query.lastProgress
        return last is not None and reached(progress_of(last))

    until(seen, "the query has come so far")


def progress_of(one: Any) -> dict[str, Any]:
    return dict(json.loads(one.json)) if hasattr(one, "json") else dict(one)


def _took(progress: Mapping[str, Any]) -> float:
    return float(progress["durationMs"]["triggerExecution"]) / 1000


def _end(progress: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(progress["timestamp"]).timestamp() + _took(progress)
