"""Trouble with one partition does not stop others, and a slow queue does not make the consumer hang."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from baton.consumer import Consumer, loop
from baton.consumer.entry import HeldEntry
from baton.consumer.partition import HeldPartition
from baton.consumer.queue_requests import QueueRequests
from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.protocol import Ownership, PartitionUnavailable, QueueUnreachable
from baton.testing import InMemoryAssignments, InMemoryReader, TestQueue
from tests.unit.consumer.readers import queue_of
from tests.waiting import PATIENCE, until

ORDERS = QueueName("orders")


class OneInTrouble(InMemoryReader):
    """All requests for partition 0 fail while it is `held`."""

    held = True
    tries = 0

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        if partition == 0 and self.held:
            self.tries += 1
            raise PartitionUnavailable("outputs cannot be sent to the topic bills: it is not there")
        super().ack(partition, epoch, offsets, soon=soon)


def test_others_are_read_while_one_can_tell_its_queue_nothing() -> None:
    queue, reader = queue_of(OneInTrouble, 2)
    with queue:
        consumer = queue.consumer()
        queue.start(lambda entry: None, consumer=consumer)
        first = queue.send("k", "v", partition=0)
        until(lambda: reader.tries > 1)
        for _ in range(10):
            until(partial(queue.acked.__contains__, queue.send("k", "v", partition=1)))
        assert not consumer._loop._turns.requests.away(ORDERS)
        reader.held = False
        queue.settled()
        assert queue.acked[-1] == first


def test_it_is_waited_for_longer_and_longer_until_there_is_another_answer() -> None:
    (_, queue), requests = queue_of(OneInTrouble), QueueRequests()
    holding = HeldPartition(Partition(ORDERS, 0), Epoch(1), None)  # type: ignore[arg-type]
    holding.handled = ["0"]
    for tries in (1, 2, 3):
        assert not requests.settle(holding, queue)
        assert holding.outage is not None and holding.outage.tries == tries
        assert "bills" in holding.outage.why
    assert requests.not_before(holding) > time.monotonic()
    queue.held = False
    assert requests.settle(holding, queue) and requests.not_before(holding) == 0.0


class Asked(InMemoryReader):
    """Records requests, and rejects or fails them on demand."""

    asked: list[str]
    answer: Exception | None = None

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        self.asked.append(f"ack {offsets} soon={soon}")
        if self.answer is not None:
            raise self.answer

    def verify(self, partition: int, epoch: Epoch) -> None:
        self.asked.append("verify")


def test_what_was_finished_before_a_long_handler_is_with_its_queue_before_the_partition_is_taken_away() -> None:
    (_, queue), requests = queue_of(Asked), QueueRequests()
    queue.asked = []
    holding = HeldPartition(Partition(ORDERS, 0), Epoch(1), None)  # type: ignore[arg-type]
    requests.stay_sure(holding, queue)
    assert queue.asked == ["verify"]
    holding.let_go()
    requests.stay_sure(holding, queue)
    assert queue.asked[1:] == ["ack [] soon=False", "verify"]
    for answer in (QueueUnreachable("it is away"), StaleOwner(0, Uid("a"), Epoch(1), Ownership(Uid("b"), Epoch(2)))):
        queue.answer, queue.asked = answer, []
        requests.stay_sure(holding, queue)
        assert queue.asked == ["ack [] soon=False"], "it is not asked once more"
    assert holding.over


class Slow(InMemoryReader):
    """Answers on demand."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked, self.answers = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.asked.set()
        assert self.answers.wait(PATIENCE)


class SlowToRead(Slow):
    def read(self, *asked: Any, **how: Any) -> Sequence[Entry]:
        self.wait()
        raise QueueUnreachable("it was too slow")


class SlowToRelease(Slow):
    def let_go(self, *asked: Any, **how: Any) -> Mapping[int, QueueUnreachable]:
        self.wait()
        return super().let_go(*asked, **how)


def lets_wait_and_does_not_hang(reader: Slow, consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        assert reader.asked.wait(PATIENCE)
        monkeypatch.setattr(loop, "_LONGEST_SILENCE", 0.01)
        assert consumer._loop.hangs() == ""
        monkeypatch.setattr(loop, "_LONGEST_QUESTION", 0.0)
        assert "has not answered" in consumer._loop.hangs()
    finally:
        reader.answers.set()
        consumer._loop.leave()


def test_a_consumer_whose_queue_lets_it_wait_does_not_hang_until_no_request_takes_that_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue, reader = queue_of(SlowToRead)
    queue.send("k", "v")
    with queue:
        queue.start(lambda entry: None, consumer=(consumer := queue.consumer()))
        lets_wait_and_does_not_hang(reader, consumer, monkeypatch)


@pytest.mark.parametrize("way", [InMemoryAssignments.call_back, InMemoryAssignments.take])
def test_nor_does_one_whose_queue_is_slow_to_hear_that_partitions_are_let_go_of(
    monkeypatch: pytest.MonkeyPatch, way: Callable[[InMemoryAssignments, int], None]
) -> None:
    queue, reader = queue_of(SlowToRelease)
    queue.send("k", "v")
    with queue:
        queue.start(lambda entry: None, consumer=(consumer := queue.consumer()))
        queue.settled()
        way(queue._ledger, 0)
        lets_wait_and_does_not_hang(reader, consumer, monkeypatch)


def test_what_was_never_read_is_let_go_of_while_the_one_worker_is_busy_for_long() -> None:
    begun, ends = threading.Event(), threading.Event()

    def handle(entry: HeldEntry) -> None:
        begun.set()
        assert ends.wait(PATIENCE)

    with TestQueue(partitions=2) as queue:
        queue.lose(1)
        queue.start(handle)
        queue.send("k", "v", partition=0)
        assert begun.wait(PATIENCE)
        queue._ledger.give(1)
        queue.send("k", "v", partition=1)
        queue._ledger.call_back(1)
        until(lambda: (1, queue._queue.epochs[1]) in queue._queue.released)
        ends.set()
