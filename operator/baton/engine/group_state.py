"""What a group is doing, in the four words that Solace has for it, until when, and why."""

from baton.engine.state import GroupState
from baton.engine.step_events import State


def state_of(state: GroupState) -> State:
    """In the words of Solace's rebalancing status. A rebalance under way hides a holddown beside it, and a pause too."""
    if any(not move.quiet for move in state.moves.values()):
        return State.REBALANCING
    if state.facts is not None and state.facts.paused:
        return State.PAUSED  # what is planned and has not begun waits
    if state.waiting:
        return State.REBALANCING
    return State.READY if state.hold_until is None else State.HOLDDOWN


def until_of(state: GroupState) -> float | None:
    """When a holddown ends that is the group's state."""
    return state.hold_until if state_of(state) is State.HOLDDOWN else None


def why_of(state: GroupState) -> str:
    """Why the group is in its state; empty where there is nothing to say."""
    match state_of(state):
        case State.REBALANCING:
            return next((move.why for move in state.moves.values() if not move.quiet), "")
        case State.HOLDDOWN if state.holddown is not None:
            return state.holddown.why
        case State.HOLDDOWN:
            return ", ".join(f"{slot.member} may come back" for slot in state.member_slots if slot.expires is not None)
    return ""
