"""Queues that a group is to let go of and at which nothing can be done; and how long the end of a group waits for one of them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from baton.controller.problems import Reason
from baton.controller.queue_worker import QueueWorker
from baton.engine.state import KnownQueue
from baton.kube.clock import ApiServerClock
from baton.model.ids import QueueName

UNRECORDED_WITHIN = 5.0
"""Seconds for which a group that is being deleted waits for a queue that its ledger does not name: it may be put right
just now."""


class LostQueues:
    """One group's. `changed` is called when a wait is over."""

    def __init__(self, namespace: str, clock: ApiServerClock, changed: Callable[[], None]) -> None:
        self._namespace = namespace
        self._clock = clock
        self._changed = changed
        self._lost: frozenset[QueueName] = frozenset()
        """Another has them, or they do not answer."""
        self._deleting_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._given_up: dict[QueueName, str] = {}

    def __contains__(self, name: QueueName) -> bool:
        return name in self._lost

    @property
    def deleting(self) -> bool:
        """The group is being deleted."""
        return self._deleting_since is not None

    def look(
        self,
        left: Mapping[QueueName, QueueWorker],
        gone: Iterable[QueueName],
        recorded: Mapping[QueueName, KnownQueue],
        patience: float | None,
    ) -> None:
        """Which queues that are to be let go of cannot be reached: there is nothing to be done at them, nor to be waited for.

        `left`: those to be let go of. `gone`: those of the ledger (`recorded`) that have no PartitionedQueue any more.
        `patience`: the group is being deleted, and waits so many seconds for one that does not answer.
        """
        now = self._clock.ticks()
        if patience is None:
            self._deleting_since = None
        elif self._deleting_since is None:
            self._deleting_since = now
        lost: dict[QueueName, str | None] = {}
        waits = []
        for name, worker in left.items():
            problem, since = worker.facts.problem, worker.troubled_since
            if problem is None or since is None:
                continue
            if problem.reason is Reason.CONFLICT:
                lost[name] = None
            elif patience is not None and self._deleting_since is not None:
                bound = patience if name in recorded else min(patience, UNRECORDED_WITHIN)
                wait = max(since, self._deleting_since) + bound - now
                if wait > 0:
                    waits.append(wait)
                else:
                    lost[name] = problem.message
        for name in gone if patience is not None else ():
            known = recorded[name].incarnation is not None  # its server has recorded the group
            lost[name] = f"PartitionedQueue {self._namespace}/{name} is gone." if known else None
        self._given_up |= {name: why for name, why in lost.items() if why is not None and name not in self._lost}
        self._lost = frozenset(lost)
        self.close()
        self._timer = asyncio.get_running_loop().call_later(min(waits), self._changed) if waits else None

    def given_up(self) -> dict[QueueName, str]:
        """Queues of a group that is being deleted that were not waited for any longer, and what was wrong; each once."""
        told, self._given_up = self._given_up, {}
        return told

    def close(self) -> None:
        """Stop waiting for all queues."""
        if self._timer is not None:
            self._timer.cancel()
