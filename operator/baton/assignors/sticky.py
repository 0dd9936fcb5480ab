"""Kafka's StickyAssignor and CooperativeStickyAssignor: as even as single moves can make it, and owners keep what they have.

A claim of a newer generation wins; claims of the same generation on one partition cancel each other (KIP-54, KIP-429,
KAFKA-12984).
"""

from collections.abc import Iterable

from baton.assignors.claims import holders
from baton.assignors.differing_subscriptions import share_among_readers
from baton.assignors.equal_subscriptions import share_equally
from baton.assignors.request import Answer, Request
from baton.assignors.zones import Nearness
from baton.model.ids import MemberId, Partition


def sticky(request: Request) -> Answer:
    """The target at once, for an eager protocol: everybody lets go of everything first."""
    assignment: dict[MemberId, Iterable[Partition]] = dict.fromkeys(request.members, ())
    read = frozenset().union(*(member.subscribed for member in request.members.values()))
    queues = [queue for queue in sorted(request.queues) if queue in read and request.queues[queue]]
    partitions = [Partition(queue, number) for queue in queues for number in range(request.queues[queue])]
    held = {partition: names[0] for partition, names in holders(request).items() if len(names) == 1 and partition.queue in read}
    nearness = Nearness(request, partitions)
    if len({member.subscribed for member in request.members.values()}) == 1:
        assignment |= share_equally(request, partitions, held, nearness)
    elif request.members:
        assignment |= share_among_readers(request, queues, held, nearness)
    return Answer({name: tuple(sorted(hand)) for name, hand in assignment.items()})


def cooperative_sticky(request: Request) -> Answer:
    """As `sticky`, but what somebody else still holds is withheld: first its holder lets go, then the next request gives it.

    Where several members hold a partition with equal claims, all but its receiver must let go first.
    """
    held = holders(request)
    assignment: dict[MemberId, tuple[Partition, ...]] = {}
    withheld: dict[MemberId, tuple[Partition, ...]] = {}
    for name, partitions in sticky(request).assignment.items():
        alone = (name,)
        waits = tuple(partition for partition in partitions if held.get(partition, alone) != alone) if held else ()
        if waits:
            withheld[name] = waits
            partitions = tuple(partition for partition in partitions if held.get(partition, alone) == alone)
        assignment[name] = partitions
    return Answer(assignment, withheld)
