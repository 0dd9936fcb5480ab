"""What a batch is made of: which partitions may be planned, and which task reads which range. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.queues.entry import Plan
from baton.spark.locality import Executor
from baton.spark.ownership import Ownership, PartitionGrant


@dataclass(frozen=True, slots=True)
class Range:
    """What the queue has planned for one partition."""

    grant: PartitionGrant
    plan: Plan


@dataclass(frozen=True, slots=True)
class Task:
    """The ranges that one Spark task reads, all of one owner and in that owner's process."""

    executor: Executor
    generation: int
    """The generation of the owner's ledger key that the driver saw: a pod whose mounted key is older waits for the kubelet."""
    ranges: tuple[tuple[int, Range], ...]
    """With their numbers in the batch."""

    def to_json(self, batch: str) -> str:
        """What the task is given to read; `read_task` is the inverse."""
        return json.dumps(
            {
                "batch": batch,
                "generation": self.generation,
                "ranges": [[index, one.grant, plan_to_list(one.plan)] for index, one in self.ranges],
            }
        )


@dataclass(frozen=True, slots=True)
class ReceivedTask:
    """A task as its own process reads it."""

    batch: str
    generation: int
    ranges: tuple[tuple[int, Range], ...]


def read_task(text: str) -> ReceivedTask:
    """The task from the text that `Task.to_json` wrote."""
    raw = json.loads(text)
    return ReceivedTask(
        batch=raw["batch"],
        generation=raw["generation"],
        ranges=tuple(
            (
                index,
                Range(PartitionGrant(QueueName(queue), number, Epoch(epoch), MemberId(member), Uid(uid)), plan_from_list(plan)),
            )
            for index, (queue, number, epoch, member, uid), plan in raw["ranges"]
        ),
    )


def plan_to_list(plan: Plan) -> list[object]:
    """A plan as JSON has it."""
    return list(astuple(plan))


def plan_from_list(raw: list[Any]) -> Plan:
    """The inverse of `plan_to_list`."""
    return Plan(*raw)


def part_of(plan: Plan, begun: Plan) -> bool:
    """The plan reads entries of the other and none besides, whoever does and at whatever epoch."""
    return begun.start <= plan.start and plan.end <= begun.end


def plannable(
    owned: Ownership,
    executors: Mapping[MemberId, Executor],
    queues: Iterable[QueueName],
    only: frozenset[tuple[QueueName, int]] | None,
) -> list[PartitionGrant]:
    """The grants that a new batch may plan under, in the order of queue and partition.

    Not those that are to be let go, nor those whose owner is not registered with this driver: nobody could read them where they
    are owned. `only`: the partitions of a batch that is repeated; None: any.
    """
    known = frozenset(queues)
    return sorted(
        grant
        for grant in owned.owned
        if grant.queue in known and grant.member in executors and (only is None or (grant.queue, grant.partition) in only)
    )


def in_turn(grants: Iterable[PartitionGrant], served: Mapping[tuple[QueueName, int], int]) -> list[PartitionGrant]:
    """The partitions that have waited longest come first: a member may not have more than the queue's maxDeliveredUnacked
    entries, and where there is more to do than that, the first would take it all.

    `served`: the batch in which each was last served.
    """
    return sorted(grants, key=lambda grant: (served.get((grant.queue, grant.partition), -1), grant))


def tasks(
    ranges: Sequence[Range], executors: Mapping[MemberId, Executor], generations: Mapping[MemberId, int], cores: int = 1
) -> list[Task]:
    """One task per owner, or up to `cores` where an owner has as many ranges, each with about as many ranges as the others."""
    of: dict[MemberId, list[tuple[int, Range]]] = {}
    for index, one in enumerate(ranges):
        of.setdefault(one.grant.member, []).append((index, one))
    return [
        Task(executors[member], generations.get(member, 0), tuple(mine[first::share]))
        for member, mine in sorted(of.items())
        for share in (min(cores, len(mine)),)
        for first in range(share)
    ]
