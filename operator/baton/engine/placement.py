"""Who is to own what: everything, what is homeless, or only what is new."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from baton.assignors import get, place_new
from baton.engine.assignor_call import ask
from baton.engine.draft import Draft
from baton.engine.exclusive import owners_of_exclusive
from baton.engine.failure import FAILURES, problem_of
from baton.model.ids import MemberId, Partition


def target(draft: Draft, members: Sequence[MemberId], kept: Collection[Partition]) -> dict[Partition, MemberId]:
    """Who of `members` (in seat order) should own what, by the assignor in use; `kept` is not theirs to share.

    A partition stays at no cost with who has it, or had it last: also while it is being handed over, and under another name of
    the same static member.
    """
    claims: defaultdict[MemberId, set[Partition]] = defaultdict(set)
    for partition, slot in draft.slots.items():
        if slot.last is not None:
            claims[slot.last].add(partition)
    if draft.spec.session_timeout > 0:
        names = {draft.identity(member): member for member in members}
        for last in claims.keys() - set(members):
            identity = draft.identity(last)
            if identity is not None and identity in names:
                claims[names[identity]] |= claims.pop(last)
    return _by_assignor(draft, members, claims, kept)


def by_the_assignor(draft: Draft, homeless: Collection[Partition]) -> dict[Partition, MemberId]:
    """Receivers for these partitions among the members of the plan; nothing else is considered. They cannot wait for an assignor
    that fails: then they go to who has fewest, and a plan is to follow."""
    seated = _seated(draft)
    if not seated:
        return {}
    if draft.facts is None or draft.facts.assignor is None:
        return fewest(draft, homeless)
    try:
        owners = _by_assignor(draft, seated, draft.loads(), _resting(draft) - set(homeless))
    except FAILURES as error:
        draft.problem = problem_of(error)
        draft.trigger("partitions were placed without the assignor, which failed")
        return fewest(draft, homeless)
    return {partition: owners[partition] for partition in homeless if partition in owners}


def with_the_others(draft: Draft, homeless: Mapping[Partition, MemberId]) -> dict[Partition, MemberId]:
    """`homeless`: who would get what has no receiver any more, each for itself. If it costs fewer moves to send what is on its
    way elsewhere too, be it home again: that; nothing that is at rest moves."""
    seated = _seated(draft)
    open_ = {p for p, move in draft.moves.items() if not move.quiet and move.receiver is not None}
    claims = {member: partitions - open_ for member, partitions in draft.loads().items()}
    for partition in open_:
        home = draft.slots[partition].last
        if home is not None:
            claims[home] = claims.get(home, set()) | {partition}
    try:
        owners = _by_assignor(draft, seated, claims, _resting(draft) - open_)
    except FAILURES:
        return dict(homeless)
    at_rest = (p for p in draft.slots if p not in open_ and draft.heading(p) in seated)
    if open_ - owners.keys() or any(owners.get(p) != draft.heading(p) for p in at_rest):
        return dict(homeless)
    before = {p: homeless.get(p, draft.heading(p)) for p in open_}
    cost, without = (sum(to[p] != draft.slots[p].last for p in open_) for to in (owners, before))
    return {p: owners[p] for p in open_ if p in homeless or owners[p] != draft.heading(p)} if cost < without else dict(homeless)


def fewest(draft: Draft, new: Collection[Partition]) -> dict[Partition, MemberId]:
    """Receivers for new partitions: the members of the plan that have fewest, whatever the assignor (rule 1)."""
    seated = _seated(draft)
    if not seated:
        return {}
    resting = _resting(draft) - set(new)
    claims = draft.loads()
    owners = ask(draft, place_new, seated, claims, resting)
    owners |= owners_of_exclusive(draft, seated, claims, resting, owners)
    return {partition: owners[partition] for partition in new if partition in owners}


def _by_assignor(
    draft: Draft, members: Sequence[MemberId], claims: Mapping[MemberId, set[Partition]], kept: Collection[Partition]
) -> dict[Partition, MemberId]:
    assert draft.facts is not None and draft.facts.assignor is not None
    owners = ask(draft, get(draft.facts.assignor), members, claims, kept)
    return owners | owners_of_exclusive(draft, members, claims, kept, owners)


def _seated(draft: Draft) -> list[MemberId]:
    return [seat.member for seat in draft.seats if seat.left is None and seat.member in draft.eligible]


def _resting(draft: Draft) -> set[Partition]:
    """What nobody has, what is on its way to nobody, and what those have who are not members any more."""
    return {partition for partition in draft.slots if draft.heading(partition) not in draft.eligible}
