"""A server shared by all tests that leave it intact, each with its own queue; and servers that a test may stop or fill."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.entry import Entry
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisProducer, RedisQueue, RedisReader
from baton.queues.redis.keys import partition_keys
from baton.queues.redis.ranges import RedisRanges
from baton.queues.redis.routing import RoutingTable
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from tests.integration.redis.logged import Query
    from tests.integration.redis.pods import Operator

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
        """Change the limits of the spec."""
        await self.operator.close()
        self.operator = RedisQueue(self.url, self.name, GROUP, max_delivered_unacked=most, max_redeliveries=redeliveries)
        await self.operator.ensure(self.partitions)

    async def granted(self, uid: str, epoch: int, partition: int = 0) -> RedisReader:
        """Grant the partition to this member and return its reader."""
        owner = await self.operator.grant(partition, Uid(uid), Epoch(epoch))
        assert owner == (uid, epoch, False)
        return self.reader(uid)

    def key(self, partition: int, nth: int = 0) -> bytes:
        """Return the nth key of this partition."""
        table = RoutingTable.even(1, self.partitions)
        keys = (b"key-%d" % number for number in itertools.count())
        return next(itertools.islice((key for key in keys if table.partition_of(key) == partition), nth, None))

    async def stale_refused(self) -> Mapping[int, int]:
        """Return the operator's counts, by partition."""
        counted = (await self.operator.check()).stale_refused
        assert counted is not None
        return counted

    async def dead_letters(self) -> Mapping[int, int]:
        """Return the operator's counts, by partition."""
        counted = (await self.operator.check()).dead_letters
        assert counted is not None
        return counted

    def letters(self, partition: int = 0) -> list[dict[bytes, bytes]]:
        """The fields of each dead letter, in order."""
        with self.raw() as raw:
            letters: list[tuple[bytes, dict[bytes, bytes]]] = raw.xrange(partition_keys(self.name, partition).dead)
        return [fields for _, fields in letters]

    def raw(self) -> redis.Redis:
        """A client of the server, without Baton."""
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


@asynccontextmanager
async def own_queue(partitions: int = 2, name: str | None = None, **options: Any) -> AsyncIterator[tuple[RedisServer, Queue]]:
    """A queue at its own server, which the test may stop, freeze or fill. `options`: those of RedisServer."""
    with RedisServer(**options) as server:
        queue = await make_queue(server.url, partitions, name)
        yield server, queue
        await queue.close()


@asynccontextmanager
async def replicated_queue(**options: Any) -> AsyncIterator[tuple[RedisServer, RedisServer, Queue]]:
    """A primary, a replica that follows it, and a queue at the primary. `options`: those of RedisServer."""
    with RedisServer(**options) as primary, RedisServer(replica_of=primary, **options) as replica:
        caught_up(primary)
        queue = await make_queue(primary.url)
        yield primary, replica, queue
        await queue.close()


def caught_up(primary: RedisServer) -> None:
    """Wait until its replica has everything."""
    with primary.client() as raw:
        until(lambda: raw.execute_command("WAIT", 1, 1000), "the replica has everything")


def told(entries: Iterable[Entry]) -> list[tuple[bytes, bool]]:
    """Values, and whether they are marked redelivered."""
    return [(entry.value, entry.redelivered) for entry in entries]


@pytest.fixture
async def queue(server: RedisServer) -> AsyncIterator[Queue]:
    made = await make_queue(server.url)
    yield made
    await made.close()


@pytest.fixture
def ranges(queue: Queue) -> Iterator[RedisRanges]:
    """The queue as seen by the driver of a Spark query."""
    with closing(RedisRanges(queue.url, queue.name)) as made:
        yield made


@pytest.fixture
def raw(queue: Queue) -> Iterator[redis.Redis]:
    """A client of the queue's server, without Baton."""
    with queue.raw() as made:
        yield made


@pytest.fixture
def query(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> "Query":
    """The first query over the queue."""
    from tests.integration.redis.logged import Query  # which imports this module

    return Query(queue, ranges, raw)


@pytest.fixture
async def operator(queue: Queue, tmp_path: Path) -> AsyncIterator["Operator"]:
    """An operator of the queue. Its pods are stopped after the test."""
    from tests.integration.redis.pods import operating  # which imports this module

    async with operating(queue, tmp_path) as operator:
        yield operator


@pytest.fixture
def new_name() -> Callable[[], str]:
    return lambda: f"shop/orders-{next(_names)}"
