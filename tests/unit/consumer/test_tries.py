"""An outcome counts for the current attempt only, and a partition with a failure at a hand-off begins no other entry."""

import copy
import logging
import pickle
import threading

import pytest

from baton.consumer import Batch, Reject, Retry
from baton.consumer.dispatcher import BatchSize, Delivery, Want
from baton.consumer.entry import HeldEntry
from baton.consumer.handler_options import CheckedOptions, HandlerOptions
from baton.consumer.outcome import ACK
from baton.consumer.worker import Progress
from baton.queues.entry import Entry
from baton.testing import TestQueue
from tests.unit.consumer.readers import filled, offsets
from tests.waiting import PATIENCE, until


def test_a_late_word_on_an_earlier_try_does_not_settle_the_later_one() -> None:
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


def test_an_acknowledgement_after_another_word_says_that_it_did_not_count() -> None:
    queue = filled(1)
    with queue.consumer() as consumer:
        (entry,) = next(consumer.batches())
        entry.nack(delay=60)
        assert not entry.ack().wait(PATIENCE)
        assert queue.acked == []


def test_a_next_try_gets_the_entry_as_it_was_read_whatever_a_handler_has_made_of_it() -> None:
    tries: list[tuple[object, dict[str, bytes]]] = []

    def handle(entry: HeldEntry) -> None:
        tries.append((entry.value, dict(entry.headers)))
        entry.value = entry.value.decode()
        entry.headers["seen"] = b"once"  # type: ignore[index]
        if len(tries) < 3:
            raise ValueError("the database is away")

    with filled(2) as queue:
        queue.start(handle)
        queue.settled()
    assert tries == [(b"v", {})] * 4
    assert offsets(queue) == ["0", "1"]


def test_an_entry_that_goes_to_another_process_is_what_was_read_and_a_copy_of_it_can_be_acknowledged() -> None:
    queue = filled(1)
    with queue.consumer() as consumer:
        (entry,) = next(consumer.batches())
        there = pickle.loads(pickle.dumps(entry))
        assert type(there) is Entry
        assert (there.queue, there.offset, there.key, there.value) == (entry.queue, entry.offset, entry.key, entry.value)
        assert copy.copy(entry).ack().wait(PATIENCE)


def test_an_entry_that_comes_again_waits_until_its_handler_has_returned() -> None:
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


def test_what_is_behind_an_entry_that_fails_at_a_hand_off_is_the_next_owners() -> None:
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
def test_what_is_behind_an_entry_that_its_handler_wants_again_waits(asynchronous: bool, options: HandlerOptions) -> None:
    seen: list[int] = []

    def handle(entry: HeldEntry) -> None:
        seen.append(int(entry.offset))
        if entry.offset == "77" and not entry.redelivered:
            entry.nack(delay=0)
        elif options.get("manual_ack"):
            entry.ack()

    async def handle_in_loop(entry: HeldEntry) -> None:
        handle(entry)

    with filled(300) as queue:
        queue.start(handle_in_loop if asynchronous else handle, **options)
        queue.settled()
    assert seen == [*range(78), *range(77, 300)]


def test_a_traceback_is_logged_once_for_each_kind_of_exception_and_none_for_what_is_on_purpose(
    caplog: pytest.LogCaptureFixture,
) -> None:
    raised = [ValueError("a\nb"), ValueError("c"), KeyError("d"), Retry("it rains", delay=0.01), Reject("it is late")]

    def handle(entry: HeldEntry) -> None:
        if entry.offset == "0":
            raise raised.pop(0)

    with caplog.at_level(logging.WARNING), filled(2) as queue:
        queue.start(handle)
        queue.settled()
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
    tries: list[list[str]] = []

    def handle(batch: Batch) -> None:
        tries.append([entry.offset for entry in batch])
        if len(tries) < 3:
            raise ValueError("no")

    with caplog.at_level(logging.WARNING), filled(2) as queue:
        queue.start(handle, max_entries=2, max_wait=60)
        queue.settled()
    records = [record for record in caplog.records if "handler" in record.message]
    assert [(record.message, record.exc_info is not None) for record in records] == [
        ("handler failed on orders/0 entry 0 and 1 more: ValueError: no; retrying, entry by entry", True),
        ("handler failed again on orders/0 entry 0: ValueError: no; retrying", False),
    ]


@pytest.mark.parametrize("batch", [None, BatchSize()])
def test_what_a_handler_was_at_when_it_ended_the_process_is_begun_by_nobody_else_here(batch: BatchSize | None) -> None:
    """Another worker would get it without the redelivered mark, and entries behind it would overtake it."""
    queue, options = TestQueue(partitions=2), CheckedOptions(max_entries=None if batch is None else batch.entries)
    for _ in range(3):
        queue.send("k", "v", partition=0)
    with queue.consumer() as consumer:
        loop = consumer._loop
        loop.serve(2)

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
