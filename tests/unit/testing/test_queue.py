"""The in-memory queue with which users test their programs."""

import asyncio
import threading

import pytest

from baton.consumer import Entry, Retry
from baton.model.ids import Partition
from baton.testing import TestQueue


def test_a_key_has_one_partition_and_entries_without_a_key_take_turns() -> None:
    queue = TestQueue(partitions=4)
    assert len({queue.send("customer-1", str(number)).partition for number in range(9)}) == 1
    assert [queue.send(None, "x").partition for _ in range(5)] == [0, 1, 2, 3, 0]
    with pytest.raises(ValueError, match="partition is 4: this queue has 0 to 3"):
        queue.send("customer-1", "x", partition=4)


def test_acked_has_the_sent_entries() -> None:
    with TestQueue(partitions=4) as queue:
        queue.start(lambda entry: None, concurrency=4)
        sent = [queue.send(f"customer-{number}", "x", headers={"n": b"1"}) for number in range(100)]
        queue.settled()
        assert sorted(queue.acked, key=lambda entry: int(entry.offset)) == sent


def test_an_entry_that_always_fails_is_named_with_its_tries() -> None:
    with TestQueue(timeout=0.3) as queue:
        queue.start(lambda entry: 1 / 0)
        queue.send("customer-1", "x")
        with pytest.raises(TimeoutError, match=r"orders/0 entry 0 \(tried \d+ times\)"):
            queue.settled()


def test_settled_without_a_handler_names_the_cure() -> None:
    with TestQueue(timeout=0.1) as queue:
        queue.send("customer-1", "x")
        with pytest.raises(TimeoutError, match="orders/0 entry 0; call `start` first"):
            queue.settled()


@pytest.mark.parametrize(("key", "value", "what"), [("a", 5, "value"), (5, "a", "key"), ("a", bytearray(b"a"), "value")])
def test_send_rejects_types_that_a_producer_rejects(key: object, value: object, what: str) -> None:
    with pytest.raises(TypeError, match=f"a {what} is bytes or str, not (int|bytearray)"):
        TestQueue().send(key, value)  # type: ignore[arg-type]


def test_an_entry_is_a_dead_letter_after_max_redeliveries() -> None:
    tries = []
    with TestQueue(max_redeliveries=2) as queue:

        def handle(entry: Entry) -> None:
            tries.append(entry.attempt)
            raise ValueError("no")

        queue.start(handle)
        sent = queue.send("customer-1", "x")
        queue.settled()
        assert tries == [0, 1, 2]
        assert queue.dead_letters == [(sent, "ValueError: no")]


def test_advance_makes_retries_come_earlier() -> None:
    failed, again = threading.Event(), threading.Event()

    def handle(entry: Entry) -> None:
        if entry.attempt == 0:
            failed.set()
            raise Retry("later", delay=3600)
        again.set()

    with TestQueue() as queue:
        queue.start(handle)
        queue.send("customer-1", "x")
        assert failed.wait(10)
        while not again.is_set():
            queue.advance(1800)
        queue.settled()
        assert queue.moved >= 3600


def test_settled_waits_for_a_late_acknowledgement() -> None:
    held: list[Entry] = []
    with TestQueue() as queue:
        queue.start(held.append, manual_ack=True)
        queue.send("customer-1", "x")
        threading.Timer(0.1, lambda: [entry.ack() for entry in held]).start()
        queue.settled()
        assert len(queue.acked) == 1


def test_an_entry_of_a_lost_partition_comes_again_after_a_grant() -> None:
    at_work, lost, mine, redelivered = threading.Event(), threading.Event(), [True], [False]
    told: list[Partition] = []

    def handle(entry: Entry) -> None:
        redelivered[0] = entry.redelivered
        if not entry.redelivered:
            at_work.set()
            assert lost.wait(10)
            mine[0] = entry.still_mine()

    with TestQueue() as queue:
        consumer = queue.consumer(on_lost=told.extend)
        queue.start(handle, consumer=consumer)
        queue.send("customer-1", "x")
        assert at_work.wait(10)
        queue.lose(0)
        lost.set()
        queue.settled()
        assert queue.acked == []
        queue.grant(0)
        queue.settled()
        assert len(queue.acked) == 1
    assert (mine[0], redelivered[0]) == (False, True)
    assert [partition.number for partition in told] == [0]


def test_entries_in_hand_are_finished_before_a_hand_over() -> None:
    begun, told = threading.Event(), []
    go_on = threading.Event()

    def handle(entry: Entry) -> None:
        begun.set()
        assert go_on.wait(10)

    with TestQueue(partitions=2) as queue:
        consumer = queue.consumer(on_revoked=lambda partitions, left: told.append(len(queue.acked)))
        queue.start(handle, consumer=consumer)
        queue.send("customer-1", "x", partition=1)
        assert begun.wait(10)
        threading.Timer(0.05, go_on.set).start()
        queue.hand_over(1)
        assert told[0] == 1
        with pytest.raises(ValueError, match="partition 1: the member does not have it"):
            queue.hand_over(1)


@pytest.mark.parametrize("way", ["hand_over", "lose"])
def test_a_partition_taken_right_after_the_start_was_assigned_first(way: str) -> None:
    told: list[str] = []
    with TestQueue() as queue:
        consumer = queue.consumer(
            on_assigned=lambda _: told.append("assigned"),
            on_revoked=lambda *_: told.append("hand_over"),
            on_lost=lambda _: told.append("lose"),
        )
        queue.start(lambda entry: None, consumer=consumer)
        getattr(queue, way)(0)
        assert told == ["assigned", way]


def test_callbacks_have_returned_when_a_method_returns() -> None:
    told: list[str] = []
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def tell(word: str) -> None:
        begun.release()
        assert go_on.acquire(timeout=10)
        told.append(word)

    def let_all_go_on() -> None:
        while begun.acquire(timeout=10):
            go_on.release()

    threading.Thread(target=let_all_go_on, daemon=True).start()
    with TestQueue() as queue:
        consumer = queue.consumer(
            on_assigned=lambda _: tell("assigned"), on_revoked=lambda *_: tell("revoked"), on_lost=lambda _: tell("lost")
        )
        queue.start(lambda entry: None, consumer=consumer)
        queue.settled()
        assert told == ["assigned"]
        queue.lose(0)
        assert told[1:] == ["lost"]
        queue.grant(0)
        assert told[2:] == ["assigned"]
        queue.hand_over(0)
        assert told[3:] == ["revoked"]


def test_an_unknown_partition_is_named() -> None:
    queue = TestQueue(partitions=2)
    for method in (queue.lose, queue.hand_over, queue.grant):
        with pytest.raises(ValueError, match="partition is 7: this queue has 0 to 1"):
            method(7)
    queue.lose(1)
    with pytest.raises(ValueError, match=r"partition 1: the member does not have it; grant\(1\) gives it back"):
        queue.lose(1)
    with pytest.raises(ValueError, match="partition 0: the member has it already"):
        queue.grant(0)


def test_advance_moves_no_time_without_a_retry() -> None:
    with TestQueue() as queue:
        queue.start(lambda entry: None)
        queue.send("customer-1", "x")
        queue.settled()
        queue.advance(3600)
        assert queue.moved == 0


def test_an_entry_sent_before_the_wait_wakes() -> None:
    reader, woken = TestQueue(partitions=2)._queue, list[int]()
    reader.append(1, b"k", b"v", {})
    reader.wait_for(frozenset({0}), lambda: woken.append(0))
    assert woken == []
    reader.wait_for(frozenset({0, 1}), lambda: woken.append(1))
    assert woken == [1]
    reader.append(1, b"k", b"v", {})
    assert woken == [1], "once for each wait"


def test_the_exception_that_ended_the_program_is_raised() -> None:
    def handle(entry: Entry) -> None:
        raise SystemExit(3)

    with TestQueue() as queue:
        queue.start(handle)
        queue.send("customer-1", "x")
        with pytest.raises(SystemExit):
            queue.settled()


def test_a_hanging_handler_fails_the_test() -> None:
    go_on = threading.Event()
    begun = threading.Event()

    def handle(entry: Entry) -> None:
        begun.set()
        go_on.wait()

    queue = TestQueue(timeout=0.5)
    queue.start(handle)
    queue.send("customer-1", "x")
    assert begun.wait(10)
    with pytest.raises(TimeoutError, match="a handler has not returned"):
        queue.__exit__(None)
    go_on.set()


def test_a_queue_has_one_consumer() -> None:
    queue = TestQueue()
    queue.consumer()
    with pytest.raises(RuntimeError, match="another TestQueue"):
        queue.consumer()


async def test_coroutines_run_in_the_event_loop_of_the_test() -> None:
    loops, told = set[asyncio.AbstractEventLoop](), list[Partition]()

    async def handle(entry: Entry) -> None:
        loops.add(asyncio.get_running_loop())
        if entry.attempt == 0:
            raise Retry("later", delay=60)

    async with TestQueue(partitions=2) as queue:
        consumer = queue.consumer(on_assigned=told.extend, on_lost=told.extend, on_revoked=lambda those, left: told.extend(those))
        queue.start(handle, consumer=consumer, concurrency=2)
        for number in range(20):
            queue.send(None, str(number))
        await queue.settled()
        assert queue.moved > 50
        await queue.hand_over(0)
        await queue.lose(1)
        assert sorted(partition.number for partition in told) == [0, 0, 1, 1]
    assert loops == {asyncio.get_running_loop()}


def test_an_entry_for_a_test_records_outcomes() -> None:
    entry = Entry.for_test(b"v", key=b"k", headers={"h": b"1"}, partition=3, attempt=2)
    assert (entry.value, entry.key, entry.headers, entry.partition, entry.attempt) == (b"v", b"k", {"h": b"1"}, 3, 2)
    assert entry.still_mine() and entry.time_left() is None
    assert entry.ack().wait(0) is True
    assert len(entry.outcomes) == 1


def test_the_fixture_is_a_queue_with_four_partitions(baton_queue: TestQueue) -> None:
    seen: list[object] = []
    baton_queue.start(seen.append)
    assert {baton_queue.send(None, "x").partition for _ in range(4)} == {0, 1, 2, 3}
    baton_queue.settled()
    assert len(seen) == 4
