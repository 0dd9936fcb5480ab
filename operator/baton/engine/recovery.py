"""Recovery of owners: the ledger was lost or overwritten, or a queue's server came back with older records (ledger 2)."""

from baton.engine.draft import Draft
from baton.engine.observation import OwnerRecord
from baton.engine.state import PartitionRecord
from baton.model.ids import Epoch, MemberId, Partition, QueueName
from baton.model.session import Release


def adopt(draft: Draft, queue: QueueName) -> None:
    """Take over a queue's owner records after the ledger was lost.

    A live member keeps its partitions at new epochs. All other partitions continue above the recorded epochs.
    """
    pods = {member.uid: name for name, member in draft.eligible.items()}
    holders = {slot.member for slot in draft.member_slots}
    adopted: set[MemberId] = set()
    for number, owner_record in sorted(draft.observation.queues[queue].owners.items()):
        partition = Partition(queue, number)
        if partition not in draft.records:
            draft.epoch_tombstones[partition] = Epoch(max(owner_record.epoch, draft.epoch_tombstones.get(partition, 0)))
            continue
        owner = pods.get(owner_record.uid) if owner_record.uid is not None else None
        record = draft.records[partition]
        epoch = Epoch(max(owner_record.epoch, record.epoch))
        draft.records[partition] = PartitionRecord(epoch, None, owner or record.last, epoch)
        if owner is not None and draft.may_own(owner, queue):
            draft.assert_owner(partition, owner, owner_record.epoch)
            adopted.add(owner)
    newly = sorted(adopted - holders, key=lambda name: (draft.eligible[name].joined, name))
    if newly:
        draft.member_slots += [draft.new_slot(member) for member in newly]
        draft.new_generation()
        draft.unsettled = True


def assert_again(draft: Draft, queue: QueueName) -> None:
    """Grant every partition to its owner again, because another run of the server may have rolled its records back."""
    owner_records = draft.observation.queues[queue].owners
    for partition in sorted(partition for partition in draft.records if partition.queue == queue):
        above = owner_records.get(partition.number, OwnerRecord(None, Epoch(0))).epoch
        record = draft.records[partition]
        move = draft.moves.get(partition)
        if move is not None and not move.quiet:
            draft.raise_epoch(partition, above)
        elif record.owner is not None:
            if draft.present(record.owner, draft.known[record.owner].uid):
                draft.assert_owner(partition, record.owner, above)
        elif move is None and above > record.epoch:
            draft.records[partition] = record._replace(epoch=above)


def grant_released_again(draft: Draft) -> None:
    """Grant a partition again that its owner has let go of, though nobody calls it back: somebody overwrote the ledger, and what
    is let go of at one epoch stays let go of."""
    releases = draft.observation.releases
    if not releases:
        return  # a large group at rest
    for member, known in sorted(draft.known.items()):
        if member not in draft.eligible:
            continue
        said = [
            partition
            for partition in draft.owned[member]
            if Release(known.uid, partition.queue, partition.number, draft.records[partition].epoch) in releases
        ]
        for partition in sorted(set(said) - draft.moves.keys()):
            above = draft.queue(partition).owners.get(partition.number, OwnerRecord(None, Epoch(0))).epoch
            draft.assert_owner(partition, member, above)
