"""A partition's own trouble keeps no other from being read, and a queue that lets a consumer wait does not make it hang."""

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from baton.consumer import loop
from baton.consumer.entry import HeldEntry
from baton.consumer.partition import HeldPartition
from baton.consumer.queue_requests import QueueRequests
from baton.model.ids import Epoch, Partition, Uid
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.protocol import Owner, PartitionUnavailable, QueueUnreachable
from tests.in_memory_queue import ORDERS, InMemoryLedger, InMemoryQueue, consumer_of
from tests.waiting import PATIENCE, until


class OneInTrouble(InMemoryQueue):
    """Nothing can be done with partition 0 while it is `held`."""

    def __init__(self) -> None:
        super().__init__()
        self.held = True
        self.tries = 0

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        if partition == 0 and self.held:
            self.tries += 1
            raise PartitionUnavailable("outputs cannot be sent to the topic bills: it is not there")
        super().ack(partition, epoch, [f"{partition}/{offset}" for offset in offsets])

    def has(self, offset: str) -> bool:
        return offset in self.acknowledged


def test_others_are_read_while_one_can_tell_its_queue_nothing() -> None:
    queue = OneInTrouble()
    queue.unread = {0: [("0", b"k")], 1: []}
    consumer = consumer_of(queue, InMemoryLedger({0: 1, 1: 1}))
    running = threading.Thread(target=consumer.run, args=(lambda entry: None,), daemon=True)
    running.start()
    until(lambda: queue.tries > 1)
    for number in range(10):
        queue.unread[1].append((str(number), b"k"))
        consumer.interrupt()
        until(partial(queue.has, f"1/{number}"))
    assert not consumer._loop._turns.requests.away(ORDERS)
    queue.held = False
    until(partial(queue.has, "0/0"))
    consumer._loop.leave()
    running.join(PATIENCE)


def test_it_is_waited_for_longer_and_longer_until_there_is_another_answer() -> None:
    queue, requests = OneInTrouble(), QueueRequests()
    holding = HeldPartition(Partition(ORDERS, 0), Epoch(1), None)  # type: ignore[arg-type]
    holding.handled = ["0"]
    for tries in (1, 2, 3):
        assert not requests.settle(holding, queue)
        assert holding.outage is not None and holding.outage.tries == tries
        assert "bills" in holding.outage.why
    assert requests.not_before(holding) > time.monotonic()
    queue.held = False
    assert requests.settle(holding, queue) and requests.not_before(holding) == 0.0


class Asked(InMemoryQueue):
    """Knows what it was asked, and refuses or does not answer where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.answer: Exception | None = None

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        self.asked.append(f"ack {offsets} soon={soon}")
        if self.answer is not None:
            raise self.answer

    def verify(self, partition: int, epoch: Epoch) -> None:
        self.asked.append("verify")


def test_what_was_finished_before_a_long_handler_is_with_its_queue_before_the_partition_is_taken_away() -> None:
    queue, requests = Asked(), QueueRequests()
    holding = HeldPartition(Partition(ORDERS, 0), Epoch(1), None)  # type: ignore[arg-type]
    requests.stay_sure(holding, queue)
    assert queue.asked == ["verify"]
    holding.let_go()
    requests.stay_sure(holding, queue)
    assert queue.asked[1:] == ["ack [] soon=False", "verify"]
    for answer in (QueueUnreachable("it is away"), StaleOwner(0, Uid("a"), Epoch(1), Owner(Uid("b"), Epoch(2)))):
        queue.answer, queue.asked = answer, []
        requests.stay_sure(holding, queue)
        assert queue.asked == ["ack [] soon=False"], "it is not asked once more"
    assert holding.over


class Slow(InMemoryQueue):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked, self.answers = threading.Event(), threading.Event()

    def read(self, partition: int, epoch: Epoch, count: int = 100, *, most_bytes: int = 0, new: bool = True) -> list[Entry]:
        self.asked.set()
        assert self.answers.wait(PATIENCE)
        raise QueueUnreachable("it was too slow")


def test_a_consumer_whose_queue_lets_it_wait_does_not_hang_until_no_request_takes_that_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_LONGEST_SILENCE", 0.01)
    queue = Slow()
    consumer = consumer_of(queue)
    running = threading.Thread(target=consumer.run, args=(lambda entry: None,), daemon=True)
    running.start()
    try:
        assert queue.asked.wait(PATIENCE)
        assert consumer._loop.hangs() == ""
        monkeypatch.setattr(loop, "_LONGEST_QUESTION", 0.0)
        assert "has not answered" in consumer._loop.hangs()
    finally:
        queue.answers.set()
        consumer._loop.leave()
        running.join(PATIENCE)


class SlowToHear(InMemoryQueue):
    """That partitions are let go of."""

    def __init__(self) -> None:
        super().__init__()
        self.hears, self.has_heard = threading.Event(), threading.Event()

    def let_go(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        self.hears.set()
        assert self.has_heard.wait(PATIENCE)
        return {}


@pytest.mark.parametrize("revoking", [{0: 1}, {}], ids=["called back", "lost"])
def test_nor_does_one_whose_queue_is_slow_to_hear_that_partitions_are_let_go_of(
    monkeypatch: pytest.MonkeyPatch, revoking: dict[int, int]
) -> None:
    monkeypatch.setattr(loop, "_LONGEST_SILENCE", 0.01)
    queue, ledger = SlowToHear(), InMemoryLedger({0: 1})
    queue.unread = {0: [("0", b"k")]}
    consumer = consumer_of(queue, ledger)
    running = threading.Thread(target=consumer.run, args=(lambda entry: None,), daemon=True)
    running.start()
    try:
        until(lambda: queue.acknowledged == ["0"])
        ledger.says({}, revoking)
        assert queue.hears.wait(PATIENCE)
        assert consumer._loop.hangs() == ""
        monkeypatch.setattr(loop, "_LONGEST_QUESTION", 0.0)
        assert "has not answered" in consumer._loop.hangs()
    finally:
        queue.has_heard.set()
        consumer._loop.leave()
        running.join(PATIENCE)


def test_what_was_never_read_is_let_go_of_while_the_one_worker_is_busy_for_long() -> None:
    queue, ledger = InMemoryQueue(1), InMemoryLedger({0: 1, 1: 1})
    begun, ends = threading.Event(), threading.Event()

    def handle(entry: HeldEntry) -> None:
        begun.set()
        assert ends.wait(PATIENCE)

    consumer = consumer_of(queue, ledger)
    running = threading.Thread(target=consumer.run, args=(handle,), daemon=True)
    running.start()
    try:
        assert begun.wait(PATIENCE)
        queue.unread[2] = [("2", b"k")]
        ledger.says({0: 1, 1: 1}, {2: 1})
        until(lambda: ({2: 1}, False) in queue.told)
    finally:
        ends.set()
        consumer._loop.leave()
        running.join(PATIENCE)
