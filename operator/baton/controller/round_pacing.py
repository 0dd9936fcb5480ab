"""Groups that have something to do at the same moment go one after the other, and others have their turn in between.

A list, a new leader or a resync wakes a thousand groups at once. On one turn of the event loop their rounds would hold up Leases,
watches and requests for a second.
"""

import asyncio
from collections import deque
from collections.abc import Callable

AT_ONCE = 10
"""Rounds that are begun on one turn of the event loop."""


class RoundPacing:
    """Paces the rounds of all groups on one event loop."""

    def __init__(self, open_: Callable[[], bool] = lambda: True) -> None:
        """`open_`: whether any round may begin; call `go_on` when that has become true."""
        self._open = open_
        self._left = AT_ONCE
        self._counting = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait for one's turn, in the order of asking."""
        if self._left == 0 or self._waiting or not self._open():
            mine = asyncio.get_running_loop().create_future()
            self._waiting.append(mine)
            self._count()
            await mine
        else:
            self._left -= 1
            self._count()

    def go_on(self) -> None:
        """Rounds may begin again."""
        self._count()

    def _count(self) -> None:
        if not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._counting = False
        self._left = AT_ONCE
        while self._waiting and self._left and self._open():
            one = self._waiting.popleft()
            if not one.done():  # who was cancelled wants no turn
                self._left -= 1
                one.set_result(None)
        if self._waiting and self._open():
            self._count()
