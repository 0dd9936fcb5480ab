"""Decisions made by a test, on a real queue, to test only the Java part of the source."""

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import redis
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from baton.model.ids import Epoch, Uid
from baton.queues.logged_ranges import Ahead, AheadRequest, Logged, RangeToFinish, RangeToLog
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisProducer, RedisQueue
from baton.queues.redis.keys import partition_keys
from baton.queues.redis.ranges import RedisRanges
from tests.waiting import until

EVERYTHING = 1_000_000
_names = itertools.count()


@dataclass
class Owner:
    """The owner of all partitions of a test's queue, on one executor; "" for an executor that does not exist."""

    executor: str
    location: str
    uid: str = "the-owner"
    epoch: int = 1


class StandIn:
    """A group with one queue, `orders`, whose partitions are granted to `owners`. Implements dev.baton.spark.Decisions.

    Use it as a context manager; `rows` is its DataFrame."""

    class Java:
        implements = ("dev.baton.spark.Decisions",)

    def __init__(self, spark: SparkSession, url: str, partitions: int = 2) -> None:
        self.spark, self.url, self.partitions = spark, url, partitions
        self.group = f"source-{next(_names)}"
        self.queue = f"default/{self.group}"
        self.asked: list[tuple[str, ...]] = []
        self.most = EVERYTHING
        self.answers: dict[str, Callable[[], Mapping[str, object]]] = {}
        """Answers that replace the usual ones, by method."""
        self.server: dict[str, object] = {}
        """Overrides of the server's address that executors get."""
        self.reported: list[Mapping[str, Any]] = []
        self._one_at_a_time = threading.Lock()
        self.drains = True
        """Whether the reports of a stream are read when it ends."""
        self._jvm: Any = spark.sparkContext._jvm
        self._java_context: Any = spark.sparkContext._jsc.sc()
        self.executors: list[Mapping[str, Any]] = until(self._two_executors, "two executors")
        first, second = (Owner(one["id"], f"executor_{one['host']}_{one['id']}") for one in self.executors)
        self.owners = [first, second]
        self.target: Mapping[str, int] | None = None

    def __enter__(self) -> Self:
        started: Any = ensure_callback_server_started
        started(self.spark.sparkContext._gateway)
        asyncio.run(self._made())
        self.ranges = RedisRanges(self.url, self.queue)
        self.producer = RedisProducer(self.url, self.queue)
        self.query = self.ranges.begin()
        self._jvm.dev.baton.spark.Group.register(self.group, self)
        return self

    def __exit__(self, *_: object) -> None:
        for query in self.spark.streams.active:
            query.stop()
        self._jvm.dev.baton.spark.Group.release(self.group)
        self.producer.close()
        self.ranges.close()

    def send(self, count: int) -> list[str]:
        """Send so many values with a key each, and return them as `values` does."""
        sent = [str(n) for n in range(count)]
        self.producer.send_many([(f"key-{value}", value) for value in sent])
        return sorted(sent)

    def stream(self, **options: str) -> DataFrame:
        return self.spark.readStream.format("baton").option("group", self.group).options(**options).load()

    def table(self, **options: str) -> DataFrame:
        return self.spark.read.format("baton").option("group", self.group).options(**options).load()

    def reports(self) -> list[Mapping[str, Any]]:
        """All reports of tasks so far."""
        self.reported += json.loads(self._jvm.dev.baton.spark.RangeReports.drain(self.group))
        return self.reported

    def raw(self) -> redis.Redis:
        """A plain client of the server."""
        return redis.Redis.from_url(self.url)

    def entries_of(self, partition: int) -> str:
        """The key of the partition's stream."""
        return partition_keys(self.queue, partition).stream

    def owner(self, partition: int) -> Owner:
        return self.owners[partition % len(self.owners)]

    # -- dev.baton.spark.Decisions

    def open(self, options: str, query: str) -> str:
        return self._answer("open", (options, query), lambda: {"stream": self.group})

    def initialOffset(self, stream: str) -> str:  # noqa: N802
        return self._answer("initialOffset", (stream,), lambda: _offset(self._committed()))

    def latestOffset(self, stream: str, start: str) -> str:  # noqa: N802
        return self._answer("latestOffset", (stream, start), lambda: _offset(self._end(json.loads(start)["orders"])))

    def plan(self, stream: str, start: str, end: str, batch: str) -> str:
        begin, target = json.loads(start)["orders"], json.loads(end)["orders"]
        parts = [RangeToLog(int(p), begin[p], target[p]) for p in begin if target[p] > begin[p]]
        return self._answer("plan", (stream, start, end, batch), lambda: self._plan(parts))

    def commit(self, stream: str, end: str) -> str:
        return self._answer("commit", (stream, end), lambda: self._finish(json.loads(end)["orders"]))

    def metrics(self, stream: str, consumed: str) -> str:
        return self._answer("metrics", (stream, consumed), lambda: {"partitionsOwned": str(self.partitions)})

    def prepareAvailableNow(self, stream: str) -> str:  # noqa: N802
        def prepare() -> Mapping[str, object]:
            self.target = {str(number): one.last for number, one in self.ranges.positions().items()}
            return {}

        return self._answer("prepareAvailableNow", (stream,), prepare)

    def stop(self, stream: str) -> str:
        if self.drains:
            self.reports()  # what a stream's tasks have reported ends with it
        return self._answer("stop", (stream,), dict)

    def batch(self, options: str) -> str:
        return self._answer("batch", (options,), self._whole)

    # -- what they decide

    def _answer(self, method: str, arguments: tuple[str, ...], decide: Callable[[], Mapping[str, object]]) -> str:
        self.asked.append((method, *arguments))
        if (instead := self.answers.get(method)) is not None:
            return json.dumps(instead())
        with self._one_at_a_time:  # a listener says that a batch is done while the query asks for the next
            return json.dumps(decide())

    def _end(self, start: Mapping[str, int]) -> dict[str, int]:
        requests = []
        for partition, position in start.items():
            owner = self.owner(int(partition))
            requests.append(AheadRequest(int(partition), Uid(owner.uid), Epoch(owner.epoch), position, self.most))
        found = dict(start)
        for request, answer in zip(requests, self.ranges.ahead(self.query, requests), strict=True):
            assert isinstance(answer, Ahead), answer
            most = self.target[str(request.partition)] if self.target else answer.end
            found[str(request.partition)] = min(answer.end, most)
        return found

    def _plan(self, parts: list[RangeToLog]) -> Mapping[str, object]:
        ranges = []
        for part, answer in zip(parts, self.ranges.log(self.query, parts), strict=True):
            assert isinstance(answer, Logged), answer
            ranges.append(self._range(part.partition, part.start, part.end, seen=answer.seen))
        return {"queues": {"orders": self._address(self.query)}, "ranges": ranges}

    def _whole(self) -> Mapping[str, object]:
        bounds = self.ranges.positions()
        ranges = [self._range(number, one.before_first, one.last, seen=0) for number, one in bounds.items()]
        return {"queues": {"orders": self._address(0)}, "ranges": ranges}

    def _range(self, partition: int, start: int, end: int, seen: int) -> Mapping[str, object]:
        owner = self.owner(partition)
        of_owner = {"uid": owner.uid, "epoch": owner.epoch, "executor": owner.executor, "location": owner.location}
        place = {"queue": "orders", "partition": partition, "start": start, "end": end, "redeliveredTo": seen}
        return {**place, **of_owner}

    def _address(self, query: int) -> Mapping[str, object]:
        address: Mapping[str, Any] = self.ranges.address()
        return {**address, "server": {**address["server"], **self.server}, "query": query}

    def _finish(self, end: Mapping[str, int]) -> Mapping[str, object]:
        self.ranges.finish(self.query, [RangeToFinish(int(p), position) for p, position in end.items()])
        return {}

    def _committed(self) -> dict[str, int]:
        return {str(number): one.committed for number, one in self.ranges.positions().items()}

    # -- around it

    async def _made(self) -> None:
        queue = RedisQueue(self.url, self.queue, Claimant(self.queue, "the uid"))
        await queue.ensure(self.partitions)
        for partition in range(self.partitions):
            owner = self.owner(partition)
            await queue.grant(partition, Uid(owner.uid), Epoch(owner.epoch))
        await queue.close()

    def _two_executors(self) -> list[Mapping[str, Any]] | None:
        found = json.loads(self._jvm.dev.baton.spark.ExecutorList.list(self._java_context))
        return sorted(found, key=lambda one: int(one["id"])) if len(found) == 2 else None


class Kept:
    """Collects the rows of each batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.batches[batch] = sorted(rows.collect(), key=lambda row: (row.partition, row.offset))

    def values(self) -> list[str]:
        return sorted(row.value.decode() for rows in self.batches.values() for row in rows)


def values(rows: DataFrame) -> list[str]:
    return sorted(row.value.decode() for row in rows.select("value").collect())


def started(
    rows: DataFrame, each: Callable[[DataFrame, int], None], checkpoint: Path, *, available_now: bool = False
) -> StreamingQuery:
    writer = rows.writeStream.foreachBatch(each).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if available_now else writer).start()


def drained(rows: DataFrame, each: Callable[[DataFrame, int], None], checkpoint: Path) -> StreamingQuery:
    query = started(rows, each, checkpoint, available_now=True)
    query.awaitTermination()
    return query


def _offset(positions: Mapping[str, int]) -> Mapping[str, object]:
    return {"orders": dict(sorted(positions.items()))}
