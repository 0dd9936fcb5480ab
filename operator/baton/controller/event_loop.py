"""The operator's event loop: it measures its own stalls, and looks up hosts of queues on threads that namespaces share.

While one callback runs, all others wait. The event loop asks its selector what is ready, and then runs all that is. So the
time between two such questions is how long nothing new was looked at. To measure it there costs nothing at rest, misses nothing,
and shows a stall also while it lasts.

A look-up holds its thread until the resolver gives up: 10 to 50 seconds if a zone's servers never answer, and every tenant may
name such a host in a queue. Look-ups of the operator itself (the API server) use other threads.
"""

import asyncio
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from baton.controller.large_work import SharedThreads
from baton.queues.opening import LOOKUP_NAMESPACE

LOOKUPS, OF_NAMESPACE = 64, 8
"""Look-ups under way."""

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

    def loop(self) -> asyncio.SelectorEventLoop:
        """An event loop that is measured."""
        return _Loop(_Selector(self))

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


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, selector: selectors.BaseSelector) -> None:
        super().__init__(selector)
        self._lookups = SharedThreads(LOOKUPS, OF_NAMESPACE, "lookup")

    async def getaddrinfo(self, host: Any, port: Any, **how: Any) -> Any:
        namespace = LOOKUP_NAMESPACE.get()
        if namespace is None:
            return await super().getaddrinfo(host, port, **how)
        return await asyncio.shield(await self._lookups.begin(namespace, partial(socket.getaddrinfo, host, port, **how)))
