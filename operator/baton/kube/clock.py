"""The operator's two clocks. The engine's deadlines are unix seconds; but a step of the wall clock must not move them, and the
next leader, on another machine, must read the same time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerTime:
    """What the API server said of the time in an answer."""

    seconds: float
    """Unix seconds, without their fraction."""
    asked: float
    """When the request was sent (monotonic)."""
    answered: float


class ApiServerClock:
    """Unix seconds of the API server, as far as it tells them: a leader reads the ledger's times by the clock that
    they were written by. Before it has told any, the wall clock's at the start. In between they run as the monotonic clock does.

    Both clocks come in as arguments: a simulation passes those of its event loop, where time is virtual. `monotonic` must be the
    clock of the event loop that the operator runs on (asyncio's default is `time.monotonic`).
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()

    def now(self) -> float:
        """Unix seconds. They run forward only, but for `follow`."""
        return self._offset + self._monotonic()

    def ticks(self) -> float:
        return self._monotonic()

    def follow(self, told: ServerTime) -> float:
        """Go by the API server's time from now on, to within the second and the way of this answer; one that agrees changes
        nothing. Returns the seconds by which this clock was set forward (below 0: back)."""
        before = self._offset
        self._offset = min(max(before, told.seconds - told.answered), told.seconds + 1 - told.asked)
        return self._offset - before
