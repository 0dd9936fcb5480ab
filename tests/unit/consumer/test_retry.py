"""Retries of failed entries and batches (`retry=`), and handlers that take too long (`handler_timeout=`)."""

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from baton.consumer import Backoff, Batch, Consumer, Entry, HandlerTimeout, Reject, Retry, dispatcher
from baton.consumer.entry import HeldEntry
from baton.consumer.metrics import ConsumerMetrics
from baton.consumer.turns import Turns
from baton.model.ids import Epoch, QueueName
from baton.testing import POD, InMemoryReader, TestQueue
from tests.unit.consumer.readers import dead, filled, handled, offsets, queue_of
from tests.waiting import HOUR, PATIENCE, until

ORDERS = {"queue": "orders"}
PLAIN = Backoff(first=1, factor=2, most=300, jitter=0, attempts=8)


def fails(entry: Entry) -> None:
    raise ValueError("no")


async def fails_async(entry: Entry) -> None:
    raise ValueError("no")


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}, {"max_entries": 3, "max_wait": 0}])
def test_other_keys_continue_while_a_failed_key_waits_for_its_retry(options: Any) -> None:
    def handle(work: Entry | Batch) -> None:
        for entry in work if isinstance(work, Batch) else [work]:
            if entry.value == b"bad" and entry.attempt < 2:
                raise ValueError("no")

    with TestQueue() as queue:
        queue.start(handle, order="key", retry=Backoff(first=HOUR, most=HOUR), **options)
        for value in ("bad", *map(str, range(10))):
            queue.send("a", value)
        for key in range(50):
            queue.send(f"b{key}", "other")
        until(lambda: len(queue.acked) >= 50, "other keys go on")
        assert {entry.value for entry in queue.acked} == {b"other"}
        queue.settled()
    assert [entry.value for entry in queue.acked if entry.key == b"a"] == [b"bad", *(str(n).encode() for n in range(10))]


class SlowToCount(InMemoryReader):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.told: list[str] = []

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        time.sleep(1.2 * dispatcher._LONGEST_TURN)
        self.told.append("retry")
        return super().retry(partition, epoch, offset, why)

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        self.told.append("ack")
        super().ack(partition, epoch, offsets, soon=soon)


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}, {"max_entries": 50, "max_wait": 0}])
def test_entries_are_acknowledged_between_slow_retries(options: Any) -> None:
    failed = set[str]()

    def handle(work: Entry | Batch) -> None:
        entries = list(work) if isinstance(work, Batch) else [work]
        failed.update(entry.offset for entry in entries)
        if not entries[0].attempt:
            raise ValueError("no")

    queue, reader = queue_of(SlowToCount)
    with queue:
        for key in range(12):
            queue.send(f"k{key}", "v")
        queue.start(handle, order="key", retry=Backoff(first=HOUR, most=HOUR), **options)
        until(lambda: len(failed) == 12)
        queue.advance(2 * HOUR)  # all are due at once
        queue.settled()
    runs = "".join("r" if one == "retry" else " " for one in reader.told).split()
    assert sum(map(len, runs)) >= 12 and max(map(len, runs)) < 6


class CountsEnds(InMemoryReader):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.survivors: list[str] = []

    def survived(self, partition: int, epoch: Epoch, offset: str) -> None:
        self.survivors.append(offset)


@pytest.mark.parametrize("by_key", [{}, {"order": "key"}])
def test_a_survived_attempt_is_reported_to_the_queue_at_once(by_key: Any) -> None:
    queue, reader = queue_of(CountsEnds)
    with queue:
        queue.start(fails, retry=Backoff(first=HOUR, most=HOUR), **by_key)
        failed = queue.send("k", "v")
        until(lambda: reader.survivors == [failed.offset], "the next attempt is an hour away")


def test_a_survived_attempt_is_reported_during_a_hand_over() -> None:
    begun, may_fail = threading.Event(), threading.Event()
    attempts: list[str] = []

    def handle(entry: Entry) -> None:
        attempts.append(entry.offset)
        begun.set()
        may_fail.wait(HOUR)
        raise ValueError("no")

    queue, reader = queue_of(CountsEnds)
    with queue:
        queue.start(handle)
        queue.send("k", "v")
        assert begun.wait(HOUR)
        queue._ledger.call_back(0)
        may_fail.set()
        until(lambda: reader.released, "the partition is released")
    assert reader.survivors == attempts


def test_a_failed_attempt_does_not_reopen_a_dropped_queue() -> None:
    begun, may_fail = threading.Event(), threading.Event()

    def handle(entry: Entry) -> None:
        begun.set()
        may_fail.wait(HOUR)
        raise ValueError("no")

    queue, reader = queue_of(CountsEnds)
    opened: list[str] = []

    def open_queue(name: QueueName) -> InMemoryReader:
        opened.append(name)
        return reader

    consumer = queue._consumer = Consumer(open_queue, queue._ledger, POD, None, signals=False)
    with queue:
        queue.start(handle, consumer=consumer)
        queue.send("k", "v")
        assert begun.wait(HOUR)
        queue._ledger.take(0)
        until(lambda: queue._ask(lambda turns: not list(turns.holdings), False))
        may_fail.set()
        until(lambda: queue._ask(lambda turns: not turns.dispatcher.out, False), "the attempt has failed")
    assert (opened, reader.survivors) == ([QueueName("orders")], [])


@pytest.mark.parametrize("options", [{}, {"max_entries": 2, "max_wait": HOUR}])
def test_an_error_after_an_acknowledgement_is_not_reported(options: Any) -> None:
    def handle(work: Entry | Batch) -> None:
        first, *others = list(work) if isinstance(work, Batch) else [work]
        first.ack()
        if others or not options:
            raise ValueError("no")

    queue, reader = queue_of(CountsEnds)
    handled(handle, "v", "v", queue=queue, manual_ack=True, **options)
    assert reader.survivors == (["1"] if options else [])


def raises_retry(entry: Entry) -> None:
    raise Retry("later", delay=60)


def nacks(entry: Entry) -> None:
    entry.nack(why="no")


def test_backoff_grows_up_to_its_limit_with_jitter() -> None:
    assert [PLAIN.wait(attempt) for attempt in (0, 1, 2, 8, 9, 10_000)] == [1, 2, 4, 256, 300, 300]
    waits = {Backoff(first=10, jitter=0.2).wait(0) for _ in range(100)}
    assert len(waits) > 50 and min(waits) >= 8 and max(waits) <= 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"first": -1}, "first is -1: set it to 0 to 1,000,000,000"),
        ({"factor": 0.5}, "factor is 0.5: set it to 1 to 100"),
        ({"jitter": 2}, "jitter is 2: set it to 0 to 1"),
        ({"most": "1m"}, "most is '1m': set it to a number"),
        ({"attempts": 0}, "attempts is 0: set it to 1 or more"),
        ({"attempts": 2.5}, "attempts is 2.5: set it to a whole number"),
    ],
)
def test_an_invalid_backoff_is_rejected_by_its_name(arguments: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Backoff(**arguments)


@pytest.mark.parametrize(("handler", "why"), [(fails, "ValueError: no"), (fails_async, "ValueError: no"), (nacks, "no")])
def test_after_the_last_attempt_an_entry_is_a_dead_letter_with_its_last_error(handler: Any, why: str) -> None:
    queue = handled(handler, "v", retry=PLAIN, manual_ack=True)
    assert dead(queue) == {"0": f"after 8 attempts: {why}"}
    assert 126 < queue.moved <= 127


def test_the_nearest_base_class_of_an_exception_decides_the_retry_policy() -> None:
    seen, behind = defaultdict[bytes, list[int]](list), list[bytes]()
    errors: dict[bytes, Exception] = {
        b"a": ConnectionResetError("a"),
        b"b": ValueError("b"),
        b"c": KeyError("c"),
        b"d": Retry("d"),
    }

    def handle(entry: Entry) -> None:
        seen[entry.key].append(entry.attempt)
        if entry.value == b"behind":
            behind.append(entry.key)
        elif entry.key in errors:
            raise errors[entry.key]

    attempts = {ConnectionError: 4, Retry: 2, LookupError: 1, Exception: 3}
    retry = {kind: Backoff(first=3600, most=3600, attempts=most) for kind, most in attempts.items()}
    with TestQueue() as queue:
        queue.start(handle, order="key", concurrency=2, retry=retry)
        for key in (*errors, b"good"):
            queue.send(key, "v")
            queue.send(key, "behind")
        until(lambda: {b"c", b"good"} <= {*behind}, "keys go on that wait for no retry")
        assert set(behind) == {b"c", b"good"} and set(seen) == {*errors, b"good"}
        queue.settled()
        assert dead(queue) == {
            "0": "after 4 attempts: ConnectionResetError: a",
            "2": "after 3 attempts: ValueError: b",
            "4": "after 1 attempt: KeyError: 'c'",
            "6": "after 2 attempts: d",
        }
        assert seen[b"a"] == [0, 1, 2, 3, 0] and sorted(behind) == sorted([*errors, b"good"])


@pytest.mark.parametrize("asks", [raises_retry, lambda entry: entry.nack(delay=60, why="later")])
def test_a_delay_set_by_the_program_counts_as_an_attempt(asks: Any) -> None:
    queue = handled(asks, "v", retry=Backoff(first=3600, attempts=2), manual_ack=True)
    assert dead(queue) == {"0": "after 2 attempts: later"} and 59 < queue.moved <= 60


def test_retry_raised_by_a_deserializer_follows_the_policy() -> None:
    def read(value: bytes) -> object:
        raise Retry("the registry is away")

    queue = handled(fails, "v", deserializer=read, retry=Backoff(attempts=3))
    assert dead(queue) == {"0": "after 3 attempts: the registry is away"}


def test_a_failed_batch_counts_for_each_entry_but_only_the_bad_one_is_a_dead_letter() -> None:
    tries: list[list[tuple[str, int]]] = []

    def handle(batch: Batch) -> None:
        tries.append([(entry.offset, entry.attempt) for entry in batch])
        if any(entry.value == b"bad" for entry in batch):
            raise ValueError("no")

    queue = handled(handle, "bad", "good", max_entries=2, max_wait=60, retry=PLAIN)
    assert tries[0] == [("0", 0), ("1", 0)] and [("1", 1)] in tries
    assert dead(queue) == {"0": "after 8 attempts: ValueError: no"} and offsets(queue) == ["1"]


def test_a_delay_for_a_batch_holds_even_on_the_last_attempt() -> None:
    def handle(batch: Batch) -> None:
        if len(batch) > 1:
            raise Retry("later", delay=60)

    queue = handled(handle, "v", "v", max_entries=2, max_wait=60, retry=Backoff(attempts=1))
    assert offsets(queue) == ["0", "1"] and 59 < queue.moved <= 60


def test_an_entrys_age_is_measured_from_its_first_attempt() -> None:
    registry, none = CollectorRegistry(), list[int]()

    def waiting(turns: Turns) -> list[int]:
        return [entry.attempt for holding in turns.holdings for one in holding.sequences.values() for entry in one.waiting]

    with TestQueue() as queue:
        queue.start(fails, consumer=queue.consumer(metrics=ConsumerMetrics(registry)), retry=Backoff(HOUR, most=HOUR, attempts=3))
        queue.send("k", "v")
        until(lambda: queue._ask(waiting, none) == [1])
        age = counted(registry, "oldest_entry_seconds")
        queue.advance(HOUR)
        until(lambda: queue._ask(waiting, none) == [2])
        assert 0 < (age or 0) < (counted(registry, "oldest_entry_seconds") or 0)
        queue.settled()
        assert counted(registry, "oldest_entry_seconds") == 0


def test_attempts_stay_counted_when_a_partition_is_lost_or_handed_over() -> None:
    seen: list[tuple[int, bool]] = []

    def handle(entry: Entry) -> None:
        seen.append((entry.attempt, entry.still_mine()))
        raise ValueError("no")

    with TestQueue() as queue:
        queue.start(handle, retry=Backoff(first=3600, attempts=5))
        queue.send("k", "v")
        until(lambda: len(seen) == 1)
        queue.lose(0)
        queue.grant(0)
        until(lambda: len(seen) == 2)
        queue.hand_over(0)
        assert seen == [(0, True), (1, True), (2, True)], "what waits is tried once more before it is handed over"
        queue.grant(0)
        until(lambda: len(seen) == 4)
        queue.settled()
        assert [attempt for attempt, _ in seen] == [0, 1, 2, 3, 4]
        assert dead(queue) == {"0": "after 5 attempts: ValueError: no"}


@pytest.mark.parametrize("handler", [fails, fails_async])
def test_the_end_of_the_process_does_not_wait_for_a_retry(handler: Any) -> None:
    queue = TestQueue()
    queue.start(handler, retry=Backoff(first=3600))
    queue.send("k", "v")
    until(lambda: queue._ask(lambda turns: any(one.waiting for one in turns.holdings), False), "it waits for its retry")
    queue.__exit__(None)
    assert queue.acked == [] and queue.dead_letters == []


def counted(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"baton_consumer_{name}", ORDERS | labels)


async def test_a_coroutine_that_takes_too_long_is_cancelled_retried_and_counted() -> None:
    ends: list[str] = []
    registry = CollectorRegistry()

    async def handle(entry: Entry) -> None:
        if entry.value == b"good":
            return
        try:
            if entry.attempt == 0:
                raise TimeoutError("of the program")
            await asyncio.sleep(3600)
        except BaseException as error:
            ends.append(type(error).__name__)
            raise

    async with TestQueue() as queue:
        consumer = queue.consumer(metrics=ConsumerMetrics(registry))
        queue.start(handle, consumer=consumer, handler_timeout=0.01, retry={HandlerTimeout: PLAIN, Exception: Backoff(60)})
        queue.send("k", "v")
        queue.send("k", "good")
        await queue.settled()
    assert ends == ["TimeoutError", *["CancelledError"] * 7]
    assert [letter.why for letter in queue.dead_letters] == ["after 8 attempts: HandlerTimeout: not finished after 0.01 s"]
    assert counted(registry, "handler_timeouts_total") == 7
    times = {how: counted(registry, "handling_seconds_count", outcome=how) for how in ("returned", "retry", "dead_letter")}
    assert times == {"returned": 1, "retry": 7, "dead_letter": 1}
    within = [counted(registry, "attempts_bucket", le=bound) for bound in ("1.0", "5.0", "8.0")]
    assert (within, counted(registry, "attempts_sum")) == ([1, 1, 2], 9)


def test_a_thread_that_takes_too_long_is_logged_and_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    go_on, registry = threading.Event(), CollectorRegistry()

    def handle(entry: Entry) -> None:
        go_on.wait()

    with caplog.at_level(logging.ERROR), TestQueue() as queue:
        queue.start(handle, consumer=queue.consumer(metrics=ConsumerMetrics(registry)), handler_timeout=0.01)
        queue.send("k", "v")
        until(lambda: counted(registry, "handler_timeouts_total") == 1)
        looked = queue._ask(lambda turns: turns.slow.next, 0.0)
        until(lambda: queue._ask(lambda turns: turns.slow.next, 0.0) > looked, "it was looked at once more")
        go_on.set()
        queue.settled()
        assert offsets(queue) == ["0"]
    (told,) = [record.message for record in caplog.records]
    assert "has exceeded its handler_timeout and continues with orders/0 entry 0 (key b'k', attempt 1)" in told
    assert counted(registry, "handler_timeouts_total") == 1


# -- After a failed batch, only the entry at fault fails.


ALL = [str(number) for number in range(20)]


@pytest.mark.parametrize("error", [ValueError("bad"), Reject("bad"), KeyError("bad")])
def test_a_failed_batch_is_retried_entry_by_entry(error: Exception) -> None:
    batches: list[list[str]] = []

    def handle(batch: Batch) -> None:
        batches.append([entry.offset for entry in batch])
        if "7" in batches[-1]:
            raise error

    queue = handled(handle, queue=filled(20, max_redeliveries=2), max_entries=20, max_wait=0.05, dead_letter_on=(KeyError,))
    assert list(dead(queue)) == ["7"]
    assert sorted(offsets(queue), key=int) == [offset for offset in ALL if offset != "7"]
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


def test_entries_wait_behind_one_whose_deserializer_asks_for_a_retry() -> None:
    seen: list[tuple[str, bool]] = []

    def handle(entry: HeldEntry) -> None:
        seen.append((entry.offset, entry.redelivered))

    queue = handled(handle, queue=filled(20), deserializer=unreadable_once())
    assert (seen, queue.dead_letters) == ([(offset, offset == "2") for offset in ALL], [])


def test_batches_wait_behind_a_deserializer_that_asks_for_a_retry() -> None:
    queue = filled(20)
    seen: list[tuple[str, bool]] = []
    with queue.consumer(value_deserializer=unreadable_once()) as consumer:
        for batch in consumer.batches(max_entries=5, max_wait=0):
            seen += [(entry.offset, entry.redelivered) for entry in batch]
            assert batch.ack().wait(PATIENCE)
            if len(seen) + len(queue.dead_letters) >= 20:
                break
    assert (seen, queue.dead_letters) == ([(offset, offset == "2") for offset in ALL], [])
