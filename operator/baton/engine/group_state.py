"""The state of a group in the four words of Solace's rebalancing status, its end and its reason."""

from baton.engine.state import GroupState
from baton.engine.step_events import State


def state_of(state: GroupState) -> State:
    """The group's state. A running rebalance hides a holddown and a pause beside it."""
    if any(not move.quiet for move in state.moves.values()):
        return State.REBALANCING
    if state.facts is not None and state.facts.paused:
        return State.PAUSED  # what is planned and has not begun waits
    if state.waiting:
        return State.REBALANCING
    return State.READY if state.hold_until is None else State.HOLDDOWN


def until_of(state: GroupState) -> float | None:
    """The end of the holddown, in seconds; None if the state is not Holddown."""
    return state.hold_until if state_of(state) is State.HOLDDOWN else None


def why_of(state: GroupState) -> str:
    """The reason of the group's state; empty for Ready and Paused."""
    match state_of(state):
        case State.REBALANCING:
            planned = "" if state.rebalance is None else state.rebalance.why
            return next((move.why for move in state.moves.values() if not move.quiet), planned)
        case State.HOLDDOWN if state.holddown is not None:
            return state.holddown.why
        case State.HOLDDOWN:
            return ", ".join(f"{slot.member} may come back" for slot in state.member_slots if slot.expires is not None)
    return ""
