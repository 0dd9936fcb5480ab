"""Steps and plans are made on threads of their own. Work on very many partitions takes turns, too: while a plan is made, it needs
twice as much memory as its group keeps.

A thread cannot be ended. So a group waits for a plan only so long; then that is said on the group, and harms no other.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from baton.controller.namespace_threads import NamespaceThreads
from baton.controller.offload import MUCH
from baton.controller.problems import Problem, Reason, Stuck
from baton.engine.ledger_bounds import MOST_PARTITIONS

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
"""They compute, and Python computes on one at a time: more would only make the event loop wait longer for its turn."""

LONGEST = 90.0
"""Seconds for which a group waits for a plan."""


class LargeWork:
    """Of all groups. In the order of asking; what is little waits for threads alone."""

    def __init__(self, most: int = MOST_PARTITIONS, longest: float = LONGEST) -> None:
        """`most`: partitions that are worked on at the same time; what has more goes alone. `longest`: seconds for which a group
        waits; what takes longer has its turn no more, though it has its thread."""
        self._most = most
        self.longest = longest
        self._threads = NamespaceThreads(THREADS, "step", most)

    def of(self, namespace: str) -> "GroupWork":
        """As one group uses it."""
        return GroupWork(self, namespace)

    def hangs(self, now: float) -> bool:
        """All threads have been at the same work for longer than any group waits: nobody will have a turn any more. `now`: of the
        event loop's clock. For another thread."""
        return self._threads.all_busy_since(now - self.longest)

    async def begin(
        self, namespace: str, partitions: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs
    ) -> asyncio.Future[T]:
        """Returns when `work`, which is about so many, is on its thread. It shares nothing with anybody who does not wait for it.
        Its turn lasts as long as its thread: that goes on where nobody waits for it any more."""
        much = 0 if partitions <= MUCH else min(partitions, self._most)
        thread = await self._threads.begin(namespace, much, work, *arguments, **named)
        if much:
            late = asyncio.get_running_loop().call_later(self.longest, self._threads.lighten, thread)
            thread.add_done_callback(lambda _: late.cancel())
        return thread


class GroupWork:
    """The work of one group, which uses one thread at a time."""

    def __init__(self, shared: LargeWork, namespace: str) -> None:
        self._shared = shared
        self._namespace = namespace
        self._left: asyncio.Future[Any] | None = None
        """Work that was waited for too long, or for which nobody waits."""

    async def do(self, partitions: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What `work` returns, which is about so many. Raises Stuck where that takes too long."""
        longest = self._shared.longest
        try:
            async with asyncio.timeout(longest) as limit:
                if self._left is not None:
                    await asyncio.wait([self._left])
                thread = await self._shared.begin(self._namespace, partitions, work, *arguments, **named)
                self._left = thread
                return await asyncio.shield(thread)
        except TimeoutError:
            if not limit.expired():
                raise
            raise Stuck(self._overdue(longest)) from None
        finally:
            if self._left is not None and self._left.done():
                self._left = None

    def _overdue(self, seconds: float) -> Problem:
        if self._left is None:
            return Problem(
                Reason.PLAN_OVERDUE,
                f"no thread was free for {seconds:.0f} s to make a step of this group on: plans of other groups in namespace "
                f"{self._namespace} take long (see their conditions), or the operator has too little CPU (the chart's value "
                "resources). Until then nothing is moved; it is tried again",
            )
        return Problem(
            Reason.PLAN_OVERDUE,
            f"the plan of this group has not come to its end for {seconds:.0f} s: where spec.assignors names an assignor of your "
            "own, mend it and restart the operator with it; else give the operator more CPU (the chart's value resources). "
            "Until then nothing is moved, and who owns what stays as it is; other groups go on",
        )
