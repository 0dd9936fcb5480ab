"""How long the operator's event loop is held up: while one callback runs, nobody else has a turn.

The event loop asks its selector what is ready, and then runs all that is. So the time between two such questions is how long
nothing new was looked at. To measure it there costs nothing at rest, misses nothing, and shows a stall also while it lasts.
"""

import selectors
import time
from collections import deque
from collections.abc import Callable

from baton.controller.lookups import LookupLoop

BUCKET, BUCKETS = 30.0, 10
"""Seconds, and how many of them are told: the last five minutes."""


class EventLoopStalls:
    """The stalls of one event loop. Its thread writes them; any thread may read them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds. With the time of a processor (`time.thread_time`) what else the machine does is not counted."""
        self._clock = clock
        self.longest = 0.0
        """Seconds of the longest one since the start."""
        self._recent: deque[tuple[float, float]] = deque(maxlen=BUCKETS)
        """When each bucket began, and the longest in it."""
        self._busy_since: float | None = clock()
        """None: it waits for something to be ready."""

    def loop(self) -> LookupLoop:
        """An event loop that is measured."""
        return LookupLoop(_Selector(self))

    def recent(self) -> float:
        """Seconds of the longest one in the last five minutes; one that lasts still is counted so far."""
        now, since = self._clock(), self._busy_since
        lasting = 0.0 if since is None else now - since
        return max([lasting, *(longest for begun, longest in self._recent.copy() if begun > now - BUCKET * BUCKETS)])

    def asks(self) -> None:
        """The event loop is about to ask what is ready."""
        now = self._clock()
        took = 0.0 if self._busy_since is None else now - self._busy_since
        self._busy_since = None
        if not self._recent or now >= self._recent[-1][0] + BUCKET:
            self._recent.append((now, took))
        elif took > self._recent[-1][1]:
            self._recent[-1] = (self._recent[-1][0], took)
        self.longest = max(self.longest, took)

    def answered(self) -> None:
        """It knows, and runs it."""
        self._busy_since = self._clock()


class _Selector(selectors.DefaultSelector):
    def __init__(self, stalls: EventLoopStalls) -> None:
        super().__init__()
        self._stalls = stalls

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._stalls.asks()
        try:
            return super().select(timeout)
        finally:
            self._stalls.answered()
