"""Threads that namespaces share: none may hold all of them, whatever hangs there.

A thread cannot be ended. So each namespace may hold as many as it leaves free: the first one half of all, the next one half of
the rest.

Heavy work takes turns besides: so much of it is under way at once. It has its turn together with its thread, for a turn that
waited for a thread of a namespace where all hang would hold up the heavy work of others.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

from baton.controller.offload import on_thread

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    namespace: str
    weight: int
    turn: asyncio.Future[None]


class NamespaceThreads:
    """So many, for work that is begun on one event loop. Namespaces take turns; in each, the order is that of asking, but that
    light work does not wait behind heavy work that may not begin."""

    def __init__(self, threads: int, name: str, most: int = 0) -> None:
        """`most`: what all that is under way may weigh."""
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = self._threads = threads
        self._left = most
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Waiter]] = {}
        """By namespace, the next one first."""
        self._heavy: dict[_Waiter, None] = {}
        """Those of them whose work weighs something, in the order of asking."""
        self._since: dict[asyncio.Future[Any], float] = {}
        """When the work of each thread that is held was begun, by the event loop's clock."""
        self._weights: dict[asyncio.Future[Any], int] = {}
        """Of heavy work that is under way."""

    async def begin(
        self, namespace: str, weight: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs
    ) -> asyncio.Future[T]:
        """Wait for a thread; returns when `work` is on it. It goes on there also where nobody waits for it any more. `weight`: 0
        for what is light."""
        await self._turn(namespace, weight)
        try:
            thread = on_thread(self._executor, work, *arguments, **named)
        except BaseException:
            self._give_back(namespace, weight)
            raise
        self._since[thread] = asyncio.get_running_loop().time()
        self._weights[thread] = weight
        thread.add_done_callback(partial(self._ended, namespace))
        return thread

    def lighten(self, thread: asyncio.Future[Any]) -> None:
        """The work on this thread keeps other heavy work waiting no more."""
        self._left += self._weights.pop(thread, 0)
        self._next()

    def all_busy_since(self, moment: float) -> bool:
        """All threads have been at the same work since then, by the event loop's clock. For another thread."""
        begun = self._since.copy().values()
        return len(begun) == self._threads and max(begun) < moment

    async def _turn(self, namespace: str, weight: int) -> None:
        mine = _Waiter(namespace, weight, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(namespace, deque()).append(mine)
        if weight:
            self._heavy[mine] = None
        self._next()
        try:
            await mine.turn
        except asyncio.CancelledError:
            self._heavy.pop(mine, None)
            if mine.turn.done() and not mine.turn.cancelled():
                self._give_back(namespace, weight)
            else:
                self._next()  # who was behind it may fit
            raise

    def _ended(self, namespace: str, thread: asyncio.Future[Any]) -> None:
        del self._since[thread]
        self._give_back(namespace, self._weights.pop(thread, 0))

    def _give_back(self, namespace: str, weight: int) -> None:
        self._free += 1
        self._left += weight
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        self._next()

    def _next(self) -> None:
        """Whoever may begin does."""
        while (one := self._first()) is not None:
            waiting = self._waiting.pop(one.namespace)
            waiting.remove(one)
            if waiting:
                self._waiting[one.namespace] = waiting  # behind the others
            self._heavy.pop(one, None)
            self._free -= 1
            self._left -= one.weight
            self._held[one.namespace] += 1
            one.turn.set_result(None)

    def _first(self) -> _Waiter | None:
        """Of those that may begin."""
        if not self._free:
            return None
        heavy = next((one for one in self._heavy if not one.turn.done() and self._has_room(one.namespace)), None)
        for namespace, waiting in list(self._waiting.items()):
            while waiting and waiting[0].turn.done():  # cancelled
                waiting.popleft()
            if not waiting:
                del self._waiting[namespace]
            elif self._has_room(namespace):
                for one in waiting:
                    if not one.turn.done() and (not one.weight or (one is heavy and one.weight <= self._left)):
                        return one
        return None

    def _has_room(self, namespace: str) -> bool:
        return self._held[namespace] < self._free
