"""A word on an entry is of the try in which it was said, and a partition that failed at a hand-off begins nothing more."""

import copy
import logging
import pickle
import threading

import pytest

from baton.consumer import Batch, Reject, Retry
from baton.consumer.dispatcher import BatchSize, Delivery
from baton.consumer.entry import HeldEntry
from baton.consumer.handler_options import CheckedOptions, HandlerOptions
from baton.consumer.outcome import ACK
from baton.consumer.worker import Progress
from baton.queues.entry import Entry
from tests.in_memory_queue import InMemoryLedger, InMemoryQueue, consumer_of
from tests.waiting import PATIENCE, until


def test_a_late_word_on_an_earlier_try_does_not_settle_the_later_one() -> None:
    queue = InMemoryQueue(3)
    with consumer_of(queue) as consumer:
        batches = consumer.batches(max_entries=3, max_wait=0)
        first = next(batches)
        first[0].nack(delay=0)
        second = next(batches)
        assert ([entry.offset for entry in second], second[0].redelivered) == (["0"], True)
        assert first.ack().wait(PATIENCE), "what it still could acknowledge is"
        assert sorted(queue.acknowledged) == ["1", "2"]
        assert not first[0].ack().wait(PATIENCE)
        second.nack(delay=0)
        third = next(batches)
        assert third[0].offset == "0", "the word on the second try counted"
        assert third.ack().wait(PATIENCE)
    assert sorted(queue.acknowledged) == ["0", "1", "2"]


def test_an_acknowledgement_after_another_word_says_that_it_did_not_count() -> None:
    queue = InMemoryQueue(1)
    with consumer_of(queue) as consumer:
        (entry,) = next(consumer.batches())
        entry.nack(delay=60)
        assert not entry.ack().wait(PATIENCE)
        assert queue.acknowledged == []


def test_a_next_try_gets_the_entry_as_it_was_read_whatever_a_handler_has_made_of_it() -> None:
    queue, ledger = InMemoryQueue(2), InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger)
    tries: list[tuple[object, dict[str, bytes]]] = []

    def handle(entry: HeldEntry) -> None:
        tries.append((entry.value, dict(entry.headers)))
        if len(tries) == 4:
            consumer.stop()
            ledger.says({}, {0: 1})
        entry.value = entry.value.decode()
        entry.headers["seen"] = b"once"  # type: ignore[index]
        if len(tries) < 3:
            raise ValueError("the database is away")

    consumer.run(handle)
    assert tries == [(b"v", {})] * 4
    assert queue.acknowledged == ["0", "1"]


def test_an_entry_that_goes_to_another_process_is_what_was_read_and_a_copy_of_it_can_be_acknowledged() -> None:
    queue = InMemoryQueue(1)
    with consumer_of(queue) as consumer:
        (entry,) = next(consumer.batches())
        there = pickle.loads(pickle.dumps(entry))
        assert type(there) is Entry
        assert (there.queue, there.offset, there.key, there.value) == (entry.queue, entry.offset, entry.key, entry.value)
        assert copy.copy(entry).ack().wait(PATIENCE)


def test_an_entry_that_comes_again_waits_until_its_handler_has_returned() -> None:
    queue = InMemoryQueue(1)
    ledger = InMemoryLedger({0: 1, 1: 1})
    consumer = consumer_of(queue, ledger)
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
        tries.append(list(queue.acknowledged))
        if len(tries) == 1:
            entry.nack(delay=0)
            queue.unread[1] = [("7", b"k")]
            consumer.interrupt()
            until(lambda: elsewhere.is_set() or beside, "the other worker has had its turn")
        at_work.pop()
        if len(tries) == 2:
            raise ValueError("no")

    running = threading.Thread(target=consumer.run, args=(handle,), kwargs={"concurrency": 2}, daemon=True)
    running.start()
    until(lambda: "0" in queue.acknowledged)
    ledger.says({})
    consumer.stop()
    running.join(PATIENCE)
    assert (tries, beside) == ([[], ["7"], ["7"]], [])


def test_what_is_behind_an_entry_that_fails_at_a_hand_off_is_the_next_owners() -> None:
    queue, ledger = InMemoryQueue(300), InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger)
    begun: list[int] = []

    def handle(entry: Entry) -> None:
        begun.append(int(entry.offset))
        if entry.offset == "77":
            ledger.says({}, {0: 1})
            until(lambda: consumer.interrupted)
            consumer.stop()
            raise ValueError("no")

    consumer.run(handle)
    assert begun == list(range(78))
    assert "77" not in queue.acknowledged


@pytest.mark.parametrize(
    "options", [{}, {"concurrency": 3}, {"order": "key"}, {"concurrency": 3, "order": "key"}, {"manual_ack": True}]
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_is_behind_an_entry_that_its_handler_wants_again_waits(asynchronous: bool, options: HandlerOptions) -> None:
    queue, ledger = InMemoryQueue(300), InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger)
    seen: list[int] = []

    def handle(entry: HeldEntry) -> None:
        seen.append(int(entry.offset))
        if entry.offset == "77" and not entry.redelivered:
            entry.nack(delay=0)
        elif options.get("manual_ack"):
            entry.ack()
        if entry.offset == "299":
            ledger.says({})
            consumer.stop()

    async def handle_in_loop(entry: HeldEntry) -> None:
        handle(entry)

    consumer.run(handle_in_loop if asynchronous else handle, **options)
    assert seen == [*range(78), *range(77, 300)]


def test_a_traceback_is_logged_once_for_each_kind_of_exception_and_none_for_what_is_on_purpose(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue, ledger = InMemoryQueue(2), InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger)
    raised = [ValueError("a\nb"), ValueError("c"), KeyError("d"), Retry("it rains", delay=0.01), Reject("it is late")]

    def handle(entry: HeldEntry) -> None:
        if entry.offset == "0":
            raise raised.pop(0)
        ledger.says({})
        consumer.stop()

    with caplog.at_level(logging.WARNING):
        consumer.run(handle)
    records = [record for record in caplog.records if "orders/0 entry" in record.message]
    assert [(record.message, record.exc_info is not None) for record in records] == [
        ("handler failed on orders/0 entry 0: ValueError: a b; retrying", True),
        ("handler failed again on orders/0 entry 0: ValueError: c; retrying", False),
        ("handler failed on orders/0 entry 0: KeyError: 'd'; retrying", True),
        ("handler requested a retry of orders/0 entry 0: it rains; retrying in 0.01 s", False),
        ("orders/0 entry 0 moved to dead letters: it is late", False),
    ]


def test_a_batch_that_fails_is_logged_with_its_traceback_and_the_entry_to_blame_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue, ledger = InMemoryQueue(2), InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger)
    tries: list[list[str]] = []

    def handle(batch: Batch) -> None:
        tries.append([entry.offset for entry in batch])
        if len(tries) < 3:
            raise ValueError("no")
        if tries[-1] == ["1"]:
            ledger.says({})
            consumer.stop()

    with caplog.at_level(logging.WARNING):
        consumer.run(handle, max_entries=2, max_wait=60)
    records = [record for record in caplog.records if "handler" in record.message]
    assert [(record.message, record.exc_info is not None) for record in records] == [
        ("handler failed on orders/0 entry 0 and 1 more: ValueError: no; retrying, entry by entry", True),
        ("handler failed again on orders/0 entry 0: ValueError: no; retrying", False),
    ]


@pytest.mark.parametrize("batch", [None, BatchSize()])
def test_what_a_handler_was_at_when_it_ended_the_process_is_begun_by_nobody_else_here(batch: BatchSize | None) -> None:
    """Another worker would get it unmarked; and what is behind it would be done before it."""
    queue, options = InMemoryQueue(3), CheckedOptions(batch=batch)
    with consumer_of(queue, InMemoryLedger({0: 1, 1: 1})) as consumer:
        loop = consumer._loop
        loop.serve(2)

        def take() -> Delivery:
            answer = loop.take(options.want())
            assert isinstance(answer, Delivery)
            return answer

        def handle() -> None:
            with Progress(loop, take(), options) as progress:
                assert progress.batch() if batch else next(progress.entries())
                raise SystemExit

        with pytest.raises(SystemExit):
            handle()
        for another in ("10", "11"):
            queue.unread[1] = [(another, b"k")]
            delivery = take()
            assert [entry.offset for entry in delivery.entries] == [another], "those of the other partition go on"
            loop.give_back(delivery, [(delivery.entries, ACK)])
    assert queue.acknowledged == ["10", "11"]
