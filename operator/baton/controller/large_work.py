"""Work on very many partitions is done on another thread, and takes turns: while a plan is made, it needs twice as much memory as
its group keeps.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from baton.controller.aside import MUCH
from baton.engine.ledger_bounds import MOST_PARTITIONS

P = ParamSpec("P")
T = TypeVar("T")


class LargeWork:
    """In the order of asking. What is little waits for nobody."""

    def __init__(self, most: int = MOST_PARTITIONS) -> None:
        """`most`: partitions that are worked on at the same time; what has more goes alone."""
        self._most = most
        self._under_way = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def do(self, partitions: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What `work` returns, which is about so many. It shares nothing with anybody who does not wait for it. Its turn lasts as
        long as its thread: that goes on where nobody waits for it any more."""
        much = 0 if partitions <= MUCH else min(partitions, self._most)
        if much:
            await self._wait(much)
        run = partial(copy_context().run, work, *arguments, **named)
        thread = asyncio.get_running_loop().run_in_executor(None, run)
        if much:
            thread.add_done_callback(lambda _: self._done(much))
        return await asyncio.shield(thread)

    async def _wait(self, much: int) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append((much, mine))
        self._next()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._done(much)
            else:
                self._next()  # who was behind it may fit
            raise

    def _done(self, much: int) -> None:
        self._under_way -= much
        self._next()

    def _next(self) -> None:
        while self._waiting:
            much, one = self._waiting[0]
            if not one.done():
                if self._under_way + much > self._most:
                    return
                self._under_way += much
                one.set_result(None)
            self._waiting.popleft()
