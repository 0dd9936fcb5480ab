"""Where a partition that the offset does not have yet is read from."""

import logging
from collections.abc import Iterable, Mapping

from baton.model.ids import Partition
from baton.model.wording import counted
from baton.queues.logged_ranges import PartitionBounds
from baton.spark.errors import SourceError
from baton.spark.offsets import Positions
from baton.spark.queues import FleetQueues
from baton.spark.source_options import OffsetPlace, Offsets

log = logging.getLogger("baton.spark")


def first_positions(starting: Offsets, queues: FleetQueues) -> Positions:
    """Of a query without a checkpoint. Raises QueueAwayError, and SourceError for a queue that has no partitions, or not those
    that the option names."""
    bounds = bounds_of_all(queues)
    if isinstance(starting, Mapping):
        there(starting, bounds, "startingOffsets")
        for partition, position in sorted(starting.items()):
            if position > (last := bounds[partition].last):
                raise SourceError(
                    f"startingOffsets has {position} for {partition.queue}/{partition.number}, and the last entry there is "
                    f"{last}: name a position up to it, or `latest`"
                )
    found = {partition: at(starting, partition, of) for partition, of in bounds.items()}
    _tell_skipped(found, bounds)
    return found


def _tell_skipped(first: Positions, bounds: Mapping[Partition, PartitionBounds]) -> None:
    """Of what a query begins behind it is done: on Redis it goes from the queue."""
    for queue in sorted({partition.queue for partition in first}):
        skipped = {
            one for one, at in first.items() if one.queue == queue and at > max(bounds[one].committed, bounds[one].before_first)
        }
        if skipped:
            many = counted(len(skipped), "partition")
            log.warning(
                "startingOffsets begins behind entries of %s of queue %s that were never read: they are skipped", many, queue
            )


def committed_positions(partitions: Iterable[Partition], queues: FleetQueues) -> Positions:
    """Of those of the partitions that there are. Raises QueueAwayError."""
    wanted = frozenset(partitions)
    found = queues.positions({partition.queue for partition in wanted})
    return {partition: of.committed for partition, of in found.items() if partition in wanted}


def bounds_of_all(queues: FleetQueues) -> Mapping[Partition, PartitionBounds]:
    """Of all partitions. Raises QueueAwayError, and SourceError for a queue that has none."""
    found = queues.positions()
    for name in sorted(queues.names - {partition.queue for partition in found}):
        raise SourceError(f"queue {name} has no partitions at its server: see whether its PartitionedQueue is there, and Ready")
    return found


def at(place: Offsets, partition: Partition, bounds: PartitionBounds) -> int:
    """The position in a partition; what positions do not name begins behind what is committed."""
    if isinstance(place, Mapping):
        return place.get(partition, bounds.committed)
    return {OffsetPlace.COMMITTED: bounds.committed, OffsetPlace.EARLIEST: bounds.before_first, OffsetPlace.LATEST: bounds.last}[
        place
    ]


def there(positions: Positions, bounds: Mapping[Partition, PartitionBounds], option: str) -> None:
    """Raises SourceError where there is no such partition."""
    for partition in sorted(positions.keys() - bounds.keys()):
        count = sum(one.queue == partition.queue for one in bounds)
        raise SourceError(f"{option} names {partition.queue}/{partition.number}: the queue has the partitions 0 to {count - 1}")
