"""A batch read: what is in the queues now, as a table. Nothing is fenced, recorded or committed."""

from typing import Any

from baton.spark.errors import SourceError
from baton.spark.first_positions import at, bounds_of_all, there
from baton.spark.queue_outages import QueueAwayError
from baton.spark.queues import FleetQueues
from baton.spark.range_placement import Range, placed
from baton.spark.source_options import BatchOptions


def batch_read(options: BatchOptions, queues: FleetQueues) -> dict[str, Any]:
    """The ranges to read, as a stream's plan has them. Raises SourceError."""
    try:
        bounds = bounds_of_all(queues)
        addresses = {queue: queues.address(queue) for queue in queues.names}
    except QueueAwayError as error:
        raise SourceError(str(error)) from None
    for positions, option in ((options.starting, "startingOffsets"), (options.ending, "endingOffsets")):
        if not isinstance(positions, str):
            there(positions, bounds, option)
    todo = []
    for partition, of in sorted(bounds.items()):
        start = max(at(options.starting, partition, of), of.before_first)
        end = at(options.ending, partition, of) if isinstance(options.ending, str) else options.ending.get(partition, of.last)
        if start < min(end, of.last):
            todo.append(Range(partition, start, min(end, of.last)))
    read = {one.partition.queue for one in todo}
    return {
        "ranges": [placed(one, None, {}, seen=0) for one in todo],
        "queues": {queue: {**addresses[queue], "query": 0} for queue in read},
    }
