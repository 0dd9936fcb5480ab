"""Queues that are added, removed, resized, or change their access type (rules 1 and 8)."""

from collections import Counter
from dataclasses import replace

from baton.engine.draft import Draft
from baton.engine.ledger_bounds import MOST_WITHDRAWN
from baton.engine.member_slots import end_reservations, mark_overtaken
from baton.engine.placement import receivers_with_fewest
from baton.engine.recovery import adopt, assert_again
from baton.engine.state import IN_DOUBT, KnownQueue, PartitionRecord
from baton.engine.unreleased import call_back
from baton.model.ids import Epoch, Partition, QueueName
from baton.model.wording import counted

_NEVER = PartitionRecord()
"""One record for all partitions that were never granted."""


def drop_missing_queues(draft: Draft) -> None:
    """A queue that was deleted or left the group loses all its partitions at once, because no queue is left to act on."""
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
    """Grant all owners again after another run of a queue's server, which may have lost records, or in doubt. A pause does not
    matter."""
    for queue, facts in sorted(draft.queues.items()):
        seen = draft.observation.queues[queue]
        doubted = facts.incarnation == IN_DOUBT and not seen.fenced
        if doubted or seen.incarnation not in (None, facts.incarnation):
            draft.queues[queue] = facts._replace(incarnation=seen.incarnation)
            if facts.incarnation is not None:
                assert_again(draft, queue)


def follow_queues(draft: Draft) -> None:
    """New queues, other partition counts, other access types."""
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
        draft.queues[queue] = KnownQueue(seen.partitions, seen.exclusive, facts.incarnation)
        if seen.partitions != facts.partitions:
            _resize(draft, queue, facts.partitions, seen.partitions)
        if seen.exclusive != facts.exclusive:
            draft.unsettled = True  # a proposal no longer fits
            if seen.exclusive:
                end_reservations(draft, queue)
            draft.trigger(f"the queue {queue} became {'exclusive' if seen.exclusive else 'non-exclusive'}")


def place_opened(draft: Draft) -> None:
    """New partitions go to the members of the plan that have the fewest. Members that took a slot in this step count."""
    if draft.opened:
        mark_overtaken(draft)
        for partition, receiver in receivers_with_fewest(draft, draft.opened).items():
            if not draft.may_begin():
                break  # a plan follows, because it has no owner
            draft.hand_off(partition, receiver, draft.opened[partition])
            draft.new_generation()


def _resize(draft: Draft, queue: QueueName, before: int, after: int) -> None:
    """Withdraw deleted partitions and add new ones, which `place_opened` places. A running holddown keeps its end."""
    why = f"{queue} has {counted(after, 'partition')} instead of {before:,}"
    draft.unsettled = True
    if draft.holddown is not None:
        draft.trigger(why)  # pins it: it runs to its end even if its reason vanishes
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
        call_back(draft, partition)
    elif record.owner is not None and draft.may_own(record.owner, partition.queue):
        # It was being withdrawn: its owner keeps it.
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
    """Take the partition out of vacant slots. A vacant slot without partitions is dropped."""
    for n, slot in reversed(list(enumerate(draft.member_slots))):
        if slot.vacated and partition in slot.vacated:
            rest = slot.vacated - {partition}
            draft.member_slots[n : n + 1] = [replace(slot, vacated=rest)] if rest else []
