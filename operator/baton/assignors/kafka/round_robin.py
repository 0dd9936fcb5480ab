"""Kafka's RoundRobinAssignor: members get all partitions of all queues in turn."""

from bisect import bisect_left
from itertools import groupby

from baton.assignors.building_blocks.partition_list import PartitionList, whole
from baton.assignors.building_blocks.subscriptions import by_instance, readable, readers
from baton.assignors.declaration import Declaration
from baton.assignors.request import Answer, Request


def round_robin(request: Request) -> Answer:
    """Exactly Kafka's answer: queues by name, members by instance and then by name. It skips members that do not read a queue."""
    subscribed = readable(request)
    order = by_instance(request.members)
    dealt: list[list[PartitionList]] = [[] for _ in order]
    turn = 0
    places = readers([subscribed[name] for name in order])
    for takers, queues in groupby(places, places.__getitem__):
        free = PartitionList.in_a_row(whole(queues, request.queues))
        first = bisect_left(takers, turn)
        for number, taker in enumerate((takers[first:] + takers[:first])[: len(free)]):
            dealt[taker].append(PartitionList.of(free[number :: len(takers)]))
        if free:
            turn = takers[(first + len(free) - 1) % len(takers)] + 1
    return Answer({name: PartitionList.in_a_row(parts) for name, parts in zip(order, dealt, strict=True)})


ROUND_ROBIN = Declaration(
    name="round-robin",
    assign=round_robin,
    source="Kafka's RoundRobinAssignor",
    good_at="Even totals, easy to foresee",
    costs="Nearly everything moves when a member comes or goes",
)
