"""Kafka's StickyAssignor and CooperativeStickyAssignor: as even as single moves can make it, and owners keep what they have.

The newest generation's claim wins. Claims of one generation on the same partition cancel each other (KIP-54, KIP-429,
KAFKA-12984).
"""

from baton.assignors.building_blocks.holders import Holdings, holdings
from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.building_blocks.zones import Nearness
from baton.assignors.declaration import Declaration
from baton.assignors.kafka.sticky_differing_subscriptions import share_among_readers
from baton.assignors.kafka.sticky_equal_subscriptions import share_equally
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, Partition, QueueName


def sticky(request: Request) -> Answer:
    """The whole target at once, for an eager protocol: all members release everything first (KIP-54)."""
    return Answer(_target(request, holdings(request)))


def cooperative_sticky(request: Request) -> Answer:
    """As `sticky`, but it withholds what another member still holds. After the release the next request gives it (KIP-429).

    Where several members hold a partition with equal claims, all except its receiver must release it first.
    """
    before = holdings(request)
    assignment = _target(request, before)
    withheld: dict[MemberId, PartitionList] = {}
    for name, owned in assignment.items():
        if owned is before.owned_by[name]:
            continue
        waits = _held_by_others(name, owned, before)
        if waits:
            withheld[name] = PartitionList.of_sorted(waits)
            gone = set(waits)
            assignment[name] = PartitionList.of_sorted([pair for pair in owned.pairs() if pair not in gone])
    return Answer(assignment, withheld)


def _target(request: Request, before: Holdings) -> dict[MemberId, PartitionList]:
    subscriptions = {member.subscribed for member in request.members.values()}
    read = frozenset().union(*subscriptions)
    queues = [queue for queue in sorted(request.queues) if queue in read and request.queues[queue]]
    nearness = Nearness(request, queues)
    if not request.members:
        return {}
    if len(subscriptions) == 1:
        return share_equally(request, queues, before, nearness)
    return share_among_readers(request, queues, before, nearness)


def _held_by_others(name: MemberId, owned: PartitionList, before: Holdings) -> list[tuple[QueueName, int]]:
    """The partitions among `owned` that some other member holds."""
    waits: list[tuple[QueueName, int]] = []
    if not before.alone:
        return waits
    for queue, number in owned.pairs():
        column = before.alone.get(queue)
        if column is None:
            continue
        holder = column[number]
        if holder != name and (holder is not None or Partition(queue, number) in before.several):
            waits.append((queue, number))
    return waits


_GOOD_AT = "Even totals; members keep what they have"
_COSTS = "A queue by itself may be uneven"

STICKY = Declaration(name="sticky", assign=sticky, source="Kafka's StickyAssignor", good_at=_GOOD_AT, costs=_COSTS)
COOPERATIVE_STICKY = Declaration(
    name="cooperative-sticky",
    assign=cooperative_sticky,
    source="Kafka's CooperativeStickyAssignor",
    good_at=_GOOD_AT,
    costs=_COSTS,
)
