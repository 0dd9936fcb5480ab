"""An event loop in a thread, and ways to ask for many partitions in one."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

from baton.queues.kafka.record import Committed
from baton.queues.protocol import QueueUnreachable

# -- An event loop in a thread of its own, for a program that has none, or one that is busy.

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


# -- Work on many partitions, some of them at a time.
#
# A broker answers the requests of a connection one after the other: of what is begun all at once, nothing is done before
# the end.

AT_ONCE = 64


async def each(
    what: Callable[[int], Awaitable[T]], partitions: Iterable[int], within: float = inf, *, at_once: int = AT_ONCE
) -> dict[int, T]:
    """What comes of each partition, without those that are not begun in so many seconds. All are tried, also where one fails;
    then what the first raised is raised."""
    until, left = time.monotonic() + within, iter(partitions)
    found: dict[int, T] = {}
    problems: list[Exception] = []

    async def some() -> None:
        for number in left:
            if time.monotonic() >= until:
                return
            try:
                found[number] = await what(number)
            except Exception as problem:
                problems.append(problem)

    await asyncio.gather(*(some() for _ in range(at_once)))
    if problems:
        raise problems[0]
    return found


# -- Questions for one partition each that are asked together: a hand-off of many partitions asks the coordinator once, and
# not for each.

Ask = Callable[[tuple[int, ...]], Awaitable[tuple[dict[int, Committed], tuple[int, ...]]]]
"""What is committed of these partitions, but for those of which a commit is under way; and these."""


class AskedTogether:
    """Used in one event loop."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._joining: set[int] = set()
        self._question: asyncio.Task[tuple[dict[int, Committed], tuple[int, ...]]] | None = None
        """The next one; it is not sent yet."""

    async def of(self, partition: int) -> Committed | None:
        """What is committed of it, asked for after this call; None: a commit is under way. Raises what `ask` raises."""
        if self._question is None:
            self._question = asyncio.create_task(self._sent(), name="baton-offsets")
        self._joining.add(partition)
        found, _ = await asyncio.shield(self._question)
        return found.get(partition)

    async def _sent(self) -> tuple[dict[int, Committed], tuple[int, ...]]:
        await asyncio.sleep(0)  # whoever asks in this turn of the loop joins
        partitions, self._joining, self._question = self._joining, set(), None
        return await self._ask(tuple(sorted(partitions)))
