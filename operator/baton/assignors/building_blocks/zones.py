"""Which members are near which partitions (Kafka's racks, KIP-881)."""

from collections.abc import Iterable, Mapping

from baton.assignors.building_blocks.partition_list import whole
from baton.assignors.request import Request
from baton.model.ids import MemberId, Partition, QueueName

NOWHERE: frozenset[str] = frozenset()


def zones_of(request: Request, partition: Partition) -> frozenset[str]:
    """The zones with a replica of a partition; empty where the request names none."""
    zones = request.zones.get(partition.queue)
    return zones[partition.number] if zones is not None else NOWHERE


def zones_matter(members: Iterable[str], partitions: Mapping[Partition, frozenset[str]]) -> bool:
    """A member's zone has replicas of some partitions and not of others. Otherwise zones cannot decide between members.

    `members`: the members' zones. `partitions`: the zones with a replica of each partition.
    """
    everywhere = NOWHERE.union(*partitions.values()) if partitions else NOWHERE
    return not everywhere.isdisjoint(members) and any(zones != everywhere for zones in partitions.values())


class Nearness:
    """The zones of a request's members and of the partitions of some queues. If zones do not matter, no partition is far."""

    def __init__(self, request: Request, queues: Iterable[QueueName]) -> None:
        self._zones = {
            partition: zones_of(request, partition)
            for partitions in whole(queues if request.zones else (), request.queues)
            for partition in partitions
        }
        homes = {name: member.zone for name, member in request.members.items() if member.zone}
        self.matters = zones_matter(homes.values(), self._zones)
        self._homes: Mapping[MemberId, str] = homes if self.matters else {}

    def zones(self, partition: Partition) -> frozenset[str]:
        """The zones with a replica of a partition."""
        return self._zones.get(partition, NOWHERE)

    def far(self, member: MemberId, partition: Partition) -> bool:
        """The member has a zone, and the partition no replica in it."""
        home = self._homes.get(member)
        return home is not None and home not in self._zones[partition]

    def near(self, member: MemberId, partition: Partition) -> bool:
        """The member has a zone, and the partition a replica in it."""
        home = self._homes.get(member)
        return home is not None and home in self._zones[partition]

    def rarest_first(self, partitions: Iterable[Partition]) -> list[Partition]:
        """The partitions with the fewest members near them first. Others keep their order."""
        residents: dict[str, int] = {}
        for home in self._homes.values():
            residents[home] = residents.get(home, 0) + 1
        crowd = {zones: sum(residents.get(zone, 0) for zone in zones) for zones in set(self._zones.values())}
        return sorted(partitions, key=lambda partition: crowd[self._zones[partition]]) if self.matters else list(partitions)
