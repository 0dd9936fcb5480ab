"""Partitions that are alike: read by the same members, near to the same ones, of the same weight.

Who has how many of each kind is all that totals, moves and zone mismatches depend on, so a group of a thousand members and a
million partitions of a few kinds is a small problem.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from baton.assignors.claims import by_seat, holders, readable
from baton.assignors.request import Request
from baton.model.ids import MemberId, Partition, QueueName

Place = int
"""A member, as its place in the order of joining, then by name."""
Zones = frozenset[str] | None
"""Of the members' zones, those with a replica. None: near everybody, or nobody says."""


@dataclass(slots=True)
class Kind:
    """Partitions that are alike."""

    readers: tuple[Place, ...]
    near: Zones
    weight: Fraction
    homes: tuple[Place, ...]
    """The readers that claim each of them equally, where several do; with any of these they are at home."""
    partitions: list[Partition] = field(default_factory=list)
    """By queue, then number."""


@dataclass(frozen=True, slots=True)
class Group:
    """A request by kinds."""

    members: Sequence[MemberId]
    """By place."""
    kinds: Sequence[Kind]
    held: Mapping[Partition, Place]
    """The partitions with one home: a reader whose claim is the newest, alone."""
    zone: Sequence[str | None]
    capacity: Sequence[Fraction]

    def far(self, kind: Kind, place: Place) -> bool:
        """A member with a zone, and a partition with replicas, but none there."""
        return kind.near is not None and self.zone[place] is not None and self.zone[place] not in kind.near


def grouped(request: Request) -> Group:
    """The request by kinds; kinds in the order of their first partition."""
    members = by_seat(request.members)
    place = {name: number for number, name in enumerate(members)}
    subscribed = readable(request)
    held: dict[Partition, Place] = {}
    contested: dict[QueueName, dict[int, tuple[Place, ...]]] = defaultdict(dict)
    for partition, names in holders(request).items():
        homes = sorted(place[name] for name in names if partition.queue in subscribed[name])
        if len(homes) == 1:
            held[partition] = homes[0]
        elif homes:
            contested[partition.queue][partition.number] = tuple(homes)
    zones = [request.members[name].zone or None for name in members]
    capacity = [request.members[name].capacity for name in members]
    kinds = _kinds(request, [subscribed[name] for name in members], contested, frozenset(zone for zone in zones if zone))
    return Group(members, kinds, held, zones, capacity)


def _kinds(
    request: Request,
    subscribed: Sequence[frozenset[QueueName]],
    contested: Mapping[QueueName, Mapping[int, tuple[Place, ...]]],
    homes: frozenset[str],
) -> list[Kind]:
    kinds: dict[tuple[tuple[Place, ...], Zones, Fraction, tuple[Place, ...]], Kind] = {}
    for queue in sorted(request.queues):
        readers = tuple(place for place, queues in enumerate(subscribed) if queue in queues)
        if not readers:
            continue
        own: dict[tuple[Zones, Fraction, tuple[Place, ...]], Kind] = {}
        for number, like in enumerate(_likenesses(request, queue, contested.get(queue, {}), homes)):
            kind = own.get(like)
            if kind is None:
                kind = own[like] = kinds.setdefault((readers, *like), Kind(readers, *like))
            kind.partitions.append(Partition(queue, number))
    return list(kinds.values())


def _likenesses(
    request: Request, queue: QueueName, contested: Mapping[int, tuple[Place, ...]], homes: frozenset[str]
) -> Iterable[tuple[Zones, Fraction, tuple[Place, ...]]]:
    size, zones, weights = request.queues[queue], request.zones.get(queue), request.weights.get(queue)
    one = Fraction(1)
    for number in range(size):
        near = zones[number] & homes if zones is not None and zones[number] and not homes <= zones[number] else None
        yield near, one if weights is None else weights[number], contested.get(number, ())
