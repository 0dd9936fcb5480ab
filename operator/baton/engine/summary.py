"""The summary of a group for its status, its metrics and `baton status`, with the preview of a proposal for the person who
approves it."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from baton.api.group import (
    LONGEST_RANGES,
    LONGEST_REASON,
    MOST_PROPOSED_SHOWN,
    GroupNumbers,
    ProposalStatus,
    ProposedChange,
    ProposedMove,
    Protocol,
)
from baton.engine.observation import HeldBack, Observation
from baton.engine.results import State
from baton.engine.state import GroupState, Move, PlanProblem, Proposal
from baton.engine.state_machine import state_of
from baton.model.ids import MemberId, OnDeadline, Partition, QueueName
from baton.model.ranges import format_numbers, shortened
from baton.model.times import to_text


def preview(state: GroupState) -> ProposalStatus | None:
    """Return the preview of the current proposal. None: there is no proposal, or the state does not come from a step."""
    proposal = state.proposal
    if proposal is None or state.view is None:
        return None
    observation = state.view.observation
    moves: defaultdict[tuple[QueueName, MemberId, MemberId], list[int]] = defaultdict(list)
    gains: Counter[MemberId] = Counter()
    for partition, receiver in sorted(proposal.receivers.items()):
        giver = state.records[partition].owner
        assert giver is not None  # a proposal moves only partitions with an owner
        moves[partition.queue, giver, receiver].append(partition.number)
        gains[giver] -= 1
        gains[receiver] += 1
    loads = Counter(record.owner for record in state.records.values())
    paused = _paused(state, proposal, observation)
    bound = observation.spec.most_paused
    longest = _longest(paused, observation)
    return ProposalStatus(
        id=proposal.id,
        created_at=to_text(proposal.created),
        reason=proposal.why[:LONGEST_REASON],
        moves=len(proposal.receivers),
        paused=len(paused),
        paused_at_once=min(bound, len(paused)) if bound else len(paused),
        longest_pause_seconds=None if longest is None else round(longest),
        members=[
            ProposedChange(member=member, before=loads[member], after=loads[member] + gain)
            for member, gain in sorted(gains.items())
            if gain
        ][:MOST_PROPOSED_SHOWN],
        handoffs=[
            ProposedMove(
                queue=queue, partitions=shortened(format_numbers(numbers), LONGEST_RANGES), giver=giver, receiver=receiver
            )
            for (queue, giver, receiver), numbers in islice(moves.items(), MOST_PROPOSED_SHOWN)
        ],
    )


def _paused(state: GroupState, proposal: Proposal, observation: Observation) -> set[Partition]:
    if observation.spec.protocol is Protocol.EAGER:
        return {partition for partition, record in state.records.items() if record.owner is not None}
    return set(proposal.receivers)


def _longest(paused: set[Partition], observation: Observation) -> float | None:
    queues = [observation.queues[queue] for queue in sorted({partition.queue for partition in paused})]
    if any(not queue.fenced and queue.on_deadline is OnDeadline.WAIT for queue in queues):
        return None
    return max(queue.max_handoff for queue in queues)


# The summary


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a group. Times are seconds on the clock of the last step's `now`."""

    state: State
    hold_until: float | None
    """The time of the next plan, also while a rebalance hides the holddown. None: no plan is due, or the plan waits for the end
    of a pause, for room in the ledger, or for an assignor."""
    generation: int
    numbers: GroupNumbers
    in_flight: Mapping[Partition, Move]
    assignor: str | None
    balanced: bool
    """The members own the partitions as the assignor would plan it, and no hand-off or holddown runs or is due. False before the
    first step."""
    settled: bool
    """Balanced, each owner is a member that its queue has recorded, and the engine can act: no pause, no failing assignor, and
    room in the ledger."""
    held_back: bool
    """The ledger had no room for a decision that is due."""
    problem: PlanProblem | None
    proposal: ProposalStatus | None


def summary(state: GroupState) -> Summary:
    """Return the summary of a state. The numbers are those of the last step, or those of the ledger before the first step."""
    view = state.view
    hold_until = state.hold_until if view is None else view.hold_until
    shown = state_of(state)
    return Summary(
        state=State.READY if shown is State.HOLDDOWN and hold_until is None else shown,
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
    return GroupNumbers(
        members=len({*state.slot_holders(), *state.standbys}),
        standbys=sum(not known.active for known in state.known.values()),
        partitions=sum(queue.partitions for queue in state.queues.values()),
        unowned=sum(record.owner is None for record in state.records.values()),
        moving=state.moving,
        **state.totals._asdict(),
    )
