"""Receivers for partitions: for all of them, for those whose receiver vanished, or for new ones."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from baton.assignors import get, place_new
from baton.engine.assignor_call import ask_assignor
from baton.engine.draft import Draft
from baton.engine.exclusive import owners_of_exclusive
from baton.engine.failure import FAILURES, problem_of
from baton.model.ids import MemberId, Partition


def plan_owners(draft: Draft, members: Sequence[MemberId], kept: Collection[Partition]) -> dict[Partition, MemberId]:
    """The owners that the assignor in use plans, for these members of the plan in the order of their slots.

    `kept`: partitions that the plan leaves out. A partition stays at no cost with its last owner, also if that static member has
    another name now. Raises AssignorError.
    """
    claims: defaultdict[MemberId, set[Partition]] = defaultdict(set)
    for partition, record in draft.records.items():
        if record.last is not None:
            claims[record.last].add(partition)
    if draft.spec.session_timeout > 0:
        names = {draft.identity(member): member for member in members}
        for last in claims.keys() - set(members):
            identity = draft.identity(last)
            if identity is not None and identity in names:
                claims[names[identity]] |= claims.pop(last)
    return _by_assignor(draft, members, claims, kept)


def receivers_by_assignor(draft: Draft, without_receiver: Collection[Partition]) -> dict[Partition, MemberId]:
    """Receivers for these partitions alone, among the members of the plan.

    If the assignor fails, the partitions go to the members with the fewest, and a trigger starts a holddown.
    """
    holders = _members_with_slot(draft)
    if not holders:
        return {}
    if draft.facts is None or draft.facts.assignor is None:
        return receivers_with_fewest(draft, without_receiver)
    try:
        owners = _by_assignor(draft, holders, draft.loads(), _resting(draft) - set(without_receiver))
    except FAILURES as error:
        draft.problem = problem_of(error)
        draft.trigger("partitions were placed without the assignor, which failed")
        return receivers_with_fewest(draft, without_receiver)
    return {partition: owners[partition] for partition in without_receiver if partition in owners}


def receivers_with_fewer_moves(draft: Draft, without_receiver: Mapping[Partition, MemberId]) -> dict[Partition, MemberId]:
    """The receivers that cost the fewest moves for all hand-offs under way. `without_receiver`: receivers chosen for the lost
    hand-offs alone; they stand unless redirecting the others too saves moves. A partition at rest never moves."""
    holders = _members_with_slot(draft)
    open_ = {p for p, move in draft.moves.items() if not move.quiet and move.receiver is not None}
    claims = {member: partitions - open_ for member, partitions in draft.loads().items()}
    for partition in open_:
        home = draft.records[partition].last
        if home is not None:
            claims[home] = claims.get(home, set()) | {partition}
    try:
        owners = _by_assignor(draft, holders, claims, _resting(draft) - open_)
    except FAILURES:
        return dict(without_receiver)
    at_rest = (p for p in draft.records if p not in open_ and draft.planned_owner(p) in holders)
    if open_ - owners.keys() or any(owners.get(p) != draft.planned_owner(p) for p in at_rest):
        return dict(without_receiver)
    before = {p: without_receiver.get(p, draft.planned_owner(p)) for p in open_}
    cost, without = (sum(to[p] != draft.records[p].last for p in open_) for to in (owners, before))
    return (
        {p: owners[p] for p in open_ if p in without_receiver or owners[p] != draft.planned_owner(p)}
        if cost < without
        else dict(without_receiver)
    )


def receivers_with_fewest(draft: Draft, new: Collection[Partition]) -> dict[Partition, MemberId]:
    """Receivers for new partitions: the members of the plan with the fewest, under any assignor (rule 1)."""
    holders = _members_with_slot(draft)
    if not holders:
        return {}
    resting = _resting(draft) - set(new)
    claims = draft.loads()
    owners = ask_assignor(draft, place_new, holders, claims, resting)
    owners |= owners_of_exclusive(draft, holders, claims, resting, owners)
    return {partition: owners[partition] for partition in new if partition in owners}


def _by_assignor(
    draft: Draft, members: Sequence[MemberId], claims: Mapping[MemberId, set[Partition]], kept: Collection[Partition]
) -> dict[Partition, MemberId]:
    assert draft.facts is not None and draft.facts.assignor is not None
    owners = ask_assignor(draft, get(draft.facts.assignor), members, claims, kept)
    return owners | owners_of_exclusive(draft, members, claims, kept, owners)


def _members_with_slot(draft: Draft) -> list[MemberId]:
    return [slot.member for slot in draft.member_slots if slot.vacated is None and slot.member in draft.eligible]


def _resting(draft: Draft) -> set[Partition]:
    """Partitions whose owner, after running hand-offs, is no eligible member."""
    return {partition for partition in draft.records if draft.planned_owner(partition) not in draft.eligible}
