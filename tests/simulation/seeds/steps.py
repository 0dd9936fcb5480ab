"""What must hold of every step of the engine that an operator takes, whether it comes to be written or not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from baton.engine import GroupState, PartitionState, State, Step, dump, load, partition_states, step, summary
from baton.engine.observation import Observation
from baton.engine.state_machine import state_of
from baton.model.ids import OnDeadline
from tests.simulation.order import backwards
from tests.simulation.seeds.invariant import InvariantError

SAMPLE = 6
"""One step in so many is taken again, to see that repetition and order change nothing."""


class StepChecks:
    """One group's."""

    def __init__(self) -> None:
        self.steps = 0

    def stepped(self, before: GroupState, seen: Observation, made: Step, now: float) -> bool:
        """Whether the group is settled now. Raises InvariantError."""
        self.steps += 1
        state = made.state
        if made.wake_at is not None and made.wake_at <= now:
            raise InvariantError(f"it wants to be woken at {made.wake_at}, which is over")
        _nothing_waits_without_a_deadline(state, seen, made)
        settled = summary(state).settled
        if settled:
            _settled_is_settled(state)
        if self.steps % SAMPLE == 0:
            if load(dump(state)) != state:
                raise InvariantError("the ledger does not read back as it was written")
            other = step(replace(before, view=None), _repeated(seen), now)
            if (other.state, other.effects, other.events) != (state, made.effects, made.events):
                raise InvariantError("the order in which things were learnt matters")
            again = step(replace(state, view=None), seen, now)
            if again.state != state or again.events or again.effects != made.effects:
                raise InvariantError(f"the same observation twice changed something: {again.events}")
        return settled


def _nothing_waits_without_a_deadline(state: GroupState, seen: Observation, made: Step) -> None:
    ends = []
    for partition, move in state.moves.items():
        queue = seen.queues.get(partition.queue)
        if move.giver is None or move.quiet or move.released is not None or queue is None:
            continue
        unfenced = not queue.fenced and queue.on_deadline is OnDeadline.WAIT
        unfenced &= not queue.given_up or partition.number < state.queues[partition.queue].partitions
        if not move.missed:
            ends.append(move.deadline)
        elif not unfenced:
            raise InvariantError(f"{partition} waits for {move.giver} beyond its deadline")
    problem = state.view is not None and state.view.problem is not None
    if state.holddown is not None and not state.holddown.rest and not seen.spec.paused and not seen.held_back and not problem:
        ends.append(state.holddown.until)
    if ends and (made.wake_at is None or made.wake_at > min(ends)):
        raise InvariantError(f"nobody is woken at {min(ends)} but at {made.wake_at}")


def _settled_is_settled(state: GroupState) -> None:
    states = partition_states(state)
    if state_of(state) is not State.READY or any(one is not PartitionState.READY for one in states.values()):
        raise InvariantError(f"it is settled and {state_of(state)}: {states}")
    active = Counter(
        queue for queue, _ in {(p.queue, record.owner) for p, record in state.records.items()} if state.queues[queue].exclusive
    )
    if any(count > 1 for count in active.values()):
        raise InvariantError(f"it is settled, and exclusive queues have several active members: {active}")


def _repeated(seen: Observation) -> Observation:
    """The same facts, learnt in another order."""
    return replace(seen, members=backwards(seen.members), away=backwards(seen.away), queues=backwards(seen.queues))
