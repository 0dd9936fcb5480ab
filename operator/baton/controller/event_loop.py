"""The operator's event loop: measures its own stalls, and resolves hosts of queues on threads shared fairly by namespaces.

While one callback runs, all others wait. The event loop asks its selector what is ready and then runs all of it, so the time
between two such calls is a stall. Measuring there costs nothing at rest, misses no stall, and shows a stall while it lasts.

A host look-up occupies its thread until the resolver gives up: 10 to 50 seconds if a zone's servers never answer, and any tenant
can name such a host in a queue. Look-ups of the operator itself (the API server) use other threads.
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
"""Most look-ups under way, in all and per namespace."""

BUCKET, BUCKETS = 30.0, 10
"""Seconds of a bucket, and number of buckets: stalls of the last five minutes are kept."""


class EventLoopStalls:
    """The stalls of one event loop. Its thread writes them; any thread may read them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds. `time.thread_time` would leave out time that other processes use."""
        self._clock = clock
        self.longest = 0.0
        """Seconds of the longest stall since the start."""
        self._recent: deque[tuple[float, float]] = deque(maxlen=BUCKETS)
        """Start and longest stall of each bucket."""
        self._busy_since: float | None = clock()
        """None: the event loop is idle."""

    def loop(self) -> asyncio.SelectorEventLoop:
        """Create an event loop whose stalls are measured."""
        return _Loop(_Selector(self))

    def recent(self) -> float:
        """Seconds of the longest stall in the last five minutes, including one that is still going on."""
        now, since = self._clock(), self._busy_since
        lasting = 0.0 if since is None else now - since
        return max([lasting, *(longest for begun, longest in self._recent.copy() if begun > now - BUCKET * BUCKETS)])

    def asks(self) -> None:
        """The event loop is about to ask its selector."""
        now = self._clock()
        took = 0.0 if self._busy_since is None else now - self._busy_since
        self._busy_since = None
        if not self._recent or now >= self._recent[-1][0] + BUCKET:
            self._recent.append((now, took))
        elif took > self._recent[-1][1]:
            self._recent[-1] = (self._recent[-1][0], took)
        self.longest = max(self.longest, took)

    def answered(self) -> None:
        """The selector has answered, and the event loop runs what is ready."""
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
