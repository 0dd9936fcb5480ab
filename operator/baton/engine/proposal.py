"""The preview of a proposal, for the person who approves it."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from baton.api.enums import Protocol
from baton.engine.observation import Observation
from baton.engine.state import GroupState, Proposal
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.on_deadline import OnDeadline


@dataclass(frozen=True, slots=True)
class ProposedMove:
    """Partitions of one queue that go from one member to another."""

    queue: QueueName
    numbers: tuple[int, ...]
    """Ascending."""
    giver: MemberId
    receiver: MemberId


@dataclass(frozen=True, slots=True)
class Change:
    """The number of a member's partitions before and after a proposal."""

    member: MemberId
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """The preview of a proposal: its moves by queue and partition, its members by name."""

    id: str
    why: str
    created: float
    count: int
    """The number of partitions that would move."""
    moves: tuple[ProposedMove, ...]
    changes: tuple[Change, ...]
    paused: int
    """The number of partitions that would be paused: those that move, and under Eager all that have an owner."""
    at_once: int
    """The most partitions that would be paused at the same time."""
    longest: float | None
    """The longest pause of one partition, in seconds; None: until its consumer releases it (External queues)."""


def outlook(state: GroupState) -> Outlook | None:
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
    return Outlook(
        id=proposal.id,
        why=proposal.why,
        created=proposal.created,
        count=len(proposal.receivers),
        moves=tuple(ProposedMove(queue, tuple(of), giver, receiver) for (queue, giver, receiver), of in moves.items()),
        changes=tuple(Change(member, loads[member], loads[member] + gain) for member, gain in sorted(gains.items()) if gain),
        paused=len(paused),
        at_once=min(bound, len(paused)) if bound else len(paused),
        longest=_longest(paused, observation),
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
