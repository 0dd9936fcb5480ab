"""Like `run`, `serve` completes what a handler returns, and any failure concerns its entry only."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from baton.consumer.handler import Handler
from baton.queues.entry import Entry
from baton.testing import TestQueue
from tests.unit.consumer.readers import dead, filled
from tests.waiting import PATIENCE, eventually, until


async def come_about(look: Callable[[], object]) -> None:
    async def seen() -> object:
        return look()

    await eventually(seen)


async def test_what_a_pool_still_works_on_is_not_acknowledged() -> None:
    handled: list[Future[None]] = []
    unfinished: list[str] = []

    def work(entry: Entry) -> None:
        until(lambda: len(handled) > int(entry.offset))

    with ThreadPoolExecutor(1) as pool:

        def handle(entry: Entry) -> Future[None]:
            unfinished.extend(entry.offset for future in handled if not future.done())
            handled.append(pool.submit(work, entry))
            return handled[-1]

        async with TestQueue() as queue:
            queue.start(handle)
            for _ in range(3):
                queue.send("k", "v")
            await queue.settled()
    assert unfinished == []


async def test_a_generator_that_a_handler_returns_is_an_error_and_nothing_is_acknowledged() -> None:
    async def later(entry: Entry) -> AsyncIterator[None]:
        yield

    async with TestQueue(max_redeliveries=1) as queue:
        queue.start(lambda entry: later(entry))
        queue.send("k", "v")
        await queue.settled()
        assert queue.acked == []
        assert "returned a generator, which has not run" in queue.dead_letters[0].why


async def cancelled(entry: Entry) -> None:
    task = asyncio.create_task(asyncio.sleep(PATIENCE))
    task.cancel()
    await task


async def test_what_a_handler_waits_for_and_is_cancelled_is_a_failure_of_its_entry() -> None:
    async with TestQueue(max_redeliveries=1) as queue:
        queue.start(cancelled)
        queue.send("k", "v")
        await queue.settled()
        assert "was cancelled" in queue.dead_letters[0].why


@pytest.mark.parametrize("handler", [cancelled, lambda entry: cancelled(entry)])
def test_and_ends_no_run(handler: Handler) -> None:
    with TestQueue(max_redeliveries=1) as queue:
        queue.start(handler)
        queue.send("k", "v")
        queue.settled()
    assert list(dead(queue)) == ["0"]


async def test_a_callback_that_is_cancelled_is_called_again() -> None:
    queue = filled(1)
    begun: list[int] = []
    go_on = asyncio.Event()

    async def assigned(partitions: object) -> None:
        begun.append(1)
        await go_on.wait()

    consumer = queue.consumer(on_assigned=assigned)
    async with asyncio.timeout(PATIENCE), consumer:
        batches = consumer.batches()
        waiting = asyncio.ensure_future(anext(batches))
        await come_about(lambda: begun)
        waiting.cancel()
        await asyncio.wait({waiting})
        go_on.set()
        assert len(await anext(batches)) == 1
    assert len(begun) == 2


async def test_what_is_not_waited_for_any_more_leaves_nothing_behind() -> None:
    """Each would cost a check of all partitions when entries arrive."""
    consumer = TestQueue().consumer()
    async with asyncio.timeout(PATIENCE), consumer:
        batches = consumer.batches()
        for _ in range(20):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(batches), 0.001)
        await come_about(lambda: not consumer._loop._turns.dispatcher.wants)


def test_a_callback_that_ends_the_loop_is_called_again_where_the_program_goes_on() -> None:
    begun: list[int] = []

    def assigned(partitions: object) -> None:
        begun.append(1)
        if len(begun) == 1:
            raise SystemExit

    queue = filled(1)
    with queue.consumer(on_assigned=assigned) as consumer:
        batches = consumer.batches()
        with pytest.raises(SystemExit):
            next(batches)
        assert len(next(batches)) == 1
    assert len(begun) == 2
