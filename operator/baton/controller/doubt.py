"""Whether a ledger that was found may be believed: a hand may have edited it while no operator was there to put it right.

Every grant that the ledger counts as done was made at the queue first. So a queue that has recorded something else for a
partition at rest contradicts the ledger. Then nobody is believed: the engine grants everything again, above both, as it does
when the queue's server came back with older records.
"""

from collections.abc import Mapping
from dataclasses import replace

from baton.engine import GroupState
from baton.engine.observation import OwnerRecord
from baton.model.ids import Partition, QueueName

_IN_DOUBT = "in doubt"
"""No server's incarnation, so that the next one seen is another."""


def contradicted(state: GroupState, queue: QueueName, owners: Mapping[int, OwnerRecord]) -> bool:
    """Whether the queue has recorded another owner, or another epoch, for a partition at rest."""
    for number, record in owners.items():
        partition = Partition(queue, number)
        slot = state.slots.get(partition)
        if slot is None or slot.owner is None or partition in state.moves:
            continue
        if record != (state.known[slot.owner].uid, slot.epoch):
            return True
    return False


def in_doubt(state: GroupState, queue: QueueName) -> GroupState:
    """The same state, in which what stands of this queue is to be granted again."""
    facts = state.queues[queue]._replace(incarnation=_IN_DOUBT)
    return replace(state, queues={**state.queues, queue: facts})
