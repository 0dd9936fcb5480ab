"""With order="key", keys are worked on concurrently and fairly."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from baton.consumer import Batch, Entry
from baton.model.ids import Epoch
from baton.testing import InMemoryReader, TestQueue
from tests.unit.consumer.readers import queue_of
from tests.waiting import HOUR, PATIENCE, eventually, until


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


class SlowRetries(InMemoryReader):
    """A turn of the dispatcher has time for ten retries."""

    def __init__(self, *queue: Any) -> None:
        super().__init__(*queue)
        self.retries: Counter[str] = Counter()

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        time.sleep(0.005)
        self.retries[offset] += 1
        return super().retry(partition, epoch, offset, why)


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize("options", [{"concurrency": 1}, {"concurrency": 4}, {"max_entries": 25, "max_wait": 0.01}])
def test_a_hundred_failing_keys_do_not_starve_a_healthy_one(options: dict[str, Any], partition: int) -> None:
    failed: set[str] = set()

    def handle(work: Entry | Batch) -> None:
        for entry in work if isinstance(work, Batch) else [work]:
            if entry.key == b"healthy":
                entry.ack()
            else:
                failed.add(entry.offset)
                entry.nack(delay=0)

    queue, reader = queue_of(SlowRetries, 2)
    with queue:
        for number in range(100):
            queue.send(f"failing-{number}", "v", partition=0)
        queue.start(handle, order="key", manual_ack=True, **options)
        until(lambda: len(failed) == 100)
        before = reader.retries.copy()
        queue.send("healthy", "v", partition=partition)
        until(lambda: queue.acked)
        since = reader.retries - before
    assert min(since[offset] for offset in failed) <= 1, "the healthy key waits for one turn of the others at most"


class CountsInHand(InMemoryReader):
    """Counts the entries that were read and are not acknowledged."""

    in_hand = most = 0

    def read(self, *asked: Any, **how: Any) -> Sequence[Any]:
        entries = super().read(*asked, **how)
        self.in_hand += len(entries)
        self.most = max(self.most, self.in_hand)
        return entries

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        self.in_hand -= len(offsets)
        super().ack(partition, epoch, offsets, soon=soon)


@pytest.mark.parametrize("delay", [0.0, 0.05])
@pytest.mark.parametrize(
    ("order", "many", "each", "size", "bounds", "most"),
    [
        ("partition", 50, 80, 0, {}, 50 + 3 * 500),
        ("partition", 50, 30, 500_000, {"max_bytes": 4_000_000}, 50 + 3 * 8),
        ("key", 2, 100, 500_000, {"max_bytes": 4_000_000}, 2 * (1 + 16 + 2 * 8)),
    ],
    ids=["partition", "bytes", "key"],
)
def test_what_waits_behind_failing_entries_is_bounded(
    order: Any, delay: float, many: int, each: int, size: int, bounds: Any, most: int
) -> None:
    tries = Counter[int]()

    def handle(batch: Batch) -> None:
        for entry in batch:
            if entry.value == b"bad" and tries[entry.partition] < 8:
                tries[entry.partition] += 1
                entry.nack(delay=delay)
            else:
                entry.ack()

    queue, reader = queue_of(CountsInHand, many)
    with queue:
        for partition in range(many):
            queue.send("k", "bad", partition=partition)
        queue.start(handle, order=order, manual_ack=True, max_entries=500, max_wait=0, **bounds)
        until(lambda: len(tries) == many)
        for _ in range(each):
            for partition in range(many):
                queue.send("k", bytes(size), partition=partition)
        queue.settled()
    assert reader.most <= most


@pytest.mark.parametrize("order", ["partition", "key"])
def test_a_batch_with_a_retry_does_not_wait_to_be_full(order: Any) -> None:
    failed = list[str]()

    def handle(batch: Batch) -> None:
        for entry in batch:
            if entry.value == b"bad" and not failed:
                failed.append(entry.offset)
                entry.nack(delay=0)
            else:
                entry.ack()

    with TestQueue() as queue:
        queue.send("k", "bad")
        for number in range(1999):
            queue.send("k", str(number))
        queue.start(handle, order=order, manual_ack=True, max_entries=500, max_wait=HOUR)
        until(lambda: len(queue.acked) >= 1500)
