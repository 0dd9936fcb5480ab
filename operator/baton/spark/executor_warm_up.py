"""New executors do what a batch does, on no rows, before one has to wait for them.

The first batch in a process takes seconds: Java loads classes and compiles, Python starts and imports, and connections are made.
All other partitions would wait for that, just when some are about to change hands. So the driver speaks for an executor once a
first, empty task has run there, and has it read once it has done what a batch of each query does. That falls into the holddown.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from baton.spark.executors import Executor

log = logging.getLogger("baton.spark")

Warm = Callable[[Executor], object]
"""Runs something in an executor, and returns when it is done."""


class ExecutorWarmUp:
    """How far executors are. One counts all the same after `patience` seconds, or when it could not be warmed."""

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
        """`first`: an empty task; then `batch`: what a batch does, part by part. `begin`: what this thread runs from now on has
        this name; `cancel` ends all that has it."""
        self._steps: tuple[Callable[[], Iterable[Warm]], ...] = (lambda: (first,)), batch
        self._patience, self._clock = patience, clock
        self._begin, self._cancel = begin, cancel
        self._since: dict[str, float] = {}
        self._done: dict[str, int] = {}
        """How many of the steps."""
        self._late = set[str]()

    def look(self, fleet: Iterable[Executor]) -> tuple[tuple[Executor, ...], tuple[Executor, ...]]:
        """Those of the fleet that work, and those of them that are warm; begins with those that are new."""
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
        """What runs there still would hold its slots."""
        self._late.add(executor.id)
        log.warning("executor %s is not warm after %.0f s: it reads all the same", executor.id, self._patience)
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
        except Exception as error:  # it was killed, the application ends, or what the user gives fails
            if executor.id not in self._late:
                log.warning("executor %s could not be warmed, and reads all the same: %s", executor.id, error)
            return False
        return True


def _name(executor: Executor) -> str:
    return f"baton-warm-{executor.id}"
