"""New executors do what a batch does, on no rows, before one has to wait for them.

The first batch in a process takes seconds: Java loads classes and compiles, Python starts and imports, and connections are made.
All other partitions would wait for that, just when some are about to change hands. So the driver speaks for an executor once a
first, empty task has run there, and has it read once it has done what a batch of each query does. That falls into the holddown.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from baton.spark.locality import Executor

log = logging.getLogger("baton.spark")

Warm = Callable[[Executor], object]
"""Runs something in an executor, and returns when it is done."""


class ExecutorWarmUp:
    """How far executors are. One counts all the same after `patience` seconds, or when it could not be warmed."""

    def __init__(self, first: Warm, batch: Warm, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`first`: an empty task; then `batch`: what a batch does."""
        self._steps = first, batch
        self._patience, self._clock = patience, clock
        self._since: dict[str, float] = {}
        self._done: dict[str, int] = {}
        """How many of the steps."""

    def look(self, fleet: Iterable[Executor]) -> tuple[tuple[Executor, ...], tuple[Executor, ...]]:
        """Those of the fleet that work, and those of them that are warm; begins with those that are new."""
        fleet = tuple(fleet)
        now = self._clock()
        for executor in fleet:
            if executor.id not in self._since:
                self._since[executor.id] = now
                threading.Thread(target=self._run, args=(executor,), name=f"baton-warm-{executor.id}", daemon=True).start()
        late = {one.id for one in fleet if now - self._since[one.id] >= self._patience}
        working = tuple(one for one in fleet if one.id in late or self._done.get(one.id, 0) >= 1)
        return working, tuple(one for one in working if one.id in late or self._done[one.id] == len(self._steps))

    def _run(self, executor: Executor) -> None:
        took: list[float] = []
        for done, step in enumerate(self._steps, 1):
            began = time.monotonic()
            try:
                step(executor)
            except Exception as error:  # it was killed, or the application ends
                log.debug("executor %s could not be warmed: %s", executor.id, error)
            took.append(time.monotonic() - began)
            self._done[executor.id] = done
        log.info("executor %s is warm: a first task took %.1f s, a batch without rows %.1f s", executor.id, *took)
