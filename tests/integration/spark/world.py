"""A fleet without Kubernetes: Spark's local cluster of two processes, a ledger in a directory, and a real Redis."""

import asyncio
import itertools
import os
import re
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from baton.model import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.session import Release
from baton.queues.protocol import Claimant, Ownership, QueueAdapter
from baton.queues.redis import RedisProducer, RedisQueue
from baton.queues.redis.routing import RoutingTable
from baton.spark import Directory, Fleet, Statistics
from baton.spark.executors import SparkExecutors
from baton.spark.session import FleetSession
from tests.waiting import PATIENCE, until

T = TypeVar("T")
ORDERS = QueueName("orders")
CLAIMANT = Claimant("default/group", "a test")


def wait_for(condition: Callable[[], object], what: str) -> None:
    until(condition, what)


def numbers(count: int, begin: int = 0) -> list[str]:
    """Values in order."""
    return [f"{number:05}" for number in range(begin, begin + count)]


class Row(NamedTuple):
    batch: int
    partition: int
    number: int
    value: str
    epoch: int
    redelivered: bool


class Worlds(Protocol):
    """Creates a world, whose partitions two executors own in turn unless `owned` is False."""

    def __call__(self, partitions: int, name: str = "orders", *, owned: bool = True) -> "World": ...


class World:
    """One test's queue, ledger and fleet."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, partitions: int, epoch: int = 0) -> None:
        """`epoch`: all grants have later epochs."""
        self.spark, self.folder = spark, folder
        self.url = url
        self._partitions = partitions
        self.queue = f"default/{folder.parent.name}-{folder.name}".replace("_", "-").lower()
        self.name = QueueName(self.queue.rpartition("/")[2])
        self.ledger, self.checkpoint = folder / "ledger", folder / "checkpoint"
        self.ledger.mkdir(parents=True, exist_ok=True)
        for key in self.ledger.iterdir():  # of the driver before
            key.unlink()
        self._epoch = epoch
        self._grants: dict[int, tuple[str, int]] = {}
        self._revoking: set[int] = set()
        self._generation = 0
        self.session = FleetSession()
        self.fleet: Fleet | None = None
        self.query: StreamingQuery | None = None
        self.rows: list[Row] = []
        self.executors = SparkExecutors(spark)
        self._ask(lambda queue: queue.ensure(partitions))

    @cached_property
    def producer(self) -> RedisProducer:
        return RedisProducer(self.url, self.queue)

    # -- the operator's part

    def give(self, owners: Mapping[int, str]) -> None:
        """Grant partitions, each above its last epoch, and publish the ledger."""
        for number, executor in owners.items():
            epoch = self._grants.get(number, ("", self._epoch))[1] + 1
            uid = Uid(f"uid-{executor}")
            self._ask(partial(_grant, number, uid, Epoch(epoch)))
            self._grants[number] = (executor, epoch)
            self._revoking.discard(number)
        self.publish()

    def replace(self, executor: str) -> None:
        """Grant the partitions of a lost executor to the others."""
        ids = self.ids()
        self.give({number: ids[number % len(ids)] for number, (owner, _) in self._grants.items() if owner == executor})

    def revoke(self, number: int) -> None:
        """Pause a partition, and ask its owner to release it."""
        self._ask(lambda queue: queue.pause(number, Epoch(self._grants[number][1])))
        self._revoking.add(number)
        self.publish()

    def release(self, number: int) -> Release:
        """The driver's report of a release."""
        executor, epoch = self._grants[number]
        return Release(Uid(f"uid-{executor}"), self.name, number, Epoch(epoch))

    def publish(self) -> None:
        self._generation += 1
        everybody = {executor for executor, _ in self._grants.values()} | {one.id for one in self.executors.registered()}
        for executor in everybody:
            mine = {number: Epoch(epoch) for number, (owner, epoch) in self._grants.items() if owner == executor}
            member = self.member(executor)
            entry = MemberEntry(
                group="default/group",
                member=member,
                uid=Uid(f"uid-{executor}"),
                generation=self._generation,
                active=True,
                owned={self.name: {n: e for n, e in mine.items() if n not in self._revoking}},
                revoking={self.name: {n: e for n, e in mine.items() if n in self._revoking}},
            )
            _write(self.ledger, entry)

    def member(self, executor: str) -> MemberId:
        return MemberId(f"{self.spark.sparkContext.applicationId}-exec-{executor}")

    def ids(self) -> list[str]:
        return [executor.id for executor in self.executors.registered()]

    def share_out(self, count: int) -> None:
        """Give partitions to the executors in turn."""
        wait_for(lambda: len(self.ids()) >= 2, "two executors are registered")
        ids = self.ids()
        self.give({number: ids[number % len(ids)] for number in range(count)})

    def owner(self, number: int) -> str:
        return self._grants[number][0]

    def grow(self, partitions: int) -> None:
        """Add partitions to the queue."""
        wait_for(lambda: self._ask(lambda queue: queue.ensure(partitions)) is None, "the queue has another count of partitions")
        self._partitions = partitions

    def lag(self) -> Mapping[int, int]:
        return self._ask(lambda queue: queue.check()).lag

    def committed(self) -> bool:
        """Whether all sent entries are finished."""
        return not any(self.lag().values())

    # -- the user's part

    def fleet_here(self, holdup_timeout: float = 5.0, repeat_wait: float = 120.0) -> Fleet:
        """Start a fleet."""
        self.fleet = self.another_fleet(self.name, holdup_timeout, repeat_wait)
        return self.fleet.start()

    def another_fleet(
        self, group: str, holdup_timeout: float = 5.0, repeat_wait: float = 120.0, others: Sequence[str] = ()
    ) -> Fleet:
        """Create a fleet of this queue, and of others at the same server, without starting it."""
        return Fleet(
            self.spark,
            group=group,
            queues=dict.fromkeys((self.name, *others), self.url),
            environment=Directory(self.ledger, session=self.session),
            holdup_timeout=holdup_timeout,
            repeat_wait=repeat_wait,
        )

    def to_files(self, table: Path, *, now: bool = False, **options: str | int | bool) -> StreamingQuery:
        """Start a query that writes the entries to files; `now`: with the trigger AvailableNow."""
        values = self.load(**options).select("partition", "offset", F.col("value").cast("string").alias("value"))
        writer = values.writeStream.format("parquet").option("path", str(table))
        if now:
            writer = writer.trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def load(self, **options: str | int | bool) -> DataFrame:
        """The source's DataFrame."""
        return self.spark.readStream.format("baton").option("group", self.name).options(**options).load()

    def start(
        self,
        process: Callable[[DataFrame, int], None] | None = None,
        *,
        holdup_timeout: float = 5.0,
        repeat_wait: float = 120.0,
        **options: str | int | bool,
    ) -> StreamingQuery:
        """Start a fleet, and a query with this function, or with one that keeps the rows."""
        self.fleet_here(holdup_timeout, repeat_wait)
        return self.query_here(process, **options)

    def query_here(self, process: Callable[[DataFrame, int], None] | None = None, **options: str | int | bool) -> StreamingQuery:
        function = process or self.keep

        def called(rows: DataFrame, batch: int) -> None:
            if batch > 0:  # the first only writes down from where each partition is read
                function(rows, batch)

        writer = self.load(**options).writeStream.foreachBatch(called)
        self.query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        return self.query

    def keep(self, rows: DataFrame, batch: int) -> None:
        self.rows += [
            Row(batch, row.partition, row.offset, row.value.decode(), row.epoch, row.redelivered) for row in rows.collect()
        ]

    def send(self, *values: str) -> None:
        self.producer.send_many([(f"key-{index % 40}", value) for index, value in enumerate(values)])

    def send_to(self, partition: int, *values: str) -> None:
        """Send with a key that belongs to this partition."""
        table = RoutingTable.even(1, self._partitions)
        key = next(key for key in map(str, itertools.count()) if table.partition_of(key.encode()) == partition)
        self.producer.send_many([(key, value) for value in values])

    def values(self) -> list[str]:
        return sorted(row.value for row in self.rows)

    @property
    def statistics(self) -> Statistics:
        assert self.fleet is not None
        return self.fleet.statistics()

    def stop(self) -> None:
        if self.fleet is not None:
            self.fleet.stop()

    @contextmanager
    def watched(self, by: Callable[[], object]) -> Iterator[None]:
        """Call `by` in a thread, and stop the fleet after that."""

        def watch() -> None:
            try:
                by()
            finally:
                self.stop()

        watching = threading.Thread(target=watch)
        watching.start()
        yield
        watching.join(PATIENCE)

    def signal(self, executor: str, number: signal.Signals) -> None:
        for pid in executor_pids(executor):
            os.kill(pid, number)

    def operator(self) -> QueueAdapter:
        """The operator's side of the queue."""
        return RedisQueue(self.url, self.queue, CLAIMANT)

    def _ask(self, what: Callable[[QueueAdapter], Awaitable[T]]) -> T:
        async def ask() -> T:
            queue = self.operator()
            try:
                return await what(queue)
            finally:
                await queue.close()

        return asyncio.run(ask())


def _grant(number: int, uid: Uid, epoch: Epoch, queue: QueueAdapter) -> Awaitable[Ownership]:
    return queue.grant(number, uid, epoch)


def _write(folder: Path, entry: MemberEntry) -> None:
    fresh = folder / f"..{entry.member}"
    fresh.write_text(entry.to_json())
    fresh.rename(folder / entry.member)


def read_twice_although_an_executor_is_killed(orders: World) -> None:
    """A function reads the rows of a batch, loses the owner of a part of them, and reads the same rows again."""
    victim = orders.owner(0)
    seen: list[list[str]] = []

    def process(rows: DataFrame, batch: int) -> None:
        if not seen:
            seen.append(sorted(row.value.decode() for row in rows.collect()))
            orders.signal(victim, signal.SIGKILL)
            wait_for(lambda: victim not in orders.ids(), "the executor is gone")
            seen.append(sorted(row.value.decode() for row in rows.collect()))
        orders.keep(rows, batch)

    orders.send(*numbers(200))
    owned = sum(orders.owner(number) == victim for number in orders.lag())
    orders.start(process)
    wait_for(lambda: len(seen) == 2, "the executor is killed")
    assert seen[0] == seen[1]
    wait_for(orders.committed, "all is committed, though its partitions have no owner")
    assert orders.values() == numbers(200)
    assert orders.statistics.ranges_lent == owned


def executor_pids(executor: str) -> list[int]:
    """The process of an executor of this test's local cluster."""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", _jvm()], capture_output=True, text=True, check=True
    ).stdout
    pattern = re.compile(rf"^\s*(\d+) .*CoarseGrainedExecutorBackend.* --executor-id {executor} ")
    return [int(found[1]) for found in map(pattern.match, listed.splitlines()) if found]


def _jvm() -> str:
    """The driver's JVM, whose children are the local cluster's executors."""
    context = SparkContext._active_spark_context  # the active session is each thread's own
    assert context is not None
    java = context._jvm
    assert java is not None
    return str(java.java.lang.ProcessHandle.current().pid())
