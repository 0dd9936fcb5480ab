"""What a fleet's streams share."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from baton.model.ids import MemberId, Partition, QueueName
from baton.spark.executors import Executor
from baton.spark.finishing import Finishing
from baton.spark.ledger import GrantsInUse, LedgerView
from baton.spark.queues import FleetQueues
from baton.spark.statistics import Counts, FleetView


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetContext:
    """Everything that a fleet's streams share, from the fleet's start to its end."""

    group: str
    queues: FleetQueues
    ledger: LedgerView
    grants_in_use: GrantsInUse
    executors: Callable[[], Mapping[MemberId, Executor]]
    """Executors that can be given a task: they are registered and warm."""
    finishing: Finishing
    counts: Counts
    repeat_wait: float
    """Seconds that a repeated batch waits for the owners of all its partitions."""
    over: Callable[[], str]
    """Why the fleet reads no more; empty while it reads."""
    lapsed: Callable[[], bool]
    """Whether the driver's Lease has lapsed, so that another driver may have the group. Then no query takes a number."""
    stopping: Callable[[], bool]
    """Whether the fleet begins no further batch."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def view(self, behind: Mapping[Partition, int]) -> FleetView:
        """Return the fleet's gauges. `behind`: unread entries of every partition."""
        ledger, executors, names = self.ledger.read(), self.executors(), self.queues.names
        owned = sum(grant.queue in names and grant.member in executors for grant in ledger.owned)
        revoking = sum(grant.queue in names for grant in ledger.revoking)
        lag: dict[QueueName, int] = dict.fromkeys(sorted(names), 0)
        for partition, rows in behind.items():
            lag[partition.queue] = lag.get(partition.queue, 0) + rows
        return FleetView(owned, max(0, len(behind) - owned - revoking), revoking, lag, self.counts.step_seconds())
