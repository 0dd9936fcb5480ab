"""Kafka's RoundRobinAssignor: all partitions of all queues are dealt out in turn."""

from itertools import cycle

from baton.assignors.claims import by_instance, readable
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, Partition


def round_robin(request: Request) -> Answer:
    """Kafka's answer, exactly: queues by name, members by instance and then by name; who does not read a queue is passed over."""
    subscribed = readable(request)
    assignment: dict[MemberId, list[Partition]] = {name: [] for name in request.members}
    read = frozenset().union(*subscribed.values())
    turn = cycle(by_instance(request.members))
    for queue in sorted(read):
        for number in range(request.queues[queue]):
            taker = next(name for name in turn if queue in subscribed[name])
            assignment[taker].append(Partition(queue, number))
    return Answer({name: tuple(partitions) for name, partitions in assignment.items()})
