"""An event loop in a thread, and ways to ask for many partitions in one."""

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
"""Seconds for what runs to end, and"""
_GOES_OUT_WITHIN = 0.05
"""for the last words of connections that are closed."""


class EventLoopThread:
    """One for all of a process that speaks to Kafka, as long as it has users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    def user(self) -> "LoopUser":
        """One more part of the process."""
        with self._lock:
            if not self._users:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="baton-kafka-loop", daemon=True)
            self._users += 1
            return LoopUser(self, self._loop)

    def start(self) -> None:
        """Does nothing if it has begun."""
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()

    @property
    def begun(self) -> bool:
        return self._thread.ident is not None

    def leave(self) -> None:
        """One user less."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if self.begun:
                self._loop.call_soon_threadsafe(self._loop.call_later, _GOES_OUT_WITHIN, self._loop.stop)
                self._thread.join(_ENDS_WITHIN)
            if not self._thread.is_alive():
                self._loop.close()


class LoopUser:
    """A part of the process, with tasks of its own in the loop. Any thread may call."""

    def __init__(self, thread: EventLoopThread, loop: asyncio.AbstractEventLoop) -> None:
        self._thread = thread
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def run(self, coroutine: Coroutine[Any, Any, T], within: float | None = None) -> T:
        """Its answer, or what it raises. Raises QueueUnreachable after so many seconds, and after `close`."""
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
        """Run it, and wait for nothing; after `close` not at all."""
        with suppress(QueueUnreachable):
            self._scheduled(coroutine).add_done_callback(_tell)

    def call(self, what: Callable[[], object]) -> None:
        """In the loop, soon; not after `close`."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def close(self, *last: Callable[[], Awaitable[None]]) -> None:
        """What runs is cancelled; then these are awaited, which close connections."""
        if self._closed:
            return
        self._closed = True
        if self._thread.begun:
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
            except RuntimeError:  # it was closed just now
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


def _tell(ended: "Future[object]") -> None:
    """A task that is not waited for may have failed."""
    if not ended.cancelled() and (problem := ended.exception()) is not None:
        log.error("a task of Kafka's event loop failed", exc_info=problem)


async def in_time(what: Awaitable[T], within: float) -> T:
    """What comes of it. Raises QueueUnreachable after so many seconds."""
    try:
        async with asyncio.timeout(within):
            return await what
    except TimeoutError:
        raise _late(within) from None


def _late(within: float) -> QueueUnreachable:
    return QueueUnreachable(f"Kafka did not answer within {within:g} s")


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
        await asyncio.sleep(0)  # callers in this turn of the loop join
        partitions, self._joining, self._question = self._joining, set(), None
        return await self._ask(tuple(sorted(partitions)))
