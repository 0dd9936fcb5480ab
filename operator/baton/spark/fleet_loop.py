"""The driver's second thread: while queries run, it looks after executors, the size of the fleet, and the driver's word."""

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

# -- which executors hold up the batch of all others


class HoldUp:
    """Nothing but executors that missed the deadline of a hand-off is at work, and they finish no task.

    A batch ends when its slowest task does, so a stopped executor would stop the whole fleet. Spark itself drops one that sends
    no heartbeats (`spark.storage.blockManagerHeartbeatTimeoutMs`). These are alive.
    """

    def __init__(self, patience: float) -> None:
        """`patience`: seconds for which a batch may be held up."""
        self._patience = patience
        self._seen: tuple[frozenset[str], int] | None = None
        """The executors, and how many tasks they all have finished: one that finishes some is slow, not stopped."""
        self._since = 0.0

    def look(self, executors: Iterable[Executor], missed: frozenset[str], now: float) -> frozenset[str]:
        """The ids of executors to do without. `missed`: those that read for this batch what has since been granted to others."""
        fleet = tuple(executors)
        at_work = frozenset(executor.id for executor in fleet if executor.active_tasks)
        if not at_work or not at_work <= missed:  # none is where the user's function is busy in the driver
            self.end()
            return frozenset()
        seen = at_work, sum(executor.finished_tasks for executor in fleet)
        if seen != self._seen:
            self._seen, self._since = seen, now
        return at_work if now - self._since >= self._patience else frozenset()

    def end(self) -> None:
        """It is over, or begins again."""
        self._seen = None


# -- the size of the fleet: what the driver asks of Spark


@dataclass(frozen=True, slots=True)
class Order:
    """What to ask of Spark: a target for its allocator, and the executors to end."""

    target: int | None
    """None: no size was asked for."""
    kill: tuple[str, ...] = ()
    dismiss: tuple[str, ...] = ()
    """To end as soon as they are idle: their pods are asked to stop, and have handed off everything."""


def order(
    wanted: RequestedScale | None,
    executors: Iterable[Executor],
    entries: Mapping[MemberId, MemberEntry],
    busy: frozenset[MemberId],
    leaving: Mapping[MemberId, float] | None = None,
    last: float = 0.0,
) -> Order:
    """What follows from the ledger's wish, and from the pods that are asked to stop (`leaving`: the seconds that each has left).

    A victim goes once its key owns and revokes nothing and the batch that runs has nothing of it (`busy`). Until then it counts
    towards the target, so that an executor that crashes meanwhile is replaced at once. One that leaves goes likewise, and is
    replaced right away; in its `last` seconds it does not wait for its key.
    """
    fleet, leaving = list(executors), leaving or {}
    chosen = wanted.victims if wanted is not None else frozenset()
    victims = [executor for executor in fleet if executor.pod in chosen and executor.pod not in leaving]
    stopping = [executor for executor in fleet if executor.pod in leaving]
    free = {one.id for one in fleet if one.pod not in busy and _idle(entries.get(one.pod))}
    kill = [executor.id for executor in victims if executor.id in free]
    short = {one.id for one in stopping if one.pod not in busy and leaving[one.pod] <= last}
    dismiss = [executor.id for executor in stopping if executor.id in free | short]
    target = None if wanted is None else wanted.replicas + len(victims) - len(kill) + len(stopping)
    return Order(target, tuple(sorted(kill)), tuple(sorted(dismiss)))


def _idle(entry: MemberEntry | None) -> bool:
    return entry is None or not (any(entry.owned.values()) or any(entry.revoking.values()))


# -- the loop

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
        they are others than before. `troubles`: what keeps the driver from its work, by the fields of its `DriverStatus`.

        `patience`: seconds that a batch may be held up. `queues_answer`: all queues do now; who waits for one is not stuck.
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
        self._session.update(statistics=self._counts.statistics().to_json(), **self._troubles())
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
        self._session.update(executors=tuple(executor.id for executor in working))
        if time.monotonic() - self._reported > _REPORT:
            self._reported = time.monotonic()
            log.info("fleet of %s: %s", counted(len(fleet), "executor"), self._counts.statistics().to_json())
        return EVERY if none_is_leaving and len(warm) == len(fleet) else SOON

    def _end_hold_ups(self, fleet: tuple[Executor, ...]) -> None:
        members = self._grants_in_use.missed()
        missed = frozenset(executor.id for executor in fleet if executor.pod in members)
        kill = self._hold_up.look(fleet, missed, time.monotonic())
        if not kill:
            return
        self._hold_up.end()
        if not self._queues_answer():
            log.info("executors %s hold up the batch, and a queue is away: they are waited for", ", ".join(sorted(kill)))
        else:
            log.warning("executors %s missed a deadline and hold up the batch: they are replaced", ", ".join(sorted(kill)))
            self._dismissals.kill(kill, fleet)
            self._counts.add("executors_ended", len(kill))

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
            self._dismissals.kill(wanted.kill, fleet)
        return none_is_leaving
