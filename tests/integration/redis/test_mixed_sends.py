"""Sends of all kinds at once, by threads and tasks, keep the order of each key and lose nothing."""

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from baton.model.ids import Epoch
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer, RedisProducer
from tests.integration.redis.conftest import Queue, own_queue
from tests.waiting import PATIENCE, eventually, until

ONE = Epoch(1)


class Mixed:
    """Sends of all kinds, by threads and tasks. Each thread and task counts with its own keys."""

    def __init__(self, queue: Queue) -> None:
        options: dict[str, Any] = {"patience": PATIENCE, "max_entries": 50, "buffer_bytes": 20_000}
        self._threads = RedisProducer(queue.url, queue.name, **options)
        self._tasks = AsyncRedisProducer(queue.url, queue.name, **options)
        self._end = threading.Event()
        self._running = [asyncio.create_task(asyncio.to_thread(self._by_thread, number)) for number in range(2)]
        self._running += [asyncio.create_task(self._by_task(number)) for number in range(2)]
        self.sent: dict[bytes, int] = defaultdict(int)

    def _next(self, who: str, dice: random.Random) -> tuple[bytes, str]:
        key = f"{who}-{dice.randrange(8)}".encode()
        self.sent[key] += 1
        return key, str(self.sent[key])

    def _by_thread(self, number: int) -> None:
        dice = random.Random(number)
        while not self._end.is_set():
            match dice.randrange(10):
                case 0:
                    self._threads.send(*self._next(f"thread-{number}", dice))
                case 1:
                    self._threads.send_many([self._next(f"thread-{number}", dice) for _ in range(5)])
                case _:
                    self._threads.produce(*self._next(f"thread-{number}", dice))

    async def _by_task(self, number: int) -> None:
        dice = random.Random(number)
        while not self._end.is_set():
            match dice.randrange(10):
                case 0:
                    await self._tasks.send(*self._next(f"task-{number}", dice))
                case 1:
                    await self._tasks.send_many([self._next(f"task-{number}", dice) for _ in range(5)])
                case _:
                    await self._tasks.produce(*self._next(f"task-{number}", dice))
                    await asyncio.sleep(0)

    async def end(self) -> None:
        self._end.set()
        await asyncio.gather(*self._running)
        await self._tasks.close()
        await asyncio.to_thread(self._threads.close)


async def test_all_kinds_of_sends_keep_order_through_crashes_and_resizing(
    new_name: Callable[[], str],
) -> None:
    async with own_queue(2, new_name(), fsync="always") as (server, queue):
        mixed, found = Mixed(queue), defaultdict[bytes, list[int]](list)
        readers = {partition: await queue.granted(f"pod-{partition}", 1, partition) for partition in (0, 1)}

        def drain() -> bool:
            before = sum(map(len, found.values()))
            for partition, reader in readers.items():
                got = reader.read(partition, ONE, 5000)
                for entry in got:
                    if not (entry.redelivered and int(entry.value) in found[entry.key]):
                        found[entry.key].append(int(entry.value))
                reader.ack(partition, ONE, [entry.offset for entry in got])
            return sum(map(len, found.values())) > before

        async def resized(partitions: int) -> bool:
            """Change the count; False if the server is just restarting."""
            with suppress(QueueUnreachable):
                done = await queue.operator.ensure(partitions) is None
                for partition in range((await queue.operator.check()).partitions or 0):
                    if partition not in readers:
                        readers[partition] = await queue.granted(f"pod-{partition}", 1, partition)
                await asyncio.to_thread(drain)
                return done
            return False

        for partitions in (4, 1, 3):
            await eventually(lambda partitions=partitions: resized(partitions))  # type: ignore[misc]
            some = sum(mixed.sent.values()) + 300
            await asyncio.to_thread(until, lambda some=some: sum(mixed.sent.copy().values()) > some)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        await mixed.end()
        while await asyncio.to_thread(drain):
            pass
        assert dict(found) == {key: list(range(1, count + 1)) for key, count in mixed.sent.items()}
