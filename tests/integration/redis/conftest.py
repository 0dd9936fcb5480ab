"""One server for the tests that do it no harm, with a queue of their own for each; and a queue of two owners."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisProducer, RedisQueue, RedisReader
from baton.queues.redis.ranges import RedisRanges
from baton.queues.redis.routing import RoutingTable
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE

GROUP = Claimant("shop/orders-group", "uid-of-the-group")
_names = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture(scope="session")
def valkey() -> Iterator[RedisServer]:
    with RedisServer(valkey=True) as running:
        yield running


@dataclass
class Queue:
    """A queue that was made, with readers and a producer that are closed after the test."""

    url: str
    name: str
    partitions: int
    operator: RedisQueue
    producer: RedisProducer
    _readers: list[RedisReader] = field(default_factory=list)

    def reader(self, uid: str) -> RedisReader:
        reader = RedisReader(self.url, self.name, uid)
        self._readers.append(reader)
        return reader

    async def limited(self, most: int = 10_000, redeliveries: int = 0) -> None:
        """The spec's limits are others now."""
        await self.operator.close()
        self.operator = RedisQueue(self.url, self.name, GROUP, max_delivered_unacked=most, max_redeliveries=redeliveries)
        await self.operator.ensure(self.partitions)

    async def granted(self, uid: str, epoch: int, partition: int = 0) -> RedisReader:
        """A reader for the member that the partition has just been granted to."""
        owner = await self.operator.grant(partition, Uid(uid), Epoch(epoch))
        assert owner == (uid, epoch, False)
        return self.reader(uid)

    def key(self, partition: int, nth: int = 0) -> bytes:
        """A key that goes to this partition."""
        table = RoutingTable.even(1, self.partitions)
        keys = (b"key-%d" % number for number in itertools.count())
        return next(itertools.islice((key for key in keys if table.partition_of(key) == partition), nth, None))

    async def stale_refused(self) -> Mapping[int, int]:
        """By partition, as the operator counts them."""
        counted = (await self.operator.check()).stale_refused
        assert counted is not None
        return counted

    async def dead_letters(self) -> Mapping[int, int]:
        """Likewise."""
        counted = (await self.operator.check()).dead_letters
        assert counted is not None
        return counted

    def raw(self) -> redis.Redis:
        """The server, past everything of Baton."""
        return redis.Redis.from_url(self.url)

    def send(self, *values: str | bytes, partition: int = 0) -> None:
        self.producer.send_many((self.key(partition), value) for value in values)

    async def close(self) -> None:
        for reader in self._readers:
            reader.close()
        self.producer.close()
        await self.operator.close()


async def make_queue(url: str, partitions: int = 2, name: str | None = None) -> Queue:
    name = name or f"shop/orders-{next(_names)}"
    queue = Queue(url, name, partitions, RedisQueue(url, name, GROUP), RedisProducer(url, name, patience=PATIENCE))
    await queue.operator.ensure(partitions)
    return queue


@pytest.fixture
async def queue(server: RedisServer) -> AsyncIterator[Queue]:
    made = await make_queue(server.url)
    yield made
    await made.close()


@pytest.fixture
def ranges(queue: Queue) -> Iterator[RedisRanges]:
    """The queue, as the driver of a Spark query asks it."""
    with closing(RedisRanges(queue.url, queue.name)) as made:
        yield made


@pytest.fixture
def raw(queue: Queue) -> Iterator[redis.Redis]:
    """A client of the queue's server, without Baton's."""
    with queue.raw() as made:
        yield made


@pytest.fixture
def new_name() -> Callable[[], str]:
    return lambda: f"shop/orders-{next(_names)}"
