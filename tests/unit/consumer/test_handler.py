"""An entry counts as handled only when its handler has completed."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from baton.consumer import Consumer
from baton.consumer.callbacks import Callbacks
from baton.consumer.handler import HandlerRun
from baton.consumer.handler_options import CheckedOptions, Deserializers, HandlerOptions
from baton.model.ids import Epoch, QueueName
from baton.queues.entry import Entry
from baton.testing import TestQueue

ENTRY = Entry(QueueName("orders"), 0, "1-0", b"k", b"v", 0, Epoch(1), False)


def called(handler: object) -> None:
    run = HandlerRun(handler)  # type: ignore[arg-type]
    try:
        run(ENTRY)
    finally:
        run.close()


def test_a_coroutine_function_is_awaited() -> None:
    ended: list[Entry] = []

    async def handle(entry: Entry) -> None:
        await asyncio.sleep(0)
        ended.append(entry)

    called(handle)
    assert ended == [ENTRY]


def test_what_wraps_a_coroutine_function_is_awaited_too() -> None:
    ended: list[tuple[int, Entry]] = []

    async def handle(more: int, entry: Entry) -> None:
        await asyncio.sleep(0)
        ended.append((more, entry))

    class Handler:
        async def __call__(self, entry: Entry) -> None:
            await handle(2, entry)

    called(lambda entry: handle(0, entry))
    called(partial(handle, 1))
    called(Handler())
    assert ended == [(0, ENTRY), (1, ENTRY), (2, ENTRY)]


def test_one_event_loop_serves_all_entries() -> None:
    loops = []

    async def handle(entry: Entry) -> None:
        loops.append(asyncio.get_running_loop())

    run = HandlerRun(handle)
    run(ENTRY)
    run(ENTRY)
    run.close()
    assert len(set(map(id, loops))) == 1 and loops[0].is_closed()


def test_what_was_given_to_a_pool_is_waited_for() -> None:
    ended: list[Entry] = []
    with ThreadPoolExecutor(1) as pool:
        called(lambda entry: pool.submit(ended.append, entry))
        assert ended == [ENTRY]
        with pytest.raises(ZeroDivisionError):
            called(lambda entry: pool.submit(lambda: 1 // 0))


def test_what_a_coroutine_raises_is_raised() -> None:
    async def handle(entry: Entry) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        called(handle)


def test_a_generator_function_is_refused_for_nothing_of_it_would_run() -> None:
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
def test_what_cannot_be_called_is_refused_and_no_entry_fails_of_it(handler: Any) -> None:
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


def test_what_takes_other_arguments_is_refused_where_it_is_given() -> None:
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


def test_a_coroutine_that_is_waited_for_in_an_event_loop_of_others_says_what_to_use() -> None:
    async def main() -> None:
        called(lambda entry: asyncio.get_running_loop().create_future())

    with pytest.raises(RuntimeError, match="async with consumer"):
        asyncio.run(main())


def test_run_serve_and_start_take_the_same_arguments() -> None:
    run, serve = (inspect.signature(each).parameters for each in (Consumer.run, Consumer.serve))
    assert run == serve
    assert [*run][2:] == [*HandlerOptions.__annotations__]  # of TestQueue.start
    assert {name: run[name].default for name in [*run][2:]} == {name: getattr(CheckedOptions(), name) for name in [*run][2:]}
