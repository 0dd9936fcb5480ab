"""Where a task should run, in the words that Spark's scheduler understands."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from baton.model.ids import MemberId


@dataclass(frozen=True, slots=True)
class Executor:
    """A Spark executor that is registered with the driver."""

    id: str
    """Spark's number for it, as text."""
    host: str
    """The host that it registered with: the IP of its pod."""
    pod: MemberId
    """The name of its pod, under which the ledger knows it."""
    active_tasks: int = 0
    finished_tasks: int = 0
    slots: int = 1
    """Tasks that it can run at a time."""


def location(executor: Executor) -> str:
    """The preferred location that asks for this very process (Spark's `ExecutorCacheTaskLocation`).

    Spark reads `executor_<host>_<id>`; any other text would be taken for a host's name, which is weaker: it would be no more
    than a wish.
    """
    return f"executor_{executor.host}_{executor.id}"


def by_pod(executors: Iterable[Executor]) -> Mapping[MemberId, Executor]:
    """The executors by the name that the ledger gives them."""
    return {executor.pod: executor for executor in executors}
