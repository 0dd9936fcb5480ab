"""The state machine as a table: every state, every transition, its cause, and what is written and done.

The rules are code elsewhere. `tests/simulation/test_seeds.py` compares them with this table in hundreds of random fleets.
docs/concepts/state-machine.md is generated from it.
"""

from typing import NamedTuple

from baton.engine.partition_state import PartitionState
from baton.engine.step_events import State


class PartitionTransition(NamedTuple):
    """One transition of a partition. `before` None: it does not exist yet; `after` None: it does not exist any more."""

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
    PartitionTransition(_READY, _UNBOUND, "its owner vanishes or does not read its queue any more", "the slot waits, or a grant"),
    PartitionTransition(_READY, _UNASSIGNED, "its owner vanishes, and no slot becomes vacant", "it waits for a plan"),
    PartitionTransition(
        _PAUSED, _READY, "released, or the deadline passed; then the queue accepted the grant", "the members' keys; resume"
    ),
    PartitionTransition(
        _PAUSED, _UNBOUND, "its giver vanishes, or releases it and its slot is reserved", "grant to the receiver, if any"
    ),
    PartitionTransition(_PAUSED, _UNASSIGNED, "its giver releases it, and there is no member", "it waits for a plan"),
    PartitionTransition(_UNASSIGNED, None, "it is deleted", "an epoch tombstone; a grant to nobody, if it was ever granted"),
    PartitionTransition(_PAUSED, None, "it is deleted: the queue accepted the grant to nobody", "an epoch tombstone"),
)
"""Ready to Ready is no transition: an owner that only gets a new epoch works on. A PartitionedQueue that is deleted loses its
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
    GroupTransition(State.PAUSED, State.READY, "the group goes on, and there is nothing to do", "a running timer ends"),
    GroupTransition(
        State.PAUSED, State.REBALANCING, "the group goes on, or a server's records are in doubt", "the plan, without delay"
    ),
    GroupTransition(
        State.PAUSED, State.HOLDDOWN, "the group goes on, and slots are reserved for static members", "their slots wait"
    ),
)


def page() -> str:
    """Both tables in Markdown, for docs/concepts/state-machine.md."""
    partitions = "".join(
        f"| {_word(before)} | {cause} | {_word(after)} | {done} |\n" for before, after, cause, done in PARTITION_TRANSITIONS
    )
    groups = "".join(f"| {before} | {cause} | {after} | {done} |\n" for before, after, cause, done in GROUP_TRANSITIONS)
    head = "| From | When | To | Written, then done |\n|---|---|---|---|\n"
    return f"## Partitions\n\n{head}{partitions}\n## Groups\n\n{head}{groups}"


def _word(state: PartitionState | None) -> str:
    return "—" if state is None else str(state)
