"""Entries counted per key, from producers that keep sending through all failures of the servers."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer, RedisProducer
from tests.integration.redis.conftest import Queue
from tests.promises import promised
from tests.waiting import PATIENCE, eventually

KEYS = 3
"""Keys of each partition."""

T = TypeVar("T")
Seen = list[tuple[bytes, int, bool]]
"""Key, number, and whether the entry was marked redelivered."""


class Load:
    """Producers that count per key until `end`. Every second one runs in a task."""

    def __init__(self, queue: Queue) -> None:
        self.sent: Counter[bytes] = Counter()
        self._over = threading.Event()
        self._queue = queue
        self._threads = []
        for partition in range(queue.partitions):
            keys = [queue.key(partition, nth) for nth in range(KEYS)]
            produce = self._produce if partition % 2 == 0 else lambda keys: asyncio.run(self._produce_in_a_task(keys))
            self._threads.append(threading.Thread(target=produce, args=(keys,)))
        for thread in self._threads:
            thread.start()

    def _produce(self, keys: list[bytes]) -> None:
        with RedisProducer(self._queue.url, self._queue.name, patience=PATIENCE) as producer:
            while not self._over.wait(0.002):
                producer.send_many((key, b"%d" % (self.sent[key] + 1)) for key in keys)
                self.sent.update(keys)

    async def _produce_in_a_task(self, keys: list[bytes]) -> None:
        async with AsyncRedisProducer(self._queue.url, self._queue.name, patience=PATIENCE) as producer:
            while not self._over.is_set():
                await producer.send_many((key, b"%d" % (self.sent[key] + 1)) for key in keys)
                self.sent.update(keys)
                await asyncio.sleep(0.002)

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE)


@promised()
def handled(seen: Seen) -> Counter[bytes]:
    """Return the last number of each key. Checks the order, and that repeated entries were marked."""
    firsts: Counter[bytes] = Counter()
    for key, number, redelivered in seen:
        if number <= firsts[key]:
            assert redelivered, f"{key!r} {number} came twice and unmarked"
        else:
            assert number == firsts[key] + 1, f"{key!r} {number} came after {firsts[key]}"
            firsts[key] = number
    return firsts


async def processed(seen: Sequence[object], count: int) -> None:
    begun = len(seen)

    async def more() -> bool:
        return len(seen) > begun + count

    await eventually(more, f"{count} more entries are processed")


async def in_time(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until a server answers."""

    async def answer() -> tuple[T] | None:
        try:
            return (await ask(),)
        except QueueUnreachable:
            return None

    (found,) = await eventually(answer, "the queue answers")
    return found
