"""What an earlier process was handed out and did not finish begins last, and one at a time."""

from collections.abc import Mapping
from typing import Any

from baton.consumer import Retry
from baton.consumer.dispatcher import Delivery, Want
from baton.consumer.entry import Batch
from baton.consumer.outcome import ACK
from baton.model import Epoch, Uid
from baton.queues.entries import Entries
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.protocol import Owner
from tests.in_memory_queue import InMemoryLedger, InMemoryQueue, consumer_of

TIMES = {0: 3, 1: 1, 2: 2}
OWNED = dict.fromkeys(range(4), 1)
LEAST_OFTEN_FIRST = [3, 1, 2, 0]
"""Partitions."""


class QueueWithLeftovers(InMemoryQueue):
    """So many entries in each of four partitions; of three of these an earlier process was handed them out."""

    def __init__(self, times: Mapping[int, int], entries: int = 1) -> None:
        super().__init__()
        self.unread = {partition: [(str(number), b"k") for number in range(entries)] for partition in OWNED}
        self._times = times

    def read(self, partition: int, *asked: Any, **how: Any) -> list[Entry]:
        found = Entries(super().read(partition, *asked, **how))
        if partition in self._times:
            found.times = dict.fromkeys(found.offsets, self._times[partition])
        return found  # type: ignore[return-value]


def test_they_come_one_by_one_those_first_that_were_handed_out_least_often() -> None:
    handed: list[list[int]] = []
    with consumer_of(QueueWithLeftovers(TIMES), InMemoryLedger(OWNED)) as consumer:
        consumer._loop.serve(1)
        while len(handed) < len(OWNED):
            delivery = consumer._loop.take(Want())
            assert isinstance(delivery, Delivery)
            handed.append([entry.partition for entry in delivery.entries])
            consumer._loop.give_back(delivery, [(delivery.entries, ACK)], 1e-3, len(delivery.entries))
    assert handed == [[partition] for partition in LEAST_OFTEN_FIRST]


def test_one_that_fails_is_tried_again_before_those_behind_it() -> None:
    handled: list[str] = []

    def handle(entry: Entry) -> None:
        handled.append(entry.offset)
        if len(handled) == 1:
            raise Retry("once", delay=0)
        if entry.offset == "1":
            ledger.says({})
            consumer.stop()

    ledger = InMemoryLedger({0: 1})
    consumer = consumer_of(QueueWithLeftovers({0: 2}, entries=2), ledger)
    consumer.run(handle)
    assert handled == ["0", "0", "1"]


def test_a_batch_of_them_is_of_one_partition() -> None:
    with consumer_of(QueueWithLeftovers(TIMES, entries=2), InMemoryLedger(OWNED)) as consumer:
        batches = consumer.batches(max_entries=10, max_wait=0.01)
        handed: list[list[int]] = []
        while len(handed) < len(OWNED):
            batch: Batch = next(batches)
            handed.append([entry.partition for entry in batch])
            batch.ack()
    assert sorted(handed) == [[partition] * 2 for partition in OWNED]


def test_one_that_takes_long_does_not_keep_the_others_waiting_for_ever() -> None:
    with consumer_of(QueueWithLeftovers(TIMES), InMemoryLedger(OWNED)) as consumer:
        consumer._loop.serve(len(OWNED))
        taken = [consumer._loop.take(Want()) for _ in OWNED]  # and none is given back
        handed = [[entry.partition for entry in delivery.entries] for delivery in taken if isinstance(delivery, Delivery)]
    assert handed == [[partition] for partition in LEAST_OFTEN_FIRST]


def test_a_partition_that_is_lost_at_one_key_is_not_begun_at_the_next() -> None:
    class Fenced(QueueWithLeftovers):
        def verify(self, partition: int, epoch: Epoch) -> None:
            if partition == 0:
                ledger.says({1: 1})
                raise StaleOwner(0, "u", epoch, Owner(Uid("other"), Epoch(2)))

    handled: list[int] = []

    def handle(entry: Entry) -> None:
        handled.append(entry.partition)
        if len(handled) == 2:
            consumer.stop()

    queue, ledger = Fenced({0: 1, 1: 2}), InMemoryLedger({0: 1, 1: 1})
    queue.unread = {partition: [("0", b"one"), ("1", b"two")] for partition in (0, 1)}
    consumer = consumer_of(queue, ledger)
    consumer.run(handle, order="key")
    assert handled == [1, 1]
