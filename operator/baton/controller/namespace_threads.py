"""Threads that namespaces share: none may hold all of them, whatever hangs there.

A thread cannot be ended. So each namespace may hold as many as it leaves free: the first one half of all, the next one half of
the rest.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class NamespaceThreads:
    """So many, for work that is begun on one event loop. Namespaces take turns; in each, the order is that of asking."""

    def __init__(self, threads: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = self._threads = threads
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By namespace, the next one first."""
        self._since: dict[asyncio.Future[Any], float] = {}
        """When the work of each thread that is held was begun, by the event loop's clock."""

    async def begin(self, namespace: str, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> asyncio.Future[T]:
        """Wait for a thread; returns when `work` is on it. It goes on there also where nobody waits for it any more."""
        await self._turn(namespace)
        loop = asyncio.get_running_loop()
        try:
            thread = loop.run_in_executor(self._executor, partial(copy_context().run, work, *arguments, **named))
        except BaseException:
            self._give_back(namespace)
            raise
        self._since[thread] = loop.time()
        thread.add_done_callback(partial(self._ended, namespace))
        return thread

    def all_busy_since(self, moment: float) -> bool:
        """All threads have been at the same work since then, by the event loop's clock. For another thread."""
        begun = self._since.copy().values()
        return len(begun) == self._threads and max(begun) < moment

    async def _turn(self, namespace: str) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(mine)
        self._next()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._give_back(namespace)
            raise

    def _ended(self, namespace: str, thread: asyncio.Future[Any]) -> None:
        del self._since[thread]
        self._give_back(namespace)

    def _give_back(self, namespace: str) -> None:
        self._free += 1
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        self._next()

    def _next(self) -> None:
        for namespace in list(self._waiting):
            if not self._free:
                break
            waiting = self._waiting[namespace]
            while waiting and waiting[0].done():  # cancelled
                waiting.popleft()
            if waiting and self._held[namespace] < self._free:
                del self._waiting[namespace]
                self._free -= 1
                self._held[namespace] += 1
                waiting.popleft().set_result(None)
                if waiting:
                    self._waiting[namespace] = waiting  # behind the others
            elif not waiting:
                del self._waiting[namespace]
