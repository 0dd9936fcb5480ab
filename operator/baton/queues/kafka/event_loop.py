"""An event loop in a thread, and requests for many partitions in it."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

from baton.queues.kafka.record import Committed
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

T = TypeVar("T")

_ENDS_WITHIN = 1.0
"""Seconds that `close` waits for tasks to end."""
_SENDS_WITHIN = 0.05
"""Seconds for closing connections to send what they have left."""


class EventLoopThread:
    """One thread for everything in a process that talks to Kafka, as long as it has users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    def user(self) -> "LoopUser":
        with self._lock:
            if not self._users:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="baton-kafka-loop", daemon=True)
            self._users += 1
            return LoopUser(self, self._loop)

    def start(self) -> None:
        """Start the thread (idempotent)."""
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    def leave(self) -> None:
        """Remove a user; the last one ends the thread."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if self.started:
                self._loop.call_soon_threadsafe(self._loop.call_later, _SENDS_WITHIN, self._loop.stop)
                self._thread.join(_ENDS_WITHIN)
            if not self._thread.is_alive():
                self._loop.close()


class LoopUser:
    """One part of the process, with its own tasks in the loop. Any thread may call."""

    def __init__(self, thread: EventLoopThread, loop: asyncio.AbstractEventLoop) -> None:
        self._thread = thread
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def run(self, coroutine: Coroutine[Any, Any, T], within: float | None = None) -> T:
        """Run it, and return its result. Raises QueueUnreachable after so many seconds, and after `close`."""
        future = self._scheduled(coroutine)
        try:
            return future.result(within)
        except TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise _late(within or 0.0) from None
        except CancelledError:
            raise QueueUnreachable("the connection is closed") from None

    def begin(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run it in the background; not after `close`."""
        with suppress(QueueUnreachable):
            self._scheduled(coroutine).add_done_callback(_log_failure)

    def call(self, what: Callable[[], object]) -> None:
        """Call it in the loop soon; not after `close`."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def close(self, *last: Callable[[], Awaitable[None]]) -> None:
        """Cancel the tasks, then await `last`, which close connections."""
        if self._closed:
            return
        self._closed = True
        if self._thread.started:
            ended = asyncio.run_coroutine_threadsafe(self._end(last), self._loop)
            with suppress(TimeoutError, CancelledError):
                ended.result(_ENDS_WITHIN)
        self._thread.leave()

    def _scheduled(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        if not self._closed:
            self._thread.start()
            owned = self._owned(coroutine)
            try:
                return asyncio.run_coroutine_threadsafe(owned, self._loop)
            except RuntimeError:  # the loop was closed just now
                owned.close()
        coroutine.close()
        raise QueueUnreachable("the connection is closed")

    async def _owned(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            coroutine.close()
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await coroutine
        finally:
            self._tasks.discard(task)

    async def _end(self, last: Iterable[Callable[[], Awaitable[None]]]) -> None:
        others = list(self._tasks)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for one in last:
            await one()


def _log_failure(ended: "Future[object]") -> None:
    if not ended.cancelled() and (problem := ended.exception()) is not None:
        log.error("a task of Kafka's event loop failed", exc_info=problem)


async def in_time(what: Awaitable[T], within: float) -> T:
    """Return its result. Raises QueueUnreachable after so many seconds."""
    try:
        async with asyncio.timeout(within):
            return await what
    except TimeoutError:
        raise _late(within) from None


def _late(within: float) -> QueueUnreachable:
    return QueueUnreachable(f"Kafka did not answer within {within:g} s")


# -- Work on many partitions, some of them at a time.
#
# A broker answers the requests of a connection one after the other: if all partitions begin at once, none is done before the
# end.

AT_ONCE = 64


async def each(
    what: Callable[[int], Awaitable[T]], partitions: Iterable[int], within: float = inf, *, at_once: int = AT_ONCE
) -> dict[int, T]:
    """Return the result of each partition, without those that were not begun in so many seconds. All are tried, even if one
    fails; then the first error is raised."""
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


# -- Requests for single partitions that are sent together: a hand-off of many partitions asks the coordinator once.

Ask = Callable[[tuple[int, ...]], Awaitable[tuple[dict[int, Committed], tuple[int, ...]]]]
"""Returns what is committed of these partitions, and those with a commit under way, which are left out."""


class AskedTogether:
    """For use in one event loop."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._joining: set[int] = set()
        self._question: asyncio.Task[tuple[dict[int, Committed], tuple[int, ...]]] | None = None
        """The next request, which is not sent yet."""

    async def of(self, partition: int) -> Committed | None:
        """Return what is committed of a partition, requested after this call; None: a commit is under way. Raises what `ask`
        raises."""
        if self._question is None:
            self._question = asyncio.create_task(self._sent(), name="baton-offsets")
        self._joining.add(partition)
        found, _ = await asyncio.shield(self._question)
        return found.get(partition)

    async def _sent(self) -> tuple[dict[int, Committed], tuple[int, ...]]:
        await asyncio.sleep(0)  # callers in this turn of the loop join
        partitions, self._joining, self._question = self._joining, set(), None
        return await self._ask(tuple(sorted(partitions)))
