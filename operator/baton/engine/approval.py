"""Proposals: plans that wait for a person's approval (Strimzi's KafkaRebalance).

Only moves of partitions that a member works on wait. A partition without an owner, or with one that is stopping, goes to its
planned owner at once, because it cannot wait for a person.
"""

from collections.abc import Mapping
from hashlib import sha256

from baton.api.enums import Approval
from baton.engine.draft import Draft
from baton.engine.state import PartitionRecord, Proposal
from baton.engine.step_events import ApprovalRefused, Approved, Proposed, Withdrawn
from baton.model.ids import MemberId, Partition, Uid


def needs_approval(draft: Draft, partition: Partition) -> bool:
    """The move of this partition needs approval: spec.approval is Manual, and a member works on it."""
    return (
        draft.spec.approval is Approval.MANUAL and draft.records[partition].owner in draft.eligible and draft.at_rest(partition)
    )


def propose(draft: Draft, receivers: Mapping[Partition, MemberId], why: str) -> None:
    """Propose these moves instead of the current proposal. Equal moves keep its id; no moves withdraw it."""
    before = draft.proposal
    if not receivers:
        _withdraw(draft, "there is nothing to move any more")
        return
    uids = {member: draft.eligible[member].uid for member in set(receivers.values())}
    proposal = Proposal(_identity(draft.records, receivers, uids), dict(receivers), uids, why, draft.now)
    if before is None or before.id != proposal.id:
        draft.proposal = proposal
        draft.events.append(Proposed(proposal.id, len(receivers), why, None if before is None else before.id))


def withdraw_overtaken(draft: Draft) -> None:
    """Withdraw a proposal whose moves are no longer possible, or no longer lead to balance. Then a new plan is due."""
    proposal = draft.proposal
    if proposal is not None and (draft.unsettled or not _holds(draft, proposal)):
        _withdraw(draft, "it does not fit the fleet and its partitions any more")
        draft.trigger(f"the proposal {proposal.id} was overtaken")


def take_approved(draft: Draft) -> Proposal | None:
    """The proposal, if it was approved; it then stops to be one. An approval of another id is refused once."""
    assert draft.facts is not None
    proposal, approved = draft.proposal, draft.observation.approved
    if proposal is not None and draft.spec.approval is Approval.AUTOMATIC:
        draft.proposal = None
        return proposal
    if approved is None:
        return None
    if proposal is not None and approved == proposal.id:
        draft.proposal = None
        draft.record_answer(approved)
        draft.events.append(Approved(proposal.id, len(proposal.receivers)))
        return proposal
    if approved != draft.facts.answered:
        draft.record_answer(approved)
        draft.events.append(ApprovalRefused(approved, None if proposal is None else proposal.id))
    return None


def _withdraw(draft: Draft, why: str) -> None:
    if draft.proposal is not None:
        draft.events.append(Withdrawn(draft.proposal.id, why))
        draft.proposal = None


def _holds(draft: Draft, proposal: Proposal) -> bool:
    receivers = proposal.receivers
    return (
        all(partition in draft.records and draft.at_rest(partition) for partition in receivers)
        and all(draft.records[partition].owner in draft.eligible for partition in receivers)
        and all(draft.may_own(receiver, partition.queue) for partition, receiver in receivers.items())
        and all(draft.eligible[member].uid == uid for member, uid in proposal.uids.items())
        and _identity(draft.records, receivers, proposal.uids) == proposal.id
    )


def _identity(
    records: Mapping[Partition, PartitionRecord], receivers: Mapping[Partition, MemberId], uids: Mapping[MemberId, Uid]
) -> str:
    """The id of these moves: ten hexadecimal digits of a digest that includes epochs.

    Once the moves are carried out or overtaken the id never comes again, so an approval that stays approves nothing else.
    """
    moves = "".join(
        f"{partition.queue}/{partition.number}@{record.epoch} {record.owner} {receiver} {uids[receiver]}\n"
        for partition, receiver in sorted(receivers.items())
        for record in [records[partition]]
    )
    return sha256(moves.encode()).hexdigest()[:10]
