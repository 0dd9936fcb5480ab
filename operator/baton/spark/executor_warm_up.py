"""New executors run an empty task before they count.

The first task of a process takes seconds: it starts Python, imports the libraries, and compiles. As part of a batch that would
hold up all others, just when partitions are about to change hands. So the driver speaks for an executor only once it is warm.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from baton.spark.locality import Executor

log = logging.getLogger("baton.spark")

Warm = Callable[[Executor], object]
"""Runs an empty task in an executor, and returns when it is done."""


class ExecutorWarmUp:
    """Which executors are warm. One that cannot be warmed counts all the same, after `patience` seconds or when the try has
    failed.
    """

    def __init__(self, warm: Warm, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._warm, self._patience, self._clock = warm, patience, clock
        self._since: dict[str, float] = {}
        self._done: set[str] = set()

    def ready(self, fleet: Iterable[Executor]) -> tuple[Executor, ...]:
        """Those of the fleet that are warm; begins with those that are new."""
        fleet = tuple(fleet)
        now = self._clock()
        for executor in fleet:
            if executor.id not in self._since:
                self._since[executor.id] = now
                threading.Thread(target=self._run, args=(executor,), name=f"baton-warm-{executor.id}", daemon=True).start()
        return tuple(one for one in fleet if one.id in self._done or now - self._since[one.id] >= self._patience)

    def _run(self, executor: Executor) -> None:
        try:
            self._warm(executor)
        except Exception as error:  # it was killed, or the application ends
            log.debug("executor %s could not be warmed: %s", executor.id, error)
        self._done.add(executor.id)
