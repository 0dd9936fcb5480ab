"""The ranges of a batch: where they begin, how they are recorded at their queues, and which executor and task reads each."""

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
    """The ranges of a batch. A partition that is only in `end` enters the offset with this batch and has no rows in it."""
    return [
        Range(partition, start[partition], position)
        for partition, position in sorted(end.items())
        if position > start.get(partition, position)
    ]


def owners(
    grants: Mapping[Partition, PartitionGrant], executors: Mapping[MemberId, Executor], only: Iterable[Partition]
) -> dict[Partition, PartitionGrant]:
    """Grants of those of the partitions whose owner is an executor that can be given a task."""
    return {one: grant for one in only if (grant := grants.get(one)) is not None and grant.member in executors}


def placed(one: Range, owner: PartitionGrant | None, executors: Mapping[MemberId, Executor], seen: int) -> dict[str, Any]:
    """The JVM's description of a range. Without an owner, the executor that reads it borrows it. `seen`: entries up to this one
    may have been handed out before."""
    found: dict[str, Any] = {
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
        found |= {"uid": owner.uid, "epoch": owner.epoch, "executor": executor.id, "location": location(executor)}
    return found


# -- first positions, of partitions that the offset does not have yet


def first_positions(starting: Offsets, queues: FleetQueues) -> Positions:
    """First positions of a query without a checkpoint, without partitions whose position is not known yet. Raises QueueAwayError,
    and SourceError if a queue has no partitions, or lacks those that the option names."""
    bounds = bounds_of_all(queues)
    if isinstance(starting, Mapping):
        check_partitions(starting, bounds, "startingOffsets")
        for partition, position in sorted(starting.items()):
            if position > (last := bounds[partition].last):
                raise SourceError(
                    f"startingOffsets has {position} for {partition.queue}/{partition.number}, which is after its last entry, "
                    f"{last}: set a position up to that, or `latest`"
                )
    places = {partition: at(starting, partition, of) for partition, of in bounds.items()}
    found = {partition: position for partition, position in places.items() if position is not None}
    _warn_of_skipped(found, bounds)
    return found


def _warn_of_skipped(first: Positions, bounds: Mapping[Partition, PartitionBounds]) -> None:
    """Warn if the query begins after unread entries. They count as finished; Redis removes them."""
    for queue in sorted({partition.queue for partition in first}):
        skipped = {
            one for one, at in first.items() if one.queue == queue and at > max(bounds[one].committed, bounds[one].before_first)
        }
        if skipped:
            many = counted(len(skipped), "partition")
            log.warning("startingOffsets skips entries of %s of queue %s that were never read", many, queue)


def committed_positions(partitions: Iterable[Partition], queues: FleetQueues) -> Positions:
    """Committed positions of those of the partitions that exist and were granted. Raises QueueAwayError."""
    wanted = frozenset(partitions)
    found = queues.positions({partition.queue for partition in wanted})
    return {partition: of.committed for partition, of in found.items() if partition in wanted and of.granted}


def bounds_of_all(queues: FleetQueues) -> Mapping[Partition, PartitionBounds]:
    """Bounds of all partitions. Raises QueueAwayError, and SourceError if a queue has no partitions."""
    found = queues.positions()
    for name in sorted(queues.names - {partition.queue for partition in found}):
        raise SourceError(f"queue {name} has no partitions at its server: check that its PartitionedQueue exists and is Ready")
    return found


def at(place: Offsets, partition: Partition, bounds: PartitionBounds) -> int | None:
    """The position in a partition: the committed one if `place` has positions, but not of this partition. None if the committed
    position is not known before the partition is granted."""
    committed = bounds.committed if bounds.granted else None
    if isinstance(place, Mapping):
        return place.get(partition, committed)
    return {OffsetPlace.COMMITTED: committed, OffsetPlace.EARLIEST: bounds.before_first, OffsetPlace.LATEST: bounds.last}[place]


def check_partitions(positions: Positions, bounds: Mapping[Partition, PartitionBounds], option: str) -> None:
    """Raises SourceError if a partition does not exist."""
    for partition in sorted(positions.keys() - bounds.keys()):
        count = sum(one.queue == partition.queue for one in bounds)
        raise SourceError(f"{option} names {partition.queue}/{partition.number}: the queue has partitions 0 to {count - 1}")


# -- recorded ranges: no other consumer gets their entries, and no entry is deleted

Recorded = Mapping[Range, Logged]


def superseded(number: int) -> SourceError:
    """The error if a later query, with this number, reads the group's queues. A reset of the group's offsets looks the same."""
    return SourceError(
        f"a later query (number {number}) reads this group's queues, so this query ends. Only one query at a time can read a "
        "group: look for another driver, or for a `baton offsets reset` while this query ran"
    )


def record_ranges(
    queues: FleetQueues, query: Mapping[QueueName, int], todo: Sequence[Range], counts: Counts, *, fail_on_data_loss: bool
) -> Recorded:
    """Record the ranges, and return them, shortened to existing entries. Raises SourceError and QueueAwayError."""
    recorded: dict[Range, Logged] = {}
    left, partly = list(todo), False
    while left:
        shorter: list[Range] = []
        for one, answer in queues.log(query, left, partly=partly).items():
            match answer:
                case Logged():
                    recorded[one] = answer
                case SetAside():
                    log.warning("%s is in the dead letters: no rows", one)
                case LaterQuery(number):
                    raise superseded(number)
                case Gone(_, last) if last < one.start:
                    raise SourceError(beyond(one.partition, one.start, last))
                case Gone(first, last):
                    if fail_on_data_loss:
                        raise SourceError(lost(one, first))
                    rest = Range(one.partition, max(one.start, first - 1), min(one.end, last))
                    counts.add("positions_lost", one.end - one.start - max(0, rest.end - rest.start))
                    log.warning(
                        "%s: failOnDataLoss is false, so the query continues with the existing entries", _loss(one, first)
                    )
                    if rest.start < rest.end:
                        shorter.append(rest)
        left, partly = shorter, True
    return recorded


def beyond(partition: Partition, position: int, last: int) -> str:
    """The error for a position after the queue's last entry. Waiting until the queue reaches it would skip entries."""
    return (
        f"the query is at {position} of {partition.queue}/{partition.number}, which is after its last entry, {last}: the queue "
        "was lost and recreated, or startingOffsets named entries that did not exist. Use a new checkpoint"
    )


def lost(one: Range, first: int) -> str:
    """The error for a range whose first entries are gone, with the fix."""
    return (
        f"{_loss(one, first)}. To continue with the existing entries, set the option failOnDataLoss to false; to begin at the "
        "committed offset, use a new checkpoint"
    )


def _loss(one: Range, first: int) -> str:
    return (
        f"the query should read {one}, and its first entry is {first}: the entries before it were finished or deleted, perhaps "
        "by another query with a newer checkpoint, or the queue was lost and recreated"
    )


# -- which ranges a task reads, one after the other

ROWS = 4000
"""Rows per task that justify Spark's overhead for another task."""


def range_tasks(ranges: Sequence[tuple[str, int]], slots: Mapping[str, int]) -> list[int]:
    """Return the task number of each range, which is given as its executor ("": any) and its number of rows.

    Spark's overhead for a task costs as much as some thousand rows, so a task for each of many small ranges would make a batch
    several times slower. Ranges are distributed evenly over the tasks of their executor. It has as many tasks as it can run at a
    time (`slots`, by executor), or a multiple of that while each task has `ROWS`. A range that any executor may read has its own
    task.
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


# -- a batch read, of the entries that exist now: it fences, records and commits nothing


def batch_read(options: BatchOptions, queues: FleetQueues) -> dict[str, Any]:
    """Return the ranges to read, in the form of a stream's plan. Raises SourceError."""
    try:
        bounds = bounds_of_all(queues)
        addresses = {queue: queues.address(queue) for queue in queues.names}
    except QueueAwayError as error:
        raise SourceError(str(error)) from None
    for positions, option in ((options.starting, "startingOffsets"), (options.ending, "endingOffsets")):
        if not isinstance(positions, str):
            check_partitions(positions, bounds, option)
    todo = []
    for partition, of in sorted(bounds.items()):
        start = at(options.starting, partition, of)
        end = at(options.ending, partition, of) if isinstance(options.ending, str) else options.ending.get(partition, of.last)
        if start is None or end is None:
            raise SourceError(
                f"{partition.queue}/{partition.number} has no owner yet, so its committed position is not known: wait until the "
                "operator has granted it, or name other positions"
            )
        start, end = max(start, of.before_first), min(end, of.last)
        if start < end:
            todo.append(Range(partition, start, end))
    read = {one.partition.queue for one in todo}
    return {
        "ranges": [placed(one, None, {}, seen=0) for one in todo],
        "queues": {queue: {**addresses[queue], "query": 0} for queue in read},
    }
