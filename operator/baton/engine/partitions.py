"""Queues that are added, removed, resized, or change their access type (rules 1 and 8).

Owners are recovered if the ledger was lost or overwritten, or a queue's server came back with older records (ledger 2).

Owners may still work on partitions of a queue that was deleted or left the group, because no queue rejects them. Nothing waits
for these owners while the partitions are gone, because no other pod gets the partitions. A partition that comes back belongs to
its last owner until the owner releases it (rules 3 and 5).
"""

from collections import Counter
from dataclasses import replace

from baton.engine.draft import Draft
from baton.engine.ledger import MOST_WITHDRAWN
from baton.engine.member_slots import end_reservations, mark_overtaken
from baton.engine.placement import receivers_with_fewest
from baton.engine.state import IN_DOUBT, KnownMember, KnownQueue, PartitionRecord, Unreleased
from baton.model.ids import Epoch, MemberId, Partition, QueueName
from baton.model.session import Release
from baton.model.wording import counted
from baton.queues.protocol import NO_OWNER

_NEVER = PartitionRecord()
"""One record for all partitions that were never granted."""


def drop_missing_queues(draft: Draft) -> None:
    """Remove all partitions of queues that were deleted or left the group at once, because no queue is left to act on."""
    for queue in sorted(set(draft.queues) - set(draft.observation.queues)):
        for number in range(draft.queues[queue].partitions):
            _drop(draft, Partition(queue, number))
        for partition in [partition for partition in draft.records if partition.queue == queue]:
            _drop(draft, partition)
        del draft.queues[queue]
        draft.merge_tombstones(queue)
        if draft.member_slots:
            draft.trigger(f"the queue {queue} is gone")


def forget_withdrawn(draft: Draft) -> None:
    """Bound the epoch tombstones: the queues with the most keep one tombstone for the queue."""
    while len(draft.epoch_tombstones) > MOST_WITHDRAWN:
        (queue, _), *_ = Counter(partition.queue for partition in draft.epoch_tombstones).most_common(1)
        draft.merge_tombstones(queue)


def follow_servers(draft: Draft) -> None:
    """Grant all partitions of a queue to their owners again, if its server was restarted and may have lost records, or if that is
    in doubt. Also while the group is paused."""
    for queue, facts in sorted(draft.queues.items()):
        seen = draft.observation.queues[queue]
        doubted = facts.incarnation == IN_DOUBT and not seen.fenced
        if doubted or seen.incarnation not in (None, facts.incarnation):
            draft.queues[queue] = facts._replace(incarnation=seen.incarnation)
            if facts.incarnation is not None:
                assert_again(draft, queue)


def follow_queues(draft: Draft) -> None:
    """Take in new queues, and other partition counts and access types."""
    fresh = not draft.queues
    for queue, seen in sorted(draft.observation.queues.items()):
        facts = draft.queues.get(queue)
        if facts is None:
            if not seen.fenced and not draft.eligible:
                continue  # no partition has an epoch yet, and no member could own one
            draft.queues[queue] = KnownQueue(seen.partitions, seen.exclusive, seen.incarnation)
            for number in range(seen.partitions):
                _open(draft, Partition(queue, number))
            adopt(draft, queue)
            if not fresh and draft.member_slots:
                draft.trigger(f"the queue {queue} was added")
            continue
        incarnation = facts.incarnation if seen.fenced else None  # the queue may have had a server before
        draft.queues[queue] = KnownQueue(seen.partitions, seen.exclusive, incarnation)
        if seen.partitions != facts.partitions:
            _resize(draft, queue, facts.partitions, seen.partitions)
        if seen.exclusive != facts.exclusive:
            draft.unsettled = True  # a proposal no longer fits
            if seen.exclusive:
                end_reservations(draft, queue)
            draft.trigger(f"the queue {queue} became {'exclusive' if seen.exclusive else 'non-exclusive'}")


def place_opened(draft: Draft) -> None:
    """Give new partitions to the members of the plan that have the fewest, including members that took a slot in this step."""
    if draft.opened:
        mark_overtaken(draft)
        for partition, receiver in receivers_with_fewest(draft, draft.opened).items():
            if not draft.may_begin():
                break  # the partition has no owner, so a plan follows
            draft.hand_off(partition, receiver, draft.opened[partition])
            draft.new_generation()


def _resize(draft: Draft, queue: QueueName, before: int, after: int) -> None:
    """Withdraw deleted partitions and add new ones, which `place_opened` places. A running holddown keeps its end."""
    why = f"{queue} has {counted(after, 'partition')} instead of {before:,}"
    draft.unsettled = True
    if draft.holddown is not None:
        draft.trigger(why)  # pins the holddown: it runs to its end even if its reason vanishes
    for number in range(after, before):
        _close(draft, Partition(queue, number), why)
    new = [Partition(queue, number) for number in range(before, after)]
    for partition in new:
        _open(draft, partition)
    draft.opened |= {partition: why for partition in new if draft.planned_owner(partition) is None}


def _open(draft: Draft, partition: Partition) -> None:
    record = draft.records.get(partition)
    if record is None:
        epoch = max(draft.epoch_tombstones.pop(partition, Epoch(0)), draft.queue_tombstones.get(partition.queue, Epoch(0)))
        draft.records[partition] = PartitionRecord(epoch, ended=epoch) if epoch else _NEVER
        restore_unreleased(draft, partition)
    elif record.owner is not None and draft.may_own(record.owner, partition.queue):
        # the partition was being withdrawn: its owner keeps it
        draft.hand_off(partition, record.owner, "the queue grew again")
        draft.new_generation()


def _close(draft: Draft, partition: Partition, why: str) -> None:
    _take_from_slots(draft, partition)
    draft.waiting.pop(partition, None)
    record = draft.records[partition]
    if record.epoch == 0 and partition not in draft.moves:
        draft.withdraw(partition, Epoch(0))
    else:
        draft.hand_off(partition, None, why)
        draft.new_generation()


def _drop(draft: Draft, partition: Partition) -> None:
    record = draft.records.get(partition)
    if record is None:
        return
    if record.owner is not None:
        if not draft.queues[partition.queue].refuses:
            draft.keep_unreleased(partition)
        draft.owner_is_gone(partition)
    _take_from_slots(draft, partition)
    draft.withdraw(partition, Epoch(0))


def _take_from_slots(draft: Draft, partition: Partition) -> None:
    """Remove the partition from vacant slots. A vacant slot without partitions is dropped."""
    for n, slot in reversed(list(enumerate(draft.member_slots))):
        if slot.vacated and partition in slot.vacated:
            rest = slot.vacated - {partition}
            draft.member_slots[n : n + 1] = [replace(slot, vacated=rest)] if rest else []


# Recovery of owners


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
    """Grant every partition to its owner again, because a restart of the server may have rolled its records back."""
    owner_records = draft.observation.queues[queue].owners
    for partition in sorted(partition for partition in draft.records if partition.queue == queue):
        above = owner_records.get(partition.number, NO_OWNER).epoch
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
    """Grant partitions again that their owners released although they were not revoked.

    That happens if the ledger was overwritten. A partition that was released at one epoch stays released at it, so it needs a
    new epoch.
    """
    releases = draft.observation.releases
    if not releases:
        return  # so that a large group at rest costs nothing
    for member, known in sorted(draft.known.items()):
        if member not in draft.eligible:
            continue
        released = [
            partition
            for partition in draft.owned[member]
            if Release(known.uid, partition.queue, partition.number, draft.records[partition].epoch) in releases
        ]
        for partition in sorted(set(released) - draft.moves.keys()):
            above = draft.queue(partition).owners.get(partition.number, NO_OWNER).epoch
            draft.assert_owner(partition, member, above)


# Owners that may still work on partitions that are gone


def restore_unreleased(draft: Draft, partition: Partition) -> None:
    """Make the last owner the owner of a partition that has come back, if that owner may still work on it.

    The owner has to release the partition. The receiver is the owner itself, at a new epoch, if it may own the partition.
    """
    last = draft.unreleased.pop(partition, None)
    if last is None or draft.queue(partition).fenced or not _may_still_work(draft, partition, last):
        return
    highest = draft.records[partition].epoch
    if draft.present(last.member, last.uid):
        draft.add_member(last.member)
    else:
        draft.known.setdefault(last.member, KnownMember(last.uid))
    draft.records[partition] = PartitionRecord(last.epoch, last.member, last.member)
    draft.owned[last.member].add(partition)
    receiver = last.member if draft.may_own(last.member, partition.queue) else None
    draft.hand_off(partition, receiver, "it has come back, and its last owner had not released it")
    if draft.moves[partition].epoch <= highest:
        draft.raise_epoch(partition, highest)
    draft.new_generation()


def forget_released(draft: Draft) -> None:
    """Forget owners that have released their partition, or can no longer work: the session lapsed, or the pod ended.

    Of more than MOST_WITHDRAWN partitions, those of the queues with the most are forgotten too: nothing waits for their owners.
    """
    if not draft.unreleased:
        return
    draft.unreleased = {p: last for p, last in draft.unreleased.items() if _may_still_work(draft, p, last)}
    while len(draft.unreleased) > MOST_WITHDRAWN:
        (queue, _), *_ = Counter(partition.queue for partition in draft.unreleased).most_common(1)
        draft.unreleased = {p: last for p, last in draft.unreleased.items() if p.queue != queue}


def _may_still_work(draft: Draft, partition: Partition, last: Unreleased) -> bool:
    if Release(last.uid, partition.queue, partition.number, last.epoch) in draft.observation.releases:
        return False
    return draft.present(last.member, last.uid) or draft.may_still_work(last.member, last.uid)
