"""Attempts: an outcome counts for the current one only, and no entry ends the consumer."""

import asyncio
import copy
import logging
import pickle
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from baton.consumer import Batch, Reject, Retry
from baton.consumer.dispatcher import BatchSize, Delivery, Want
from baton.consumer.entry import HeldEntry
from baton.consumer.handler_options import CheckedOptions, HandlerOptions
from baton.consumer.outcome import ACK, Nack, outcome_of
from baton.consumer.session import Session
from baton.consumer.worker import Progress
from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.testing import InMemoryReader, TestQueue
from tests.in_memory_lease import InMemoryLease
from tests.unit.consumer.readers import consumer_of, filled, handled, offsets
from tests.waiting import PATIENCE, until


def test_a_late_outcome_of_an_earlier_attempt_does_not_count() -> None:
    queue = filled(3)
    with queue.consumer() as consumer:
        batches = consumer.batches(max_entries=3, max_wait=0)
        first = next(batches)
        first[0].nack(delay=0)
        second = next(batches)
        assert ([entry.offset for entry in second], second[0].redelivered) == (["0"], True)
        assert first.ack().wait(PATIENCE), "what it still could acknowledge is"
        assert sorted(offsets(queue)) == ["1", "2"]
        assert not first[0].ack().wait(PATIENCE)
        second.nack(delay=0)
        third = next(batches)
        assert third[0].offset == "0", "the outcome of the second attempt counted"
        assert third.ack().wait(PATIENCE)
    assert sorted(offsets(queue)) == ["0", "1", "2"]


def test_an_acknowledgement_after_another_outcome_reports_false() -> None:
    queue = filled(1)
    with queue.consumer() as consumer:
        (entry,) = next(consumer.batches())
        entry.nack(delay=60)
        assert not entry.ack().wait(PATIENCE)
        assert queue.acked == []


def test_each_attempt_gets_the_entry_as_it_was_read() -> None:
    tries: list[tuple[object, dict[str, bytes]]] = []

    def handle(entry: HeldEntry) -> None:
        tries.append((entry.value, dict(entry.headers)))
        entry.value = entry.value.decode()
        entry.headers["seen"] = b"once"  # type: ignore[index]
        if len(tries) < 3:
            raise ValueError("the database is away")

    assert offsets(handled(handle, "v", "v")) == ["0", "1"]
    assert tries == [(b"v", {})] * 4


def test_a_pickled_entry_is_as_read_and_a_copy_can_be_acknowledged() -> None:
    queue = filled(1)
    with queue.consumer() as consumer:
        (entry,) = next(consumer.batches())
        there = pickle.loads(pickle.dumps(entry))
        assert type(there) is Entry
        assert (there.queue, there.offset, there.key, there.value) == (entry.queue, entry.offset, entry.key, entry.value)
        assert copy.copy(entry).ack().wait(PATIENCE)


def test_a_retried_entry_waits_until_its_handler_has_returned() -> None:
    queue = TestQueue(partitions=2)
    tries: list[list[str]] = []
    at_work: list[str] = []
    beside: list[str] = []
    elsewhere = threading.Event()

    def handle(entry: HeldEntry) -> None:
        if entry.partition == 1:
            elsewhere.set()
            return
        beside.extend(at_work)
        at_work.append(entry.offset)
        tries.append(offsets(queue))
        if len(tries) == 1:
            entry.nack(delay=0)
            queue.send("k", "v", partition=1)
            until(lambda: elsewhere.is_set() or beside, "the other worker has had its turn")
        at_work.pop()
        if len(tries) == 2:
            raise ValueError("no")

    with queue:
        queue.start(handle, concurrency=2)
        queue.send("k", "v", partition=0)
        queue.settled()
    assert (tries, beside) == ([[], ["1"], ["1"]], [])


def test_entries_after_one_that_fails_at_a_hand_off_go_to_the_next_owner() -> None:
    queue = filled(300)
    consumer = queue.consumer()
    begun: list[int] = []

    def handle(entry: Entry) -> None:
        begun.append(int(entry.offset))
        if entry.offset == "77":
            queue._ledger.call_back(0)
            until(lambda: consumer.interrupted)
            consumer.stop()
            raise ValueError("no")

    consumer.run(handle)
    assert begun == list(range(78))
    assert "77" not in offsets(queue)


@pytest.mark.parametrize(
    "options", [{}, {"concurrency": 3}, {"order": "key"}, {"concurrency": 3, "order": "key"}, {"manual_ack": True}]
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_entries_after_one_that_is_retried_wait(asynchronous: bool, options: HandlerOptions) -> None:
    seen: list[int] = []

    def handle(entry: HeldEntry) -> None:
        seen.append(int(entry.offset))
        if entry.offset == "77" and not entry.redelivered:
            entry.nack(delay=0)
        elif options.get("manual_ack"):
            entry.ack()

    async def handle_in_loop(entry: HeldEntry) -> None:
        handle(entry)

    handled(handle_in_loop if asynchronous else handle, queue=filled(300), **options)
    assert seen == [*range(78), *range(77, 300)]


def test_each_kind_of_exception_is_logged_with_a_traceback_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    raised = [ValueError("a\nb"), ValueError("c"), KeyError("d"), Retry("it rains", delay=0.01), Reject("it is late")]

    def handle(entry: HeldEntry) -> None:
        if entry.offset == "0":
            raise raised.pop(0)

    with caplog.at_level(logging.WARNING):
        handled(handle, "v", "v")
    records = [record for record in caplog.records if "orders/0 entry" in record.message]
    assert [(record.message, record.exc_info is not None) for record in records] == [
        ("handler failed on orders/0 entry 0: ValueError: a b; retrying", True),
        ("handler failed again on orders/0 entry 0: ValueError: c; retrying", False),
        ("handler failed on orders/0 entry 0: KeyError: 'd'; retrying", True),
        ("handler requested a retry of orders/0 entry 0: it rains; retrying in 0.01 s", False),
        ("orders/0 entry 0 moved to dead letters: it is late", False),
    ]


def test_a_failed_batch_is_logged_with_a_traceback_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[list[str]] = []

    def handle(batch: Batch) -> None:
        tries.append([entry.offset for entry in batch])
        if len(tries) < 3:
            raise ValueError("no")

    with caplog.at_level(logging.WARNING):
        handled(handle, "v", "v", max_entries=2, max_wait=60)
    records = [record for record in caplog.records if "handler" in record.message]
    assert [(record.message, record.exc_info is not None) for record in records] == [
        ("handler failed on orders/0 entry 0 and 1 more: ValueError: no; retrying, entry by entry", True),
        ("handler failed again on orders/0 entry 0: ValueError: no; retrying", False),
    ]


@pytest.mark.parametrize("batch", [None, BatchSize()])
def test_an_entry_whose_handler_raised_system_exit_goes_to_no_other_worker(batch: BatchSize | None) -> None:
    """Another worker would get it without the redelivered mark, and entries behind it would overtake it."""
    queue, options = TestQueue(partitions=2), CheckedOptions(max_entries=None if batch is None else batch.entries)
    for _ in range(3):
        queue.send("k", "v", partition=0)
    with queue.consumer() as consumer:
        loop = consumer._loop
        loop.serve(CheckedOptions(concurrency=2))

        def take() -> Delivery:
            answer = loop.take(Want(batch))
            assert isinstance(answer, Delivery)
            return answer

        def handle() -> None:
            with Progress(loop, take(), options) as progress:
                assert next(progress.work())
                raise SystemExit

        with pytest.raises(SystemExit):
            handle()
        for _ in range(2):
            another = queue.send("k", "v", partition=1)
            delivery = take()
            assert [entry.offset for entry in delivery.entries] == [another.offset], "those of the other partition go on"
            loop.give_back(delivery, [(delivery.entries, ACK)])
    assert {entry.partition for entry in queue.acked} == {1} and len(queue.acked) == 2


# -- Failures and reasons of any kind, and a consumer that fails.


class SilentError(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize("error", [ValueError("no such file caf\udce9"), SilentError(), Retry("caf\udce9")])
def test_reasons_of_failures_are_valid_text_for_every_queue(error: Exception) -> None:
    outcome = outcome_of(error)
    assert isinstance(outcome, Nack)
    outcome.why.encode()
    if isinstance(error, SilentError):
        assert outcome.why == "SilentError: (its text is unavailable: str() failed)"


def test_reasons_of_a_program_are_valid_text_for_every_queue() -> None:
    queue = filled(2)
    with queue.consumer() as consumer:
        first, second = next(consumer.batches(max_entries=2))
        first.dead_letter("caf\udce9")
        second.dead_letter("caf\udce9").wait()
    assert len(queue.dead_letters) == 2
    for letter in queue.dead_letters:
        letter.why.encode()


HUGE = pytest.param(10**400, id="huge")


@pytest.mark.parametrize("delay", [timedelta(seconds=60), "soon", float("nan"), float("inf"), -1, HUGE])
def test_an_invalid_delay_is_rejected_at_once(delay: float) -> None:
    with pytest.raises((TypeError, ValueError)):
        Retry("why", delay=delay)
    with filled(1).consumer() as consumer:
        batch: Batch = next(consumer.batches())
        entry: HeldEntry = batch[0]
        for word in (batch, entry):
            with pytest.raises((TypeError, ValueError)):
                word.nack(delay)
        assert batch.ack().wait()


class NotYet(Retry):
    """An exception that does not call the `__init__` of its base class."""

    def __init__(self, delay: Any = None) -> None:
        if delay is not None:
            self.delay = delay


def cancels(entry: HeldEntry) -> None:
    async def waits() -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(waits())


def raises(error: Exception) -> Callable[[HeldEntry], None]:
    def handle(entry: HeldEntry) -> None:
        raise error

    return handle


ODD = [raises(NotYet()), raises(NotYet("soon")), raises(NotYet(10**400))]


@pytest.mark.parametrize("first", [*ODD, cancels])
def test_an_entry_comes_again_however_its_handler_failed(first: Callable[[HeldEntry], None]) -> None:
    tried = list[HeldEntry]()

    def handle(entry: HeldEntry) -> None:
        tried.append(entry)
        if len(tried) == 1:
            first(entry)

    assert offsets(handled(handle, "v")) == ["0"]
    assert [entry.redelivered for entry in tried] == [False, True]


@pytest.mark.parametrize("first", ODD)
def test_an_entry_comes_again_however_its_deserializer_asks_for_a_retry(first: Callable[[Any], None]) -> None:
    tried = list[bytes]()

    def deserialize(value: bytes) -> bytes:
        tried.append(value)
        if len(tried) == 1:
            first(value)
        return value

    assert offsets(handled(lambda entry: None, "v", deserializer=deserialize)) == ["0"]
    assert len(tried) == 2


def test_a_reason_that_is_not_text_is_rejected_at_once() -> None:
    error: Any = ValueError("no such customer")
    with filled(1).consumer() as consumer:
        batch: Batch = next(consumer.batches())
        for word in (batch, batch[0]):
            with pytest.raises(TypeError, match=r"why is ValueError.*: set it to a string, such as str"):
                word.dead_letter(error)
            with pytest.raises(TypeError, match=r"why is ValueError.*: set it to a string, such as str"):
                word.nack(why=error)
        assert batch.ack().wait()


class Broken(InMemoryReader):
    """A client library with a bug."""

    def ack(self, partition: int, epoch: Epoch, offsets: object, *, soon: bool = False) -> None:
        raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("in_event_loop", [False, True])
def test_a_consumer_that_failed_stops_renewing_its_lease(in_event_loop: bool) -> None:
    def sessions() -> int:
        return sum(thread.name == "baton-session" for thread in threading.enumerate())

    before = sessions()
    consumer = consumer_of(filled(1, reader=Broken), session=Session(InMemoryLease(), holder="u", group="orders", every=0.01))

    async def serve() -> None:
        async with consumer:
            await consumer.serve(lambda entry: None)

    with pytest.raises(ZeroDivisionError, match="a bug"):
        asyncio.run(serve()) if in_event_loop else consumer.run(lambda entry: None)
    until(lambda: sessions() == before)
