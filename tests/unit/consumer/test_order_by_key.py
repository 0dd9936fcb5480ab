"""Keys are worked on beside each other however the consumer was begun."""

import asyncio
import threading

from baton.model.ids import Epoch
from baton.queues.entry import Entry
from tests.in_memory_queue import ORDERS, InMemoryLedger, InMemoryQueue, consumer_of
from tests.waiting import PATIENCE, eventually, until


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
        return bool(list(consumer._loop._turns.holdings))

    async with asyncio.timeout(PATIENCE), consumer:
        await eventually(knows)
        serving = asyncio.create_task(consumer.serve(handle, concurrency=2, order="key"))
        await together.wait()
        serving.cancel()
        await asyncio.wait({serving})


class LargeEntries(InMemoryQueue):
    """A megabyte each."""

    def read(self, partition: int, epoch: Epoch, count: int = 100, *, most_bytes: int = 0, new: bool = True) -> list[Entry]:
        found = super().read(partition, epoch, min(count, max(1, most_bytes // 1_000_000)), new=new)
        return [Entry(ORDERS, partition, one.offset, one.key, bytes(1_000_000), 0, epoch, False) for one in found]


def test_no_more_than_some_megabytes_wait_behind_a_slow_key() -> None:
    queue, ledger, go_on = LargeEntries(100, keys=(b"slow", b"fast")), InMemoryLedger({0: 1}), threading.Event()
    consumer = consumer_of(queue, ledger)

    def handle(entry: Entry) -> None:
        if entry.key == b"slow":
            go_on.wait(PATIENCE)

    running = threading.Thread(target=consumer.run, args=(handle,), kwargs={"concurrency": 2, "order": "key"})
    running.start()
    loop = consumer._loop
    until(
        lambda: [
            holding for holding in loop._turns.holdings if holding.in_hand > 2 and loop._turns.dispatcher._room(holding) <= 0
        ]
    )
    assert sum(holding.in_hand for holding in loop._turns.holdings) <= 8
    go_on.set()
    until(lambda: len(queue.acknowledged) == 100)
    consumer.stop()
    ledger.says({}, {0: 1})
    running.join()
