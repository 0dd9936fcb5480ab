"""Queues that came, went, grew, shrank or changed their access type (rules 1 and 8)."""

from collections import Counter
from dataclasses import replace

from baton.engine.draft import Draft
from baton.engine.ledger_bounds import MOST_WITHDRAWN
from baton.engine.placement import fewest
from baton.engine.recovery import adopt, assert_again
from baton.engine.seats import end_waiting, overtake
from baton.engine.state import KnownQueue, Seat, Slot
from baton.model.ids import Epoch, Partition, QueueName
from baton.model.wording import counted

_NEVER = Slot()
"""Of all that was never granted: one for all of them."""


def drop_missing_queues(draft: Draft) -> None:
    """A queue that does not exist any more, or is not the group's: all of it ends at once. There is nothing left to act on."""
    for queue in sorted(set(draft.queues) - set(draft.observation.queues)):
        for number in range(draft.queues[queue].partitions):
            _drop(draft, Partition(queue, number))
        for partition in [partition for partition in draft.slots if partition.queue == queue]:
            _drop(draft, partition)
        del draft.queues[queue]
        draft.end(queue)
        if draft.seats:
            draft.trigger(f"the queue {queue} is gone")


def forget_withdrawn(draft: Draft) -> None:
    """More of them than a ledger has room for are kept by one epoch for all of a queue."""
    while len(draft.tombs) > MOST_WITHDRAWN:
        (queue, _), *_ = Counter(partition.queue for partition in draft.tombs).most_common(1)
        draft.end(queue)


def follow_servers(draft: Draft) -> None:
    """Another run of a queue's server may have lost records: owners are asserted again, also while the group is paused."""
    for queue, facts in sorted(draft.queues.items()):
        incarnation = draft.observation.queues[queue].incarnation
        if incarnation not in (None, facts.incarnation):
            draft.queues[queue] = facts._replace(incarnation=incarnation)
            if facts.incarnation is not None:
                assert_again(draft, queue)


def follow_queues(draft: Draft) -> None:
    """New queues, other partition counts, other access types."""
    fresh = not draft.queues
    for queue, seen in sorted(draft.observation.queues.items()):
        facts = draft.queues.get(queue)
        if facts is None:
            if not seen.fenced and not draft.eligible:
                continue  # nothing is recorded of its partitions anywhere: they are a number, until there is somebody to own one
            draft.queues[queue] = KnownQueue(seen.partitions, seen.exclusive, seen.incarnation)
            for number in range(seen.partitions):
                _open(draft, Partition(queue, number))
            adopt(draft, queue)
            if not fresh and draft.seats:
                draft.trigger(f"the queue {queue} was added")
            continue
        draft.queues[queue] = KnownQueue(seen.partitions, seen.exclusive, facts.incarnation)
        if seen.partitions != facts.partitions:
            _resize(draft, queue, facts.partitions, seen.partitions)
        if seen.exclusive != facts.exclusive:
            draft.unsettled = True  # what was proposed does not fit any more
            if seen.exclusive:
                end_waiting(draft, queue)
            draft.trigger(f"the queue {queue} became {'exclusive' if seen.exclusive else 'non-exclusive'}")


def place_opened(draft: Draft) -> None:
    """New partitions go to the members of the plan that have fewest: also to those who took a seat in this very step."""
    if draft.opened:
        overtake(draft)
        for partition, receiver in fewest(draft, draft.opened).items():
            draft.aim(partition, receiver, draft.opened[partition])
            draft.new_generation()


def _resize(draft: Draft, queue: QueueName, before: int, after: int) -> None:
    """Withdraws what is deleted and opens what is new, to be placed at once; a running holddown goes on."""
    why = f"{queue} has {counted(after, 'partition')} instead of {before:,}"
    draft.unsettled = True
    if draft.holddown is not None:
        draft.trigger(why)  # it goes on to its end, whatever becomes of its reason
    for number in range(after, before):
        _close(draft, Partition(queue, number), why)
    new = [Partition(queue, number) for number in range(before, after)]
    for partition in new:
        _open(draft, partition)
    draft.opened |= {partition: why for partition in new if draft.heading(partition) is None}


def _open(draft: Draft, partition: Partition) -> None:
    slot = draft.slots.get(partition)
    if slot is None:
        epoch = max(draft.tombs.pop(partition, Epoch(0)), draft.ended.get(partition.queue, Epoch(0)))
        draft.slots[partition] = Slot(epoch) if epoch else _NEVER
    elif slot.owner is not None and draft.may_own(slot.owner, partition.queue):
        # It was being withdrawn and is wanted again.
        draft.aim(partition, slot.owner, "the queue grew again")
        draft.new_generation()


def _close(draft: Draft, partition: Partition, why: str) -> None:
    draft.seats = [seat if not seat.left else _without(seat, partition) for seat in draft.seats]
    draft.seats = [seat for seat in draft.seats if seat.left is None or seat.left]
    draft.waiting.pop(partition, None)
    slot = draft.slots[partition]
    if slot.epoch == 0 and partition not in draft.moves:
        draft.withdraw(partition, Epoch(0))
    else:
        draft.aim(partition, None, why)
        draft.new_generation()


def _drop(draft: Draft, partition: Partition) -> None:
    slot = draft.slots.get(partition)
    if slot is None:
        return
    if slot.owner is not None:
        draft.gone(partition)
    draft.seats = [seat if not seat.left else _without(seat, partition) for seat in draft.seats]
    draft.seats = [seat for seat in draft.seats if seat.left is None or seat.left]
    draft.withdraw(partition, Epoch(0))


def _without(seat: Seat, partition: Partition) -> Seat:
    return seat if seat.left is None or partition not in seat.left else replace(seat, left=seat.left - {partition})
