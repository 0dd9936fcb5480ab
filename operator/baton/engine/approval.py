"""Proposals: a plan that a person is to approve before anybody has to let go of anything (as Strimzi's KafkaRebalance).

Only moves of partitions wait that a member is working on. What has no owner, or one that is stopping, goes at once to where
the plan has it: it disturbs nobody, and could not wait for a person.
"""

from collections.abc import Mapping
from hashlib import sha256

from baton.api.enums import Approval
from baton.engine.draft import Draft
from baton.engine.state import PartitionRecord, Proposal
from baton.engine.step_events import ApprovalRefused, Approved, Proposed, Withdrawn
from baton.model.ids import MemberId, Partition, Uid


def needs_approval(draft: Draft, partition: Partition) -> bool:
    """To take it from who works on it."""
    return (
        draft.spec.approval is Approval.MANUAL and draft.records[partition].owner in draft.eligible and draft.at_rest(partition)
    )


def propose(draft: Draft, receivers: Mapping[Partition, MemberId], why: str) -> None:
    """A new plan, which replaces the last one. The same moves again are the same proposal."""
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
    """Its moves are not possible as they were shown, or would not lead to balance any more: there has to be a new plan."""
    proposal = draft.proposal
    if proposal is not None and (draft.unsettled or not _holds(draft, proposal)):
        _withdraw(draft, "it does not fit the fleet and its partitions any more")
        draft.trigger(f"the proposal {proposal.id} was overtaken")


def take_approved(draft: Draft) -> Proposal | None:
    """The proposal, if it was approved meanwhile; then it is no proposal any more. Any other approval is refused, once."""
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
    """Of these moves at these epochs: once carried out, or overtaken, the same id never comes again, so that an approval that
    is left standing approves nothing else."""
    moves = "".join(
        f"{partition.queue}/{partition.number}@{record.epoch} {record.owner} {receiver} {uids[receiver]}\n"
        for partition, receiver in sorted(receivers.items())
        for record in [records[partition]]
    )
    return sha256(moves.encode()).hexdigest()[:10]
