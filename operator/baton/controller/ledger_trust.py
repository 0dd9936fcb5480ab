"""Whether a ledger that was found may be believed: a hand may have edited it while no operator was there to put it right.

Every grant that the ledger counts as done was made at the queue first. So a queue that has recorded something else for a
partition at rest contradicts the ledger. Then nobody is believed: the engine grants everything again, above both, as it does
when the queue's server came back with older records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from baton.controller.event_reasons import EventReason
from baton.engine import GroupState
from baton.engine.state import IN_DOUBT
from baton.model.ids import Epoch, Partition, QueueName
from baton.model.wording import counted
from baton.queues.protocol import Owner

_NOBODY = Owner(None, Epoch(0))


def contradicted(state: GroupState, queue: QueueName, owner_records: Mapping[int, Owner]) -> list[int]:
    """Partitions at rest for which the queue has recorded something else than the ledger: another owner, another epoch, none, or
    that they are paused; or a higher epoch where nobody is to own them."""
    wrong = []
    for number in range(state.queues[queue].partitions):
        partition = Partition(queue, number)
        record, owner_record = state.records.get(partition), owner_records.get(number, _NOBODY)
        if record is None or partition in state.moves:
            continue
        as_granted = None if record.owner is None else (state.known[record.owner].uid, record.epoch, False)
        if owner_record.epoch > record.epoch or as_granted not in (None, owner_record):
            wrong.append(number)
    return wrong


def told_of(
    state: GroupState, queue: QueueName, owner_records: Mapping[int, Owner], wrong: Sequence[int], *, first: bool
) -> tuple[EventReason, str]:
    """Reason and message of the event. `wrong`: the partitions that are contradicted. `first`: this operator found it when it
    took the group over."""
    cure = "all of it is granted again, above both"
    partitions = counted(len(wrong), "partition")
    if not owner_records:
        return (
            EventReason.OWNERS_RESTORED,
            f"the queue {queue} came back empty: it has no owner on record for {partitions} that had one, so its server has lost "
            "its data, or spec.source names another one now. Entries that were not done are lost with it; who owns what stays, "
            "and is granted again. To keep entries next time, run the server with appendonly yes on a volume that stays, and "
            "restore its backup before it starts",
        )
    if first:
        return EventReason.LEDGER_REBUILT, f"the ledger contradicts what the queue {queue} has recorded; {cure}"
    if all(owner_records.get(number, _NOBODY).epoch < state.records[Partition(queue, number)].epoch for number in wrong):
        return (
            EventReason.OWNERS_RESTORED,
            f"the queue {queue} came back with older data: for {partitions} it had recorded less than was granted; {cure}. Its "
            "server lost its last writes, a replica took over that was behind, it was restored from a backup, or keys were "
            "deleted. Entries since then may be lost, or come again: see the condition Durable of the queue",
        )
    return (
        EventReason.OWNERS_RESTORED,
        f"somebody else wrote at the queue {queue}: for {partitions} it had recorded something else than "
        f"the ledger; {cure}. Look for another operator, or a copy of this cluster, that uses the same server",
    )


def in_doubt(state: GroupState, queue: QueueName) -> GroupState:
    """The same state, in which what stands of this queue is to be granted again."""
    facts = state.queues[queue]._replace(incarnation=IN_DOUBT)
    return replace(state, queues={**state.queues, queue: facts}, view=None)  # what was seen last is looked at again
