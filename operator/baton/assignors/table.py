"""Who has how many of each kind, and what one more or one less would cost.

An arc is a kind and one of its readers. Numbers only, and lists instead of objects: the assignor `minimal` goes over the arcs of
thousands of members many times.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import lcm

from baton.assignors.dealing import in_rounds
from baton.assignors.hand import Hand
from baton.assignors.kinds import Group, Kind, Place
from baton.model.ids import QueueName

Arc = int


class Table:
    """Starts with what everybody holds. Loads are numbers of partitions; weights are not looked at."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.kind: list[int] = []
        self.member: list[Place] = []
        self.held: list[int] = []
        """How many of the kind are at home with the member."""
        self.far: list[bool] = []
        self.of_kind: list[range] = []
        self.of_member: list[list[Arc]] = [[] for _ in group.members]
        self.count: list[int] = []
        self.load = [0] * len(group.members)
        for kind in group.kinds:
            self._add(kind)
        for arc, member in enumerate(self.member):
            self.of_member[member].append(arc)
        self.worth = 1 + sum(len(kind.partitions) for kind in group.kinds)
        """A kept partition outweighs all zone mismatches together."""
        scale = lcm(*(capacity.numerator for capacity in group.capacity))
        self.step = [scale * capacity.denominator // capacity.numerator for capacity in group.capacity]
        """By member: what a load of 1 adds to the unevenness, load² / capacity."""

    def _add(self, kind: Kind) -> None:
        self.of_kind.append(range(len(self.kind), len(self.kind) + len(kind.readers)))
        self.kind += [len(self.of_kind) - 1] * len(kind.readers)
        self.member += kind.readers
        self.far += [kind.near is not None and self.group.far(kind, reader) for reader in kind.readers]
        if kind.homes:
            self.held += [len(kind.partitions) if reader in kind.homes else 0 for reader in kind.readers]
            self.count += [0] * len(kind.readers)
            return
        held = _held(kind, self.group.home)
        counts = [held[reader] for reader in kind.readers] if held else [0] * len(kind.readers)
        self.held += counts
        self.count += counts
        for member, count in held.items():
            self.load[member] += count

    def up(self, member: Place) -> int:
        """What one partition more adds to the unevenness: the sum of load² / capacity."""
        return (2 * self.load[member] + 1) * self.step[member]

    def down(self, member: Place) -> int:
        """What one partition less takes away from it."""
        return (2 * self.load[member] - 1) * self.step[member]

    def gain(self, arc: Arc) -> int:
        """What one more of the kind costs in moves and zone mismatches (negative: a partition that is at home)."""
        return self.far[arc] - self.worth * (self.count[arc] < self.held[arc])

    def loss(self, arc: Arc) -> int:
        """What one less costs."""
        return self.worth * (self.count[arc] <= self.held[arc]) - self.far[arc]

    def put(self, arc: Arc, units: int) -> None:
        self.count[arc] += units
        self.load[self.member[arc]] += units

    def hands(self) -> list[Hand]:
        """The partitions themselves, by place. Everybody keeps what it holds, lowest first; the rest is dealt out in turn."""
        hands: list[list[Hand]] = [[] for _ in self.load]
        for kind, arcs in zip(self.group.kinds, self.of_kind, strict=True):
            room = {self.member[arc]: self.count[arc] for arc in arcs if self.count[arc]}
            rest = kind.partitions
            if kind.homes or any(queue in self.group.home for queue in set(rest.queues)):
                rest = self._keep(kind, room, hands)
            for place, share in in_rounds(room):
                hands[place].append(Hand.of(rest[share]))
        return [Hand.joined(parts) for parts in hands]

    def _keep(self, kind: Kind, room: dict[Place, int], hands: list[list[Hand]]) -> Hand:
        """Lets everybody keep what it holds, as far as there is room for it; returns the rest."""
        kept: dict[Place, list[tuple[QueueName, int]]] = {}
        rest: list[tuple[QueueName, int]] = []
        for queue, numbers in kind.partitions.by_queue():
            home = self.group.home.get(queue)
            for number in numbers:
                if kind.homes:
                    place = next((place for place in kind.homes if place in room), None)
                else:
                    place = None if home is None else home[number]
                left = 0 if place is None else room.get(place, 0)
                if place is None or not left:
                    rest.append((queue, number))
                    continue
                kept.setdefault(place, []).append((queue, number))
                if left == 1:
                    del room[place]
                else:
                    room[place] = left - 1
        for place, pairs in kept.items():
            hands[place].append(Hand.of_sorted(pairs))
        return Hand.of_sorted(rest)


def _held(kind: Kind, home: Mapping[QueueName, Sequence[Place | None]]) -> Counter[Place]:
    """By member, how many of the kind are at home there."""
    held = Counter[Place]()
    for queue, numbers in kind.partitions.by_queue() if home else ():
        if queue in home:
            homes = home[queue]
            held.update(place for number in numbers if (place := homes[number]) is not None)
    return held
