"""Which executor holds up everybody's batch.

A batch ends when its slowest task does, so a stopped executor would stop the whole fleet. One that does not even send
heartbeats is dropped by Spark itself (`spark.storage.blockManagerHeartbeatTimeoutMs`). This is about the one that lives, missed
the deadline of a hand-off, and is now the only one that anybody waits for.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from baton.spark.locality import Executor


@dataclass(frozen=True, slots=True)
class StuckExecutors:
    """Since when (seconds) nothing but these executors has been at work, and how many tasks they had finished by then."""

    executors: frozenset[str]
    finished: int
    since: float


def stuck_executors(
    before: StuckExecutors | None, executors: Iterable[Executor], missed: frozenset[str], now: float
) -> StuckExecutors | None:
    """The hold-up as it stands now. `missed`: ids of executors that read for this batch what has since been granted to another
    else.

    None while anybody else still has a task to do, or there is none (the user's function is busy in the driver). A task that
    is finished starts the clock again: who makes progress is slow, not stopped.
    """
    fleet = tuple(executors)
    at_work = frozenset(executor.id for executor in fleet if executor.active_tasks)
    if not at_work or not at_work <= missed:
        return None
    finished = sum(executor.finished_tasks for executor in fleet)
    if before is not None and before.executors == at_work and before.finished == finished:
        return before
    return StuckExecutors(at_work, finished, now)


def to_kill(found: StuckExecutors | None, patience: float, now: float) -> frozenset[str]:
    """The ids of the executors to do without, once the hold-up has lasted for `patience` seconds."""
    return found.executors if found is not None and now - found.since >= patience else frozenset()
