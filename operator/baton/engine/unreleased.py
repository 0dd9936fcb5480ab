"""Owners that may still work on partitions that are gone: their queue was deleted, or left the group, and no queue refuses them.

Nobody waits for them while the partitions are gone, because nobody else gets them. A partition that comes back is theirs until
they release it (rules 3 and 5).
"""

from collections import Counter

from baton.engine.draft import Draft
from baton.engine.ledger_bounds import MOST_WITHDRAWN
from baton.engine.state import KnownMember, PartitionRecord, Unreleased
from baton.model.ids import Partition
from baton.model.session import Release


def call_back(draft: Draft, partition: Partition) -> None:
    """A partition has come back. If its last owner may still work on it, it owns it again, and is to release it, at a new epoch
    to itself if it may own it."""
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
    """Forget the owners that have released their partition, or cannot work any more: the session lapsed, or the pod ended. Of
    more than MOST_WITHDRAWN partitions those of the queues with the most are forgotten, too: nobody waits for their owners."""
    if not draft.unreleased:
        return
    draft.unreleased = {one: last for one, last in draft.unreleased.items() if _may_still_work(draft, one, last)}
    while len(draft.unreleased) > MOST_WITHDRAWN:
        (queue, _), *_ = Counter(partition.queue for partition in draft.unreleased).most_common(1)
        draft.unreleased = {one: last for one, last in draft.unreleased.items() if one.queue != queue}


def _may_still_work(draft: Draft, partition: Partition, last: Unreleased) -> bool:
    if Release(last.uid, partition.queue, partition.number, last.epoch) in draft.observation.releases:
        return False
    return draft.present(last.member, last.uid) or draft.may_still_work(last.member, last.uid)
