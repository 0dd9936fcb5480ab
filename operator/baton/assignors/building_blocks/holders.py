"""Whose a partition is, where several members claim it: the newest generation wins, and equal generations are all holders."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.request import Request
from baton.model.ids import MemberId, Partition, QueueName


@dataclass(frozen=True, slots=True)
class Holdings:
    """Whose is what. Whether a holder is still subscribed makes no difference here: until it lets go, it holds."""

    hands: Mapping[MemberId, PartitionList]
    """What each member claims."""
    alone: Mapping[QueueName, Sequence[MemberId | None]]
    """By queue and number the only holder, if there is just one. Queues that nobody claims anything of are missing."""
    several: Mapping[Partition, tuple[MemberId, ...]]
    """Partitions with several holders, sorted."""
    doubtful: frozenset[MemberId]
    """The members some of whose claims do not stand: all others hold what they claim, alone."""

    def held_alone(self, queues: Iterable[QueueName]) -> Iterator[tuple[Partition, MemberId]]:
        """By queue and number."""
        for queue in queues:
            for number, name in enumerate(self.alone.get(queue, ())):
                if name is not None:
                    yield Partition(queue, number), name

    def holders(self) -> dict[Partition, tuple[MemberId, ...]]:
        """By partition; nearly always just one."""
        alone = {partition: (name,) for partition, name in self.held_alone(self.alone)}
        return alone | dict(self.several)


def holdings(request: Request) -> Holdings:
    """Claims on what does not exist (any more) are dropped."""
    hands = {name: PartitionList.of(request.members[name].owned) for name in sorted(request.members)}
    newest: dict[QueueName, list[MemberId | None]] = {}
    several: dict[Partition, list[MemberId]] = {}
    doubtful: set[MemberId] = set()
    for name, hand in hands.items():
        for queue, number in hand.pairs():
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
    return Holdings(hands, newest, {partition: tuple(names) for partition, names in several.items()}, frozenset(doubtful))


def holders(request: Request) -> dict[Partition, tuple[MemberId, ...]]:
    """Per claimed partition that exists, the members whose claim is the newest, sorted; nearly always just one."""
    return holdings(request).holders()


def exists(queues: Mapping[QueueName, int], partition: Partition) -> bool:
    """A claim on what does not exist any more is ignored."""
    return 0 <= partition.number < queues.get(partition.queue, 0)
