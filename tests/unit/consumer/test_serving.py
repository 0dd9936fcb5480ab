"""`serve` runs what a handler returns to its end, as `run` does, and a failure of any kind is its entry's alone."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from baton.consumer import Consumer
from baton.consumer.callbacks import Callbacks
from baton.consumer.handler import Handler
from baton.queues.entry import Entry
from tests.in_memory_queue import InMemoryLedger, InMemoryQueue, consumer_of
from tests.waiting import PATIENCE, eventually, until


@asynccontextmanager
async def serving(consumer: Consumer, handler: Handler) -> AsyncIterator[None]:
    async with asyncio.timeout(PATIENCE), consumer:
        task = asyncio.create_task(consumer.serve(handler))
        yield
        task.cancel()
        await asyncio.wait({task})


async def come_about(look: Callable[[], object]) -> None:
    async def seen() -> object:
        return look()

    await eventually(seen)


async def test_what_a_pool_still_works_on_is_not_acknowledged() -> None:
    queue = InMemoryQueue(3)
    handled: list[Future[None]] = []
    unfinished: list[str] = []

    def work(entry: Entry) -> None:
        until(lambda: len(handled) > int(entry.offset))

    with ThreadPoolExecutor(1) as pool:

        def handle(entry: Entry) -> Future[None]:
            unfinished.extend(entry.offset for future in handled if not future.done())
            handled.append(pool.submit(work, entry))
            return handled[-1]

        async with serving(consumer_of(queue), handle):
            await come_about(lambda: len(queue.acknowledged) == 3)
    assert unfinished == []


async def test_a_generator_that_a_handler_returns_is_an_error_and_nothing_is_acknowledged() -> None:
    async def later(entry: Entry) -> AsyncIterator[None]:
        yield

    queue = InMemoryQueue(1, redeliveries=1)
    async with serving(consumer_of(queue), lambda entry: later(entry)):
        await come_about(lambda: queue.dead or queue.acknowledged)
    assert queue.acknowledged == []
    assert "returned a generator, so nothing of it has run" in queue.dead["0"]


async def cancelled(entry: Entry) -> None:
    task = asyncio.create_task(asyncio.sleep(PATIENCE))
    task.cancel()
    await task


async def test_what_a_handler_waits_for_and_is_cancelled_is_a_failure_of_its_entry() -> None:
    queue = InMemoryQueue(1, redeliveries=1)
    async with serving(consumer_of(queue), cancelled):
        await come_about(lambda: queue.dead)
    assert "was cancelled" in queue.dead["0"]


@pytest.mark.parametrize("handler", [cancelled, lambda entry: cancelled(entry)])
def test_and_ends_no_run(handler: Handler) -> None:
    queue, ledger = InMemoryQueue(1, redeliveries=1), InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger)
    ends: list[BaseException] = []

    def run() -> None:
        try:
            consumer.run(handler)
        except BaseException as end:
            ends.append(end)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    until(lambda: queue.dead or ends)
    ledger.says({})
    consumer.stop()
    running.join(PATIENCE)
    assert (ends, list(queue.dead)) == ([], ["0"])


async def test_a_callback_that_is_cancelled_is_called_again() -> None:
    queue = InMemoryQueue(1)
    begun: list[int] = []
    go_on = asyncio.Event()

    async def assigned(partitions: object) -> None:
        begun.append(1)
        await go_on.wait()

    consumer = consumer_of(queue, callbacks=Callbacks(on_assigned=assigned))
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
    """Each would cost a look at all partitions when entries come."""
    queue = InMemoryQueue(0)
    consumer = consumer_of(queue)
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

    with consumer_of(InMemoryQueue(1), callbacks=Callbacks(on_assigned=assigned)) as consumer:
        batches = consumer.batches()
        with pytest.raises(SystemExit):
            next(batches)
        assert len(next(batches)) == 1
    assert len(begun) == 2
