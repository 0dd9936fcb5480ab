"""Entries are processed in parallel, and in order within a partition or a key."""

import asyncio
import itertools
import threading
from collections import defaultdict

import pytest

from baton.consumer import Batch, Entry
from baton.model.ids import Epoch
from tests.integration.redis.conftest import Queue
from tests.integration.redis.pods import Gate, Operator, Pod, acknowledged, lag
from tests.waiting import PATIENCE, until


class Record:
    """Records which entries ran at the same time, and counts overlaps within a unit of order."""

    def __init__(self, by_key: bool) -> None:
        self.order: dict[bytes, list[int]] = defaultdict(list)
        self.most = 0
        self.overlaps = 0
        self._running: set[object] = set()
        self._by_key = by_key
        self._lock = threading.Lock()

    def begin(self, entry: Entry) -> None:
        unit = entry.key if self._by_key else entry.partition
        with self._lock:
            self.overlaps += unit in self._running
            self._running.add(unit)
            self.most = max(self.most, len(self._running))

    def end(self, entry: Entry) -> None:
        with self._lock:
            self._running.discard(entry.key if self._by_key else entry.partition)
            self.order[entry.key].append(int(entry.value))

    @property
    def count(self) -> int:
        return sum(map(len, self.order.values()))


def send(queue: Queue, keys: int, each: int) -> None:
    """Send to this many keys of each partition, in turns."""
    for partition in range(queue.partitions):
        names = [queue.key(partition, nth) for nth in range(keys)]
        queue.producer.send_many((name, str(number)) for number in range(each) for name in names)


@pytest.mark.parametrize("by_key", [False, True], ids=["partition", "key"])
@pytest.mark.parametrize("kind", ["threads", "tasks"])
async def test_entries_are_processed_in_parallel_and_in_order(operator: Operator, queue: Queue, kind: str, by_key: bool) -> None:
    record = Record(by_key)
    wait = threading.Event()

    def handle(entry: Entry) -> None:
        record.begin(entry)
        wait.wait(0.002)
        record.end(entry)

    async def handle_async(entry: Entry) -> None:
        record.begin(entry)
        await asyncio.sleep(0.002)
        record.end(entry)

    keys, each = 5, 20
    send(queue, keys, each)
    handler = handle if kind == "threads" else handle_async
    pod = await operator.owner(0, 1, handler=handler, concurrency=6, order="key" if by_key else "partition")
    until(lambda: record.count == 2 * keys * each)
    assert all(numbers == list(range(each)) for numbers in record.order.values())
    assert record.overlaps == 0
    assert record.most == 2 if not by_key else record.most > 2
    pod.gives_back((0, 1), (1, 1))
    assert await lag(queue) == 0


async def test_keyless_entries_are_processed_in_parallel(operator: Operator, queue: Queue) -> None:
    lock, at_work, done = threading.Lock(), set[bytes](), set[bytes]()
    together = threading.Event()

    def handle(entry: Entry) -> None:
        with lock:
            at_work.add(entry.value)
            if len(at_work) == 8:
                together.set()
        assert together.wait(PATIENCE)
        done.add(entry.value)

    for number in range(100):
        queue.producer.produce(None, str(number), partition=0)
    queue.producer.flush()
    await operator.owner(0, handler=handle, concurrency=8, order="key")
    until(lambda: len(done) == 100)
    await acknowledged(queue)


async def test_a_blocked_key_does_not_block_others(operator: Operator, queue: Queue) -> None:
    seen: list[tuple[bytes, bytes]] = []
    slow, quick = queue.key(0, 0), queue.key(0, 1)
    gate = Gate(lambda entry: entry.key == slow)

    def handle(entry: Entry) -> None:
        gate(entry)
        seen.append((entry.key, entry.value))

    await operator.owner(0, handler=handle, concurrency=2, order="key")
    queue.producer.send_many([(slow, "0"), (quick, "0"), (slow, "1")])
    for number in range(1, 30):
        queue.producer.send(quick, str(number))
    until(lambda: len(seen) == 30)
    gate.open()
    until(lambda: len(seen) == 32)
    assert [value for key, value in seen if key == slow] == [b"0", b"1"]
    assert [value for key, value in seen if key == quick] == [b"%d" % number for number in range(30)]


async def test_a_failing_key_is_retried_in_order_while_others_go_on(operator: Operator, queue: Queue) -> None:
    bad, good = queue.key(0, 0), queue.key(0, 1)
    tries = itertools.count()
    seen: list[tuple[bytes, bytes]] = []

    def handle(entry: Entry) -> None:
        if (entry.key, entry.value) == (bad, b"1") and next(tries) < 2:
            raise RuntimeError("no")
        seen.append((entry.key, entry.value))

    queue.producer.send_many((key, str(number)) for number in range(10) for key in (bad, good))
    await operator.owner(0, handler=handle, concurrency=3, order="key")
    until(lambda: len(seen) == 20)
    for key in (bad, good):
        assert [value for name, value in seen if name == key] == [b"%d" % number for number in range(10)]


async def test_shutdown_waits_for_every_workers_entry(operator: Operator, queue: Queue) -> None:
    entered = threading.Barrier(3)
    go_on = threading.Event()
    ended: list[bytes] = []

    def handle(entry: Entry) -> None:
        entered.wait(PATIENCE)
        go_on.wait(PATIENCE)
        ended.append(entry.value)

    for partition in (0, 1):
        queue.send(f"{partition}-a", f"{partition}-b", partition=partition)
    pod = await operator.owner(0, 1, grace=5, handler=handle, concurrency=2)
    entered.wait(PATIENCE)
    pod.stop()
    until(lambda: pod.consumer.interrupted)
    go_on.set()
    until(pod.gone)
    assert sorted(ended) == [b"0-a", b"1-a"]
    assert await lag(queue) == 2


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("kind", ["threads", "tasks"])
async def test_a_handler_that_ends_the_process_has_what_it_handled_acknowledged(
    operator: Operator, queue: Queue, kind: str, concurrency: int
) -> None:
    handled: list[bytes] = []

    def leave_at_three(entry: Entry) -> None:
        if entry.value == b"3":
            raise SystemExit(7)
        handled.append(entry.value)

    async def leave_at_three_async(entry: Entry) -> None:
        leave_at_three(entry)

    queue.send(*map(str, range(6)))
    handler = leave_at_three if kind == "threads" else leave_at_three_async
    pod = await operator.owner(0, handler=handler, concurrency=concurrency)
    until(pod.gone)
    assert pod.exit == 7
    assert handled == [b"0", b"1", b"2"]
    assert await lag(queue) == 3


@pytest.mark.parametrize("way", ["threads", "tasks", "batches"])
async def test_every_entry_is_handled_once_and_in_order_through_hand_offs(operator: Operator, queue: Queue, way: str) -> None:
    """Two pods pass both partitions to and fro, under load."""
    handled: list[tuple[bytes, int, bool]] = []
    wait = threading.Event()

    def handle(entry: Entry) -> None:
        wait.wait(0.0005)
        handled.append((entry.key, int(entry.value), entry.redelivered))

    async def handle_async(entry: Entry) -> None:
        await asyncio.sleep(0.0005)
        handled.append((entry.key, int(entry.value), entry.redelivered))

    def handle_batch(batch: Batch) -> None:
        for entry in batch:
            handle(entry)

    def pod(uid: str) -> Pod:
        match way:
            case "threads":
                return operator.pod(uid, handler=handle, concurrency=4, order="key")
            case "tasks":
                return operator.pod(uid, handler=handle_async, concurrency=4, order="key")
            case _:
                return operator.pod(uid, handler=handle_batch, max_entries=20, max_wait=0.01)

    keys, each = 4, 150
    pods = pod("a"), pod("b")
    sending = threading.Thread(target=send, args=(queue, keys, each))
    sending.start()
    for turn in range(8):
        epoch, (owner, other) = turn + 1, pods if turn % 2 == 0 else pods[::-1]
        if turn:
            other.ledger({}, revoking={0: turn, 1: turn})
            for partition in (0, 1):
                await queue.operator.pause(partition, Epoch(turn))
            until(lambda other=other, turn=turn: other.released() == {(0, turn), (1, turn)})  # type: ignore[misc]
        before = len(handled)
        await operator.grant(owner, (0, epoch), (1, epoch))
        until(lambda before=before: len(handled) > before + 10 or len(handled) >= 2 * keys * each)  # type: ignore[misc]
    sending.join()
    until(lambda: len(handled) >= 2 * keys * each)
    order: dict[bytes, list[int]] = defaultdict(list)
    for key, number, redelivered in handled:
        assert not redelivered
        order[key].append(number)
    assert all(numbers == list(range(each)) for numbers in order.values())
    await acknowledged(queue)
