"""The holddown: a fixed time after the first trigger, in which the fleet comes to rest (rule 1, Solace)."""

from collections.abc import Iterator
from dataclasses import replace

from baton.engine.assignor import traits
from baton.engine.assignor_inputs import left_out
from baton.engine.draft import Draft
from baton.engine.evenness import even, within_one
from baton.engine.exclusive import several_active
from baton.engine.handoff import waits_for_giver
from baton.engine.member_slots import make_standbys, members_without_slot, newcomers, slot_holders, vacant_slots
from baton.engine.state import MemberSlot
from baton.model.ids import Partition
from baton.model.wording import first_of


def update_holddown(draft: Draft) -> None:
    """Start a holddown if there is a reason, and end it if no reason is left."""
    empty, new = vacant_slots(draft), newcomers(draft)
    if empty or new:
        draft.trigger(_why(draft), pinned=False)
    holders = slot_holders(draft)
    reads = {queue for member in holders for queue in draft.subscribed(member)}
    resting = draft.vacated()
    if any(partition.queue in reads and partition not in resting for partition in unserved(draft)):
        draft.trigger("partitions have no owner")
    if any(partition not in resting for partition in _stranded(draft)):
        draft.trigger("partitions are left with who is stopping")
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
        draft.trigger(f"more than one member is active on {', '.join(shared)}")  # whatever the cause (rule 8)
    if draft.holddown is None:
        make_standbys(draft, members_without_slot(draft))


def due(draft: Draft) -> bool:
    """A plan is due: the holddown is over, or a plan needs none."""
    if draft.holddown is None or draft.problem is not None:
        return False
    over = draft.now >= draft.holddown.until or (draft.holddown.rest and not _part_runs(draft))
    return over or draft.plan_now is not None


def _part_runs(draft: Draft) -> bool:
    """Hand-offs of the last part of a plan have not ended. Givers that missed their deadline do not count."""
    return bool(draft.waiting) or any(
        not move.quiet and not (move.missed and waits_for_giver(move)) for move in draft.moves.values()
    )


def unserved(draft: Draft) -> set[Partition]:
    """Unassigned partitions that the assignor in use would give to a member."""
    unassigned = draft.unassigned()
    return set(unassigned) - left_out(draft, unassigned) if unassigned else set()


def _stranded(draft: Draft) -> Iterator[Partition]:
    """Partitions of owners that are no members any more, without a hand-off that runs or is planned."""
    leaving = [partitions for owner, partitions in draft.owned.items() if owner not in draft.eligible]
    return (partition for partitions in leaving for partition in partitions if draft.stays_put(partition))


def _why(draft: Draft) -> str:
    words = [f"{slot.member} {_how(draft, slot)}" for slot in vacant_slots(draft)]
    words += [f"{member} joined" for member in newcomers(draft)]
    return first_of(words, 3)


def _how(draft: Draft, slot: MemberSlot) -> str:
    if slot.member in draft.eligible and slot.uid == draft.eligible[slot.member].uid:
        queues = {partition.queue for partition in slot.vacated or ()}
        return f"does not read {', '.join(sorted(queues))} any more"
    if (slot.member, slot.uid) in draft.victims:
        return "is to be scaled away"
    if draft.draining(slot.member, slot.uid):
        return "is drained"
    return "is stopping" if slot.member in draft.known else "vacated"
