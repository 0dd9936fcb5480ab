"""Kafka's RangeAssignor: each queue by itself, in runs of partitions.

So one member owns partition n of all queues of one size (co-partitioning). The first members of each queue get what remains, so
with many queues the same members have more. With zones (KIP-881), members first get partitions near them, as long as counts and
co-partitioning stay the same.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.building_blocks.queue_by_queue import in_runs, queue_by_queue
from baton.assignors.building_blocks.subscriptions import by_instance, readable
from baton.assignors.building_blocks.zones import zones_matter, zones_of
from baton.assignors.declaration import Declaration
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, Partition, QueueName


def range_(request: Request) -> Answer:
    """Exactly Kafka's answer. Static members come first, by instance; dynamic members follow by name (KIP-345)."""
    order = by_instance(request.members)
    if not request.zones:
        return queue_by_queue(request, order, in_runs)
    subscribed = readable(request)
    assignment: dict[MemberId, list[Partition]] = {name: [] for name in request.members}
    queues = [
        _Queue(request, queue, [name for name in order if queue in subscribed[name]], assignment)
        for queue in sorted(request.queues)
        if request.queues[queue]
    ]
    if any(queue.zones_matter for queue in queues):
        _match_zones(queues)
    for queue in queues:
        queue.fill(near_only=False)
    return Answer({name: PartitionList.of(partitions) for name, partitions in assignment.items()})


def _match_zones(queues: Sequence["_Queue"]) -> None:
    """Gives out what is near. Queues with the same readers and size are co-partitioned: one member gets partition n of all."""
    alike: dict[tuple[tuple[MemberId, ...], int], list[_Queue]] = defaultdict(list)
    for queue in queues:
        alike[tuple(queue.readers), queue.size].append(queue)
    for together in alike.values():
        if len(together) > 1:
            _match_together(together)
        elif together[0].zones_matter:
            together[0].fill(near_only=True)


def _match_together(queues: Sequence["_Queue"]) -> None:
    """Gives partition n of all these queues to the first member that is near to it and has room in every queue."""
    first = queues[0]
    if not first.any_zone:
        return
    waiting = list(first.readers)
    for number in range(first.size):
        for name in waiting:
            if all(queue.is_near(name, number) and queue.room(name) for queue in queues):
                for queue in queues:
                    queue.give(name, [number])
                if not any(queue.room(name) for queue in queues):
                    waiting.remove(name)
                break


class _Queue:
    """One queue: the numbers that nobody has yet, and how many more each reader may have."""

    def __init__(
        self, request: Request, name: QueueName, readers: Sequence[MemberId], assignment: dict[MemberId, list[Partition]]
    ) -> None:
        self._name = name
        self.readers = readers
        self.size = request.queues[name]
        self._assignment = assignment
        self._left: dict[int, None] = dict.fromkeys(range(self.size))
        self._count = dict.fromkeys(readers, 0)
        self._floor, self._extras = divmod(self.size, len(readers)) if readers else (0, 0)
        self._homes = {reader: request.members[reader].zone for reader in readers}
        homes = {home for home in self._homes.values() if home}
        self._zones = {Partition(name, number): zones_of(request, Partition(name, number)) for number in self._left}
        self.any_zone = bool(homes)
        self.zones_matter = zones_matter(homes, self._zones)

    def is_near(self, reader: MemberId, number: int) -> bool:
        """A member without a zone is near everything."""
        home = self._homes[reader]
        return not home or home in self._zones[Partition(self._name, number)]

    def room(self, reader: MemberId) -> int:
        return max(0, self._floor + (self._extras > 0) - self._count[reader])

    def give(self, reader: MemberId, numbers: Sequence[int]) -> None:
        self._assignment[reader] += (Partition(self._name, number) for number in numbers)
        self._count[reader] += len(numbers)
        if self._count[reader] > self._floor:
            self._extras -= 1
        for number in numbers:
            del self._left[number]

    def fill(self, near_only: bool) -> None:
        """Gives each reader in turn the lowest numbers left, as many as it has room for."""
        anybodys = iter(list(self._left))
        for reader in self.readers:
            fitting = (number for number in self._left if self.is_near(reader, number)) if near_only else anybodys
            numbers = list(islice(fitting, self.room(reader)))
            if numbers:
                self.give(reader, numbers)


RANGE = Declaration(
    name="range",
    assign=range_,
    source="Kafka's RangeAssignor",
    good_at="Partition *n* of several queues of one size is with the same member",
    costs="The first members have more; many moves",
)
