"""Warms up new executors: they run the steps of a batch without rows before a batch depends on them.

The first batch in a process takes seconds: Java loads and compiles classes, Python starts and imports, and connections open. All
other partitions would wait for that, just when some are about to be handed off. So the driver reports an executor as a member
once it has run an empty task, and gives it ranges once it has run a batch without rows of each query. This falls into the
holddown.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from baton.spark.executors import Executor

log = logging.getLogger("baton.spark")

Warm = Callable[[Executor], object]
"""Runs part of a warm-up in an executor, and returns when it is done."""


class ExecutorWarmUp:
    """Warms up executors, and tracks their progress. After `patience` seconds or a failed warm-up they count as warm."""

    def __init__(
        self,
        first: Warm,
        batch: Callable[[], Iterable[Warm]],
        patience: float,
        *,
        begin: Callable[[str], object],
        cancel: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`first` runs an empty task, `batch` returns the parts of a batch. `begin` sets the name of the jobs that this thread
        starts from now on; `cancel` ends the jobs of a name."""
        self._steps: tuple[Callable[[], Iterable[Warm]], ...] = (lambda: (first,)), batch
        self._patience, self._clock = patience, clock
        self._begin, self._cancel = begin, cancel
        self._since: dict[str, float] = {}
        self._done: dict[str, int] = {}
        """Number of finished steps, by executor."""
        self._late = set[str]()

    def look(self, fleet: Iterable[Executor]) -> tuple[tuple[Executor, ...], tuple[Executor, ...]]:
        """Start to warm up new executors. Returns the executors that have run a task, and those of them that are warm."""
        fleet = tuple(fleet)
        now = self._clock()
        for executor in fleet:
            if executor.id not in self._since:
                self._since[executor.id] = now
                threading.Thread(target=self._run, args=(executor,), name=_name(executor), daemon=True).start()
        for executor in fleet:
            if now - self._since[executor.id] >= self._patience and not self._warm(executor):
                self._give_up(executor)
        working = tuple(one for one in fleet if one.id in self._late or self._done.get(one.id, 0) >= 1)
        return working, tuple(one for one in working if self._warm(one))

    def _warm(self, executor: Executor) -> bool:
        return executor.id in self._late or self._done.get(executor.id) == len(self._steps)

    def _give_up(self, executor: Executor) -> None:
        """Count the executor as warm, and cancel its warm-up, which would occupy its slots."""
        self._late.add(executor.id)
        log.warning("executor %s is not warm after %.0f s: it starts reading anyway", executor.id, self._patience)
        try:
            self._cancel(_name(executor))
        except Exception as error:  # the application ends
            log.debug("the warm-up of executor %s could not be cancelled: %s", executor.id, error)

    def _run(self, executor: Executor) -> None:
        took: list[float] = []
        failed = not self._tried(executor, lambda one: self._begin(_name(one)))
        for done, step in enumerate(self._steps, 1):
            began = time.monotonic()
            for part in step():
                if executor.id in self._late:
                    return
                failed |= not self._tried(executor, part)
            took.append(time.monotonic() - began)
            self._done[executor.id] = done
        if not failed:
            log.info("executor %s is warm: a first task took %.1f s, a batch without rows %.1f s", executor.id, *took)

    def _tried(self, executor: Executor, part: Warm) -> bool:
        try:
            part(executor)
        except Exception as error:  # it was killed, the application ends, or the user's warm_up fails
            if executor.id not in self._late:
                log.warning("executor %s could not be warmed up, and starts reading anyway: %s", executor.id, error)
            return False
        return True


def _name(executor: Executor) -> str:
    return f"baton-warm-{executor.id}"
