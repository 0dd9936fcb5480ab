"""Sends of all kinds at once, by threads and tasks, keep the order of each key and lose nothing."""

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span

from baton.consumer.tracing import context_headers, traced
from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer, RedisProducer
from baton.queues.redis.async_producer import AsyncPendingSend
from baton.queues.redis.outbox import Outbox
from tests.integration.redis.conftest import Queue, own_queue
from tests.integration.redis.pods import operating
from tests.waiting import PATIENCE, eventually, until

ONE = Epoch(1)


class Mixed:
    """Sends of all kinds, by threads and tasks. Each counts with its own keys."""

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
            """The server may have just come back."""
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


# -- Headers travel with their entry, and a trace with them.


ALL_BYTES = bytes(range(256))


async def test_headers_travel_with_their_entry(queue: Queue) -> None:
    key = queue.key(0)
    queue.producer.send(key, "a", headers={"traceparent": "00-4bf9-00", "Grüße": ALL_BYTES})
    queue.producer.send_many([(key, "b"), (key, "c", {"n": b"1"}), (key, "d", None)])
    owner = await queue.granted("a", ONE)
    found = owner.read(0, ONE)
    assert [entry.value for entry in found] == [b"a", b"b", b"c", b"d"]
    assert [entry.headers for entry in found] == [{"traceparent": b"00-4bf9-00", "Grüße": ALL_BYTES}, {}, {"n": b"1"}, {}]


async def test_the_handler_runs_in_the_producers_trace(queue: Queue, tmp_path: Path) -> None:
    provider, seen = TracerProvider(), []

    def handle(entry: Entry) -> None:
        seen.append((entry.value, get_current_span().get_span_context().trace_id))

    with provider.get_tracer("shop").start_as_current_span("order") as span:
        queue.producer.send(queue.key(0), "a", headers=context_headers())
    async with operating(queue, tmp_path) as operator:
        await operator.grant(operator.pod("a", handler=traced(handle, provider)), (0, 1))
        until(lambda: len(seen) == 1)
    assert seen == [(b"a", span.get_span_context().trace_id)]
    provider.shutdown()


@pytest.mark.parametrize("nth", [1, 2], ids=["in the task that sends", "in a call"])
@pytest.mark.parametrize("raised", [SystemExit, ZeroDivisionError])
async def test_an_interrupted_async_producer_settles_every_entry(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException], nth: int
) -> None:
    """SystemExit ends the event loop; another exception ends a task. Either left an entry that waited for ever."""
    calls, place, given = count(), Outbox._place, list[AsyncPendingSend]()

    def interrupted(*arguments: Any) -> None:
        if next(calls) == nth:
            raise raised
        place(*arguments)

    monkeypatch.setattr(Outbox, "_place", interrupted)

    async def work() -> None:
        async with AsyncRedisProducer(queue.url, queue.name, patience=PATIENCE) as producer:
            given.extend([await producer.produce(key, "1") for key in "ab"])
            await producer.flush()
            given.append(await producer.produce("a", "2"))

    def run() -> None:
        with suppress(raised, QueueUnreachable):
            asyncio.run(work())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, PATIENCE)
    assert not thread.is_alive()
    assert [one.done() for one in given] == [True] * len(given)
