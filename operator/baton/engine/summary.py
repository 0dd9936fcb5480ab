"""The summary of a group, which its status, its metrics and `baton status` show."""

from collections.abc import Mapping
from dataclasses import dataclass

from baton.api.group_status import GroupNumbers, ProposalStatus
from baton.engine.group_state import state_of
from baton.engine.observation import HeldBack
from baton.engine.proposal import preview
from baton.engine.state import GroupState, Move, PlanProblem
from baton.engine.step_events import State
from baton.model.ids import Partition


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a group. Times are seconds on the clock of the last step's `now`."""

    state: State
    hold_until: float | None
    """The time of the next plan, also while a rebalance hides the holddown. None: no plan is due, or it waits for something else:
    the end of a pause, room in the ledger, or an assignor."""
    generation: int
    numbers: GroupNumbers
    in_flight: Mapping[Partition, Move]
    assignor: str | None
    balanced: bool
    """The members own the partitions as the assignor would plan it, and nothing runs, is due or held down. False before a
    step."""
    settled: bool
    """Balanced, each owner is a member that its queue has recorded, and the engine can act: no pause, no failing assignor, and
    room in the ledger."""
    held_back: bool
    """The ledger had no room for what is due."""
    problem: PlanProblem | None
    proposal: ProposalStatus | None


def summary(state: GroupState) -> Summary:
    """The numbers are those of the last step; before the first: of the ledger."""
    view = state.view
    hold_until = state.hold_until if view is None else view.hold_until
    doing = state_of(state)
    return Summary(
        state=State.READY if doing is State.HOLDDOWN and hold_until is None else doing,
        hold_until=hold_until,
        generation=state.generation,
        numbers=_of_ledger(state) if view is None else view.numbers,
        in_flight=dict(sorted(state.moves.items())),
        assignor=None if state.facts is None else state.facts.assignor,
        balanced=view is not None and view.balanced,
        settled=view is not None and view.settled,
        held_back=view is not None and view.observation.held_back is not HeldBack.NOTHING,
        problem=None if view is None else view.problem,
        proposal=preview(state),
    )


def _of_ledger(state: GroupState) -> GroupNumbers:
    holders = [slot.member for slot in state.member_slots if slot.vacated is None]
    return GroupNumbers(
        members=len({*holders, *state.standbys}),
        standbys=sum(not known.active for known in state.known.values()),
        partitions=sum(queue.partitions for queue in state.queues.values()),
        unowned=sum(record.owner is None for record in state.records.values()),
        moving=state.moving,
        **state.totals._asdict(),
    )
