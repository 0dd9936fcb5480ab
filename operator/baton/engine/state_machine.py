"""The state machine as a table: every state, every transition, what causes it and what is written and done.

The code of the rules is elsewhere; that it and this table agree is checked with ten thousand random fleets
(`tests/simulation/test_seeds.py`). docs/concepts/state-machine.md is generated from it.
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
        _UNASSIGNED, _UNBOUND, "a plan or the return of its member gives it to somebody", "receiver and epoch; grant"
    ),
    PartitionTransition(_UNBOUND, _READY, "the queue has taken the grant", "the member's key; its pod is told"),
    PartitionTransition(
        _UNBOUND, _UNASSIGNED, "its slot lapses, or its receiver vanishes, and nobody is there", "nothing is asked for"
    ),
    PartitionTransition(
        _READY, _PAUSED, "it is to be handed over, or withdrawn", "giver, receiver, new epoch, deadline; then pause"
    ),
    PartitionTransition(_READY, _UNBOUND, "its owner vanishes or does not read its queue any more", "the slot waits, or a grant"),
    PartitionTransition(_READY, _UNASSIGNED, "its owner vanishes, and no slot is kept", "it waits for a plan"),
    PartitionTransition(
        _PAUSED, _READY, "released, or the deadline passed; then the queue has taken the grant", "the members' keys; resume"
    ),
    PartitionTransition(
        _PAUSED, _UNBOUND, "its giver vanishes, or lets go of it and keeps its slot", "grant to the receiver, if any"
    ),
    PartitionTransition(_PAUSED, _UNASSIGNED, "it is let go of, and nobody is there to take it", "it waits for a plan"),
    PartitionTransition(_UNASSIGNED, None, "it is deleted", "its epoch is kept; a grant to nobody, if there was one"),
    PartitionTransition(_PAUSED, None, "it is deleted: the queue has taken the grant to nobody", "its epoch is kept"),
)
"""Ready to Ready is no transition: an owner that is asserted again at a new epoch goes on working. And a PartitionedQueue that is
deleted takes its partitions with it at once, whatever they are doing: nothing is left to act on."""

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
        State.PAUSED, State.HOLDDOWN, "the group goes on and has lost static members, which may come back", "their slots wait"
    ),
)


def page() -> str:
    """Both tables, as Markdown."""
    partitions = "".join(
        f"| {_word(before)} | {cause} | {_word(after)} | {done} |\n" for before, after, cause, done in PARTITION_TRANSITIONS
    )
    groups = "".join(f"| {before} | {cause} | {after} | {done} |\n" for before, after, cause, done in GROUP_TRANSITIONS)
    head = "| From | When | To | Written, then done |\n|---|---|---|---|\n"
    return f"## Partitions\n\n{head}{partitions}\n## Groups\n\n{head}{groups}"


def _word(state: PartitionState | None) -> str:
    return "—" if state is None else str(state)
