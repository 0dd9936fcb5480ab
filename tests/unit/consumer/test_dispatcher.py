"""What a worker is handed: a slice of all that there is, and nothing of what somebody else has."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from baton.consumer import turns
from baton.consumer.dispatcher import BatchSize, Delivery, Dispatcher, Want
from baton.consumer.outcome import ACK
from baton.consumer.partition import EntrySequence, HeldPartition, backoff
from baton.consumer.queue_requests import QueueRequests
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.consumer_side import Reader
from baton.queues.entries import Entries
from baton.queues.entry import Entry
from tests.in_memory_queue import InMemoryLedger, InMemoryQueue, consumer_of
from tests.waiting import HOUR, PATIENCE, until

EACH = 20
QUEUE = QueueName("orders")


def test_one_worker_gets_what_there_is_of_several_partitions_at_once() -> None:
    queue = InMemoryQueue(EACH)
    queue.unread[1] = [(str(number), b"k") for number in range(EACH)]
    consumer = consumer_of(queue, InMemoryLedger({0: 1, 1: 1}))
    handed: list[list[tuple[int, int]]] = []
    with consumer:
        consumer._loop.serve(1)
        while sum(map(len, handed)) < 2 * EACH:
            delivery = consumer._loop.take(Want())
            assert isinstance(delivery, Delivery)
            handed.append([(entry.partition, int(entry.offset)) for entry in delivery.entries])
            consumer._loop.give_back(delivery, [(delivery.entries, ACK)], 1e-3, EACH)
    assert len(handed[0]) == 1, "how fast the handler is nobody knows yet"
    assert any({partition for partition, _ in those} == {0, 1} for those in handed)
    every = [one for those in handed for one in those]
    assert [[number for partition, number in every if partition == which] for which in (0, 1)] == [list(range(EACH))] * 2


class QueueThatTakesUp(InMemoryQueue):
    """It begins something when it is asked whether it is ready."""

    def __init__(self) -> None:
        super().__init__(1)
        self.unread[1] = [("0", b"k")]
        self.away = True
        self.asked_early = 0
        self._refused_at = float("-inf")

    def read(self, *asked: Any, **how: Any) -> list[Entry]:
        self._refused_at = time.monotonic()
        return super().read(*asked, **how)

    def ready(self, partition: int, epoch: Epoch) -> bool:
        self.asked_early += time.monotonic() - self._refused_at < backoff(self.refused) and self.away
        return super().ready(partition, epoch)


@pytest.mark.parametrize("batch", [None, BatchSize(2)])
def test_a_queue_that_is_away_is_not_asked_what_is_ready_before_its_time(batch: BatchSize | None) -> None:
    queue = QueueThatTakesUp()
    consumer = consumer_of(queue, InMemoryLedger({0: 1, 1: 1}))
    with consumer:
        consumer._loop.serve(1)
        consumer._loop.want(want := Want(batch))
        until(lambda: queue.refused >= 3)
        queue.away = False
        assert isinstance(want.answer.result(PATIENCE), Delivery)
    assert not queue.asked_early


class QueueOfMany(InMemoryQueue):
    """Knows how often it was asked what is ready."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self.unread = {partition: [(str(number), b"k") for number in range(EACH)] for partition in range(partitions)}
        self.asked = 0

    def ready(self, partition: int, epoch: Epoch) -> bool:
        self.asked += 1
        return super().ready(partition, epoch)


def test_a_batch_asks_those_of_many_partitions_of_which_it_has_entries_and_all_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "_WATCH_EVERY", HOUR)
    queue = QueueOfMany(many := 200)
    consumer = consumer_of(queue, InMemoryLedger(dict.fromkeys(range(many), 1)))
    handed: list[int] = []
    with consumer:
        consumer._loop.serve(1)
        while len(handed) < many:
            delivery = consumer._loop.take(Want(BatchSize(EACH)))
            assert isinstance(delivery, Delivery)
            handed += {entry.partition for entry in delivery.entries}
            consumer._loop.give_back(delivery, [(delivery.entries, ACK)], 1e-3, EACH)
        asked = queue.asked
    assert sorted(handed) == list(range(many))
    assert asked < 10 * many, "and not each of them for each batch"


class QueueThatFills(InMemoryQueue):
    """Something comes as soon as it was asked whether there is something."""

    def ready(self, partition: int, epoch: Epoch) -> bool:
        was_ready = super().ready(partition, epoch)
        self.unread[partition] = self.unread.get(partition) or [("0", b"k")]
        return was_ready


def test_what_comes_while_a_turn_finds_nothing_is_handed_out_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_IDLE", HOUR)
    consumer = consumer_of(QueueThatFills())
    with consumer:
        consumer._loop.serve(1)
        consumer._loop.want(want := Want())
        assert isinstance(want.answer.result(PATIENCE), Delivery)


class RequestsThatLose(QueueRequests):
    """A partition is lost with the second question whether one of its entries may be begun."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: list[HeldPartition] = []

    def may_begin(self, sequence: EntrySequence, reader: Reader) -> bool:
        self._asked.append(sequence.holding)
        if self._asked.count(sequence.holding) == 2:
            sequence.holding.forget()
        return not sequence.holding.over


@pytest.mark.parametrize("size", [BatchSize(10), BatchSize(10, 5.0)])
def test_a_batch_has_nothing_of_a_partition_that_is_lost_while_it_is_gathered(size: BatchSize) -> None:
    holdings: Any = SimpleNamespace(reader=lambda holding: None)
    hearing: Any = None
    lost, kept = (HeldPartition(Partition(QUEUE, number), Epoch(1), hearing, by_key=True) for number in (0, 1))
    lost.take_in(Entries([entry(0, 0, b"a", b"1"), entry(0, 1, b"b", b"1")]), 0)
    kept.take_in(Entries([entry(1, 0, b"a", b"large" * 3)]), 2)
    parts = Dispatcher(holdings, RequestsThatLose())._gather([lost, kept], size, time.monotonic())
    assert lost.over and all(not sequence.holding.over for sequence, _ in parts)


def entry(partition: int, offset: int, key: bytes, value: bytes) -> Entry:
    return Entry(QUEUE, partition, str(offset), key, value, 0, Epoch(1), False)
