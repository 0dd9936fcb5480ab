"""Loads of unequal partitions on members of unequal capacity, in whole numbers."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

from baton.assignors.building_blocks.subscriptions import Place
from baton.assignors.own.partition_kinds import GroupedRequest, PartitionKind
from baton.model.ids import Partition

Cost = tuple[int, int, int]
"""Unevenness, moves (less a constant), zone mismatches: the least is the best, compared in this order."""


class Loads:
    """Weights of partitions, capacities of members, and the cost of an assignment."""

    def __init__(self, group: GroupedRequest) -> None:
        self.group = group
        self.held = group.held()
        self.kind: dict[Partition, PartitionKind] = {partition: kind for kind in group.kinds for partition in kind.partitions}
        scale = lcm(*(kind.weight.denominator for kind in group.kinds))
        self.weight = {partition: int(kind.weight * scale) for partition, kind in self.kind.items()}
        self.capacity = _whole(group.capacity)
        self.step = [lcm(*self.capacity) // capacity for capacity in self.capacity]
        """What a load of 1 adds to the unevenness, load² / capacity."""
        sets = [frozenset(kind.readers) for kind in group.kinds]
        self.readers = {p: readers for kind, readers in zip(group.kinds, sets, strict=True) for p in kind.partitions}
        self.heaviest_first = sorted(self.weight, key=lambda partition: (-self.weight[partition], partition))

    def misplaced(self, partition: Partition, place: Place) -> tuple[int, int]:
        """Moves and zone mismatches of this partition with this member: 1 or 0 each."""
        kind = self.kind[partition]
        homes = kind.homes or ((self.held[partition],) if partition in self.held else ())
        return int(bool(homes) and place not in homes), int(self.group.far(kind, place))

    def totals(self, owners: Mapping[Partition, Place]) -> list[int]:
        totals = [0] * len(self.capacity)
        for partition, place in owners.items():
            totals[place] += self.weight[partition]
        return totals

    def cost(self, owners: Mapping[Partition, Place]) -> Cost:
        wrong = [self.misplaced(partition, place) for partition, place in owners.items()]
        return self.unevenness(self.totals(owners)), sum(moved for moved, _ in wrong), sum(far for _, far in wrong)

    def unevenness(self, totals: Sequence[int]) -> int:
        return sum(total * total * step for total, step in zip(totals, self.step, strict=True))

    def least_unevenness(self, totals: Sequence[int], rest: int) -> int:
        """A lower bound for any way to add a load of `rest`: as if it could be divided, and all members read everything."""
        level, width = rest, 0
        waiting = sorted(range(len(totals)), key=lambda place: Fraction(totals[place], self.capacity[place]))
        done = 0
        while done < len(waiting) and totals[waiting[done]] * width <= level * self.capacity[waiting[done]]:
            level += totals[waiting[done]]
            width += self.capacity[waiting[done]]
            done += 1
        over = sum(totals[place] ** 2 * self.step[place] for place in waiting[done:])
        return over - (-level * level * lcm(*self.capacity) // width if width else 0)


def _whole(capacities: Sequence[Fraction]) -> list[int]:
    scale = lcm(*(capacity.denominator for capacity in capacities))
    return [int(capacity * scale) for capacity in capacities]
