"""Where the seconds of a driver's start go, as one line of its log."""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("baton.spark")

STEPS = ("Spark", "Lease", "executors", "partitions", "first batch")
"""In their order: its context is there; the Lease is held; one executor is warm; one partition has an owner; a batch is done."""


class StartTimes:
    """From the start of the process to the first batch. Thread-safe; a step counts once."""

    def __init__(self, begun: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`begun`: when the process was started, on that clock."""
        self._clock = clock
        self._last = self._begun = clock() - _age() if begun is None else begun
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    def done(self, step: str) -> None:
        """A step has ended. The last one tells them all."""
        with self._lock:
            if step in self._seconds or STEPS[-1] in self._seconds:
                return
            now = self._clock()
            self._seconds[step] = now - self._last
            self._last = now
        if step == STEPS[-1]:
            each = ", ".join(f"{name} {seconds:.1f}" for name, seconds in self._seconds.items())
            log.info("the first batch is done %.1f s after the start of the driver (seconds: %s)", now - self._begun, each)

    def over(self) -> bool:
        """The last step has ended."""
        return STEPS[-1] in self._seconds


def _age() -> float:
    """Seconds since this process was started."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
