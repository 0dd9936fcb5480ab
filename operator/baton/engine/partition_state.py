"""What a partition is doing, in the four words that Solace has for the partitions of a queue."""

from collections.abc import Mapping
from enum import StrEnum

from baton.engine.observation import Observation
from baton.engine.state import GroupState, KnownQueue
from baton.model.ids import Partition, QueueName


class PartitionState(StrEnum):
    """The state of one partition, in Solace's words for a partition and the flow that it is mapped to."""

    UNASSIGNED = "Unassigned"
    """It is mapped to nobody: it is new, its slot has lapsed, or it is being withdrawn from nobody."""
    READY = "Ready"
    """Its owner works on it, also while it waits for its turn to be handed over, and while its owner is only asserted again."""
    PAUSED = "Paused"
    """It is being handed over: delivery to its owner is paused until the release or the deadline, and then until the grant."""
    UNBOUND = "Unbound"
    """It is mapped to a member, but nobody is bound to it: it waits in a vacant slot, or its grant has not been taken yet."""


def partition_state(state: GroupState, partition: Partition) -> PartitionState:
    """Of one partition. Raises KeyError for one that the group does not have."""
    return _state(state, partition, _mapped(state))


def partition_states(state: GroupState) -> Mapping[Partition, PartitionState]:
    """Of every partition of the group, also of those that are being withdrawn; sorted."""
    mapped = _mapped(state)
    return {partition: _state(state, partition, mapped) for partition in sorted(state.records)}


def unopened(known: Mapping[QueueName, KnownQueue], seen: Observation) -> Mapping[QueueName, int]:
    """Partitions that queues have, and that were not taken in yet: a pause, or a ledger without room, keeps them for later."""
    more = {queue: one.partitions - (known[queue].partitions if queue in known else 0) for queue, one in seen.queues.items()}
    return {queue: count for queue, count in more.items() if count > 0}


def _mapped(state: GroupState) -> set[Partition]:
    """Those that wait for somebody: in a vacant slot, or by the plan."""
    return {
        partition for slot in state.member_slots if slot.vacated is not None for partition in slot.vacated
    } | state.waiting.keys()


def _state(state: GroupState, partition: Partition, mapped: set[Partition]) -> PartitionState:
    move = state.moves.get(partition)
    if state.records[partition].owner is not None:
        return PartitionState.READY if move is None or move.quiet else PartitionState.PAUSED
    awaited = partition in mapped if move is None else move.receiver is not None
    return PartitionState.UNBOUND if awaited else PartitionState.UNASSIGNED
