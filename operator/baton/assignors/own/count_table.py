"""The number of partitions of each kind that each member has, and the cost of one more or one less.

An arc is a kind and one of its readers (an arc of a flow network). Arcs are numbers, and their values stand in lists: the
assignor `minimal` visits the arcs of thousands of members many times.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise, repeat
from math import lcm

from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.building_blocks.rounds import in_rounds
from baton.assignors.building_blocks.subscriptions import Place
from baton.assignors.own.partition_kinds import GroupedRequest, PartitionKind
from baton.model.ids import QueueName

Arc = int


class CountTable:
    """The table of counts. At first it has what the members hold. A load is a number of partitions, without weights."""

    def __init__(self, group: GroupedRequest) -> None:
        self.group = group
        self.kind: list[int] = []
        self.member: list[Place] = []
        self.held: list[int] = []
        """By arc: how many of the kind the member holds."""
        self.far: list[bool] = []
        self.of_kind: list[range] = []
        self.of_member: list[list[Arc]] = [[] for _ in group.members]
        self.count: list[int] = []
        self.load = [0] * len(group.members)
        self._homes = [_homes(kind, group.home) for kind in group.kinds]
        for kind, homes in zip(group.kinds, self._homes, strict=True):
            self._add(kind, Counter(homes))
        for arc, member in enumerate(self.member):
            self.of_member[member].append(arc)
        self.worth = 1 + sum(len(kind.partitions) for kind in group.kinds)
        """The price of a move, above all zone mismatches together."""
        scale = lcm(*(capacity.numerator for capacity in group.capacity))
        self.step = [scale * capacity.denominator // capacity.numerator for capacity in group.capacity]
        """By member: what a load of 1 adds to the unevenness, the sum of load² / capacity."""

    def _add(self, kind: PartitionKind, held: Mapping[Place | None, int]) -> None:
        self.of_kind.append(range(len(self.kind), len(self.kind) + len(kind.readers)))
        self.kind += [len(self.of_kind) - 1] * len(kind.readers)
        self.member += kind.readers
        self.far += [kind.near is not None and self.group.far(kind, reader) for reader in kind.readers]
        if kind.homes:
            self.held += [len(kind.partitions) if reader in kind.homes else 0 for reader in kind.readers]
            self.count += [0] * len(kind.readers)
            return
        counts = [held.get(reader, 0) for reader in kind.readers] if held else [0] * len(kind.readers)
        self.held += counts
        self.count += counts
        for member, count in zip(kind.readers, counts, strict=True):
            self.load[member] += count

    def up(self, member: Place) -> int:
        """The unevenness that one partition more adds."""
        return (2 * self.load[member] + 1) * self.step[member]

    def down(self, member: Place) -> int:
        """The unevenness that one partition less removes."""
        return (2 * self.load[member] - 1) * self.step[member]

    def gain(self, arc: Arc) -> int:
        """The cost of one more of the kind, in moves and zone mismatches. Negative: the member has fewer than it held."""
        return self.far[arc] - self.worth * (self.count[arc] < self.held[arc])

    def loss(self, arc: Arc) -> int:
        """The cost of one less of the kind, in moves and zone mismatches."""
        return self.worth * (self.count[arc] <= self.held[arc]) - self.far[arc]

    def put(self, arc: Arc, units: int) -> None:
        """Add units of the kind to the member, or take them (negative)."""
        self.count[arc] += units
        self.load[self.member[arc]] += units

    def owned_by(self) -> list[PartitionList]:
        """The partitions of each member. Members keep the lowest numbers that they hold, and get the rest in turn."""
        everything = [kind.partitions for kind in self.group.kinds]
        at: list[list[int]] = [[] for _ in self.load]
        """By member: the indexes of its partitions in all kinds together."""
        first = 0
        for number, (part, arcs) in enumerate(zip(everything, self.of_kind, strict=True)):
            room = {self.member[arc]: self.count[arc] for arc in arcs if self.count[arc]}
            rest: Sequence[int] = range(first, first + len(part))
            if self._homes[number] or self.group.kinds[number].homes:
                rest = self._keep(number, rest, room, at)
            for place, share in in_rounds(room):
                at[place] += rest[share]
            first += len(part)
        row = PartitionList.in_a_row(everything)
        for mine in at:
            mine.sort()
        owned_by = [row.at(mine) for mine in at]
        in_order = all(before[-1] < after[0] for before, after in pairwise(everything))
        return owned_by if in_order else [PartitionList.of(owned.pairs()) for owned in owned_by]

    def _keep(self, number: int, kind: Sequence[int], room: dict[Place, int], at: list[list[int]]) -> list[int]:
        """Lets members keep what they hold of a kind, as far as they have room; returns the rest."""
        claimants = self.group.kinds[number].homes
        homes = chain.from_iterable([place] * room.get(place, 0) for place in claimants) if claimants else self._homes[number]
        rest: list[int] = []
        for one, place in zip(kind, chain(homes, repeat(None)), strict=False):
            left = 0 if place is None else room.get(place, 0)
            if place is None or not left:
                rest.append(one)
                continue
            at[place].append(one)
            if left == 1:
                del room[place]
            else:
                room[place] = left - 1
        return rest


def _homes(kind: PartitionKind, home: Mapping[QueueName, Sequence[Place | None]]) -> list[Place | None]:
    """The holder of each partition of the kind. Empty: nobody holds any."""
    if not any(queue in home for queue in set(kind.partitions.queues)):
        return []
    homes: list[Place | None] = []
    for queue, numbers in kind.partitions.by_queue():
        places = home.get(queue)
        homes += [None] * len(numbers) if places is None else [places[number] for number in numbers]
    return homes
