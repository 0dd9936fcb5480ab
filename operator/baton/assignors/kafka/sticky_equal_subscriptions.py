"""The sticky assignors where all members read the same queues (Kafka's constrained assignment)."""

from collections import deque
from collections.abc import Sequence
from heapq import nlargest

from baton.assignors.building_blocks.holders import Holdings
from baton.assignors.building_blocks.partition_list import PartitionList, whole
from baton.assignors.building_blocks.rounds import in_rounds
from baton.assignors.building_blocks.zones import Nearness
from baton.assignors.request import Request
from baton.model.ids import MemberId, Partition, QueueName


def share_equally(
    request: Request, queues: Sequence[QueueName], before: Holdings, nearness: Nearness
) -> dict[MemberId, PartitionList]:
    """Totals within one. Each member keeps what it holds, up to its share; members get the rest in turn, by name.

    Where zones matter, a member keeps only what is near to it, and partitions go to near members first. Where Kafka leaves to a
    HashMap which members keep one more, names decide here.
    """
    return _Deal(request, queues, before, nearness).run()


class _Deal:
    def __init__(self, request: Request, queues: Sequence[QueueName], before: Holdings, nearness: Nearness) -> None:
        self._sizes = {queue: request.queues[queue] for queue in queues}
        self._before = before
        self._nearness = nearness
        self._floor, self._greater = divmod(sum(self._sizes.values()), len(request.members))
        """The least total, and how many members may still have one more."""
        self._ceiling = self._floor + (self._greater > 0)
        self._kept: dict[MemberId, PartitionList] = {}
        self._dealt: dict[MemberId, list[PartitionList]] = {name: [] for name in sorted(request.members)}
        self._count: dict[MemberId, int] = {}
        self._wanting: list[MemberId] = []
        """Below the floor."""
        self._eager: deque[MemberId] = deque()
        """At the floor, and may have one more."""
        self._owner = {queue: list(before.alone[queue]) for queue in queues if queue in before.alone}
        """By queue and number: the member that keeps it; None: free."""

    def run(self) -> dict[MemberId, PartitionList]:
        for name in self._dealt:
            self._keep(name)
        free: Sequence[Partition] = self._free()
        if self._nearness.matters:
            free = self._deal_near(self._nearness.rarest_first(free))
        self._deal(free)
        return {name: PartitionList.joined([kept, *self._dealt[name]]) for name, kept in self._kept.items()}

    def _free(self) -> PartitionList:
        parts: list[PartitionList] = []
        for queue, everything in zip(self._sizes, whole(self._sizes, self._sizes), strict=True):
            owners = self._owner.get(queue)
            if owners is None:
                parts.append(everything)
            elif None in owners:
                numbers = tuple(number for number, owner in enumerate(owners) if owner is None)
                parts.append(PartitionList((queue,) * len(numbers), numbers))
        return PartitionList.in_a_row(parts)

    def _keep(self, name: MemberId) -> None:
        """Lets a member keep its lowest numbers, whatever the queue, up to its share."""
        mine = self._mine(name)
        if (count := len(mine.numbers)) < self._floor:
            self._wanting.append(name)
        elif count >= self._ceiling and self._greater:
            self._one_more_is_great()
            mine = self._lowest(mine, self._ceiling)
        else:
            mine = self._lowest(mine, self._floor)
            if self._greater:
                self._eager.append(name)
        self._kept[name] = mine
        self._count[name] = len(mine.numbers)

    def _mine(self, name: MemberId) -> PartitionList:
        """What the member holds alone; where zones matter, only what is near to it."""
        owned = self._before.owned_by[name]
        if not owned.numbers:
            return owned
        if not self._nearness.matters and name not in self._before.doubtful and self._owner.keys() >= set(owned.queues):
            return owned
        mine: list[tuple[QueueName, int]] = []
        for queue, number in owned.pairs():
            owners = self._owner.get(queue, ())
            if not 0 <= number < len(owners) or owners[number] != name:
                continue
            if self._nearness.matters and self._nearness.far(name, Partition(queue, number)):
                self._owner[queue][number] = None
            else:
                mine.append((queue, number))
        return PartitionList.of_sorted(mine)

    def _lowest(self, mine: PartitionList, count: int) -> PartitionList:
        if len(mine.numbers) == count:
            return mine
        gone = nlargest(len(mine.numbers) - count, zip(mine.numbers, mine.queues, strict=True))
        for number, queue in gone:
            self._owner[queue][number] = None
        left_out = {(queue, number) for number, queue in gone}
        return PartitionList.of_sorted([pair for pair in mine.pairs() if pair not in left_out])

    def _one_more_is_great(self) -> None:
        self._greater -= 1
        if not self._greater:
            self._eager.clear()

    def _give(self, name: MemberId, owned: PartitionList) -> None:
        self._dealt[name].append(owned)
        self._count[name] += len(owned.numbers)

    def _deal_near(self, free: Sequence[Partition]) -> list[Partition]:
        """Gives partitions to near members only: in turn to those below the floor, else to those at it. Returns the rest."""
        turn = 0
        rest: list[Partition] = []
        for partition in free:
            place = self._next_near(partition, self._wanting, turn)
            if place is not None:
                name = self._wanting[place]
                self._give(name, PartitionList.of([partition]))
                if self._count[name] >= self._floor:
                    del self._wanting[place]
                    if self._count[name] < self._ceiling and self._greater:
                        self._eager.append(name)
                else:
                    place += 1
                turn = place % len(self._wanting) if self._wanting else 0
                continue
            place = self._next_near(partition, self._eager, 0)
            if place is None:
                rest.append(partition)
                continue
            name = self._eager[place]
            self._give(name, PartitionList.of([partition]))
            del self._eager[place]
            self._one_more_is_great()
        return rest

    def _next_near(self, partition: Partition, names: Sequence[MemberId], first: int) -> int | None:
        places = (place % len(names) for place in range(first, first + len(names)))
        return next((place for place in places if self._nearness.near(names[place], partition)), None)

    def _deal(self, free: Sequence[Partition]) -> None:
        """Gives partitions in turn to members below the floor, then one to each member at it."""
        wants = {name: self._floor - self._count[name] for name in self._wanting}
        for name, share in in_rounds(wants):
            self._give(name, PartitionList.of(free[share]))
            if self._count[name] == self._floor:
                self._eager.append(name)
        dealt = sum(wants.values())
        for place, name in zip(range(dealt, len(free)), self._eager, strict=False):
            self._give(name, PartitionList.of(free[place : place + 1]))
