"""The holders of partitions: of several members that claim one, those with the newest generation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.request import Request
from baton.model.ids import MemberId, Partition, QueueName


@dataclass(frozen=True, slots=True)
class Holdings:
    """The holders of partitions. A member that dropped a queue holds its partitions until it releases them."""

    owned_by: Mapping[MemberId, PartitionList]
    """The claims of each member, whether or not it holds them."""
    alone: Mapping[QueueName, Sequence[MemberId | None]]
    """The holder by queue and number; None: no holder, or several. Queues without any claim are missing."""
    several: Mapping[Partition, tuple[MemberId, ...]]
    """Partitions with several holders, sorted."""
    doubtful: frozenset[MemberId]
    """The members that hold less than they claim, or hold it with others."""

    def held_alone(self, queues: Iterable[QueueName]) -> Iterator[tuple[Partition, MemberId]]:
        """Each partition of these queues that has one holder, with the holder; by queue and number."""
        for queue in queues:
            for number, name in enumerate(self.alone.get(queue, ())):
                if name is not None:
                    yield Partition(queue, number), name

    def holders(self) -> dict[Partition, tuple[MemberId, ...]]:
        """The holders by partition, sorted; nearly always one."""
        alone = {partition: (name,) for partition, name in self.held_alone(self.alone)}
        return alone | dict(self.several)


def holdings(request: Request) -> Holdings:
    """The holders of all that the members claim. It drops claims on partitions that do not exist."""
    owned_by = {name: PartitionList.of(request.members[name].owned) for name in sorted(request.members)}
    newest: dict[QueueName, list[MemberId | None]] = {}
    several: dict[Partition, list[MemberId]] = {}
    doubtful: set[MemberId] = set()
    for name, owned in owned_by.items():
        for queue, number in owned.pairs():
            column = newest.get(queue)
            if column is None:
                column = newest[queue] = [None] * request.queues.get(queue, 0)
            if not 0 <= number < len(column):
                doubtful.add(name)
                continue
            before = column[number]
            if before is None:
                column[number] = name
                continue
            partition = Partition(queue, number)
            earlier, later = request.members[before].generation, request.members[name].generation
            if later > earlier:
                doubtful.update(several.pop(partition, (before,)))
                column[number] = name
            elif later == earlier:
                several.setdefault(partition, [before]).append(name)
            else:
                doubtful.add(name)
    for (queue, number), names in several.items():
        newest[queue][number] = None
        doubtful.update(names)
    return Holdings(owned_by, newest, {partition: tuple(names) for partition, names in several.items()}, frozenset(doubtful))


def holders(request: Request) -> dict[Partition, tuple[MemberId, ...]]:
    """By claimed partition that exists: the members with the newest claim, sorted; nearly always one."""
    return holdings(request).holders()


def exists(queues: Mapping[QueueName, int], partition: Partition) -> bool:
    """Whether the queue is there and has a partition of that number."""
    return 0 <= partition.number < queues.get(partition.queue, 0)
