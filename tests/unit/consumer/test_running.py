"""A consumer runs only once, and one that is not running does not block its callers."""

import asyncio
import threading
from pathlib import Path

import pytest

from baton.consumer import AssignmentSource, Consumer
from baton.consumer.callbacks import Partitions
from baton.consumer.entry import HeldEntry
from baton.model.ids import MemberId, QueueName, Uid
from baton.queues.consumer_side import Reader
from baton.testing import TestQueue
from tests.forked import in_a_fork
from tests.unit.consumer.readers import filled, offsets
from tests.waiting import PATIENCE


def no_queue(name: QueueName) -> Reader:
    raise AssertionError("nothing is owned")


def test_batches_of_a_consumer_that_does_not_run_are_refused() -> None:
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


def test_what_fails_in_the_loop_is_raised_where_entries_are_waited_for(tmp_path: Path) -> None:
    class Broken(AssignmentSource):
        def current(self) -> None:
            raise ZeroDivisionError("a bug")

    one = Consumer(no_queue, Broken(tmp_path, MemberId("pod"), Uid("u")), Uid("u"))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        one.run(print)


def test_a_run_within_another_is_refused_and_the_first_goes_on() -> None:
    """It would wait for the callback that is running."""
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


def test_batches_that_were_left_are_gone_on_with() -> None:
    queue = filled(2)
    with queue.consumer() as one:
        for expected in ("0", "1"):
            for batch in one.batches(max_entries=1):
                assert batch[0].offset == expected
                assert batch.ack().wait(PATIENCE)
                break
        with pytest.raises(RuntimeError, match="once"):
            one.run(print)


def test_a_forked_process_is_told_that_the_consumer_is_not_its_own() -> None:
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
def test_a_handler_that_never_returns_does_not_keep_the_consumer_from_ending(*, in_tasks: bool, hears_of_revoking: bool) -> None:
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
