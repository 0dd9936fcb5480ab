"""Keys are worked on beside each other however the consumer was begun."""

import asyncio
import threading

from baton.consumer import Entry
from baton.testing import TestQueue
from tests.waiting import PATIENCE, eventually, until


async def test_a_consumer_that_runs_already_works_by_key_when_serve_says_so() -> None:
    queue = TestQueue()
    consumer = queue.consumer()
    for key in ("a", "b"):
        queue.send(key, "v")
    at_work: set[str] = set()
    together = asyncio.Event()

    async def handle(entry: Entry) -> None:
        at_work.add(entry.offset)
        if at_work == {"0", "1"}:
            together.set()
        await together.wait()

    async def knows() -> bool:
        return bool(list(consumer._loop._turns.holdings))

    async with asyncio.timeout(PATIENCE), consumer:
        await eventually(knows)
        serving = asyncio.create_task(consumer.serve(handle, concurrency=2, order="key"))
        await together.wait()
        serving.cancel()
        await asyncio.wait({serving})


def test_no_more_than_some_megabytes_wait_behind_a_slow_key() -> None:
    go_on = threading.Event()

    def handle(entry: Entry) -> None:
        if entry.key == b"slow":
            go_on.wait(PATIENCE)

    with TestQueue() as queue:
        for number in range(100):
            queue.send(("slow", "fast")[number % 2], bytes(1_000_000), partition=0)
        consumer = queue.consumer()
        queue.start(handle, consumer=consumer, concurrency=2, order="key")
        turns = consumer._loop._turns
        until(lambda: [one for one in turns.holdings if one.in_hand > 2 and turns.dispatcher._room(one) <= 0])
        assert sum(holding.in_hand for holding in turns.holdings) <= 8
        go_on.set()
        queue.settled()
        assert len(queue.acked) == 100
