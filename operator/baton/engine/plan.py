"""The plan at the end of a holddown: the owners that it assigns, and the hand-offs that lead there (rules 2, 4, 8).

With spec.approval Manual the plan is a proposal first, which waits for a person (Strimzi's KafkaRebalance). Only moves of
partitions that a member works on wait. A partition without an owner, or with an owner that is stopping, cannot wait for a person:
it goes to its planned owner at once.
"""

from collections.abc import Collection, Mapping
from hashlib import sha256

from baton.api.group import Approval, Protocol
from baton.engine.draft import Draft
from baton.engine.holddown import due, reasons, why_changed
from baton.engine.member_slots import MemberLimit, make_standbys, mark_overtaken, members_without_slot
from baton.engine.placement import FAILURES, plan_owners, plan_problem
from baton.engine.results import ApprovalRefused, Approved, Proposed, Withdrawn
from baton.engine.state import Holddown, PartitionRecord, Proposal, moment
from baton.model.ids import MemberId, Partition, Uid

TO_GRANT = 5.0
"""Seconds after the last deadline until the rest of a plan is planned, even if a queue has not answered to a grant."""


def plan_when_due(draft: Draft) -> None:
    """Make a plan if one is due. If the assignor fails, restore the state before the plan, so the holddown stands."""
    if not due(draft):
        return
    before = draft.holddown, dict(draft.waiting), list(draft.member_slots), list(draft.standbys)
    try:
        _plan(draft)
    except FAILURES as error:
        draft.holddown, draft.waiting, draft.member_slots, draft.standbys = before
        draft.problem = plan_problem(error)


def _plan(draft: Draft) -> None:
    """End the holddown and plan. Members of the plan get slots, vacant slots lapse, and reserved slots stay."""
    assert draft.holddown is not None
    why = draft.plan_now or why_changed(draft, draft.holddown.why)
    draft.reasons = {} if draft.plan_now else reasons(draft)
    draft.holddown = None
    approved = dict(draft.waiting)
    draft.waiting.clear()
    had_slot = set(draft.slot_holders())
    members = _members(draft)
    draft.member_slots = [slot for slot in draft.member_slots if slot.expires is not None]
    if not members:
        propose(draft, {}, why)
        _release_without_receiver(draft)
        make_standbys(draft, members_without_slot(draft))
        return
    kept = draft.vacated()
    owners = plan_owners(draft, members, kept)
    if set(members) - set(owners.values()):
        mark_overtaken(draft)  # a member gets no partition because of a reserved slot
    changed = [p for p in sorted(draft.records) if p not in kept and draft.planned_owner(p) != owners.get(p)]
    changed = [p for p in changed if p in owners or _must_go(draft, p)]
    asked = {p: owners[p] for p in changed if needs_approval(draft, p) and approved.get(p) != owners[p]}
    now = {p: owners.get(p) for p in changed if p not in asked}
    if draft.observation.part is not None:
        now = _first(draft, now, int(draft.may_begin()))
        longest = max((draft.queue(partition).max_handoff for partition in now), default=0.0) + TO_GRANT
        draft.holddown = Holddown(moment(draft.now + longest), longest, why, pinned=True, rest=True)
        placed = had_slot | draft.loads().keys() | set(now.values())
        members = [member for member in members if member in placed]
    draft.member_slots += [draft.new_slot(member) for member in members]
    if draft.holddown is None:
        make_standbys(draft, members_without_slot(draft))
        propose(draft, asked, why)
    if draft.spec.approval is Approval.AUTOMATIC:
        _carry_out(draft, now, owners, kept, why)
    else:
        _begin(draft, now, why)
        if now:
            draft.running_rebalance().full = True


def carry_out_approved(draft: Draft) -> None:
    """Begin the hand-offs of an approved proposal, exactly as they were shown."""
    proposal = take_approved(draft)
    if proposal is not None:
        kept = draft.vacated()
        headings = {partition: draft.planned_owner(partition) for partition in draft.records}
        owners = {partition: member for partition, member in headings.items() if member is not None}
        _carry_out(draft, proposal.receivers, {**owners, **proposal.receivers}, kept, proposal.why)


def begin_waiting(draft: Draft) -> None:
    """Begin planned hand-offs, as many at once as spec.rebalance allows (rule 9)."""
    if not draft.waiting:
        return
    bound = draft.spec.most_paused
    paused = sum(move.giver in draft.eligible and move.receiver is not None and not move.quiet for move in draft.moves.values())
    why = "" if draft.rebalance is None else draft.rebalance.why
    for partition, receiver in sorted(draft.waiting.items()):
        if not _bounded(draft, partition):
            draft.hand_off(partition, receiver, _reason(draft, partition, receiver, why))
        elif not bound or paused < bound:
            draft.hand_off(partition, receiver, _reason(draft, partition, receiver, why))
            paused += 1


def _carry_out(
    draft: Draft,
    changed: Mapping[Partition, MemberId | None],
    owners: Mapping[Partition, MemberId],
    kept: Collection[Partition],
    why: str,
) -> None:
    """Begin a plan: the `changed` partitions, and under Eager all others too."""
    if not changed:
        return
    if draft.spec.protocol is Protocol.EAGER:
        _revoke_everything(draft, owners, kept, why)
    _begin(draft, changed, why)
    draft.running_rebalance().full = True


def _begin(draft: Draft, changed: Mapping[Partition, MemberId | None], why: str) -> None:
    if not changed:
        return
    mark_overtaken(draft)
    draft.new_generation()
    for partition, receiver in changed.items():
        if receiver is None or partition in draft.moves or not _bounded(draft, partition):
            draft.hand_off(partition, receiver, _reason(draft, partition, receiver, why))
        else:
            draft.waiting[partition] = receiver
            draft.note_origin(partition)
    draft.running_rebalance().why = why


def _reason(draft: Draft, partition: Partition, receiver: MemberId | None, why: str) -> str:
    """Return why the giver left or the receiver joined, if that was in this holddown; else the plan's reason, `why`.

    Hand-offs that begin in a later step have the plan's reason.
    """
    return draft.reasons.get(partition) or (draft.reasons.get(receiver) if receiver else None) or why


def _first(draft: Draft, changed: Mapping[Partition, MemberId | None], most: int) -> dict[Partition, MemberId | None]:
    """Return the hand-offs to begin of a plan that does not fit into the ledger: partitions without a live owner first.

    Those of exclusive queues all begin, because each of these queues has one active member.
    """
    exclusive = [p for p in changed if draft.queues[p.queue].exclusive]
    others = sorted(
        (p for p in changed if not draft.queues[p.queue].exclusive), key=lambda p: (_bounded(draft, p), p in draft.moves, p)
    )
    return {p: changed[p] for p in sorted(exclusive + others[: max(0, most - len(exclusive))])}


def _members(draft: Draft) -> list[MemberId]:
    """Return the members of the plan, which can own a partition, ordered by joining, then name.

    If there are too many, members with the most partitions come first, so that the fewest partitions move. Then come holders of
    slots, then standbys (longest waiting first), then newcomers by joining.
    """
    loads = draft.loads()
    line = sorted(draft.slot_holders() + _rest(draft), key=lambda member: -len(loads.get(member, ())))
    limit = MemberLimit(draft)
    members = [member for member in line if limit.add_if_room(member)]
    draft.standbys = [member for member in draft.standbys if member not in members]
    return sorted(members, key=lambda member: (draft.eligible[member].joined, member))


def _rest(draft: Draft) -> list[MemberId]:
    """Return the members without a slot: standbys first, then by joining."""
    holders = set(draft.slot_holders())
    return [member for member in draft.standbys if member not in holders] + members_without_slot(draft)


def _bounded(draft: Draft, partition: Partition) -> bool:
    """True if maxConcurrentHandoffs applies to the partition, because its owner is a member that works on it."""
    return draft.records[partition].owner in draft.eligible


def _must_go(draft: Draft, partition: Partition) -> bool:
    """True if the owner is no longer a member, so the partition has to be released even without a receiver."""
    owner = draft.records[partition].owner
    return owner is not None and owner not in draft.eligible and draft.at_rest(partition)


def _release_without_receiver(draft: Draft) -> None:
    """End a holddown without a member: owners release all partitions that are not in a reserved slot."""
    kept = draft.vacated()
    for partition in sorted(draft.records):
        if partition not in kept and _must_go(draft, partition):
            draft.hand_off(partition, None, "no member is left")


def _revoke_everything(draft: Draft, owners: Mapping[Partition, MemberId], kept: Collection[Partition], why: str) -> None:
    """Protocol Eager, as in Kafka: all members release all partitions before any is granted."""
    draft.running_rebalance().eager = True
    for partition in sorted(draft.records):
        owner = draft.records[partition].owner
        if owner is not None and owners.get(partition) == owner and draft.at_rest(partition) and partition not in kept:
            draft.hand_off(partition, owner, why)


# Proposals


def needs_approval(draft: Draft, partition: Partition) -> bool:
    """True if a move of this partition needs approval: spec.approval is Manual, and a member works on the partition."""
    return (
        draft.spec.approval is Approval.MANUAL and draft.records[partition].owner in draft.eligible and draft.at_rest(partition)
    )


def propose(draft: Draft, receivers: Mapping[Partition, MemberId], why: str) -> None:
    """Propose these moves instead of the current proposal. Equal moves keep its id; no moves withdraw it."""
    before = draft.proposal
    if not receivers:
        _withdraw(draft, "nothing has to move any more")
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
        _withdraw(draft, "it no longer fits the fleet and its partitions")
        draft.trigger(f"the proposal {proposal.id} was overtaken")


def take_approved(draft: Draft) -> Proposal | None:
    """Return and remove the proposal if it was approved. An approval of another id is refused once."""
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
    """Return the id of these moves: ten hexadecimal digits of a digest that includes epochs.

    Once the moves are carried out or overtaken, the id never occurs again. So an approval that remains approves nothing else.
    """
    moves = "".join(
        f"{partition.queue}/{partition.number}@{record.epoch} {record.owner} {receiver} {uids[receiver]}\n"
        for partition, receiver in sorted(receivers.items())
        for record in [records[partition]]
    )
    return sha256(moves.encode()).hexdigest()[:10]
