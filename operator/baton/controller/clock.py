"""The operator's two clocks. The engine's deadlines are unix seconds; but a step of the wall clock must not move them."""

import time


class Clock:
    """Unix seconds that only ever run forward: the wall clock at the start, and the monotonic one since."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Unix seconds."""
        return self._offset + time.monotonic()

    @staticmethod
    def ticks() -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()
