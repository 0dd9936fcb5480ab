"""Who has how many of each kind, and what one more or one less would cost.

An arc is a kind and one of its readers. Numbers only, and lists instead of objects: the assignor `minimal` goes over the arcs of
thousands of members many times.
"""

from collections.abc import Iterator
from math import lcm

from baton.assignors.kinds import Group, Place
from baton.model.ids import Partition

Arc = int


class Table:
    """Starts with what everybody holds. Loads are numbers of partitions; weights are not looked at."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.kind: list[int] = []
        self.member: list[Place] = []
        self.held: list[int] = []
        """How many of the kind are at home with the member."""
        self.far: list[int] = []
        self.of_kind: list[list[Arc]] = []
        self.of_member: list[list[Arc]] = [[] for _ in group.members]
        counts = _held_by_kind(group)
        for number, kind in enumerate(group.kinds):
            self.of_kind.append(arcs := [])
            for reader in kind.readers:
                arc = len(self.kind)
                arcs.append(arc)
                self.of_member[reader].append(arc)
                self.kind.append(number)
                self.member.append(reader)
                self.held.append(len(kind.partitions) if reader in kind.homes else counts.get((number, reader), 0))
                self.far.append(group.far(kind, reader))
        self.count = [0 if group.kinds[self.kind[arc]].homes else held for arc, held in enumerate(self.held)]
        self.load = [sum(self.count[arc] for arc in arcs) for arcs in self.of_member]
        self.worth = 1 + sum(len(kind.partitions) for kind in group.kinds)
        """A kept partition outweighs all zone mismatches together."""
        scale = lcm(*(capacity.numerator for capacity in group.capacity))
        self._step = [int(scale / capacity) for capacity in group.capacity]

    def up(self, member: Place) -> int:
        """What one partition more adds to the unevenness: the sum of load² / capacity."""
        return (2 * self.load[member] + 1) * self._step[member]

    def down(self, member: Place) -> int:
        """What one partition less takes away from it."""
        return (2 * self.load[member] - 1) * self._step[member]

    def gain(self, arc: Arc) -> int:
        """What one more of the kind costs in moves and zone mismatches (negative: a partition that is at home)."""
        return self.far[arc] - self.worth * (self.count[arc] < self.held[arc])

    def loss(self, arc: Arc) -> int:
        """What one less costs."""
        return self.worth * (self.count[arc] <= self.held[arc]) - self.far[arc]

    def put(self, arc: Arc, units: int) -> None:
        self.count[arc] += units
        self.load[self.member[arc]] += units

    def owners(self) -> dict[Partition, Place]:
        """The partitions themselves. Everybody keeps what it holds, lowest numbers first; the rest is dealt out in turn."""
        owners: dict[Partition, Place] = {}
        for number, kind in enumerate(self.group.kinds):
            room = {self.member[arc]: self.count[arc] for arc in self.of_kind[number] if self.count[arc]}
            rest: list[Partition] = []
            for partition in kind.partitions:
                home = next((place for place in kind.homes if place in room), self.group.held.get(partition))
                if home is not None and home in room:
                    owners[partition] = home
                    _use(room, home)
                else:
                    rest.append(partition)
            turn: Iterator[Place] = iter(())
            for partition in rest:
                place = next(turn, None)
                if place is None:
                    turn = iter(list(room))
                    place = next(turn)
                owners[partition] = place
                _use(room, place)
        return owners


def _use(room: dict[Place, int], place: Place) -> None:
    if room[place] == 1:
        del room[place]
    else:
        room[place] -= 1


def _held_by_kind(group: Group) -> dict[tuple[int, Place], int]:
    counts: dict[tuple[int, Place], int] = {}
    for number, kind in enumerate(group.kinds):
        if not kind.homes:
            for partition in kind.partitions:
                home = group.held.get(partition)
                if home is not None:
                    counts[number, home] = counts.get((number, home), 0) + 1
    return counts
