"""The state of a partition in the four words of Solace's partitioned queues."""

from collections.abc import Mapping
from enum import StrEnum

from baton.engine.observation import Observation
from baton.engine.state import GroupState, KnownQueue
from baton.model.ids import Partition, QueueName


class PartitionState(StrEnum):
    """The state of one partition. Solace has these words for a partition and the flow that it is mapped to."""

    UNASSIGNED = "Unassigned"
    """The partition is mapped to no member: it is new, its slot lapsed, or it is withdrawn and had no owner."""
    READY = "Ready"
    """The owner works on the partition. A planned hand-off has not begun, or the owner only gets a new epoch."""
    PAUSED = "Paused"
    """A hand-off runs. Delivery to the owner is paused until the release or the deadline, and then until the grant."""
    UNBOUND = "Unbound"
    """The partition is mapped to a member that is not bound to it: it waits in a vacant slot or for its grant."""


def partition_state(state: GroupState, partition: Partition) -> PartitionState:
    """The state of one partition. Raises KeyError for one that the group does not have."""
    return _state(state, partition, _mapped(state))


def partition_states(state: GroupState) -> Mapping[Partition, PartitionState]:
    """The state of every partition of the group, sorted by partition. Partitions that are being withdrawn are included."""
    mapped = _mapped(state)
    return {partition: _state(state, partition, mapped) for partition in sorted(state.records)}


def unopened(known: Mapping[QueueName, KnownQueue], seen: Observation) -> Mapping[QueueName, int]:
    """New partitions of each queue that the group has not added yet, because it is paused or its ledger has no room."""
    more = {queue: one.partitions - (known[queue].partitions if queue in known else 0) for queue, one in seen.queues.items()}
    return {queue: count for queue, count in more.items() if count > 0}


def _mapped(state: GroupState) -> set[Partition]:
    """Partitions that are mapped without a running hand-off: in a vacant slot, or by the plan."""
    return {
        partition for slot in state.member_slots if slot.vacated is not None for partition in slot.vacated
    } | state.waiting.keys()


def _state(state: GroupState, partition: Partition, mapped: set[Partition]) -> PartitionState:
    move = state.moves.get(partition)
    if state.records[partition].owner is not None:
        return PartitionState.READY if move is None or move.quiet else PartitionState.PAUSED
    awaited = partition in mapped if move is None else move.receiver is not None
    return PartitionState.UNBOUND if awaited else PartitionState.UNASSIGNED
