"""A group on one screen: what its status, its metrics and `baton status` show."""

from dataclasses import dataclass

from baton.api.group_status import GroupNumbers
from baton.engine.group_state import state_of
from baton.engine.observation import HeldBack
from baton.engine.proposal import Outlook, outlook
from baton.engine.state import GroupState, PlanProblem
from baton.engine.step_events import State
from baton.model.ids import Epoch, MemberId, Partition


@dataclass(frozen=True, slots=True)
class InFlight:
    """One hand-off under way."""

    partition: Partition
    giver: MemberId | None
    """None: nobody has to let go."""
    receiver: MemberId | None
    """None: the partition is withdrawn, or waits for its static member."""
    epoch: Epoch
    """Of the grant to come."""
    deadline: float | None
    """None where there is nobody to wait for."""
    why: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Times are seconds on the clock of the last step's `now`."""

    state: State
    hold_until: float | None
    """When a plan is made, if nothing undoes the change; also while a rebalance hides the holddown. None where the plan waits for
    something else: the end of a pause, room in the ledger, an assignor."""
    generation: int
    numbers: GroupNumbers
    in_flight: tuple[InFlight, ...]
    assignor: str | None
    balanced: bool
    """The partitions are spread as the assignor has it, and nothing is under way, due or held down; so far as a step saw it."""
    settled: bool
    """Balanced, and every partition is with a live member as its queue's owner, and nothing keeps the engine from acting: not a
    pause, nor an assignor that fails, nor a ledger without room. What somebody who waits for a group waits for."""
    held_back: bool
    """The ledger had no room for what is due."""
    victims: tuple[MemberId, ...]
    problem: PlanProblem | None
    proposal: Outlook | None


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
        in_flight=tuple(
            InFlight(partition, move.giver, move.receiver, move.epoch, None if move.giver is None else move.deadline, move.why)
            for partition, move in sorted(state.moves.items())
        ),
        assignor=None if state.facts is None else state.facts.assignor,
        balanced=view is not None and view.balanced,
        settled=view is not None and view.settled,
        held_back=view is not None and view.observation.held_back is not HeldBack.NOTHING,
        victims=tuple(name for name, _ in state.victims),
        problem=None if view is None else view.problem,
        proposal=outlook(state),
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
