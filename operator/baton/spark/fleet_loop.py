"""The fleet's loop, a thread in the driver that manages the executors, the size of the fleet, and the driver's session."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from baton.model.ids import MemberId
from baton.model.ledger import MemberEntry
from baton.model.wording import counted
from baton.spark.dismissals import LAST, Dismissals
from baton.spark.executor_warm_up import ExecutorWarmUp
from baton.spark.executors import Executor, Executors
from baton.spark.ledger import GrantsInUse, LedgerView, RequestedScale
from baton.spark.session import FleetSession
from baton.spark.statistics import Counts

log = logging.getLogger("baton.spark")

# -- which executors hold up a batch


class HoldUp:
    """Detects executors that missed a hand-off deadline and have a task that does not end.

    A batch ends with its slowest task, so a stuck task would stop the whole fleet. Spark itself drops executors that send no
    heartbeats (`spark.storage.blockManagerHeartbeatTimeoutMs`); these still send them. Each task is judged alone, because others
    may end beside it, in the same executor or in another.
    """

    def __init__(self, patience: float) -> None:
        """`patience`: seconds that a task may run on after its executor has missed a deadline."""
        self._patience = patience
        self._since: dict[int, float] = {}
        """When each task of such an executor was first seen."""

    def look(self, executors: Iterable[Executor], missed: frozenset[str], now: float) -> frozenset[str]:
        """Return the ids of the executors to kill, and begin to count again. `missed`: executors whose partitions in this batch
        were granted to others."""
        running = {task: one.id for one in executors if one.id in missed for task in one.tasks}
        self._since = {task: self._since.get(task, now) for task in running}
        stuck = frozenset(running[task] for task, since in self._since.items() if now - since >= self._patience)
        if stuck:
            self._since = {}
        return stuck


# -- the size of the fleet


@dataclass(frozen=True, slots=True)
class Resize:
    """What to request from Spark: a target for its allocator, and the executors to end."""

    target: int | None
    """None: the ledger requests no size."""
    kill: tuple[str, ...] = ()
    dismiss: tuple[str, ...] = ()
    """Executors to end as soon as they are idle: their pods are terminating, and have handed off everything."""


def resize(
    requested: RequestedScale | None,
    executors: Iterable[Executor],
    entries: Mapping[MemberId, MemberEntry],
    busy: frozenset[MemberId],
    leaving: Mapping[MemberId, float],
) -> Resize:
    """Decide from the ledger's request and the terminating pods (`leaving`: the seconds that each has left).

    A victim is killed once its key owns and revokes nothing and no running batch uses it (`busy`). Until then it counts towards
    the target, so that an executor that crashes meanwhile is replaced at once. An executor whose pod terminates is dismissed on
    the same condition, or in its last seconds (`LAST`) once no batch uses it, and is replaced right away.
    """
    fleet = list(executors)
    chosen = requested.victims if requested is not None else frozenset()
    victims = [executor for executor in fleet if executor.pod in chosen and executor.pod not in leaving]
    stopping = [executor for executor in fleet if executor.pod in leaving]
    free = {one.id for one in fleet if one.pod not in busy and _idle(entries.get(one.pod))}
    kill = [executor.id for executor in victims if executor.id in free]
    short = {one.id for one in stopping if one.pod not in busy and leaving[one.pod] <= LAST}
    dismiss = [executor.id for executor in stopping if executor.id in free | short]
    target = None if requested is None else requested.replicas + len(victims) - len(kill) + len(stopping)
    return Resize(target, tuple(sorted(kill)), tuple(sorted(dismiss)))


def _idle(entry: MemberEntry | None) -> bool:
    return entry is None or not (any(entry.owned.values()) or any(entry.revoking.values()))


# -- the loop

EVERY, SOON = 0.5, 0.1
"""Seconds between turns of the loop; SOON while it waits for an executor."""
_REPORT = 60.0
"""Seconds between reports in the log."""


class FleetLoop:
    """Runs until the fleet ends."""

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
        """`alive`: whether the fleet continues. `ended` is called once after it has ended. `ready` is called with the executors
        that can be given a task, when they have changed. `troubles`: the driver's problems, by field of `DriverStatus`.

        `patience`: see `HoldUp`. `queues_answer`: whether all queues answer now; if not, executors may wait for a queue.
        """
        self._queues_answer = queues_answer
        self._alive, self._ended, self._ready, self._hold_up = alive, ended, ready, HoldUp(patience)
        self._ledger, self._grants_in_use, self._executors = ledger, grants_in_use, executors
        self._session, self._counts, self._executor_warm_up, self._troubles = session, counts, executor_warm_up, troubles
        self._dismissals = dismissals
        self._fleet: frozenset[str] = frozenset()
        self._usable: tuple[str, ...] = ()
        self._total: int | None = None
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
                except Exception:  # a temporary error of py4j or Spark
                    if not problem:
                        log.exception("managing the executors failed; retrying")
                    problem = True
                time.sleep(again)
        finally:
            self._ended()

    def look(self) -> float:
        """Run one turn of the loop. Returns the seconds until the next turn."""
        # Report problems before asking Spark, because it may be Spark that does not answer.
        self._session.update(statistics=self._counts.statistics().to_json(), **self._troubles())
        fleet = self._executors.registered()
        ids = frozenset(executor.id for executor in fleet)
        if ids != self._fleet:
            log.info("executors: %s", ", ".join(executor.pod for executor in fleet) or "none")
            self._fleet = ids
        self._end_hold_ups(fleet)
        all_dismissed = self._resize(fleet)
        working, warm = self._executor_warm_up.look(fleet)
        usable = self._dismissals.staying(warm)
        if (ids_of_usable := tuple(executor.id for executor in usable)) != self._usable:
            self._usable = ids_of_usable
            self._ready(usable)
        self._session.update(executors=tuple(executor.id for executor in working))
        if time.monotonic() - self._reported > _REPORT:
            self._reported = time.monotonic()
            log.info("fleet of %s: %s", counted(len(fleet), "executor"), self._counts.statistics().to_json())
        return EVERY if all_dismissed and len(warm) == len(fleet) else SOON

    def _end_hold_ups(self, fleet: tuple[Executor, ...]) -> None:
        members = self._grants_in_use.missed()
        missed = frozenset(executor.id for executor in fleet if executor.pod in members)
        kill = self._hold_up.look(fleet, missed, time.monotonic())
        if not kill:
            return
        named = ", ".join(sorted(kill))
        if not self._queues_answer():
            log.info("executors %s hold up the batch while a queue is unreachable: waiting for them", named)
        else:
            log.warning("executors %s missed a deadline and hold up the batch: replacing them", named)
            self._dismissals.kill(kill, fleet)
            self._counts.add("executors_ended", len(kill))

    def _resize(self, fleet: tuple[Executor, ...]) -> bool:
        """Carry out the requested size. Returns whether all executors to dismiss are ended."""
        ledger, left = self._ledger.read(), self._dismissals.left()
        decided = resize(ledger.scale, fleet, ledger.entries, self._grants_in_use.busy(), left)
        all_dismissed = self._dismissals.end(decided.dismiss, fleet)
        if decided.target is not None and decided.target != self._total:
            log.info("requesting %s", counted(decided.target, "executor"))
            self._executors.resize(decided.target)
            self._total = decided.target
        if decided.kill:
            log.info("executors %s have handed off and end", ", ".join(decided.kill))
            self._dismissals.kill(decided.kill, fleet)
        return all_dismissed
