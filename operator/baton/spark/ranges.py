"""The ranges of a batch: where they begin, how they are recorded at their queues, where and by which task each is read."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Any

from baton.model.ids import MemberId, Partition, QueueName
from baton.model.wording import counted
from baton.queues.logged_ranges import Gone, LaterQuery, Logged, PartitionBounds, SetAside
from baton.spark.executors import Executor, location
from baton.spark.ledger import PartitionGrant
from baton.spark.offsets import BatchOptions, OffsetPlace, Offsets, Positions, SourceError
from baton.spark.queues import FleetQueues, QueueAwayError, Range
from baton.spark.statistics import Counts

log = logging.getLogger("baton.spark")

# -- where each range is read


def ranges(start: Positions, end: Positions) -> list[Range]:
    """Of a batch. A partition that only `end` names enters the offset with this batch and has no rows in it."""
    return [
        Range(partition, start[partition], position)
        for partition, position in sorted(end.items())
        if position > start.get(partition, position)
    ]


def owners(
    grants: Mapping[Partition, PartitionGrant], executors: Mapping[MemberId, Executor], only: Iterable[Partition]
) -> dict[Partition, PartitionGrant]:
    """The grants of these partitions whose owner is an executor that can be given a task."""
    return {one: grant for one in only if (grant := grants.get(one)) is not None and grant.member in executors}


def placed(one: Range, owner: PartitionGrant | None, executors: Mapping[MemberId, Executor], seen: int) -> dict[str, Any]:
    """What the JVM is told of a range. Without an owner it is borrowed. `seen`: entries up to this one
    may have been handed out before."""
    told: dict[str, Any] = {
        "queue": one.partition.queue,
        "partition": one.partition.number,
        "start": one.start,
        "end": one.end,
        "uid": "",
        "epoch": 0,
        "executor": "",
        "location": "",
        "redeliveredTo": seen,
    }
    executor = executors.get(owner.member) if owner is not None else None
    if owner is not None and executor is not None:
        told |= {"uid": owner.uid, "epoch": owner.epoch, "executor": executor.id, "location": location(executor)}
    return told


# -- where partitions that the offset does not have yet are read from


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


# -- recorded ranges: no other consumer gets their entries, and none is deleted

Recorded = Mapping[Range, Logged]


def superseded(number: int) -> SourceError:
    """A query with this number has begun after ours."""
    return SourceError(
        f"a later query (number {number}) reads this group's queues: this one ends. One query at a time reads a group; look for "
        "another driver of it"
    )


def record_ranges(
    queues: FleetQueues, query: Mapping[QueueName, int], todo: Sequence[Range], counts: Counts, *, fail_on_data_loss: bool
) -> Recorded:
    """Those of the ranges that there are, as they are. Raises SourceError and QueueAwayError."""
    recorded: dict[Range, Logged] = {}
    left, partly = list(todo), False
    while left:
        shorter: list[Range] = []
        for one, answer in queues.log(query, left, partly=partly).items():
            match answer:
                case Logged():
                    recorded[one] = answer
                case SetAside():
                    log.warning("%s/%s from %s to %s was set aside: it has no rows", *one.partition, one.start + 1, one.end)
                case LaterQuery(number):
                    raise superseded(number)
                case Gone(_, last) if last < one.start:
                    raise SourceError(beyond(one.partition, one.start, last))
                case Gone(first, last):
                    if fail_on_data_loss:
                        raise SourceError(lost_and_cure(one, first))
                    there = Range(one.partition, max(one.start, first - 1), min(one.end, last))
                    counts.add("positions_lost", one.end - one.start - max(0, there.end - there.start))
                    log.warning("%s: failOnDataLoss is false, and the query goes on with what is there", _lost(one, first))
                    if there.start < there.end:
                        shorter.append(there)
        left, partly = shorter, True
    return recorded


def beyond(partition: Partition, position: int, last: int) -> str:
    """Why a position is beyond the queue's last entry, and the cure. To wait until it is reached would lose what comes before."""
    return (
        f"the query is at {position} of {partition.queue}/{partition.number}, and the last entry there is {last}: the queue was "
        "lost and made again since, or startingOffsets named what was not there. Give the query a new checkpoint"
    )


def lost_and_cure(one: Range, first: int) -> str:
    """What has become of a range, and the cure."""
    return (
        f"{_lost(one, first)}. To go on with what is there, set the option failOnDataLoss to false; to begin where the queue "
        "knows it is done, give the query a new checkpoint"
    )


def _lost(one: Range, first: int) -> str:
    return (
        f"the query is to read {one.partition.queue}/{one.partition.number} from {one.start + 1} to {one.end}, and the first "
        f"entry that is there is {first}: the others were finished or deleted meanwhile, perhaps by another query with a newer "
        "checkpoint, or the queue was lost and made again"
    )


# -- which ranges a task reads, one after the other

ROWS = 4000
"""A task with more is worth Spark's work for it."""


def range_tasks(ranges: Sequence[tuple[str, int]], slots: Mapping[str, int]) -> list[int]:
    """For each range, given as its executor ("": any) and its rows, the number of its task.

    Spark's own work for a task is that of some thousand rows: with a task for each of many small ranges a batch would take
    several times as long as its rows do. Ranges are shared out evenly over the tasks of their executor: so many as it can run
    at a time (`slots`, by executor), or a multiple of that, where a task has `ROWS` then. What may be read anywhere has a task
    for each range.
    """
    of_executor: defaultdict[str, list[int]] = defaultdict(list)
    for place, (executor, _) in enumerate(ranges):
        of_executor[executor or f"any {place}"].append(place)
    found, tasks = [0] * len(ranges), 0
    for executor, places in sorted(of_executor.items()):
        at_once = max(1, slots.get(executor, 1))
        rounds = -(-sum(ranges[place][1] for place in places) // (at_once * ROWS))
        count = min(len(places), at_once * max(1, rounds))
        loads = [(0, tasks + nth) for nth in range(count)]
        heapify(loads)
        for place in sorted(places, key=lambda place: -ranges[place][1]):
            rows, found[place] = loads[0]
            heapreplace(loads, (rows + ranges[place][1], found[place]))
        tasks += count
    return found


# -- a batch read: what is in the queues now. Nothing is fenced, recorded or committed


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
