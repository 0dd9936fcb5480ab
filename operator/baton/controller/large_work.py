"""Threads for work that would block the event loop: plans of large groups, and plans by installed assignors.

All other work runs on the event loop. A plan for a thousand members and ten thousand partitions takes a tenth of a second, a step
at rest less than a millisecond.

A thread cannot be stopped. So a group waits for an installed assignor for a limited time; then its condition names the assignor,
and other groups go on.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from baton.controller.problems import Problem, Reason, Stuck

P = ParamSpec("P")
T = TypeVar("T")

MUCH = 5_000
"""Partitions, or similar items, above which work counts as large."""

THREADS, OF_NAMESPACE = 8, 2
"""Threads for installed assignors, in all and per namespace. Python computes on one thread at a time, so more threads would only
make the event loop wait longer for its turn."""

LONGEST = 90.0
"""Seconds for which a group waits for an installed assignor."""

_LARGE = ThreadPoolExecutor(1, thread_name_prefix="large")
"""One thread for large plans, because a plan needs twice the memory of its group's state. Built-in assignors always return."""


async def aside(much: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run `work`, on a thread if it is large, and return its result. `work` must share no state with other tasks. `much`: the
    number of items that it processes."""
    if much <= MUCH:
        return work(*arguments, **named)
    return await _on_thread(_LARGE, work, *arguments, **named)


def _on_thread(threads: Executor, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> asyncio.Future[T]:
    """Run `work` on a thread, with the context of this task. It runs to its end even if the caller is cancelled."""
    run = partial(copy_context().run, work, *arguments, **named)
    return asyncio.get_running_loop().run_in_executor(threads, run)


class SharedThreads:
    """Threads for work that may hang. A namespace may use only some of them, so that others always have threads left."""

    def __init__(self, threads: int, of_namespace: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._of_namespace = of_namespace
        self._rooms: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def begin(self, namespace: str, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Wait until the namespace has a free thread, and start `work` on it."""
        room = self._rooms.setdefault(namespace, asyncio.Semaphore(self._of_namespace))
        await room.acquire()
        try:
            thread = _on_thread(self._executor, work, *arguments)
        except BaseException:  # the system has no more threads
            room.release()
            raise
        thread.add_done_callback(lambda _: room.release())
        return thread


class LargeWork:
    """Threads for the large work of all groups."""

    def __init__(self, longest: float = LONGEST) -> None:
        """`longest`: see LONGEST."""
        self.longest = longest
        self.installed = SharedThreads(THREADS, OF_NAMESPACE, "assignor")

    def of(self, namespace: str) -> "GroupWork":
        """The large work of one group in this namespace."""
        return GroupWork(self, namespace)


class GroupWork:
    """The large work of one group. It uses at most one thread for installed assignors at a time."""

    def __init__(self, shared: LargeWork, namespace: str) -> None:
        self._shared = shared
        self._namespace = namespace
        self._left: asyncio.Future[Any] | None = None
        """The call of an installed assignor under way, possibly one whose caller gave up."""

    async def do(self, partitions: int, work: Callable[..., T], *arguments: Any, installed: bool = False) -> T:
        """Run `work`, which processes so many partitions, and return its result. `installed`: it may call an installed assignor;
        raises Stuck if that takes too long."""
        if not installed:
            return await aside(partitions, work, *arguments)
        try:
            async with asyncio.timeout(self._shared.longest) as limit:
                if self._left is not None:
                    await asyncio.wait([self._left])
                self._left = await self._shared.installed.begin(self._namespace, work, *arguments)
                result: T = await asyncio.shield(self._left)
                return result
        except TimeoutError:
            if not limit.expired():
                raise
            raise Stuck(self._overdue()) from None
        finally:
            if self._left is not None and self._left.done():
                self._left = None

    def _overdue(self) -> Problem:
        return Problem(
            Reason.PLAN_OVERDUE,
            f"the plan of this group has not finished for {self._shared.longest:.0f} s: fix the installed assignor that "
            f"spec.assignors names, or that another group of namespace {self._namespace} waits for, and restart the operator "
            "with it. Until then no partition of this group moves; other groups go on",
        )
