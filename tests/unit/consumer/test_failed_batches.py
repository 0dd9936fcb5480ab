"""What one entry of a batch is to blame for happens to that entry."""

import threading
from collections.abc import Callable

import pytest

from baton.consumer import Consumer, Reject, Retry
from baton.consumer.entry import Batch, HeldEntry
from baton.consumer.handler_options import Deserializers
from tests.in_memory_queue import InMemoryLedger, InMemoryQueue, consumer_of
from tests.waiting import PATIENCE, until

ALL = [str(number) for number in range(20)]


def handled(queue: InMemoryQueue, handler: Callable[[Batch], None], *hopeless: type[Exception]) -> None:
    """All of it, in batches."""
    ledger = InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger)
    options = {"max_entries": 20, "max_wait": 0.05, "dead_letter_on": hopeless}
    running = threading.Thread(target=consumer.run, args=(handler,), kwargs=options, daemon=True)
    running.start()
    until(lambda: len(queue.acknowledged) + len(queue.dead) == 20)
    ledger.says({})
    consumer.stop()
    running.join(PATIENCE)


@pytest.mark.parametrize("error", [ValueError("bad"), Reject("bad"), KeyError("bad")])
def test_a_failed_batch_is_tried_again_entry_by_entry(error: Exception) -> None:
    queue = InMemoryQueue(20, redeliveries=2)
    batches: list[list[str]] = []

    def handle(batch: Batch) -> None:
        batches.append([entry.offset for entry in batch])
        if "7" in batches[-1]:
            raise error

    handled(queue, handle, KeyError)
    assert list(queue.dead) == ["7"]
    assert sorted(queue.acknowledged, key=int) == [offset for offset in ALL if offset != "7"]
    failed = next(batch for batch in batches if "7" in batch)
    again = [batch for batch in batches[batches.index(failed) + 1 :] if set(batch) & set(failed)]
    assert all(len(batch) == 1 for batch in again)


def unreadable_once() -> Callable[[bytes], bytes]:
    tries: list[int] = []

    def read(value: bytes) -> bytes:
        tries.append(1)
        if len(tries) == 3:
            raise Retry("the registry is away", delay=0)
        return value

    return read


def test_a_deserializer_may_ask_for_another_try_and_what_is_behind_it_waits() -> None:
    queue, ledger = InMemoryQueue(20), InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger, deserializers=Deserializers(value=unreadable_once()))
    seen: list[str] = []

    def handle(entry: HeldEntry) -> None:
        seen.append(entry.offset)

    running = threading.Thread(target=consumer.run, args=(handle,), daemon=True)
    running.start()
    until(lambda: len(queue.acknowledged) + len(queue.dead) == 20)
    ledger.says({})
    consumer.stop()
    running.join(PATIENCE)
    assert (seen, queue.dead, queue.retries) == (ALL, {}, ["2"])


def test_and_in_batches() -> None:
    queue = InMemoryQueue(20)
    consumer: Consumer = consumer_of(queue, deserializers=Deserializers(value=unreadable_once()))
    seen: list[str] = []
    with consumer:
        for batch in consumer.batches(max_entries=5, max_wait=0):
            seen += [entry.offset for entry in batch]
            assert batch.ack().wait(PATIENCE)
            if len(seen) + len(queue.dead) >= 20:
                break
    assert (seen, queue.dead, queue.retries) == (ALL, {}, ["2"])
