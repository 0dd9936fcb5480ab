"""Entries that an earlier process was handed and did not finish begin last, and one at a time."""

from collections.abc import Mapping, Sequence
from typing import Any

from baton.consumer import Entry, Retry
from baton.consumer.dispatcher import Delivery, Want
from baton.consumer.entry import Batch
from baton.consumer.outcome import ACK
from baton.model.ids import Epoch
from baton.queues.entry import Entries
from baton.testing import InMemoryReader, TestQueue
from tests.unit.consumer.readers import queue_of

TIMES = {0: 3, 1: 1, 2: 2}
OWNED = dict.fromkeys(range(4), 1)
LEAST_OFTEN_FIRST = [3, 1, 2, 0]
"""Partitions."""


class ReaderWithLeftovers(InMemoryReader):
    """Entries of partition p were handed out `times[p]` times to earlier processes."""

    times: Mapping[int, int]

    def read(self, partition: int, *asked: Any, **how: Any) -> Entries:
        found = Entries(super().read(partition, *asked, **how))
        if partition in self.times:
            found.times = dict.fromkeys(found.offsets, self.times[partition])
        return found


def left_over(
    times: Mapping[int, int], keys: Sequence[str] = ("k",), reader: type[ReaderWithLeftovers] = ReaderWithLeftovers
) -> TestQueue:
    """Return a queue with one entry of each key in each of the partitions, or in four."""
    queue, made = queue_of(reader, len(OWNED) if times is TIMES else len(times))
    made.times = times
    for partition in made.epochs:
        for key in keys:
            queue.send(key, "v", partition=partition)
    return queue


def test_they_come_one_by_one_those_first_that_were_handed_out_least_often() -> None:
    handed: list[list[int]] = []
    with left_over(TIMES).consumer() as consumer:
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

    with left_over({0: 2}, ("k", "k")) as queue:
        queue.start(handle)
        queue.settled()
    assert handled == ["0", "0", "1"]


def test_a_batch_of_them_is_of_one_partition() -> None:
    with left_over(TIMES, ("k", "k")).consumer() as consumer:
        batches = consumer.batches(max_entries=10, max_wait=0.01)
        handed: list[list[int]] = []
        while len(handed) < len(OWNED):
            batch: Batch = next(batches)
            handed.append([entry.partition for entry in batch])
            batch.ack()
    assert sorted(handed) == [[partition] * 2 for partition in OWNED]


def test_one_that_takes_long_does_not_keep_the_others_waiting_for_ever() -> None:
    with left_over(TIMES).consumer() as consumer:
        consumer._loop.serve(len(OWNED))
        taken = [consumer._loop.take(Want()) for _ in OWNED]  # and none is given back
        handed = [[entry.partition for entry in delivery.entries] for delivery in taken if isinstance(delivery, Delivery)]
    assert handed == [[partition] for partition in LEAST_OFTEN_FIRST]


def test_a_partition_that_is_lost_at_one_key_is_not_begun_at_the_next() -> None:
    class Fenced(ReaderWithLeftovers):
        def verify(self, partition: int, epoch: Epoch) -> None:
            if partition == 0:
                queue._ledger.take(0)
            super().verify(partition, epoch)

    handled: list[int] = []

    def handle(entry: Entry) -> None:
        handled.append(entry.partition)

    queue = left_over({0: 1, 1: 2}, ("one", "two"), Fenced)
    with queue:
        queue.start(handle, order="key")
        queue.settled()
    assert handled == [1, 1]
