"""Calling the user's handler: to its end, whether it is a plain function or a coroutine function."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from baton.model.options import function

Handler = Callable[[Any], object]
"""A function or a coroutine function of one entry, or of a batch. What it returns is ignored, but for what still has to run: an
awaitable is awaited, and a `concurrent.futures.Future` waited for."""
UserHandler = Handler | Callable[[Any, Any], object]
"""Also of a value, or of a value and its entry (`baton.consumer.decoding`)."""


def is_coroutine_function(handler: UserHandler, *gets: str) -> bool:
    """Whether calling it makes a coroutine. Raises TypeError for what cannot be called with what it `gets` (an entry or a
    batch), and for a generator function: calling it runs nothing of it."""
    if handler is None:
        raise TypeError("the handler is None: give the function itself, and not what it returns")
    function("the handler", handler, *(gets or ("entry or batch",)))
    call: object = handler
    while isinstance(call, functools.partial):
        call = call.func
    call = call if inspect.isroutine(call) else getattr(call, "__call__", call)  # noqa: B004 -- of an object
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise TypeError(f"the handler {handler!r} is a generator function; give a function, or a coroutine function (async def)")
    return inspect.iscoroutinefunction(call)


def outside_of_event_loops(cure: str) -> None:
    """Raises RuntimeError in a thread whose event loop runs: nothing else would run there, and no coroutine."""
    if in_event_loop():
        raise RuntimeError(f"an event loop runs in this thread, which would stand still: {cure}")


def in_event_loop() -> bool:
    """An event loop runs in this thread: waiting here would keep all its tasks waiting."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class HandlerRun:
    """One handler for the length of one `Consumer.run`. Coroutines get an event loop, the same one for all entries."""

    def __init__(self, handler: Handler) -> None:
        """Raises TypeError as `is_coroutine_function` does."""
        is_coroutine_function(handler)
        self._handler = handler
        self._runner: asyncio.Runner | None = None

    def __call__(self, entries: object) -> None:
        """Returns when the handler has run to its end. Raises what it raises: where it waited for something that was cancelled,
        in an event loop of its own, that is a failure of its entry."""
        try:
            result = self._handler(entries)
        except asyncio.CancelledError as error:
            raise _cancelled() from error
        if result is not None:  # what follows takes longer than many handlers
            self.complete(result)

    def complete(self, result: object) -> None:
        """Run what still has to run of a handler or a callback that has returned this."""
        if inspect.isawaitable(result):
            if self._runner is None:
                outside_of_event_loops("use `async with consumer:` and `await consumer.serve(handler)`, or `async for`")
                self._runner = asyncio.Runner()
            self._runner.run(awaited(result))
        elif isinstance(result, Future):
            result.result()
        else:
            _no_generator(result)

    def close(self) -> None:
        """End the event loop, if there was one."""
        if self._runner is not None:
            self._runner.close()


async def awaited(result: object) -> None:
    """The same in an event loop. Raises CancelledError only where this task itself is cancelled: where a handler waited for
    something that was, that is a failure of its entry."""
    try:
        if isinstance(result, Future):
            await asyncio.wrap_future(result)
        elif inspect.isawaitable(result):
            await result
        else:
            _no_generator(result)
    except asyncio.CancelledError as error:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        raise _cancelled() from error


def _cancelled() -> RuntimeError:
    return RuntimeError("what it waited for was cancelled")


def _no_generator(result: object) -> None:
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError("the handler returned a generator, so nothing of it has run; give a function, or a coroutine function")
