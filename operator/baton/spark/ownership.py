"""Who owns what, as the ledger says it: the driver's and the tasks' reading of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from baton.model.ids import Epoch, MemberId, QueueName, Uid
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


@dataclass(frozen=True, slots=True)
class Ownership:
    """The whole ledger, turned around: grants instead of members."""

    owned: frozenset[PartitionGrant] = frozenset()
    revoking: frozenset[PartitionGrant] = frozenset()


def ownership(entries: Iterable[MemberEntry]) -> Ownership:
    """The grants that the members' keys of the ledger record."""
    known = tuple(entries)
    return Ownership(
        owned=frozenset(grant for entry in known for grant in _grants(entry, entry.owned)),
        revoking=frozenset(grant for entry in known for grant in _grants(entry, entry.revoking)),
    )


def refusal(grant: PartitionGrant, pod: str, pod_uid: str | None, entry: MemberEntry | None) -> str | None:
    """Why the pod that a task runs in may not read a partition under this grant; None: it may.

    A partition that is to be let go may still be read: the range was planned before, and whoever gives it up waits for the commit
    of the batch. `pod_uid` None: the pod does not know its UID, and is judged by its name and its ledger key.
    """
    if pod != grant.member:
        return f"the task runs in {pod}, the owner is {grant.member}"
    if pod_uid is not None and pod_uid != grant.uid:
        return f"{pod} is {pod_uid} here, the grant names {grant.uid}"
    if entry is None:
        return f"{pod} has no key in its ledger"
    if entry.uid != grant.uid:
        return f"the ledger's key {pod} was written for {entry.uid}"
    here = entry.owned.get(grant.queue, {}).get(grant.partition, entry.revoking.get(grant.queue, {}).get(grant.partition))
    if here is None:
        return f"the ledger of {pod} does not give it {grant.queue}/{grant.partition}"
    if here != grant.epoch:
        return f"{grant.queue}/{grant.partition} is at epoch {here} in the ledger of {pod}, the plan is of {grant.epoch}"
    return None


def _grants(entry: MemberEntry, queues: Mapping[QueueName, Grants]) -> Iterable[PartitionGrant]:
    for partition, epoch in flat(queues):
        yield PartitionGrant(*partition, epoch, entry.member, entry.uid)
