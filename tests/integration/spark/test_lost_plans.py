"""What the driver planned for a member that has lost the partition, at a real Redis."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import closing

import pytest
from pyspark import Accumulator
from pyspark.sql import SparkSession

from baton.model import Epoch, MemberId, QueueName, Uid
from baton.spark.batch import Range
from baton.spark.fleet import _Receipts
from baton.spark.grants_in_use import GrantsInUse
from baton.spark.journal import Journal
from baton.spark.locality import Executor
from baton.spark.loop import Limits, Loop
from baton.spark.queues import FleetQueues
from baton.spark.reading import QueueAddress
from baton.spark.statistics import Counts
from tests.integration.redis.conftest import Queue, make_queue
from tests.redis_server import RedisServer
from tests.unit.spark.builders import entry
from tests.unit.spark.written_ledger import WrittenLedger
from tests.waiting import until

pytestmark = pytest.mark.integration

ORDERS, ME = QueueName("orders"), MemberId("exec-1")


class OneExecutor:
    def registered(self) -> tuple[Executor, ...]:
        return (Executor("1", "10.0.0.1", ME, 0, 0),)

    def resize(self, total: int) -> None: ...

    def end(self, ids: Iterable[str]) -> None: ...


class Disk(Journal):
    """A checkpoint that is full: a batch is planned, and not read."""

    def __init__(self) -> None:
        self.planned: list[list[int]] = []

    def begun(self, batch_id: int) -> None:
        return None

    def begin(self, batch_id: int, ranges: Iterable[Range]) -> None:
        self.planned.append([one.grant.partition for one in ranges])
        raise OSError("no space left on device")


class Unread:
    """No batch gets as far as its session."""

    @property
    def sparkSession(self) -> SparkSession:  # noqa: N802 - Spark's name
        raise AssertionError("a batch is run")


@pytest.fixture
def queue_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


async def test_a_plan_of_a_partition_that_the_ledger_no_longer_names_leaves_room(queue_server: RedisServer) -> None:
    queue: Queue = await make_queue(queue_server.url, name="shop/orders")
    await queue.limited(most=2)
    for partition in (0, 1):
        await queue.operator.grant(partition, Uid("a"), Epoch(1))
    ledger, disk = WrittenLedger(), Disk()
    with closing(FleetQueues({ORDERS: QueueAddress(queue.url, queue.name)})) as queues:
        loop = Loop(
            lambda rows, batch: None,
            queues=queues,
            ledger=ledger,
            grants_in_use=GrantsInUse(ledger, lambda releases: None),
            executors=OneExecutor(),
            journal=disk,
            receipts=Accumulator(0, [], _Receipts()),
            read=lambda tasks: iter(()),
            counts=Counts(),
            limits=Limits(10, 1, 1.0),
        )
        ledger.write(entry(ME, {0: 1, 1: 1}, uid="a"))
        queue.send("x", "y", partition=1)
        with pytest.raises(OSError, match="space"):
            loop(Unread(), 1)
        assert disk.planned == [[1]]
        ledger.write(entry(ME, {0: 1}, uid="a"))
        queue.send("a", "b")
        ended = threading.Event()

        def next_batch() -> None:
            try:
                loop(Unread(), 2)
            except OSError:
                ended.set()

        threading.Thread(target=next_batch, daemon=True).start()
        try:
            until(ended.is_set, "partition 0 is planned", seconds=20)
        finally:
            loop.stop()
    assert disk.planned == [[1], [0]]
    await queue.close()
