"""A consumer's life: it runs once, its callbacks, signals, and the stages of its grace period."""

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from math import inf
from pathlib import Path

import pytest

from baton.consumer import AssignmentSource, Consumer
from baton.consumer.callbacks import Partitions
from baton.consumer.ending import GracePeriod, ending
from baton.consumer.entry import Batch, HeldEntry
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.queues.consumer_side import Reader
from baton.testing import TestQueue
from tests.forked import in_a_fork
from tests.unit.consumer.readers import filled, offsets
from tests.waiting import PATIENCE, until


def no_queue(name: QueueName) -> Reader:
    raise AssertionError("nothing is owned")


def test_batches_of_a_consumer_that_does_not_run_are_rejected() -> None:
    one = TestQueue().consumer()
    with pytest.raises(RuntimeError, match="use it in `with consumer:`"):
        next(one.batches())

    async def wait() -> None:
        await anext(one.batches())

    with pytest.raises(RuntimeError, match="use it in `with consumer:`"):
        asyncio.run(wait())
    with pytest.raises(RuntimeError, match="use it in `with consumer:`"):
        asyncio.run(one.serve(print))


def test_a_consumer_runs_once() -> None:
    one = TestQueue().consumer()
    with one:
        pass
    assert list(one.batches()) == []
    with pytest.raises(RuntimeError, match="runs once"):
        one.run(print)


def test_a_consumer_without_partitions_stops_at_once(tmp_path: Path) -> None:
    one = Consumer(no_queue, AssignmentSource(tmp_path, MemberId("pod"), Uid("u")), Uid("u"))
    with one:
        one.stop()
        assert list(one.batches()) == []


def test_a_failure_of_the_loop_is_raised_from_run(tmp_path: Path) -> None:
    class Broken(AssignmentSource):
        def current(self) -> None:
            raise ZeroDivisionError("a bug")

    one = Consumer(no_queue, Broken(tmp_path, MemberId("pod"), Uid("u")), Uid("u"))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        one.run(print)


def test_a_nested_run_is_rejected_and_the_first_continues() -> None:
    """The nested run would wait for the running callback."""
    queue = TestQueue()
    refused: list[str] = []

    def within(partitions: Partitions) -> None:
        with pytest.raises(RuntimeError) as refusal:
            one.run(print)
        refused.append(str(refusal.value))

    one = queue.consumer(on_assigned=within)
    with queue:
        queue.start(lambda entry: None, consumer=one)
        queue.send("k", "v")
        queue.settled()
    assert "once" in refused[0]
    assert offsets(queue) == ["0"]


def test_a_left_batch_loop_can_be_resumed() -> None:
    queue = filled(2)
    with queue.consumer() as one:
        for expected in ("0", "1"):
            for batch in one.batches(max_entries=1):
                assert batch[0].offset == expected
                assert batch.ack().wait(PATIENCE)
                break
        with pytest.raises(RuntimeError, match="once"):
            one.run(print)


def test_a_forked_process_cannot_use_its_parents_consumer() -> None:
    queue = filled(2)
    with queue.consumer() as one:
        batches = one.batches(max_entries=1)
        batch = next(batches)

        def there() -> list[object]:
            try:
                return [batch.ack().wait(PATIENCE), batch[0].still_mine(), next(batches)]
            except RuntimeError as refusal:
                return [batch.ack().wait(PATIENCE), batch[0].still_mine(), str(refusal)]

        acknowledged, still_mine, refusal = in_a_fork(there)
        assert (acknowledged, still_mine) == (False, False)
        assert "forked" in str(refusal)
        assert queue.acked == []
        assert batch.ack().wait(PATIENCE), "and the process that it was forked from works on"


@pytest.mark.parametrize(("in_tasks", "hears_of_revoking"), [(True, True), (False, False)])
def test_a_handler_that_never_returns_does_not_keep_the_consumer_alive(*, in_tasks: bool, hears_of_revoking: bool) -> None:
    queue = filled(1)
    told: list[str] = []
    revoked = (lambda *_: told.append("revoked")) if hears_of_revoking else None
    one = queue.consumer(on_revoked=revoked, on_lost=lambda _: told.append("lost"))

    async def wait_for_ever(entry: HeldEntry) -> None:
        one._loop.leave()
        await asyncio.get_running_loop().create_future()

    def stay_for_ever(entry: HeldEntry) -> None:
        one._loop.leave()
        threading.Event().wait()

    one.run(wait_for_ever if in_tasks else stay_for_ever, concurrency=2)
    assert told == ["lost"]
    assert queue.acked == []


# -- Callbacks run one at a time, and lost partitions are reported at the end too.


def test_callbacks_of_several_workers_run_one_at_a_time() -> None:
    told: list[str] = []
    go_on = threading.Event()

    def assigned(partitions: Sequence[Partition]) -> None:
        told.append(f"assigned {partitions[0].number}")
        if len(told) == 1:
            assert go_on.wait(PATIENCE)
        told.append("returned")

    def lost(partitions: Sequence[Partition]) -> None:
        told.append(f"lost {partitions[0].number}")

    with TestQueue(partitions=2) as queue:
        queue.lose(1)
        queue.send("k", "v", partition=1)
        consumer = queue.consumer(on_assigned=assigned, on_lost=lost)
        queue.start(lambda entry: None, consumer=consumer, concurrency=4)
        until(lambda: told)
        queue._ledger.take(0)
        queue._ledger.give(1)
        until(lambda: len(consumer._loop._turns.dispatcher.calls) == 2 or len(told) > 1)
        go_on.set()
        queue.settled()
        assert told == ["assigned 0", "returned", "lost 0", "assigned 1", "returned"]


@pytest.mark.parametrize("concurrency", [1, 2])
def test_on_assigned_returns_before_the_first_entry_of_a_partition_that_is_revoked_already(concurrency: int) -> None:
    """A restarted container finds the partition in `revoking`, with entries that its earlier run did not finish."""
    told: list[str] = []

    def assigned(_: Sequence[Partition]) -> None:
        told.append("assigned")
        for _turn in range(2):
            until(lambda: told[1:] or consumer.ask(lambda turns: len(turns.dispatcher.wants) == concurrency - 1, False))
        told.append("returned")

    with filled(1) as queue:
        queue._queue.read(0, Epoch(1))
        queue._ledger._next_epoch(0)
        queue._ledger.call_back(0)
        consumer = queue.consumer(on_assigned=assigned, on_revoked=lambda *_: told.append("revoked"))
        queue.start(lambda entry: told.append(f"entry {entry.offset}"), consumer=consumer, concurrency=concurrency)
        queue.settled()
        until(lambda: "revoked" in told)
    assert told == ["assigned", "returned", "entry 0", "revoked"]


@pytest.mark.parametrize("in_event_loop", [False, True])
@pytest.mark.parametrize("taken", [True, False])
def test_a_partition_lost_during_its_last_entry_is_reported(taken: bool, in_event_loop: bool) -> None:
    """Another pod takes it while the consumer stops, or its handler outlasts the end."""
    told: list[str] = []
    queue = filled(1)
    consumer = queue.consumer(on_revoked=lambda *_: told.append("revoked"), on_lost=lambda _: told.append("lost"))

    def handle(entry: HeldEntry) -> None:
        if taken:
            consumer.stop()
            queue._ledger.take(0)
        else:
            consumer._loop.leave()
        until(lambda: consumer._loop.ended)

    async def serve() -> None:
        async with consumer:
            await consumer.serve(handle)

    asyncio.run(serve()) if in_event_loop else consumer.run(handle)
    assert told == ["lost"]


def test_a_callback_cannot_wait_for_batches_of_its_consumer(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def assigned(_: Sequence[Partition]) -> None:
        told.append("assigned")
        for _batch in consumer.batches():
            told.append("a batch within the callback")

    queue = filled(1)
    consumer = queue.consumer(on_assigned=assigned)

    def program() -> None:
        with consumer:
            for batch in consumer.batches():
                told.append(f"batch of {len(batch)}")
                break

    running = threading.Thread(target=program, daemon=True)
    running.start()
    until(lambda: len(told) > 1)
    running.join(PATIENCE)
    assert told == ["assigned", "batch of 1"]
    assert "waits for entries of its own consumer" in caplog.text


@pytest.mark.parametrize("way", ["async for", "for"])
async def test_a_coroutine_callback_cannot_wait_for_batches_of_its_consumer(caplog: pytest.LogCaptureFixture, way: str) -> None:
    told: list[str] = []

    async def assigned(_: Sequence[Partition]) -> None:
        told.append("assigned")
        stream = consumer.batches()
        if way == "for":
            next(stream)
        await anext(stream)

    queue = filled(1)
    consumer = queue.consumer(on_assigned=assigned)
    async with consumer:
        assert len(await anext(consumer.batches())) == 1
    assert told == ["assigned"]
    assert "waits for entries of its own consumer" in caplog.text


async def test_batches_for_another_task_come_after_the_callback() -> None:
    waiting: list[asyncio.Task[Batch]] = []

    async def assigned(_: Sequence[Partition]) -> None:
        waiting.append(asyncio.create_task(anext(consumer.batches(max_entries=1))))
        await asyncio.sleep(0)

    queue = filled(2)
    consumer = queue.consumer(on_assigned=assigned)
    async with consumer:
        stream = consumer.batches(max_entries=1)
        one, other = await anext(stream), await waiting[0]
        assert sorted(entry.offset for entry in (*one, *other)) == ["0", "1"]


# -- A signal ends all consumers of the process, and a wait that it interrupts takes no entries.


def test_a_signal_ends_nested_consumers() -> None:
    told: list[str] = []
    with ending(lambda: told.append("stop a"), lambda: told.append("leave a")):
        with ending(lambda: told.append("stop b"), lambda: told.append("leave b")):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            assert told == ["stop b", "stop a", "leave b", "leave a"]
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_signal_handlers_are_restored_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with ending(lambda: None, lambda: None), ending(lambda: None, lambda: None):
        pass
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_signal_handler_python_could_not_restore_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler set by a program in another language that embeds Python; `signal.getsignal` returns None for it."""
    before, getsignal = signal.getsignal(signal.SIGTERM), signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else getsignal(number))
    with ending(lambda: None, lambda: None):
        assert getsignal(signal.SIGTERM) == before
        assert getsignal(signal.SIGINT) != signal.default_int_handler
    assert getsignal(signal.SIGTERM) == before


class AlarmError(Exception):
    pass


def test_a_wait_interrupted_by_a_signal_loses_no_batch() -> None:
    def alarm(*_: object) -> None:
        raise AlarmError

    queue = TestQueue()
    before = signal.signal(signal.SIGUSR1, alarm)
    try:
        with queue.consumer() as consumer:
            batches = consumer.batches()

            def call() -> None:
                until(lambda: consumer._loop._turns.dispatcher.wants)
                os.kill(os.getpid(), signal.SIGUSR1)

            caller = threading.Thread(target=call)
            caller.start()
            with pytest.raises(AlarmError):
                next(batches)
            caller.join()
            queue.send("k", "v")
            assert next(batches)[0].offset == "0"
    finally:
        signal.signal(signal.SIGUSR1, before)


# -- The stages of the grace period.


class Grace(GracePeriod):
    """A grace period of 30 seconds, whose clock is set by the test."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(30, lambda: self.now)


@pytest.fixture
def grace() -> Grace:
    return Grace()


def test_queues_have_the_remaining_grace_to_hear_of_a_hand_off(grace: Grace) -> None:
    assert grace.for_answers == inf
    grace.stop()
    assert grace.for_answers == 25.0
    grace.now = 1024.0
    assert grace.for_answers == 3.0, "the handlers need none of the time that is kept for them"
    another = Grace()
    another.stop_now()
    assert another.for_answers == 3.0


def test_at_the_end_queues_get_the_time_that_handlers_left(grace: Grace) -> None:
    grace.stop()
    grace.now = grace.due
    grace.leave(0.01)
    assert grace.for_answers == pytest.approx(3.0), "no handler was running"
    grace.now = grace.due
    assert grace.for_answers == pytest.approx(0.7), "the handlers have used theirs"
    grace.now = grace.over_at
    assert grace.for_answers == 0.0


def test_entries_are_started_as_long_as_they_are_likely_to_finish(grace: Grace) -> None:
    grace.stop()
    grace.now = grace.due
    grace.leave(0.5)
    assert (grace.begins_nothing, grace.next) == (False, 1027.0)
    grace.now = 1027.0
    assert (grace.begins_nothing, grace.next) == (True, 1028.0)


def test_nothing_is_started_that_takes_too_long_or_after_stop_now(grace: Grace) -> None:
    another = Grace()
    grace.leave(2.0)
    another.stop()
    another.stop_now()
    another.leave(0.001)
    assert grace.begins_nothing and another.begins_nothing


def test_an_abort_waits_for_no_handler(grace: Grace) -> None:
    grace.stop_now()
    grace.leave(0.01)
    assert grace.due == 1003.0
    grace.now = 1001.0
    grace.abort()
    assert grace.due == 1001.0


@pytest.mark.parametrize(("cut_off", "due"), [(True, 1018.5), (False, 1025.0)])
def test_the_grace_period_is_cut_short_if_neither_queue_nor_api_server_answers(grace: Grace, cut_off: bool, due: float) -> None:
    grace.stop()
    assert grace.next == 1018.5
    for grace.now, expected in ((1018.4, 1025.0), (1018.5, due)):
        grace.stop_if_cut_off(lambda: cut_off)
        assert grace.due == expected
