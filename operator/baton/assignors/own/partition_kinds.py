"""Kinds of partitions: those of one kind have the same readers, zones and weight.

Totals, moves and zone mismatches depend only on how many of each kind a member has. So a thousand members and a million
partitions of a few kinds are a small problem.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from baton.assignors.building_blocks.holders import holdings
from baton.assignors.building_blocks.partition_list import PartitionList, whole
from baton.assignors.building_blocks.subscriptions import Place, by_rank, readable, readers
from baton.assignors.request import Request
from baton.model.ids import MemberId, Partition, QueueName

Zones = frozenset[str] | None
"""The members' zones that have a replica. None: all of them, or the request names none."""
_Likeness = tuple[Zones, Fraction, tuple[Place, ...]]
_ONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class PartitionKind:
    """Partitions with the same readers, zones, weight and claimants."""

    readers: tuple[Place, ...]
    near: Zones
    weight: Fraction
    homes: tuple[Place, ...]
    """The readers that claim each of them equally, where several do. A partition that goes to one of these makes no move."""
    partitions: PartitionList


@dataclass(frozen=True, slots=True)
class GroupedRequest:
    """A request by kinds of partitions."""

    members: Sequence[MemberId]
    """By place."""
    kinds: Sequence[PartitionKind]
    home: Mapping[QueueName, Sequence[Place | None]]
    """By queue and number: the reader that alone has the newest claim. Queues without any claim are missing."""
    zone: Sequence[str | None]
    capacity: Sequence[Fraction]

    def far(self, kind: PartitionKind, place: Place) -> bool:
        """Whether the member has a zone and partitions of this kind have replicas in other zones only."""
        return kind.near is not None and self.zone[place] is not None and self.zone[place] not in kind.near

    def held(self) -> dict[Partition, Place]:
        """The one holder of each partition that has one."""
        return {
            Partition(queue, number): place
            for queue, places in self.home.items()
            for number, place in enumerate(places)
            if place is not None
        }


def grouped(request: Request) -> GroupedRequest:
    """The request by kinds, in the order of their first partitions."""
    members = by_rank(request.members)
    place = {name: number for number, name in enumerate(members)}
    subscribed = readable(request)
    before = holdings(request)
    home: dict[QueueName, list[Place | None]] = {}
    for queue, names in before.alone.items():
        reading = {name: place[name] for name in set(names) if name is not None and queue in subscribed[name]}
        home[queue] = [None if name is None else reading.get(name) for name in names]
    contested: dict[QueueName, dict[int, tuple[Place, ...]]] = defaultdict(dict)
    for (queue, number), names in before.several.items():
        homes = sorted(place[name] for name in names if queue in subscribed[name])
        if len(homes) == 1:
            home[queue][number] = homes[0]
        elif homes:
            contested[queue][number] = tuple(homes)
    zones = [request.members[name].zone or None for name in members]
    capacity = [request.members[name].capacity for name in members]
    kinds = _kinds(request, [subscribed[name] for name in members], contested, frozenset(zone for zone in zones if zone))
    return GroupedRequest(members, kinds, home, zones, capacity)


def _kinds(
    request: Request,
    subscribed: Sequence[frozenset[QueueName]],
    contested: Mapping[QueueName, Mapping[int, tuple[Place, ...]]],
    homes: frozenset[str],
) -> list[PartitionKind]:
    read_by = readers(subscribed)
    parts: dict[tuple[int, _Likeness], list[PartitionList]] = defaultdict(list)
    same: dict[int, tuple[Place, ...]] = {id(places): places for places in read_by.values()}  # equal ones are one object
    for queue, everything in zip(read_by, whole(read_by, request.queues), strict=True):
        if queue not in request.zones and queue not in request.weights and queue not in contested:
            if everything:
                parts[id(read_by[queue]), (None, _ONE, ())].append(everything)
            continue
        own: dict[_Likeness, list[int]] = defaultdict(list)
        for number, like in enumerate(_likenesses(request, queue, contested.get(queue, {}), homes)):
            own[like].append(number)
        for like, numbers in own.items():
            parts[id(read_by[queue]), like].append(PartitionList((queue,) * len(numbers), tuple(numbers)))
    return [PartitionKind(same[places], *like, PartitionList.in_a_row(lists)) for (places, like), lists in parts.items()]


def _likenesses(
    request: Request, queue: QueueName, contested: Mapping[int, tuple[Place, ...]], homes: frozenset[str]
) -> Iterable[_Likeness]:
    size, zones, weights = request.queues[queue], request.zones.get(queue), request.weights.get(queue)
    for number in range(size):
        near = zones[number] & homes if zones is not None and zones[number] and not homes <= zones[number] else None
        yield near, _ONE if weights is None else weights[number], contested.get(number, ())
