"""The preview of a proposal, for the person who approves it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import islice

from baton.api.enums import Protocol
from baton.api.group_status import (
    LONGEST_RANGES,
    LONGEST_REASON,
    MOST_PROPOSED_SHOWN,
    ProposalStatus,
    ProposedChange,
    ProposedMove,
)
from baton.engine.observation import Observation
from baton.engine.state import GroupState, Proposal
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.on_deadline import OnDeadline
from baton.model.ranges import format_numbers
from baton.model.times import to_text


def preview(state: GroupState) -> ProposalStatus | None:
    """The preview of the current proposal. None: there is no proposal, or no step has made this state."""
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
    bound = observation.spec.max_concurrent_handoffs if observation.spec.protocol is Protocol.COOPERATIVE else 0
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
            ProposedMove(queue=queue, partitions=_ranges(numbers), giver=giver, receiver=receiver)
            for (queue, giver, receiver), numbers in islice(moves.items(), MOST_PROPOSED_SHOWN)
        ],
    )


def _ranges(numbers: Iterable[int]) -> str:
    text = format_numbers(numbers)
    return text if len(text) <= LONGEST_RANGES else text[: text.rindex(",", 0, LONGEST_RANGES)] + ",…"


def _paused(state: GroupState, proposal: Proposal, observation: Observation) -> set[Partition]:
    if observation.spec.protocol is Protocol.EAGER:
        return {partition for partition, record in state.records.items() if record.owner is not None}
    return set(proposal.receivers)


def _longest(paused: set[Partition], observation: Observation) -> float | None:
    queues = [observation.queues[queue] for queue in sorted({partition.queue for partition in paused})]
    if any(not queue.fenced and queue.on_deadline is OnDeadline.WAIT for queue in queues):
        return None
    return max(queue.max_handoff for queue in queues)
