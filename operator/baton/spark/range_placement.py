"""Where each range of a batch is to be read."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from baton.model.ids import MemberId, Partition
from baton.spark.locality import Executor, location
from baton.spark.offsets import Positions
from baton.spark.ownership import PartitionGrant


class Range(NamedTuple):
    """One partition's part of a batch: the entries behind `start`, up to `end`."""

    partition: Partition
    start: int
    end: int


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
