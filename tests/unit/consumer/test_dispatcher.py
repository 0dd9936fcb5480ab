"""The entries that workers and batches get, and their order."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest

from baton.consumer import Batch, Consumer, Retry, turns
from baton.consumer.dispatcher import BatchSize, Delivery, Dispatcher, Want
from baton.consumer.entry import HeldEntry
from baton.consumer.handler_options import CheckedOptions
from baton.consumer.outcome import ACK, Nack
from baton.consumer.partition import EntrySequence, HeldPartition, backoff
from baton.consumer.queue_requests import QueueRequests
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.consumer_side import Reader
from baton.queues.entry import Entries, Entry
from baton.queues.protocol import PartitionUnavailable
from baton.testing import InMemoryReader, TestQueue, _Sent
from tests.unit.consumer.readers import GoesAway, handled, offsets, queue_of
from tests.waiting import HOUR, PATIENCE, eventually, until

EACH = 20
QUEUE = QueueName("orders")


def fill(queue: TestQueue) -> None:
    """Send EACH entries to each partition."""
    for partition in queue._queue.epochs:
        for _ in range(EACH):
            queue.send("k", "v", partition=partition)


def acknowledged(consumer: Consumer, size: BatchSize | None = None) -> Sequence[Entry]:
    """Return what a worker gets, after it has acknowledged that."""
    delivery = consumer._loop.take(Want(size))
    assert isinstance(delivery, Delivery)
    consumer._loop.give_back(delivery, [(delivery.entries, ACK)], 1e-3, EACH)
    return delivery.entries


def test_one_worker_gets_entries_of_several_partitions_at_once() -> None:
    queue = TestQueue(partitions=2)
    fill(queue)
    consumer = queue.consumer()
    handed: list[list[tuple[int, int]]] = []
    with consumer:
        consumer._loop.serve(CheckedOptions())
        while sum(map(len, handed)) < 2 * EACH:
            handed.append([(entry.partition, int(entry.offset)) for entry in acknowledged(consumer)])
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
def test_an_unreachable_queue_is_not_polled_before_its_backoff_ends(batch: BatchSize | None) -> None:
    queue, reader = queue_of(TakesUp, 2)
    for partition in (0, 1):
        queue.send("k", "v", partition=partition)
    reader.asked_early = 0
    with queue.consumer() as consumer:
        consumer._loop.serve(CheckedOptions())
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


def test_a_batch_asks_few_of_many_partitions_and_all_get_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "_WATCH_EVERY", HOUR)
    queue, reader = queue_of(Counting, many := 200)
    fill(queue)
    handed: list[int] = []
    with queue.consumer() as consumer:
        consumer._loop.serve(CheckedOptions())
        while len(handed) < many:
            handed += {entry.partition for entry in acknowledged(consumer, BatchSize(EACH))}
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


def test_an_entry_that_arrives_during_an_empty_turn_comes_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_IDLE", HOUR)
    queue, _ = queue_of(Fills)
    with queue.consumer() as consumer:
        consumer._loop.serve(CheckedOptions())
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
def test_a_batch_excludes_a_partition_lost_while_it_is_gathered(size: BatchSize) -> None:
    holdings: Any = SimpleNamespace(reader=lambda holding: None)
    listener: Any = None
    lost, kept = (HeldPartition(Partition(QUEUE, number), Epoch(1), listener, by_key=True) for number in (0, 1))
    lost.take_in(Entries([entry(0, 0, b"a", b"1"), entry(0, 1, b"b", b"1")]), 0)
    kept.take_in(Entries([entry(1, 0, b"a", b"large" * 3)]), 2)
    parts = Dispatcher(holdings, RequestsThatLose())._gather([*lost.ready(inf), *kept.ready(inf)], size, time.monotonic())
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
        [(sequence, entries)] = dispatcher._gather([*held.ready(inf)], BatchSize(2), time.monotonic())
        found.append(entries[0].key)
        sequence.settle(entries, Nack("no", 0.0, alone=True) if sequence is bad else ACK, 0.0)
    assert found == [b"bad", b"hot", b"bad", b"hot", b"bad"]


def entry(partition: int, offset: int, key: bytes, value: bytes) -> Entry:
    return Entry(QUEUE, partition, str(offset), key, value, 0, Epoch(1), False)


# -- Entries that an earlier process left unfinished come last, and one at a time.


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


def test_leftovers_come_one_by_one_least_delivered_first() -> None:
    handed: list[list[int]] = []
    with left_over(TIMES).consumer() as consumer:
        consumer._loop.serve(CheckedOptions())
        while len(handed) < len(OWNED):
            handed.append([entry.partition for entry in acknowledged(consumer)])
    assert handed == [[partition] for partition in LEAST_OFTEN_FIRST]


def test_a_failed_leftover_is_retried_before_those_after_it() -> None:
    begun: list[str] = []

    def handle(entry: HeldEntry) -> None:
        begun.append(entry.offset)
        if len(begun) == 1:
            raise Retry("once", delay=0)

    handled(handle, queue=left_over({0: 2}, ("k", "k")))
    assert begun == ["0", "0", "1"]


def test_a_batch_of_leftovers_has_one_partition() -> None:
    with left_over(TIMES, ("k", "k")).consumer() as consumer:
        batches = consumer.batches(max_entries=10, max_wait=0.01)
        handed: list[list[int]] = []
        while len(handed) < len(OWNED):
            batch: Batch = next(batches)
            handed.append([entry.partition for entry in batch])
            batch.ack()
    assert sorted(handed) == [[partition] * 2 for partition in OWNED]


def test_a_slow_leftover_does_not_block_the_others() -> None:
    with left_over(TIMES).consumer() as consumer:
        consumer._loop.serve(CheckedOptions(concurrency=len(OWNED)))
        taken = [consumer._loop.take(Want()) for _ in OWNED]  # and none is given back
        handed = [[entry.partition for entry in delivery.entries] for delivery in taken if isinstance(delivery, Delivery)]
    assert handed == [[partition] for partition in LEAST_OFTEN_FIRST]


def test_a_partition_lost_at_one_key_starts_no_other_key() -> None:
    class FencedAtOneKey(ReaderWithLeftovers):
        def verify(self, partition: int, epoch: Epoch) -> None:
            if partition == 0:
                queue._ledger.take(0)
            super().verify(partition, epoch)

    queue = left_over({0: 1, 1: 2}, ("one", "two"), FencedAtOneKey)
    begun: list[int] = []
    handled(lambda entry: begun.append(entry.partition), queue=queue, order="key")
    assert begun == [1, 1]


# -- With order="key", keys are worked on concurrently and fairly.


async def test_serve_can_switch_a_running_consumer_to_order_by_key() -> None:
    queue = TestQueue()
    consumer = queue.consumer()
    for key in ("a", "b"):
        queue.send(key, "v")
    at_work: set[str] = set()
    together = asyncio.Event()

    async def handle(entry: HeldEntry) -> None:
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


def test_entries_waiting_behind_a_slow_key_are_bounded_in_bytes() -> None:
    go_on = threading.Event()

    def handle(entry: HeldEntry) -> None:
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

    def handle(work: HeldEntry | Batch) -> None:
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
def test_entries_waiting_behind_failing_ones_are_bounded(
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


# -- An idle consumer checks its partitions when something is due, and not before.


DELAY = 0.2


class SlowReader(InMemoryReader):
    """Partition 1 says twice that it has something, has nothing, and takes until the retry in partition 0 is due to say so."""

    consumer: Consumer
    wrong = 0

    def ready(self, partition: int, epoch: Epoch) -> bool:
        return self.wrong > 0 if partition == 1 else super().ready(partition, epoch)

    def read(self, partition: int, *asked: Any, **how: Any) -> Sequence[Entry]:
        if partition == 1 and self.wrong:
            self.wrong -= 1
            if self.wrong:
                self.consumer.interrupt()
            else:
                begun = time.monotonic()
                until(lambda: time.monotonic() > begun + DELAY)
        return super().read(partition, *asked, **how)


def test_a_retry_that_falls_due_while_others_are_served_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_IDLE", HOUR)
    queue, reader = queue_of(SlowReader, 2)
    reader.consumer = queue.consumer()
    tries: list[str] = []

    def handle(entry: HeldEntry) -> None:
        tries.append(entry.offset)
        if len(tries) == 1:
            reader.wrong = 2
            raise Retry("later", delay=DELAY)

    with queue:
        queue.send("k", "v", partition=0)
        queue.start(handle, consumer=reader.consumer)
        until(lambda: len(tries) == 2)


class UnavailableAtFirst(InMemoryReader):
    """The first read of the partition fails, or the first request to keep it."""

    fails = "read"

    def read(self, *asked: Any, **how: Any) -> Sequence[Entry]:
        self._fail("read")
        return super().read(*asked, **how)

    def keep(self, partition: int, epoch: Epoch) -> None:
        self._fail("keep")

    def _fail(self, request: str) -> None:
        if self.fails == request:
            self.fails = ""
            raise PartitionUnavailable("the partition has no leader yet")


@pytest.mark.parametrize("first", ["read", "keep"])
def test_a_partition_without_entries_in_hand_is_asked_for_again_after_its_outage(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_IDLE", HOUR)
    queue, reader = queue_of(UnavailableAtFirst)
    reader.fails = first
    with queue:
        queue.send("k", "v")
        queue.start(lambda entry: None, consumer=queue.consumer(on_revoked=lambda *_: None))
        until(lambda: queue.acked)


class ComesMeanwhile(InMemoryReader):
    """Partition 0 gets an entry that its wait does not report, while the consumer collects the partitions at rest."""

    consumer: Consumer
    late = False

    def ready(self, partition: int, epoch: Epoch) -> bool:
        turns = self.consumer._loop._turns
        if self.late and turns.dispatcher.wants and any(holding.waiting for holding in turns.holdings):
            self.late, self._waits_for = False, frozenset()
            self.append(0, b"other", b"v", {})
        return super().ready(partition, epoch)


def test_an_entry_of_another_key_is_handed_out_while_one_waits_for_its_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_IDLE", HOUR)
    queue, reader = queue_of(ComesMeanwhile)
    reader.consumer = queue.consumer()

    def handle(entry: HeldEntry) -> None:
        if entry.key == b"failing" and not entry.attempt:
            reader.late = True
            raise Retry("later", delay=HOUR)

    with queue:
        queue.send("failing", "v")
        queue.start(handle, consumer=reader.consumer, order="key")
        until(lambda: [entry.key for entry in queue.acked] == [b"other"])
        queue.settled()


# -- A partition that is granted again waits for handlers that still have entries of its earlier epoch.


def granted_at_once(queue: TestQueue) -> None:
    """Grant partition 0 to its owner again, as when the queue had no record of it."""
    queue._ledger._next_epoch(0)
    queue._ledger._say()


def lost_and_granted(queue: TestQueue) -> None:
    queue._ledger.take(0)
    queue._until_up_to_date()
    queue._ledger.give(0)


@pytest.mark.parametrize("again", [granted_at_once, lost_and_granted])
@pytest.mark.parametrize("options", [{}, {"order": "key"}, {"max_entries": 2, "max_wait": 0.01}])
def test_no_entry_of_a_new_epoch_begins_while_a_handler_of_an_earlier_one_runs(
    options: dict[str, Any], again: Callable[[TestQueue], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_IDLE", HOUR)
    monkeypatch.setattr(turns, "_LOOK_EVERY", HOUR)
    monkeypatch.setattr(turns, "_WATCH_EVERY", 0.0)
    begun: list[int] = []
    go_on = threading.Event()

    def handle(work: HeldEntry | Batch) -> None:
        begun.append((work[0] if isinstance(work, Batch) else work).epoch)
        assert begun[-1] > 1 or go_on.wait(PATIENCE)

    with TestQueue() as queue:
        consumer = queue.consumer()
        queue.start(handle, consumer=consumer, concurrency=2, **options)
        queue.send("k", "v")
        until(lambda: begun and consumer.ask(lambda turns: len(turns.dispatcher.wants) == 1, False))
        for _ in range(3):
            again(queue)
            queue._until_up_to_date()
            assert consumer.ask(lambda turns: len(turns.dispatcher.wants), 0) == 1 and begun == [1]
            assert consumer.ask(lambda turns: turns._wake_at(now := time.monotonic()) > now + PATIENCE, False), "it does not spin"
        go_on.set()
        queue.settled()
        assert len(begun) == 2 and len(queue.acked) == 1


class WithoutLeftovers:
    """A reader that hands out no entry again that it has handed out before, as Kafka's."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read(self, *arguments: Any, new: bool = True, **how: Any) -> Sequence[Entry]:
        return self._reader.read(*arguments, new=new, **how) if new else []


@pytest.mark.parametrize("leaves", [False, True], ids=["revoked", "leaves"])
def test_a_partition_is_not_released_while_a_handler_of_an_earlier_epoch_runs(leaves: bool) -> None:
    begun: list[int] = []
    revoked: list[bool] = []
    go_on = threading.Event()

    def handle(entry: HeldEntry) -> None:
        begun.append(entry.epoch)
        assert go_on.wait(PATIENCE)

    with TestQueue() as queue:
        consumer = queue.consumer(on_revoked=lambda partitions, time_left: revoked.append(go_on.is_set()))
        holdings = consumer._loop._turns.holdings
        holdings._open_queue = partial(without_leftovers, holdings._open_queue)
        queue.start(handle, consumer=consumer, concurrency=2)
        queue.send("k", "v")
        until(lambda: begun)
        granted_at_once(queue)
        queue._until_up_to_date()
        if leaves:
            consumer._loop._grace.stop_now()
        else:
            queue._ledger.call_back(0)
        until(lambda: consumer.ask(lambda turns: all(one.releasing for one in turns.holdings), False))
        for _ in range(5):
            consumer.ask(lambda turns: None, None)
        assert not revoked and (0, 2) not in queue._queue.released
        go_on.set()
        until(lambda: (0, 2) in queue._queue.released)
        assert revoked == [True]


def without_leftovers(opened: Callable[[QueueName], Reader], queue: QueueName) -> Reader:
    return cast(Reader, WithoutLeftovers(opened(queue)))


# -- A consumer of batches without entries waits without spinning.


def nothing_is_due(consumer: Consumer) -> bool:
    dispatcher = consumer._loop._turns.dispatcher
    return len(dispatcher.wants) == 1 and dispatcher.due == inf


def fail(batch: Batch) -> None:
    raise ValueError("no")


def test_a_batch_consumer_waits_after_a_dead_letter() -> None:
    with TestQueue(max_redeliveries=1) as queue:
        consumer = queue.consumer()
        queue.start(fail, consumer=consumer, max_entries=10)
        queue.send("k", "v")
        queue.settled()
        until(lambda: nothing_is_due(consumer))


def test_a_batch_consumer_waits_while_the_queue_is_away() -> None:
    queue, reader = queue_of(GoesAway)
    consumer = queue.consumer()
    tries: list[int] = []

    def handle(batch: Batch) -> None:
        tries.append(len(batch))
        if len(tries) == 1:
            reader.away = True
            fail(batch)

    with queue:
        queue.start(handle, consumer=consumer, max_entries=10)
        queue.send("k", "v")
        until(lambda: reader.refused >= 2 and nothing_is_due(consumer))
        reader.away = False
        queue.settled()
        assert offsets(queue) == ["0"]


def test_empty_entries_are_handed_out() -> None:
    with TestQueue() as queue:
        queue.start(lambda batch: None, max_entries=10)
        for _ in range(3):
            queue.send(None, b"")
        queue.settled()
        queue.send(None, b"")
        queue.settled()
        assert offsets(queue) == ["0", "1", "2", "3"]
