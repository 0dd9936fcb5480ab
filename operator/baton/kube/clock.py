"""The operator's clock. The engine's deadlines are unix seconds, but a step of the wall clock must not move them, and the next
leader, on another machine, must read the same time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerTime:
    """The API server's time, from the Date header of an answer."""

    seconds: float
    """Unix seconds, rounded down."""
    asked: float
    """When the request was sent (monotonic)."""
    answered: float


class ApiServerClock:
    """Unix seconds by the API server's clock, so that a new leader reads the ledger's times by the clock that wrote them. Until
    the first answer, the wall clock at the start counts. In between, time advances with the monotonic clock.

    A simulation passes the clocks of its event loop, where time is virtual. `monotonic` must be the clock of the operator's event
    loop (asyncio's default is `time.monotonic`).
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()

    def now(self) -> float:
        """Unix seconds. They only go back by `follow`."""
        return self._offset + self._monotonic()

    def ticks(self) -> float:
        return self._monotonic()

    def follow(self, told: ServerTime) -> float:
        """Set this clock to the API server's time if it differs by more than the answer's precision (a second, and the time that
        the request took). Returns the seconds by which this clock was set forward (negative: back)."""
        before = self._offset
        self._offset = min(max(before, told.seconds - told.answered), told.seconds + 1 - told.asked)
        return self._offset - before
