"""The states of a group and of its partitions, named as in Solace, and tables of all transitions between them.

The transitions are made by the rules. `tests/simulation/test_seeds.py` compares the rules with the tables in hundreds of random
fleets. docs/concepts/state-machine.md is generated from the tables.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from baton.engine.observation import Observation
from baton.engine.results import State
from baton.engine.state import GroupState, KnownQueue
from baton.model.ids import Partition, QueueName


def state_of(state: GroupState) -> State:
    """Return the group's state. A running rebalance hides a holddown or a pause."""
    if any(not move.quiet for move in state.moves.values()):
        return State.REBALANCING
    if state.facts is not None and state.facts.paused:
        return State.PAUSED  # hand-offs that are planned and have not begun wait
    if state.waiting:
        return State.REBALANCING
    return State.READY if state.hold_until is None else State.HOLDDOWN


def until_of(state: GroupState) -> float | None:
    """Return the end of the holddown, in seconds; None if the state is not Holddown."""
    return state.hold_until if state_of(state) is State.HOLDDOWN else None


def why_of(state: GroupState) -> str:
    """Return the reason of the group's state; empty for Ready and Paused."""
    match state_of(state):
        case State.REBALANCING:
            planned = "" if state.rebalance is None else state.rebalance.why
            return next((move.why for move in state.moves.values() if not move.quiet), planned)
        case State.HOLDDOWN if state.holddown is not None:
            return state.holddown.why
        case State.HOLDDOWN:
            return ", ".join(f"{slot.member} may come back" for slot in state.member_slots if slot.expires is not None)
    return ""


class PartitionState(StrEnum):
    """State of one partition. Solace uses these names for a partition and the flow that it is mapped to."""

    UNASSIGNED = "Unassigned"
    """The partition is mapped to no member: it is new, its slot lapsed, or it is withdrawn and had no owner."""
    READY = "Ready"
    """The owner works on the partition, also while it gets a new epoch or a planned hand-off has not begun."""
    PAUSED = "Paused"
    """A hand-off runs. Delivery to the owner is paused until the release or the deadline, and then until the grant."""
    UNBOUND = "Unbound"
    """The partition is mapped to a member that is not bound to it: it waits in a vacant slot or for its grant."""


def partition_state(state: GroupState, partition: Partition) -> PartitionState:
    """Return the state of one partition. Raises KeyError for a partition that the group does not have."""
    return _partition_state(state, partition, _mapped(state))


def partition_states(state: GroupState) -> Mapping[Partition, PartitionState]:
    """Return the state of every partition of the group, sorted, including partitions that are being withdrawn."""
    mapped = _mapped(state)
    return {partition: _partition_state(state, partition, mapped) for partition in sorted(state.records)}


def unopened(known: Mapping[QueueName, KnownQueue], seen: Observation) -> Mapping[QueueName, int]:
    """Return how many new partitions of each queue the group has not added yet, being paused or without room in the ledger."""
    more = {queue: one.partitions - (known[queue].partitions if queue in known else 0) for queue, one in seen.queues.items()}
    return {queue: count for queue, count in more.items() if count > 0}


def _mapped(state: GroupState) -> set[Partition]:
    """Return the partitions that are mapped without a running hand-off: by a vacant slot or by the plan."""
    return {
        partition for slot in state.member_slots if slot.vacated is not None for partition in slot.vacated
    } | state.waiting.keys()


def _partition_state(state: GroupState, partition: Partition, mapped: set[Partition]) -> PartitionState:
    move = state.moves.get(partition)
    if state.records[partition].owner is not None:
        return PartitionState.READY if move is None or move.quiet else PartitionState.PAUSED
    awaited = partition in mapped if move is None else move.receiver is not None
    return PartitionState.UNBOUND if awaited else PartitionState.UNASSIGNED


class PartitionTransition(NamedTuple):
    """One transition of a partition. `before` is None if it does not exist yet, `after` if it no longer exists."""

    before: PartitionState | None
    after: PartitionState | None
    cause: str
    done: str


class GroupTransition(NamedTuple):
    """One transition of a group."""

    before: State
    after: State
    cause: str
    done: str


_UNASSIGNED, _READY, _PAUSED, _UNBOUND = (
    PartitionState.UNASSIGNED,
    PartitionState.READY,
    PartitionState.PAUSED,
    PartitionState.UNBOUND,
)

PARTITION_TRANSITIONS = (
    PartitionTransition(None, _UNASSIGNED, "it is created, and there is no member", "it waits for a plan"),
    PartitionTransition(
        None, _UNBOUND, "it is created, or found at the queue, while there are members", "receiver and epoch; grant"
    ),
    PartitionTransition(
        None, _PAUSED, "it comes back, and its last owner had not released it", "giver, receiver, new epoch, deadline; then pause"
    ),
    PartitionTransition(
        _UNASSIGNED, _UNBOUND, "a plan, or the return of its member, gives it a receiver", "receiver and epoch; grant"
    ),
    PartitionTransition(_UNBOUND, _READY, "the queue accepted the grant", "the member's key, which its pod reads"),
    PartitionTransition(
        _UNASSIGNED, _READY, "the queue had accepted a grant before its hand-off was redirected", "the member's key; its hand-off"
    ),
    PartitionTransition(_UNBOUND, _UNASSIGNED, "its slot lapses, or its receiver vanishes, and there is no member", "no effect"),
    PartitionTransition(_READY, _PAUSED, "its hand-off or withdrawal begins", "giver, receiver, new epoch, deadline; then pause"),
    PartitionTransition(_READY, _UNBOUND, "its owner vanishes or no longer reads its queue", "the slot waits, or a grant"),
    PartitionTransition(_READY, _UNASSIGNED, "its owner vanishes, and no slot becomes vacant", "it waits for a plan"),
    PartitionTransition(
        _PAUSED, _READY, "released, or the deadline passed; then the queue accepted the grant", "the members' keys; resume"
    ),
    PartitionTransition(
        _PAUSED, _UNBOUND, "its giver vanishes, or releases it and its slot is reserved", "grant to the receiver, if any"
    ),
    PartitionTransition(_PAUSED, _UNASSIGNED, "its giver releases it, and there is no member", "it waits for a plan"),
    PartitionTransition(_UNASSIGNED, None, "it is deleted", "an epoch tombstone; a grant to no pod, if it was ever granted"),
    PartitionTransition(_PAUSED, None, "it is deleted: the queue accepted the grant to no pod", "an epoch tombstone"),
)
"""Ready to Ready is not a transition: an owner that only gets a new epoch keeps working. A deleted PartitionedQueue loses its
partitions at once, in any state, because no queue is left to act on."""

GROUP_TRANSITIONS = (
    GroupTransition(State.READY, State.HOLDDOWN, "a trigger", "the timer is written"),
    GroupTransition(
        State.READY, State.REBALANCING, "a slot is taken at once, partitions are placed, or there is no delay", "moves"
    ),
    GroupTransition(State.READY, State.PAUSED, "spec.paused", "nothing new begins"),
    GroupTransition(State.HOLDDOWN, State.READY, "the fleet is back, or the plan has nothing to move", "the timer is deleted"),
    GroupTransition(State.HOLDDOWN, State.REBALANCING, "the timer ends, or vacant slots are taken", "the plan: moves"),
    GroupTransition(State.HOLDDOWN, State.PAUSED, "spec.paused", "nothing new begins; the timer stays"),
    GroupTransition(State.REBALANCING, State.READY, "everything is granted", "the rebalance is counted"),
    GroupTransition(State.REBALANCING, State.HOLDDOWN, "everything is granted, and a timer runs", "the rebalance is counted"),
    GroupTransition(State.REBALANCING, State.PAUSED, "the hand-offs in flight are done while spec.paused", "nothing new begins"),
    GroupTransition(State.PAUSED, State.READY, "the pause ends, and there is nothing to do", "a running timer ends"),
    GroupTransition(
        State.PAUSED, State.REBALANCING, "the pause ends, or a server's records are in doubt", "the plan, without delay"
    ),
    GroupTransition(
        State.PAUSED, State.HOLDDOWN, "the pause ends, and slots are reserved for static members", "their slots wait"
    ),
)


def page() -> str:
    """Return both tables in Markdown, for docs/concepts/state-machine.md."""
    partitions = "".join(
        f"| {before or '—'} | {cause} | {after or '—'} | {done} |\n" for before, after, cause, done in PARTITION_TRANSITIONS
    )
    groups = "".join(f"| {before} | {cause} | {after} | {done} |\n" for before, after, cause, done in GROUP_TRANSITIONS)
    head = "| From | When | To | Written, then done |\n|---|---|---|---|\n"
    return f"## Partitions\n\n{head}{partitions}\n## Groups\n\n{head}{groups}"
