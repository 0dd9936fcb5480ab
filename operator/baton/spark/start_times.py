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

LATE = 30.0
"""Seconds at one step after which people are told what is waited for."""

_WAITING = {
    "executors": "no executor has finished its first, empty task yet: see whether the executors' pods are there and run "
    "(kubectl get pods -l spark-role=executor), and what the driver's log says of them; where it says that heartbeats timed out, "
    "the machine is too busy: give baton.spark.conf a longer executor_timeout",
    "partitions": "no executor owns a partition yet: kubectl describe consumergroup {group} says what the group waits for, and "
    "baton doctor what its pods lack",
}


class StartTimes:
    """From the start of the process to the first batch. Thread-safe; a step counts once."""

    def __init__(self, group: str, begun: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`begun`: when the process was started, on that clock."""
        self._group = group
        self._clock = clock
        self._told = ""
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

    def look(self) -> None:
        """Say once of a step what is waited for, where it takes long."""
        with self._lock:
            step = next((step for step in STEPS if step not in self._seconds), "")
            late = self._clock() - self._last > LATE and step != self._told
        if late and step in _WAITING:
            self._told = step
            log.warning("for %.0f s group %s waits: %s", LATE, self._group, _WAITING[step].format(group=self._group))

    def over(self) -> bool:
        """The last step has ended."""
        return STEPS[-1] in self._seconds


def _age() -> float:
    """Seconds since this process was started."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
