"""What a ledger does not know: it was lost, or the queue's server came back with older records (ledger 2)."""

from baton.engine.draft import Draft
from baton.engine.observation import OwnerRecord
from baton.engine.state import Slot
from baton.model.ids import Epoch, MemberId, Partition, QueueName


def adopt(draft: Draft, queue: QueueName) -> None:
    """A lost ledger: what the queue has recorded for a live member stays with it, at a new epoch; the rest goes above that."""
    pods = {member.uid: name for name, member in draft.eligible.items()}
    seated = {seat.member for seat in draft.seats}
    adopted: set[MemberId] = set()
    for number, record in sorted(draft.observation.queues[queue].owners.items()):
        partition = Partition(queue, number)
        if partition not in draft.slots:
            draft.tombs[partition] = Epoch(max(record.epoch, draft.tombs.get(partition, 0)))
            continue
        owner = pods.get(record.uid) if record.uid is not None else None
        slot = draft.slots[partition]
        draft.slots[partition] = Slot(Epoch(max(record.epoch, slot.epoch)), None, owner or slot.last)
        if owner is not None and draft.may_own(owner, queue):
            draft.assert_owner(partition, owner, record.epoch)
            adopted.add(owner)
    newly = sorted(adopted - seated, key=lambda name: (draft.eligible[name].joined, name))
    if newly:
        draft.seats += [draft.sit(member) for member in newly]
        draft.new_generation()
        draft.unsettled = True


def assert_again(draft: Draft, queue: QueueName) -> None:
    """Another run of the server may have rolled owners back: everybody is granted again what the ledger says is theirs."""
    records = draft.observation.queues[queue].owners
    for partition in sorted(partition for partition in draft.slots if partition.queue == queue):
        above = records.get(partition.number, OwnerRecord(None, Epoch(0))).epoch
        slot = draft.slots[partition]
        move = draft.moves.get(partition)
        if move is not None and not move.quiet:
            draft.raise_epoch(partition, above)
        elif slot.owner is not None:
            if draft.present(slot.owner, draft.known[slot.owner].uid):
                draft.assert_owner(partition, slot.owner, above)
        elif move is None and above > slot.epoch:
            draft.slots[partition] = Slot(above, None, slot.last)
