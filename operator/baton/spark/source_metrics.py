"""What a query's progress says of its source: how far behind it is, and who owns what."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from baton.model.ids import Partition, QueueName
from baton.spark.offsets import Positions
from baton.spark.stream import Stream
from baton.spark.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class FleetView:
    """What the driver sees of its fleet at this moment."""

    partitions_owned: int = 0
    """Their owner is an executor that is ready."""
    partitions_waiting: int = 0
    """For an owner, or for their owner to be ready."""
    partitions_revoking: int = 0
    """On their way to another owner."""
    lag: Mapping[QueueName, int] = field(default_factory=dict)
    """Entries of each queue that the query has not finished reading."""
    step_seconds: Mapping[str, float] = field(default_factory=dict)
    """What the driver's steps took, all batches together: ahead, log, finish."""


def fleet_view(around: Surroundings, behind: Mapping[Partition, int]) -> FleetView:
    """`behind`: entries that are not read, of each partition that there is."""
    ownership, executors, names = around.ledger.read().ownership, around.executors(), around.queues.names
    owned = sum(grant.queue in names and grant.member in executors for grant in ownership.owned)
    revoking = sum(grant.queue in names for grant in ownership.revoking)
    lag: dict[QueueName, int] = dict.fromkeys(sorted(names), 0)
    for partition, rows in behind.items():
        lag[partition.queue] = lag.get(partition.queue, 0) + rows
    return FleetView(owned, max(0, len(behind) - owned - revoking), revoking, lag, around.counts.step_seconds())


def source_metrics(around: Surroundings, stream: Stream, consumed: Positions) -> Mapping[str, str]:
    """As Spark's ReportsSourceMetrics has them: texts by name. The counts of ranges are of all finished batches."""
    behind = stream.rows_behind(consumed)
    view, statistics = fleet_view(around, behind), around.counts.statistics()
    return {
        "rowsBehind": str(sum(behind.values())),
        "maxRowsBehind": str(max(behind.values(), default=0)),
        "partitionsOwned": str(view.partitions_owned),
        "partitionsWaiting": str(view.partitions_waiting),
        "partitionsRevoking": str(view.partitions_revoking),
        "rangesReadOnOwner": str(statistics.ranges_read_on_owner),
        "rangesLent": str(statistics.ranges_lent),
        "readsRefused": str(statistics.reads_refused),
        "generation": str(around.ledger.read().generation),
    }
