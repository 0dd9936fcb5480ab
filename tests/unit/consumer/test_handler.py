"""Handlers that run() and serve() accept; an entry is handled only when its handler has completed."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from baton.consumer import Consumer
from baton.consumer.callbacks import Callbacks
from baton.consumer.handler import Handler, HandlerRun, is_coroutine_function
from baton.consumer.handler_options import CheckedOptions, Deserializers, HandlerOptions
from baton.model.ids import Epoch, QueueName
from baton.queues.entry import Entry
from baton.testing import TestQueue
from tests.unit.consumer.readers import dead, filled, handled
from tests.waiting import PATIENCE, eventually, until

ENTRY = Entry(QueueName("orders"), 0, "1-0", b"k", b"v", 0, Epoch(1), False)


def called(handler: object) -> None:
    run = HandlerRun(handler)  # type: ignore[arg-type]
    try:
        run(ENTRY)
    finally:
        run.close()


def test_a_coroutine_is_awaited_however_its_function_is_wrapped() -> None:
    ended: list[tuple[Entry, int]] = []

    async def handle(entry: Entry, more: int = 0) -> None:
        await asyncio.sleep(0)
        ended.append((entry, more))

    class Handler:
        async def __call__(self, entry: Entry) -> None:
            await handle(entry, 3)

    handlers: list[Handler | Callable[..., object]] = [handle, lambda entry: handle(entry, 1), partial(handle, more=2), Handler()]
    for one in handlers:
        called(one)
    assert ended == [(ENTRY, number) for number in range(4)]
    assert list(map(is_coroutine_function, handlers)) == [True, False, True, True]


def test_one_event_loop_serves_all_entries() -> None:
    loops = []

    async def handle(entry: Entry) -> None:
        loops.append(asyncio.get_running_loop())

    run = HandlerRun(handle)
    run(ENTRY)
    run(ENTRY)
    run.close()
    assert len(set(map(id, loops))) == 1 and loops[0].is_closed()


def test_a_returned_future_is_waited_for() -> None:
    ended: list[Entry] = []
    with ThreadPoolExecutor(1) as pool:
        called(lambda entry: pool.submit(ended.append, entry))
        assert ended == [ENTRY]
        with pytest.raises(ZeroDivisionError):
            called(lambda entry: pool.submit(lambda: 1 // 0))


def test_a_coroutines_exception_is_raised() -> None:
    async def handle(entry: Entry) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        called(handle)


def test_a_generator_function_is_rejected() -> None:
    def generator(entry: Entry) -> Iterator[int]:
        yield 1

    async def asynchronous(entry: Entry) -> AsyncIterator[int]:
        yield 1

    class Handler:
        def __call__(self, entry: Entry) -> Iterator[int]:
            yield 1

    for handler in (generator, asynchronous, Handler()):
        with pytest.raises(TypeError, match="generator function"):
            HandlerRun(handler)
    with pytest.raises(TypeError, match="returned a generator"):
        called(lambda entry: generator(entry))


@pytest.mark.parametrize("handler", [None, "handle", 5])
def test_a_handler_that_cannot_be_called_is_rejected(handler: Any) -> None:
    with pytest.raises(TypeError, match="pass the function itself, not its result"):
        TestQueue().consumer().run(handler)
    for name in ("on_assigned", "on_revoked", "on_lost"):
        if handler is not None:
            with pytest.raises(TypeError, match=f"{name} is .*which cannot be called"):
                Callbacks(**{name: handler})
    for name in ("key", "value"):
        if handler is not None:
            with pytest.raises(TypeError, match=f"{name}_deserializer is .*which cannot be called"):
                Deserializers(**{name: handler})


def test_a_callable_with_wrong_arguments_is_rejected_at_once() -> None:
    def none() -> None: ...

    wrong: Any = none
    with pytest.raises(TypeError, match=r"the handler is .*none.*, which takes \(\).*; it is called with \(entry or batch\)"):
        TestQueue().consumer().run(wrong)
    for name, gets in (("on_assigned", "partitions"), ("on_revoked", "partitions, time_left"), ("on_lost", "partitions")):
        with pytest.raises(TypeError, match=rf"{name} is .*; it is called with \({gets}\)"):
            Callbacks(**{name: wrong})
    for name in ("key", "value"):
        with pytest.raises(TypeError, match=rf"{name}_deserializer is .*; it is called with \({name}\)"):
            Deserializers(**{name: wrong})


@pytest.mark.parametrize("handler", [print, partial(asyncio.sleep, 0)])
def test_run_in_an_event_loop_names_serve(handler: Any) -> None:
    async def main() -> None:
        TestQueue().consumer().run(handler)

    with pytest.raises(RuntimeError, match=r"await consumer.serve\(handler\)"):
        asyncio.run(main())


def test_awaiting_inside_another_event_loop_names_async_with() -> None:
    async def main() -> None:
        called(lambda entry: asyncio.get_running_loop().create_future())

    with pytest.raises(RuntimeError, match="async with consumer"):
        asyncio.run(main())


async def test_run_serve_and_start_take_the_same_arguments() -> None:
    run = inspect.signature(Consumer.run).parameters
    unknown: Any = {"max_entriess": 5}
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_entriess'"):
        await TestQueue().consumer().serve(print, **unknown)
    assert [*run][2:] == [*HandlerOptions.__annotations__]  # of serve and TestQueue.start
    assert {name: run[name].default for name in [*run][2:]} == {name: getattr(CheckedOptions(), name) for name in [*run][2:]}


# -- serve() completes what a handler returns, and any failure concerns its entry only.


async def come_about(look: Callable[[], object]) -> None:
    async def seen() -> object:
        return look()

    await eventually(seen)


async def test_work_still_running_in_a_pool_is_not_acknowledged() -> None:
    given: list[Future[None]] = []
    unfinished: list[str] = []

    def work(entry: Entry) -> None:
        until(lambda: len(given) > int(entry.offset))

    with ThreadPoolExecutor(1) as pool:

        def handle(entry: Entry) -> Future[None]:
            unfinished.extend(entry.offset for future in given if not future.done())
            given.append(pool.submit(work, entry))
            return given[-1]

        async with TestQueue() as queue:
            queue.start(handle)
            for _ in range(3):
                queue.send("k", "v")
            await queue.settled()
    assert unfinished == []


async def test_a_handler_that_returns_a_generator_fails_its_entry() -> None:
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


async def test_a_handlers_cancelled_wait_fails_its_entry() -> None:
    async with TestQueue(max_redeliveries=1) as queue:
        queue.start(cancelled)
        queue.send("k", "v")
        await queue.settled()
        assert "was cancelled" in queue.dead_letters[0].why


@pytest.mark.parametrize("handler", [cancelled, lambda entry: cancelled(entry)])
def test_a_handlers_cancelled_wait_does_not_end_run(handler: Handler) -> None:
    assert list(dead(handled(handler, "v", queue=TestQueue(max_redeliveries=1)))) == ["0"]


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


async def test_cancelled_waits_for_batches_leave_nothing_behind() -> None:
    """Each would cost a check of all partitions when entries arrive."""
    consumer = TestQueue().consumer()
    async with asyncio.timeout(PATIENCE), consumer:
        batches = consumer.batches()
        for _ in range(20):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(batches), 0.001)
        await come_about(lambda: not consumer._loop._turns.dispatcher.wants)


def test_a_callback_that_raised_system_exit_is_called_again() -> None:
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
