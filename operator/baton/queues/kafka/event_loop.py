"""An event loop in a thread of its own, for a program that has none, or one that is busy."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

from baton.queues.protocol import QueueUnreachable

T = TypeVar("T")

_ENDS_WITHIN = 1.0
"""Seconds for what runs to end, and"""
_GOES_OUT_WITHIN = 0.05
"""for the last words of connections that are closed."""


class EventLoopThread:
    """From the first `run` to `close`. Any thread may call."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._starting = threading.Lock()

    def run(self, coroutine: Coroutine[Any, Any, T], within: float) -> T:
        """Its answer, or what it raises. Raises QueueUnreachable after so many seconds, and after `close`."""
        with self._starting:
            if self._thread.ident is None:
                self._thread.start()
        if self._loop.is_closed():
            coroutine.close()
            raise QueueUnreachable("the connection is closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(within)
        except TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise QueueUnreachable(f"Kafka did not answer within {within:g} s") from None
        except CancelledError:
            raise QueueUnreachable("the connection is closed") from None

    def call(self, what: Callable[[], object]) -> None:
        """In the loop, soon; not after `close`."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def close(self, *last: Callable[[], Awaitable[None]]) -> None:
        """What runs is cancelled; then these are awaited, which close connections."""
        if self._thread.ident is None or self._loop.is_closed():
            self._loop.close()
            return
        ended = asyncio.run_coroutine_threadsafe(_end(last), self._loop)
        with suppress(TimeoutError, CancelledError):
            ended.result(_ENDS_WITHIN)
        self._loop.call_soon_threadsafe(self._loop.call_later, _GOES_OUT_WITHIN, self._loop.stop)
        self._thread.join(_ENDS_WITHIN)
        if not self._thread.is_alive():
            self._loop.close()


async def _end(last: Iterable[Callable[[], Awaitable[None]]]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for one in last:
        await one()
