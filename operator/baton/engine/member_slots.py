"""Member slots: each member of the last plan holds one. A member that takes a vacant slot gets its partitions (rule 1)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from baton.engine.draft import Draft
from baton.engine.placement import active_members, traits
from baton.engine.state import MemberSlot, moment
from baton.model.ids import MemberId, QueueName


def give_to_active_member(draft: Draft) -> None:
    """Give vacant partitions of an exclusive queue to its active member, and not to a member that takes the slot (rule 8)."""
    if not any(draft.queues[partition.queue].exclusive for slot in _free_slots(draft) for partition in slot.vacated or ()):
        return
    active = active_members(draft, draft.slot_holders() + draft.standbys)
    for slot in _free_slots(draft):
        given = {p: active[p.queue] for p in sorted(slot.vacated or ()) if p.queue in active}
        for partition, member in given.items():
            draft.hand_off(partition, member, f"{member} is active on {partition.queue}")
            draft.new_generation()
        if given:
            at, rest = draft.member_slots.index(slot), (slot.vacated or frozenset()) - given.keys()
            without_slot = sorted(set(given.values()) - set(draft.slot_holders()))
            draft.member_slots[at : at + 1] = [draft.new_slot(m) for m in without_slot] + (
                [replace(slot, vacated=rest)] if rest else []
            )
            draft.standbys = [member for member in draft.standbys if member not in without_slot]


def fill_with_standbys(draft: Draft) -> None:
    """Give vacant slots to standbys, longest waiting first."""
    for standby in _longest_waiting(draft) if _free_slots(draft) else ():
        if draft.may_begin():
            _take_one(draft, standby, "stood by")


def fill_with_newcomers(draft: Draft) -> None:
    """Give vacant slots to newcomers, if there are no more newcomers than slots."""
    candidates = newcomers(draft)
    if len(candidates) <= len(_free_slots(draft)):
        for member in candidates:
            if draft.may_begin():
                _take_one(draft, member, "joined")


def vacant_slots(draft: Draft) -> list[MemberSlot]:
    """Return the slots that any member may take, which excludes reserved slots."""
    return [slot for slot in draft.member_slots if slot.vacated is not None and slot.expires is None]


def _free_slots(draft: Draft) -> list[MemberSlot]:
    """Return the vacant slots that may be taken at once.

    A pod that left may still work on partitions that no queue can fence. Its slot then waits for the end of the holddown.
    """
    away = draft.observation.away
    return [
        slot
        for slot in vacant_slots(draft)
        if away.get(slot.member) != slot.uid or not draft.owned.get(slot.member, set()) & (slot.vacated or frozenset())
    ]


def members_without_slot(draft: Draft) -> list[MemberId]:
    """Return the members that neither have a slot nor stand by, ordered by joining, then name."""
    placed = {*draft.slot_holders(), *draft.standbys}
    return sorted((m for m in draft.eligible if m not in placed), key=lambda m: (draft.eligible[m].joined, m))


def newcomers(draft: Draft) -> list[MemberId]:
    """Return the members without a slot that could own a partition."""
    candidates = members_without_slot(draft)
    if not candidates:
        return []
    limit = MemberLimit(draft)
    for member in draft.slot_holders():
        limit.add(member)
    return [member for member in candidates if limit.add_if_room(member)]


def _longest_waiting(draft: Draft) -> list[MemberId]:
    """Return the standbys, longest waiting first, and then members that hold a slot without partitions."""
    loads = draft.loads()
    holders = draft.slot_holders()
    idle = [member for member in holders if not loads.get(member)]
    waiting = [member for member in draft.standbys if member in idle or member not in holders]
    return waiting + [member for member in idle if member not in waiting]


def make_standbys(draft: Draft, members: Iterable[MemberId]) -> None:
    """Make these members, which have no slot, standbys, and give each its key in the ledger."""
    for member in members:
        draft.add_member(member)
        draft.standbys.append(member)


def expire_reserved_slots(draft: Draft) -> None:
    """Open reserved slots whose static member did not return in time to any member, and make a plan due (rule 6).

    If other members left meanwhile, that plan would cut their holddown short, so the slot stays reserved until it ends.
    """
    held = draft.holddown
    runs = held is not None and not held.rest and held.until > draft.now
    others = runs and draft.plan_now is None and bool(vacant_slots(draft))
    for n, slot in enumerate(draft.member_slots):
        if slot.expires is None:
            continue
        over = draft.now >= slot.expires
        if over and others and held is not None:
            length = max(slot.length, moment(held.until - draft.now))
            draft.member_slots[n] = replace(slot, expires=held.until, length=length, late=True)
        elif over or (slot.late and not others):
            draft.member_slots[n] = replace(slot, expires=None)
            draft.plan_now = f"{slot.member} did not come back in time"


def return_members(draft: Draft) -> None:
    """Give returning pods the slots of their members, found by UID, name or static identity.

    A member may have several slots: a reserved one, one of exclusive queues, and one of queues that cannot fence.
    """
    empty = [slot for slot in draft.member_slots if slot.vacated is not None]
    if not empty:
        return
    uids = {seen.uid: member for member, seen in draft.eligible.items()}
    static = draft.eligible.items() if draft.spec.session_timeout > 0 else ()
    identities = {seen.instance: member for member, seen in static if seen.instance is not None}
    for slot in empty:
        owner = uids.get(slot.uid) or (identities.get(slot.instance) if slot.instance is not None else None)
        member = slot.member if slot.member in draft.eligible else owner
        if member is None or slot.vacated is None:
            continue
        reads = draft.subscribed(member)
        mine = frozenset(p for p in slot.vacated if p.queue in reads)
        if not mine:
            continue
        part = slot if mine == slot.vacated else replace(slot, vacated=mine)
        if part is not slot:
            at = draft.member_slots.index(slot)
            draft.member_slots[at : at + 1] = [part, replace(slot, vacated=slot.vacated - mine, expires=None)]
        _take(draft, part, member, f"{member} is back")


def _same_identity(draft: Draft, slot: MemberSlot, member: MemberId) -> bool:
    """True if the member is the static member of this slot."""
    return draft.spec.session_timeout > 0 and slot.instance is not None and draft.eligible[member].instance == slot.instance


def _take_one(draft: Draft, member: MemberId, how: str) -> None:
    reads = draft.subscribed(member)
    for slot in _free_slots(draft):
        if slot.vacated is not None and all(partition.queue in reads for partition in slot.vacated):
            _take(draft, slot, member, f"{member} {how} and takes the slot of {slot.member}")
            return


def _take(draft: Draft, slot: MemberSlot, member: MemberId, why: str) -> None:
    assert slot.vacated is not None
    for partition in sorted(slot.vacated):
        record = draft.records[partition]
        if draft.planned_owner(partition) == member:
            continue  # a victim that stays after all still owns the partition
        if record.owner is None and _same_identity(draft, slot, member):
            draft.records[partition] = record._replace(last=member)  # the same static member under another name
        draft.hand_off(partition, member, why)
        draft.new_generation()
    at = draft.member_slots.index(slot)
    draft.member_slots[at : at + 1] = [] if member in draft.slot_holders() else [draft.new_slot(member)]
    if member in draft.standbys:
        draft.standbys.remove(member)
    # The others may have been balanced without this slot, and an old imbalance must not last (rule 2). Partition counts show an
    # imbalance only under an assignor that balances.
    if traits(draft).balances:
        draft.unsettled = True
    elif slot.overtaken:
        draft.trigger(f"other members were given partitions while {slot.member} was away")


def mark_overtaken(draft: Draft) -> None:
    """Mark all vacant slots: while they are vacant, other members are given partitions, or get none."""
    draft.member_slots = [slot if slot.vacated is None else replace(slot, overtaken=True) for slot in draft.member_slots]


def end_reservations(draft: Draft, queue: QueueName) -> None:
    """Move the partitions of a queue that became exclusive from reserved slots to slots that any member may take (rule 6)."""
    slots: list[MemberSlot] = []
    for slot in draft.member_slots:
        left = frozenset(partition for partition in slot.vacated or () if partition.queue == queue)
        if slot.vacated is None or slot.expires is None or not left:
            slots.append(slot)
            continue
        if slot.vacated != left:
            slots.append(replace(slot, vacated=slot.vacated - left))
        slots.append(replace(slot, vacated=left, expires=None))
    draft.member_slots = slots


def promote_standbys(draft: Draft) -> None:
    """Make standbys newcomers if they can now own a partition, because a queue or the desired size grew."""
    if not draft.standbys:
        return
    limit = MemberLimit(draft, vacant_too=True)
    for member in draft.slot_holders():
        limit.add(member)
    for member in members_without_slot(draft):
        limit.add_if_room(member)
    holders = set(draft.slot_holders())
    draft.standbys = [member for member in draft.standbys if member in holders or not limit.add_if_room(member)]


# The most members that can own a partition; the others stand by


Reads = frozenset[QueueName]


class MemberLimit:
    """Counts members one by one, as long as each can own a partition of a queue that it reads.

    An exclusive queue has room for one member, any other queue for as many as it has partitions. If subscriptions differ, a
    member that can also own a partition of another queue does not exclude a member that cannot.

    If the desired size is known, pods above it have no room until an older pod leaves (rule 7).
    """

    def __init__(self, draft: Draft, *, vacant_too: bool = False) -> None:
        """Reserved slots count as taken; other vacant slots count as taken only if `vacant_too`."""
        self._draft = draft
        self._free = {
            queue: min(facts.partitions, 1) if facts.exclusive else facts.partitions for queue, facts in draft.queues.items()
        }
        self._inside: dict[QueueName, Counter[Reads]] = {queue: Counter() for queue in draft.queues}
        # in mode Spark the driver removes the victims, so the size needs no limit here
        self._size = draft.spec.replicas if draft.replicas is None else None
        self._members = 0
        for slot in draft.member_slots:
            if slot.vacated is not None and (vacant_too or slot.expires is not None):
                self._fit(frozenset(partition.queue for partition in slot.vacated))

    def add(self, member: MemberId) -> None:
        """Count a member that has a slot, whether or not there is a partition for it."""
        self._fit(self._draft.subscribed(member))
        self._members += 1

    def add_if_room(self, member: MemberId) -> bool:
        """Count a member and return True if there is a partition for it and the desired size allows it."""
        if self._size is not None and self._members >= self._size:
            return False
        if not self._fit(self._draft.subscribed(member)):
            return False
        self._members += 1
        return True

    def _fit(self, reads: Reads) -> bool:
        """Find a partition for a member with these queues.

        If all its queues are full, members that fit elsewhere are moved to their other queues (an augmenting path).
        """
        reached: dict[QueueName, tuple[QueueName, Reads] | None] = dict.fromkeys(sorted(reads), None)
        todo = list(reached)
        while todo:
            queue = todo.pop(0)
            if self._free[queue]:
                self._free[queue] -= 1
                while (step := reached[queue]) is not None:
                    before, others = step
                    self._inside[before][others] -= 1
                    self._inside[queue][others] += 1
                    queue = before
                self._inside[queue][reads] += 1
                return True
            for others, count in sorted(self._inside[queue].items(), key=lambda item: sorted(item[0])):
                for further in sorted(others - reached.keys()) if count else ():
                    reached[further] = (queue, others)
                    todo.append(further)
        return False
