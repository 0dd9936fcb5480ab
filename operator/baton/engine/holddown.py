"""The holddown: a fixed time after the first trigger, in which further changes join it (rule 1, Solace).

Also the triggers that come from the group's facts (all others come from members and partitions), and the conditions for a group
to be at rest, balanced and settled.
"""

from collections.abc import Iterator
from dataclasses import replace

from baton.engine.balance import even, evenly_spread, within_one
from baton.engine.draft import Draft
from baton.engine.handoff import waits_for_giver
from baton.engine.member_slots import make_standbys, members_without_slot, newcomers, vacant_slots
from baton.engine.placement import assignor_in_use, fingerprint, left_out, several_active, traits
from baton.engine.state import Facts, KnownQueue, MemberSlot
from baton.model.ids import MemberId, Partition
from baton.model.wording import counted, first_of

# Triggers besides members and partitions


def follow_facts(draft: Draft) -> None:
    """Start a holddown for each difference, and record the facts. Differences wait while the group is paused or held back."""
    spec, before = draft.spec, draft.facts
    assignor = assignor_in_use(draft)
    if before is not None and (assignor is None or not draft.eligible):
        assignor = before.assignor or assignor
    known = all(queue.zones_known for queue in draft.observation.queues.values())
    inputs = fingerprint(draft.observation) if known or before is None else before.inputs
    if before is None:
        draft.facts = Facts(assignor, spec.protocol, spec.paused, draft.observation.request, draft.observation.approved, inputs)
        return
    if spec.paused or draft.observation.held_back:
        draft.facts = replace(before, paused=before.paused or spec.paused)
        return
    draft.facts = Facts(assignor, spec.protocol, False, draft.observation.request, before.answered, inputs)
    if before.paused:
        draft.plan_now = "a pause ended"
    if not draft.slot_holders():
        return  # no member holds a slot yet: the first to join starts the holddown
    if before.assignor is not None and assignor != before.assignor:
        draft.trigger(f"the assignor is {assignor} instead of {before.assignor}")
    if inputs != before.inputs:
        draft.trigger("the assignor's options, or zones or weights of partitions, changed")
    if spec.protocol != before.protocol:
        draft.trigger(f"the protocol is {spec.protocol} instead of {before.protocol}")
    if draft.observation.request not in (None, before.request):
        draft.trigger("a rebalance was requested")


def follow_subscriptions(draft: Draft) -> None:
    """A member that reads more queues than before is a trigger, unless a vacant slot has its partitions of them."""
    for member, known in sorted(draft.known.items()):
        seen = draft.eligible.get(member)
        if seen is None or seen.subscribed == known.subscribed:
            continue
        queues = frozenset(draft.queues)
        more = draft.subscribed(member) - (queues if known.subscribed is None else known.subscribed)
        left = {
            partition.queue for slot in draft.member_slots if slot.member == member and slot.vacated for partition in slot.vacated
        }
        draft.known[member] = replace(known, subscribed=seen.subscribed)
        if more - left:
            draft.trigger(f"{member} also reads {', '.join(sorted(more))}")


def follow_capacities(draft: Draft) -> None:
    """A member with another capacity than before is a trigger."""
    for member, known in sorted(draft.known.items()):
        seen = draft.eligible.get(member)
        if seen is not None and seen.capacity != known.capacity:
            draft.known[member] = replace(known, capacity=seen.capacity)
            draft.trigger(f"{member} has capacity {seen.capacity} instead of {known.capacity}")


# The holddown


def update_holddown(draft: Draft) -> None:
    """Start a holddown if there is a reason, and end it if no reason is left."""
    empty, new = vacant_slots(draft), newcomers(draft)
    if empty or new:
        draft.trigger(why_changed(draft), pinned=False)
    holders = draft.slot_holders()
    reads = {queue for member in holders for queue in draft.subscribed(member)}
    resting = draft.vacated()
    if any(partition.queue in reads and partition not in resting for partition in unserved(draft)):
        draft.trigger("partitions have no owner")
    if any(partition not in resting for partition in _stranded(draft)):
        draft.trigger("stopping pods still own partitions")
    balances = traits(draft).balances
    if draft.unsettled and not (even if balances else within_one)(draft, holders):
        draft.trigger("members are not within one partition of each other")
    if draft.holddown is not None and not draft.holddown.pinned and not empty and not new:
        # All slots are taken and no member is without one. The holddown goes on only to end an imbalance (rule 2).
        if balances and not even(draft, holders):
            draft.holddown = replace(draft.holddown, pinned=True)
        else:
            draft.holddown = None
    if draft.proposal is None and (shared := several_active(draft, holders)):
        draft.trigger(f"more than one member is active on {', '.join(shared)}")  # for any cause (rule 8)
    if draft.holddown is None:
        make_standbys(draft, members_without_slot(draft))


def due(draft: Draft) -> bool:
    """True if a plan is due: the holddown is over, or the plan needs no holddown."""
    if draft.holddown is None or draft.problem is not None:
        return False
    over = draft.now >= draft.holddown.until or (draft.holddown.rest and not _part_runs(draft))
    return over or draft.plan_now is not None


def _part_runs(draft: Draft) -> bool:
    """True if hand-offs of the last part of a plan have not ended. Givers that missed their deadline do not count."""
    return bool(draft.waiting) or any(
        not move.quiet and not (move.missed and waits_for_giver(move)) for move in draft.moves.values()
    )


def unserved(draft: Draft) -> set[Partition]:
    """Return the unassigned partitions that the assignor in use would give to a member."""
    unassigned = draft.unassigned()
    return set(unassigned) - left_out(draft, unassigned) if unassigned else set()


def _stranded(draft: Draft) -> Iterator[Partition]:
    """Return the partitions of owners that are no longer members, if no hand-off of them runs or is planned."""
    leaving = [partitions for owner, partitions in draft.owned.items() if owner not in draft.eligible]
    return (partition for partitions in leaving for partition in partitions if draft.stays_put(partition))


MOST_REASONS = 10


def reasons(draft: Draft) -> dict[Partition | MemberId, str]:
    """Return why partitions leave vacant slots (by partition), and why newcomers get partitions (by member).

    Empty if more than MOST_REASONS pods came and went, because the ledger stores the reason of each hand-off.
    """
    left = {partition: f"{slot.member} {_how(draft, slot)}" for slot in vacant_slots(draft) for partition in slot.vacated or ()}
    found = left | {member: f"{member} joined" for member in newcomers(draft)}
    return found if len(set(found.values())) <= MOST_REASONS else {}


def why_changed(draft: Draft, first: str = "") -> str:
    """Return the pods that came and went so far: `a and 2 others joined, b is stopping`.

    `first`: what started the holddown. It is returned unchanged if it was not a pod that came or went.
    """
    changed = [(slot.member, _how(draft, slot)) for slot in vacant_slots(draft)]
    changed += [(member, "joined") for member in newcomers(draft)]
    if first and not any(first.startswith(f"{member} ") for member, _ in changed):
        return first
    by_how: dict[str, list[MemberId]] = {}
    for member, how in sorted(dict(changed).items(), key=lambda one: not first.startswith(f"{one[0]} ")):
        by_how.setdefault(how, []).append(member)
    return first_of([_together(members, how) for how, members in by_how.items()], 3)


def _together(members: list[MemberId], how: str) -> str:
    others = len(members) - 1
    if not others:
        return f"{members[0]} {how}"
    for one, many in (("is ", "are "), ("does ", "do ")):
        how = f"{many}{how.removeprefix(one)}" if how.startswith(one) else how
    return f"{members[0]} and {counted(others, 'other')} {how}"


def _how(draft: Draft, slot: MemberSlot) -> str:
    if slot.member in draft.eligible and slot.uid == draft.eligible[slot.member].uid:
        queues = {partition.queue for partition in slot.vacated or ()}
        return f"does not read {', '.join(sorted(queues))} any more"
    if (slot.member, slot.uid) in draft.victims:
        return "is chosen for scale-down"
    if draft.draining(slot.member, slot.uid):
        return "is drained"
    return "is stopping" if slot.member in draft.known else "vacated"


# At rest, balanced, settled


def at_rest(draft: Draft) -> bool:
    """True if no hand-off runs or is planned or proposed, no holddown runs, and no slot is vacant."""
    under_way = draft.holddown is not None or draft.waiting or draft.proposal is not None
    return (
        not under_way
        and all(move.quiet for move in draft.moves.values())
        and all(slot.vacated is None for slot in draft.member_slots)
    )


def balanced(draft: Draft) -> bool:
    """True if the group is at rest, and its members own the partitions as the assignor in use would plan it.

    Members and partitions that were added during a pause count too, so they make the group unbalanced.
    """
    return (
        bool(draft.queues)
        and _follows_queues(draft)
        and at_rest(draft)
        and evenly_spread(draft, draft.slot_holders())
        and not unserved(draft)
        and not newcomers(draft)
    )


def settled(draft: Draft) -> bool:
    """True if the group is balanced, each owner is a member that its queue has recorded, and the engine is free to act.

    A group without queues or without members is not settled.
    """
    free_to_act = not draft.spec.paused and not draft.observation.held_back and draft.problem is None
    served = all(owner in draft.eligible for owner, partitions in draft.owned.items() if partitions)
    return free_to_act and bool(draft.eligible) and not draft.moves and served and balanced(draft)


def _follows_queues(draft: Draft) -> bool:
    """True if the group has taken in all changes of its queues. A pause, or a ledger without room, delays them."""
    seen = draft.observation.queues
    known = {queue: KnownQueue(one.partitions, one.exclusive) for queue, one in seen.items()}
    return known == {queue: one._replace(incarnation=None) for queue, one in draft.queues.items()}
