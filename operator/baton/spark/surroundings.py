"""What the streams of a fleet stand on."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from baton.model.ids import MemberId
from baton.spark.finishing import Finishing
from baton.spark.grants_in_use import GrantsInUse
from baton.spark.ledger_view import LedgerView
from baton.spark.locality import Executor
from baton.spark.queues import FleetQueues
from baton.spark.statistics import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Of one fleet, from its start to its end."""

    group: str
    queues: FleetQueues
    ledger: LedgerView
    grants_in_use: GrantsInUse
    executors: Callable[[], Mapping[MemberId, Executor]]
    """Those that can be given a task: they are registered, and warm."""
    finishing: Finishing
    counts: Counts
    repeat_wait: float
    """Seconds that a batch which is repeated waits for owners of all its partitions."""
    over: Callable[[], str]
    """Why nothing more is to be read; empty: go on."""
    stopping: Callable[[], bool]
    """No further batch is begun."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
