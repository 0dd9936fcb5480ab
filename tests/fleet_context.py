"""What the streams of a fleet share, made for a test."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baton.model.ids import MemberId, QueueName
from baton.model.session import Release
from baton.queues.logged_ranges import LoggedRanges
from baton.spark.context import FleetContext
from baton.spark.executors import Executor
from baton.spark.finishing import Finishing
from baton.spark.ledger import GrantsInUse, LedgerView
from baton.spark.queues import FleetQueues
from baton.spark.statistics import Counts, RangeReport


def fleet_queues(queues: Mapping[QueueName, LoggedRanges], **options: Any) -> FleetQueues:
    return FleetQueues(
        dict.fromkeys(queues, ""), "shop", "group", lambda _, name, group: queues[QueueName(name.partition("/")[2])], **options
    )


def fleet_context(
    queues: FleetQueues,
    ledger: LedgerView,
    executors: Callable[[], Mapping[MemberId, Executor]],
    *,
    released: Callable[[frozenset[Release]], None] = lambda releases: None,
    reports: Callable[[str], Sequence[RangeReport]] = lambda stream: (),
    **others: Any,
) -> FleetContext:
    """`released` is called with all releases when they have changed; `reports` returns those of a stream's tasks."""
    counts, grants_in_use = Counts(), GrantsInUse(ledger, released)
    usual = {"group": "orders", "repeat_wait": 5.0, "over": lambda: "", "lapsed": lambda: False, "stopping": lambda: False}
    return FleetContext(
        queues=queues,
        ledger=ledger,
        grants_in_use=grants_in_use,
        executors=executors,
        finishing=Finishing(queues, grants_in_use, counts, reports),
        counts=counts,
        **usual | others,  # type: ignore[arg-type]
    )
