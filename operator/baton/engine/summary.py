"""A group on one screen: what its status, its metrics and `baton status` show."""

from dataclasses import dataclass

from baton.engine.group_state import state_of
from baton.engine.happenings import State
from baton.engine.proposal import Outlook, outlook
from baton.engine.state import GroupState, Problem
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
    """Times are seconds on the clock of the last step's `now`. Totals count since the group was made."""

    state: State
    hold_until: float | None
    """Also while a rebalance hides the holddown."""
    generation: int
    members: int
    """Ready and not terminating, standbys and newcomers included."""
    standbys: int
    partitions: int
    moving: int
    """Hand-offs under way and planned."""
    moves: int
    lower_bound: int
    deadline_misses: int
    in_flight: tuple[InFlight, ...]
    assignor: str | None
    balanced: bool
    """The partitions are spread as the assignor has it, and nothing is under way, due or held down; so far as a step saw it."""
    settled: bool
    """Balanced, and every partition is with a live member as its queue's owner, and nothing keeps the engine from acting: not a
    pause, nor an assignor that fails, nor a ledger without room. What somebody who waits for a group waits for."""
    replicas: int
    """The size of the fleet as /scale reports it."""
    victims: tuple[MemberId, ...]
    problem: Problem | None
    proposal: Outlook | None


def summary(state: GroupState) -> Summary:
    """Counts of members are those of the last step; before the first: of the ledger."""
    view = state.view
    seated = [seat.member for seat in state.seats if seat.left is None]
    members = view.members if view is not None else len({*seated, *state.standbys})
    return Summary(
        state=state_of(state),
        hold_until=state.hold_until,
        generation=state.generation,
        members=members,
        standbys=view.standbys if view is not None else sum(not known.active for known in state.known.values()),
        partitions=sum(queue.partitions for queue in state.queues.values()),
        moving=state.moving,
        moves=state.totals.moves,
        lower_bound=state.totals.lower_bound,
        deadline_misses=state.totals.deadline_misses,
        in_flight=tuple(
            InFlight(partition, move.giver, move.receiver, move.epoch, None if move.giver is None else move.deadline, move.why)
            for partition, move in sorted(state.moves.items())
        ),
        assignor=None if state.facts is None else state.facts.assignor,
        balanced=view is not None and view.balanced,
        settled=view is not None and view.settled,
        replicas=members + len(state.victims),
        victims=tuple(name for name, _ in state.victims),
        problem=None if view is None else view.problem,
        proposal=outlook(state),
    )
