"""The driver's second thread: while queries run, it looks after executors, the size of the fleet, and the driver's word."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from baton.model.wording import counted
from baton.spark.dismissals import LAST, Dismissals
from baton.spark.executor_warm_up import ExecutorWarmUp
from baton.spark.executors import Executors
from baton.spark.grants_in_use import GrantsInUse
from baton.spark.ledger_view import LedgerView
from baton.spark.locality import Executor
from baton.spark.scale import order
from baton.spark.session import FleetSession
from baton.spark.statistics import Counts
from baton.spark.stuck_executors import StuckExecutors, stuck_executors, to_kill

log = logging.getLogger("baton.spark")

EVERY, SOON = 0.5, 0.1
_REPORT = 60.0
"""Seconds."""


class FleetLoop:
    """Looks twice a second, more often while it waits for an executor, and ends with the fleet."""

    def __init__(
        self,
        *,
        alive: Callable[[], bool],
        ended: Callable[[], None],
        ready: Callable[[tuple[Executor, ...]], None],
        ledger: LedgerView,
        grants_in_use: GrantsInUse,
        executors: Executors,
        session: FleetSession,
        counts: Counts,
        executor_warm_up: ExecutorWarmUp,
        dismissals: Dismissals,
        troubles: Callable[[], Mapping[str, str]],
        patience: float,
        queues_answer: Callable[[], bool],
    ) -> None:
        """`alive`: the fleet goes on. `ended` is called once, after it did not. `ready`: these executors can be given a task, and
        they are others than before. `troubles`: what keeps the driver from its work, by the fields of its `Word`.

        `patience`: seconds that a batch may be held up. `queues_answer`: all queues do now; who waits for one is not stuck.
        """
        self._queues_answer = queues_answer
        self._alive, self._ended, self._ready, self._patience = alive, ended, ready, patience
        self._ledger, self._grants_in_use, self._executors = ledger, grants_in_use, executors
        self._session, self._counts, self._executor_warm_up, self._troubles = session, counts, executor_warm_up, troubles
        self._dismissals = dismissals
        self._fleet: frozenset[str] = frozenset()
        self._usable: tuple[str, ...] = ()
        self._total: int | None = None
        self._held: StuckExecutors | None = None
        self._reported = time.monotonic()

    def start(self) -> None:
        threading.Thread(target=self._run, name="baton-fleet", daemon=True).start()

    def _run(self) -> None:
        problem = False
        try:
            while self._alive():
                again = EVERY
                try:
                    again = self.look()
                    problem = False
                except Exception:  # a hiccup of py4j or of Spark: look again
                    if not problem:
                        log.exception("looking after the executors failed, and is tried again")
                    problem = True
                time.sleep(again)
        finally:
            self._ended()

    def look(self) -> float:
        """Look once at the executors, the size of the fleet and the session. Seconds until the next look."""
        # Before Spark is asked: it may be Spark that does not answer.
        self._session.say(statistics=self._counts.statistics().to_json(), **self._troubles())
        fleet = self._executors.registered()
        ids = frozenset(executor.id for executor in fleet)
        if ids != self._fleet:
            log.info("executors: %s", ", ".join(executor.pod for executor in fleet) or "none")
            self._fleet = ids
        self._end_hold_ups(fleet)
        none_is_leaving = self._resize(fleet)
        working, warm = self._executor_warm_up.look(fleet)
        usable = self._dismissals.staying(warm)
        if (ids_of_usable := tuple(executor.id for executor in usable)) != self._usable:
            self._usable = ids_of_usable
            self._ready(usable)
        self._session.say(executors=tuple(executor.id for executor in working))
        if time.monotonic() - self._reported > _REPORT:
            self._reported = time.monotonic()
            log.info("fleet of %s: %s", counted(len(fleet), "executor"), self._counts.statistics().to_json())
        return EVERY if none_is_leaving and len(warm) == len(fleet) else SOON

    def _end_hold_ups(self, fleet: tuple[Executor, ...]) -> None:
        members = self._grants_in_use.missed()
        missed = frozenset(executor.id for executor in fleet if executor.pod in members)
        now = time.monotonic()
        self._held = stuck_executors(self._held, fleet, missed, now)
        kill = to_kill(self._held, self._patience, now)
        if kill and not self._queues_answer():
            log.info("executors %s hold up the batch, and a queue is away: they are waited for", ", ".join(sorted(kill)))
            self._held = None
        elif kill:
            log.warning("executors %s missed a deadline and hold up the batch: they are replaced", ", ".join(sorted(kill)))
            self._executors.end(kill)
            self._counts.add("executors_ended", len(kill))
            self._held = None

    def _resize(self, fleet: tuple[Executor, ...]) -> bool:
        """Whether no executor is left to be ended as soon as it is idle."""
        ledger, left = self._ledger.read(), self._dismissals.left()
        wanted = order(ledger.scale, fleet, ledger.entries, self._grants_in_use.busy(), left, LAST)
        none_is_leaving = self._dismissals.end(wanted.dismiss, fleet)
        if wanted.target is not None and wanted.target != self._total:
            log.info("the fleet is to have %s", counted(wanted.target, "executor"))
            self._executors.resize(wanted.target)
            self._total = wanted.target
        if wanted.kill:
            log.info("executors %s have handed off and go", ", ".join(wanted.kill))
            self._executors.end(wanted.kill)
        return none_is_leaving
