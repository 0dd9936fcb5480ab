"""The operator's two clocks. The engine's deadlines are unix seconds; but a step of the wall clock must not move them."""

import time
from collections.abc import Callable


class Clock:
    """Unix seconds that only ever run forward: the wall clock at the start, and the monotonic one since.

    Both come in as arguments: a simulation passes those of its event loop, where time is virtual. `monotonic` must be the clock
    of the event loop that the operator runs on (asyncio's default is `time.monotonic`).
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()

    def now(self) -> float:
        """Unix seconds."""
        return self._offset + self._monotonic()

    def ticks(self) -> float:
        """Seconds of the monotonic clock."""
        return self._monotonic()
