"""The measured queues: one is filled once by Baton's producer, and each run reads a copy."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import count, cycle, islice
from threading import Event

import redis

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisProducer, RedisQueue
from baton.queues.redis.keys import partition_keys
from baton.queues.redis.routing import RoutingTable
from tests.bench.spark.measuring import beside

GROUP = "bench/group"
_LENGTH = 100
"""Bytes of a value."""
_AT_ONCE = 1000
"""Entries per request when a queue is filled."""
_EVERY = 0.005
"""Seconds between two requests of a steady sender."""


class Streams:
    """Queues of one Redis, in the namespace `bench`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = redis.Redis.from_url(url)
        self._names = count()

    def filled(self, partitions: int, rows: int) -> str:
        """Create a queue with this many rows, evenly distributed, without owners. Returns its name."""
        name = self.empty(partitions)
        keys, value = cycle(keys_of(partitions)), b"." * _LENGTH
        with RedisProducer(self.url, f"bench/{name}") as producer:
            for begin in range(0, rows, _AT_ONCE):
                producer.send_many((key, value) for key in islice(keys, min(_AT_ONCE, rows - begin)))
        return name

    def empty(self, partitions: int) -> str:
        name = f"filled-{next(self._names)}"
        asyncio.run(self._operate(name, lambda queue: queue.ensure(partitions)))
        return name

    def grant(self, name: str, numbers: Sequence[int], uid: Uid) -> None:
        """Grant these partitions with the first epoch."""

        async def grant(queue: RedisQueue) -> None:
            await asyncio.gather(*(queue.grant(number, uid, Epoch(1)) for number in numbers))

        asyncio.run(self._operate(name, grant))

    @contextmanager
    def copy(self, name: str) -> Iterator[str]:
        """A copy of the queue with the same entries, deleted afterwards."""
        fresh = f"{name}-{next(self._names)}"
        old, new = (f"pq:{{bench/{one}}}:" for one in (name, fresh))
        with self.client.pipeline(transaction=False) as pipe:
            for key in self.client.scan_iter(_pattern(name), 10_000):
                pipe.copy(key.decode(), new + key.decode().removeprefix(old))
            pipe.execute()
        try:
            yield fresh
        finally:
            self.delete(fresh)

    def delete(self, name: str) -> None:
        for key in self.client.scan_iter(_pattern(name), 10_000):
            self.client.unlink(key)

    def bounds(self, name: str, partitions: int) -> dict[int, tuple[int, int]]:
        """The number before the first entry, and of the last, by partition."""
        with self.client.pipeline(transaction=False) as pipe:
            for number in range(partitions):
                pipe.hmget(partition_keys(f"bench/{name}", number).progress, "committed", "last")
            answers = pipe.execute()
        return {number: (int(begin), int(last)) for number, (begin, last) in enumerate(answers)}

    def sending(self, name: str, partitions: int, per_second: int) -> AbstractContextManager[None]:
        """Send rows at a steady rate; each value begins with the time (unix, nanoseconds)."""
        return beside(partial(self._send, name, keys_of(partitions), per_second))

    def worked(self) -> float:
        """CPU seconds of the server."""
        used = self.client.info("cpu")
        return float(used["used_cpu_sys"]) + float(used["used_cpu_user"])

    def _send(self, name: str, keys: list[bytes], per_second: int, ended: Event) -> None:
        turns, sent, began = cycle(keys), 0, time.monotonic()
        with RedisProducer(self.url, f"bench/{name}") as producer:
            while not ended.wait(_EVERY):
                due = int((time.monotonic() - began) * per_second) - sent
                if due:
                    producer.send_many((key, b"%020d" % time.time_ns() + b"." * 80) for key in islice(turns, due))
                    sent += due

    async def _operate(self, name: str, what: Callable[[RedisQueue], Awaitable[object]]) -> None:
        queue = RedisQueue(self.url, f"bench/{name}", Claimant(GROUP, "uid-of-the-group"))
        try:
            await what(queue)
        finally:
            await queue.close()


def _pattern(name: str) -> str:
    return f"pq:{{bench/{name}}}:*"  # braces stand for themselves in Redis


def keys_of(partitions: int) -> list[bytes]:
    """A key of each partition."""
    table = RoutingTable.even(1, partitions)
    found: dict[int, bytes] = {}
    for number in count():
        found.setdefault(table.partition_of(b"key-%d" % number), b"key-%d" % number)
        if len(found) == partitions:
            break
    return [found[number] for number in range(partitions)]
