"""Workers get a slice of the available entries, and none that another worker has."""

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from baton.consumer import turns
from baton.consumer.dispatcher import BatchSize, Delivery, Dispatcher, Want
from baton.consumer.outcome import ACK, Nack
from baton.consumer.partition import EntrySequence, HeldPartition, backoff
from baton.consumer.queue_requests import QueueRequests
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.consumer_side import Reader
from baton.queues.entry import Entries, Entry
from baton.testing import InMemoryReader, TestQueue, _Sent
from tests.unit.consumer.readers import GoesAway, queue_of
from tests.waiting import HOUR, PATIENCE, until

EACH = 20
QUEUE = QueueName("orders")


def fill(queue: TestQueue) -> None:
    """Send EACH entries to each partition."""
    for partition in queue._queue.epochs:
        for _ in range(EACH):
            queue.send("k", "v", partition=partition)


def test_one_worker_gets_what_there_is_of_several_partitions_at_once() -> None:
    queue = TestQueue(partitions=2)
    fill(queue)
    consumer = queue.consumer()
    handed: list[list[tuple[int, int]]] = []
    with consumer:
        consumer._loop.serve(1)
        while sum(map(len, handed)) < 2 * EACH:
            delivery = consumer._loop.take(Want())
            assert isinstance(delivery, Delivery)
            handed.append([(entry.partition, int(entry.offset)) for entry in delivery.entries])
            consumer._loop.give_back(delivery, [(delivery.entries, ACK)], 1e-3, EACH)
    assert len(handed[0]) == 1, "the speed of the handler is still unknown"
    assert any({partition for partition, _ in those} == {0, 1} for those in handed)
    every = [one for those in handed for one in those]
    offsets = [[number for partition, number in every if partition == which] for which in (0, 1)]
    assert offsets == [list(range(EACH)), list(range(EACH, 2 * EACH))]


class TakesUp(GoesAway):
    """Counts calls of `ready` that come too early after a rejected read."""

    away = True
    asked_early = 0
    _refused_at = float("-inf")

    def read(self, *asked: Any, **how: Any) -> Sequence[Entry]:
        self._refused_at = time.monotonic()
        return super().read(*asked, **how)

    def ready(self, partition: int, epoch: Epoch) -> bool:
        self.asked_early += time.monotonic() - self._refused_at < backoff(self.refused) and self.away
        return super().ready(partition, epoch)


@pytest.mark.parametrize("batch", [None, BatchSize(2)])
def test_a_queue_that_is_away_is_not_asked_what_is_ready_before_its_time(batch: BatchSize | None) -> None:
    queue, reader = queue_of(TakesUp, 2)
    for partition in (0, 1):
        queue.send("k", "v", partition=partition)
    reader.asked_early = 0
    with queue.consumer() as consumer:
        consumer._loop.serve(1)
        consumer._loop.want(want := Want(batch))
        until(lambda: reader.refused >= 3)
        reader.away = False
        assert isinstance(want.answer.result(PATIENCE), Delivery)
    assert not reader.asked_early


class Counting(InMemoryReader):
    asked = 0
    """Number of calls of `ready`."""

    def ready(self, partition: int, epoch: Epoch) -> bool:
        self.asked += 1
        return super().ready(partition, epoch)


def test_a_batch_asks_those_of_many_partitions_of_which_it_has_entries_and_all_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "_WATCH_EVERY", HOUR)
    queue, reader = queue_of(Counting, many := 200)
    fill(queue)
    handed: list[int] = []
    with queue.consumer() as consumer:
        consumer._loop.serve(1)
        while len(handed) < many:
            delivery = consumer._loop.take(Want(BatchSize(EACH)))
            assert isinstance(delivery, Delivery)
            handed += {entry.partition for entry in delivery.entries}
            consumer._loop.give_back(delivery, [(delivery.entries, ACK)], 1e-3, EACH)
        asked = reader.asked
    assert sorted(handed) == list(range(many))
    assert asked < 10 * many, "and not each of them for each batch"


class Fills(InMemoryReader):
    """An entry arrives right after `ready` has returned False."""

    def ready(self, partition: int, epoch: Epoch) -> bool:
        was_ready = super().ready(partition, epoch)
        if not was_ready:
            self._unfinished[partition]["0"] = _Sent(entry(partition, 0, b"k", b"v"))
        return was_ready


def test_what_comes_while_a_turn_finds_nothing_is_handed_out_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_IDLE", HOUR)
    queue, _ = queue_of(Fills)
    with queue.consumer() as consumer:
        consumer._loop.serve(1)
        consumer._loop.want(want := Want())
        assert isinstance(want.answer.result(PATIENCE), Delivery)


class RequestsThatLose(QueueRequests):
    """A partition is lost at the second call of `may_begin` for it."""

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
    listener: Any = None
    lost, kept = (HeldPartition(Partition(QUEUE, number), Epoch(1), listener, by_key=True) for number in (0, 1))
    lost.take_in(Entries([entry(0, 0, b"a", b"1"), entry(0, 1, b"b", b"1")]), 0)
    kept.take_in(Entries([entry(1, 0, b"a", b"large" * 3)]), 2)
    parts = Dispatcher(holdings, RequestsThatLose())._gather([lost, kept], size, time.monotonic())
    assert lost.over and all(not sequence.holding.over for sequence, _ in parts)


class RequestsThatAllow(QueueRequests):
    def may_begin(self, sequence: EntrySequence, reader: Reader) -> bool:
        sequence.failed.pop(sequence.waiting[0].offset, None)
        return True


def test_an_entry_of_a_failed_batch_takes_turns_with_other_keys() -> None:
    holdings: Any = SimpleNamespace(reader=lambda holding: None)
    listener: Any = None
    held = HeldPartition(Partition(QUEUE, 0), Epoch(1), listener, by_key=True)
    held.take_in(Entries([entry(0, 0, b"bad", b"1"), *(entry(0, number, b"hot", b"1") for number in range(1, 10))]), 0)
    dispatcher = Dispatcher(holdings, RequestsThatAllow())
    bad = held.sequences[b"bad"]
    bad.settle(bad.hand_out(1), Nack("no", 0.0, alone=True), 0.0)
    found: list[bytes] = []
    for _ in range(5):
        [(sequence, entries)] = dispatcher._gather([held], BatchSize(2), time.monotonic())
        found.append(entries[0].key)
        sequence.settle(entries, Nack("no", 0.0, alone=True) if sequence is bad else ACK, 0.0)
    assert found == [b"bad", b"hot", b"bad", b"hot", b"bad"]


def entry(partition: int, offset: int, key: bytes, value: bytes) -> Entry:
    return Entry(QUEUE, partition, str(offset), key, value, 0, Epoch(1), False)
