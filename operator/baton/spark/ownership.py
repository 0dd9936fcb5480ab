"""Who owns what, as the ledger says it: the driver's reading of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry, flat
from baton.model.ranges import Grants
from baton.model.session import Release


class PartitionGrant(NamedTuple):
    """One partition in one member's hands since `epoch`."""

    queue: QueueName
    partition: int
    epoch: Epoch
    member: MemberId
    uid: Uid

    def released(self) -> Release:
        """What a session says once it has let go of this."""
        return Release(self.uid, self.queue, self.partition, self.epoch)


@dataclass(frozen=True)
class Ownership:
    """The whole ledger, turned around: grants instead of members."""

    owned: frozenset[PartitionGrant] = frozenset()
    revoking: frozenset[PartitionGrant] = frozenset()

    @cached_property
    def owners(self) -> Mapping[Partition, PartitionGrant]:
        """The owned grants, by partition. While a member that is gone is named beside the next owner, the later grant counts."""
        return {Partition(one.queue, one.partition): one for one in sorted(self.owned, key=lambda one: one.epoch)}

    @cached_property
    def partitions(self) -> frozenset[Partition]:
        """Those that are in anybody's hands."""
        return frozenset(Partition(one.queue, one.partition) for one in self.owned | self.revoking)


def ownership(entries: Iterable[MemberEntry]) -> Ownership:
    """The grants that the members' keys of the ledger record."""
    known = tuple(entries)
    return Ownership(
        owned=frozenset(grant for entry in known for grant in _grants(entry, entry.owned)),
        revoking=frozenset(grant for entry in known for grant in _grants(entry, entry.revoking)),
    )


def _grants(entry: MemberEntry, queues: Mapping[QueueName, Grants]) -> Iterable[PartitionGrant]:
    for partition, epoch in flat(queues):
        yield PartitionGrant(*partition, epoch, entry.member, entry.uid)
