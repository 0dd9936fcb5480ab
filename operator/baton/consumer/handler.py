"""Running the user's handler to completion, whether it is a plain function or a coroutine function."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from baton.model.options import function

Handler = Callable[[Any], object]
"""A function or a coroutine function of one entry, or of a batch. If it returns an awaitable or a `concurrent.futures.Future`,
the consumer waits for it. Other results are ignored."""
UserHandler = Handler | Callable[[Any, Any], object]
"""A Handler, or a function of a value, or of a value and its entry (`baton.consumer.decoding`)."""


def is_coroutine_function(handler: UserHandler, *gets: str) -> bool:
    """Return whether calling the handler makes a coroutine. Raises TypeError if it cannot be called with the arguments named by
    `gets` (by default an entry or a batch), and for a generator function, whose body a call would not run."""
    if handler is None:
        raise TypeError("the handler is None: pass the function itself, not its result")
    function("the handler", handler, *(gets or ("entry or batch",)))
    call: object = handler
    while isinstance(call, functools.partial):
        call = call.func
    call = call if inspect.isroutine(call) else getattr(call, "__call__", call)  # noqa: B004 -- of an object
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise TypeError(f"the handler {handler!r} is a generator function; pass a function or a coroutine function (async def)")
    return inspect.iscoroutinefunction(call)


def outside_of_event_loops(cure: str) -> None:
    """Raises RuntimeError if an event loop runs in this thread: blocking calls would block all its tasks."""
    if in_event_loop():
        raise RuntimeError(f"an event loop runs in this thread, and this call would block it: {cure}")


def in_event_loop() -> bool:
    """Return whether an event loop runs in this thread, so that blocking calls would block all its tasks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class HandlerRun:
    """One handler for the duration of one `Consumer.run`. Its coroutines share one event loop."""

    def __init__(self, handler: Handler) -> None:
        """Raises the errors of `is_coroutine_function`."""
        is_coroutine_function(handler)
        self._handler = handler
        self._runner: asyncio.Runner | None = None

    def __call__(self, entries: object) -> None:
        """Run the handler to completion. Raises what it raises; a CancelledError, from an event loop inside the handler, becomes
        a RuntimeError, which is a failure of the entry."""
        try:
            result = self._handler(entries)
        except asyncio.CancelledError as error:
            raise _cancelled() from error
        if result is not None:  # skips `complete`, which takes longer than many handlers
            self.complete(result)

    def complete(self, result: object) -> None:
        """Wait for the result of a handler or a callback, if it is an awaitable or a future."""
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
        """Close the event loop, if one was opened."""
        if self._runner is not None:
            self._runner.close()


async def awaited(result: object) -> None:
    """Do the same as `HandlerRun.complete` in a running event loop. Raises CancelledError only if this task itself is cancelled.
    If something that the handler awaited was cancelled, raises RuntimeError, which is a failure of the entry."""
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
        raise TypeError("the handler returned a generator, which has not run; pass a function or a coroutine function")
