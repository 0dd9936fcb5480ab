"""Keys are worked on beside each other however the consumer was begun."""

import asyncio

from baton.queues.entry import Entry
from tests.in_memory_queue import InMemoryQueue, consumer_of
from tests.waiting import PATIENCE, eventually


async def test_a_consumer_that_runs_already_works_by_key_when_serve_says_so() -> None:
    consumer = consumer_of(InMemoryQueue(2, keys=(b"a", b"b")))
    at_work: set[str] = set()
    together = asyncio.Event()

    async def handle(entry: Entry) -> None:
        at_work.add(entry.offset)
        if at_work == {"0", "1"}:
            together.set()
        await together.wait()

    async def knows() -> bool:
        return bool(list(consumer._loop._holdings))

    async with asyncio.timeout(PATIENCE), consumer:
        await eventually(knows)
        serving = asyncio.create_task(consumer.serve(handle, concurrency=2, order="key"))
        await together.wait()
        serving.cancel()
        await asyncio.wait({serving})
