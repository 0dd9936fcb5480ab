"""Members that left: they vanished, were asked to stop, or dropped a queue. Their slots become vacant."""

from dataclasses import replace

from baton.engine.draft import Draft
from baton.engine.state import MemberSlot, moment
from baton.model.ids import MemberId, Partition

LETTING_GO = 5.0
"""Seconds of its grace period that a consumer keeps for letting go."""


def notice_departures(draft: Draft) -> None:
    """A member that vanished has released its partitions. One that is stopping, or may still work, keeps them (rules 1, 5, 7)."""
    for member in sorted(draft.known):
        known = draft.known[member]
        if draft.present(member, known.uid):
            if member in draft.eligible:
                _unsubscribe(draft, member)
            else:
                _leave(draft, member)
        elif draft.may_still_work(member, known.uid):
            _step_aside(draft, member)
        else:
            _vanish(draft, member)


def release_stopping_static(draft: Draft) -> None:
    """A static member that is asked to stop releases at once, because its slot is reserved for its return (rule 7)."""
    for slot in draft.member_slots:
        if slot.expires is not None and slot.vacated and draft.present(slot.member, slot.uid):
            for partition in sorted(slot.vacated):
                if draft.records[partition].owner == slot.member and draft.at_rest(partition):
                    draft.hand_off(partition, None, f"{slot.member} is stopping and keeps its slot")
                    draft.new_generation()


def release_ending(draft: Draft) -> None:
    """A pod that would be killed before the holddown ends releases while it still can (rule 7). Its slot stays vacant."""
    for member, at in release_times(draft).items():
        for partition in sorted(draft.owned[member]) if draft.now >= at else ():
            if draft.at_rest(partition):
                draft.hand_off(partition, None, f"the grace period of {member} ends")
                draft.new_generation()


def release_times(draft: Draft) -> dict[MemberId, float]:
    """When terminating members release what no hand-off takes from them: maxHandoffSeconds before they let go of it by
    themselves, or after a holddown that ends before that."""
    times: dict[MemberId, float] = {}
    for member in sorted(draft.owned):
        seen = draft.observation.members.get(member)
        rests = [partition for partition in draft.owned[member] if draft.at_rest(partition)]
        if seen is None or seen.ends is None or not rests or not draft.present(member, draft.known[member].uid):
            continue
        last = seen.ends - LETTING_GO
        held = draft.holddown
        if held is not None and not held.rest and draft.now < held.until <= last:
            times[member] = held.until
        else:
            times[member] = last - max(draft.queue(partition).max_handoff for partition in rests)
    return times


def _vanish(draft: Draft, member: MemberId) -> None:
    kept = _kept(draft, member)
    for partition in sorted(draft.owned[member]):
        draft.owner_is_gone(partition)
    _vacate(draft, member, kept, vanished=True)
    del draft.known[member]
    draft.changed_members.add(member)


def _step_aside(draft: Draft, member: MemberId) -> None:
    """The pod takes no part, but its process may still work (rule 5).

    It loses the partitions of queues that fence, as if it had vanished. It keeps the others until it releases them or ends.
    """
    fenced = frozenset(partition for partition in draft.owned[member] if draft.queue(partition).fenced)
    if fenced == draft.owned[member]:
        _vanish(draft, member)
        return
    kept = _kept(draft, member)
    for partition in sorted(fenced):
        draft.owner_is_gone(partition)
    _vacate(draft, member, kept & fenced, kept - fenced, vanished=False)


def _leave(draft: Draft, member: MemberId) -> None:
    _vacate(draft, member, _kept(draft, member), vanished=False)


def _unsubscribe(draft: Draft, member: MemberId) -> None:
    """A member that drops a queue leaves it: its partitions of the queue wait in a vacant slot of their own (rule 1)."""
    reads = draft.subscribed(member)
    dropped = sorted(partition for partition in draft.owned[member] if partition.queue not in reads)
    if not dropped:
        return
    left = frozenset(partition for partition in dropped if draft.stays_put(partition))
    for partition in dropped:
        if draft.queue(partition).fenced:
            draft.owner_is_gone(partition)
        elif partition in left:
            # An External queue cannot fence, so the partition waits for the member's release.
            draft.hand_off(partition, None, f"{member} does not read {partition.queue} any more")
            draft.new_generation()
    at = next((n for n, slot in enumerate(draft.member_slots) if slot.member == member), len(draft.member_slots) - 1)
    draft.member_slots[at + 1 : at + 1] = _split(draft, MemberSlot(member, draft.known[member].uid, vacated=left))


def _kept(draft: Draft, member: MemberId) -> frozenset[Partition]:
    """The member's partitions that no hand-off, running or planned, takes from it."""
    return frozenset(partition for partition in draft.owned[member] if draft.stays_put(partition))


def _vacate(draft: Draft, member: MemberId, *kept: frozenset[Partition], vanished: bool) -> None:
    """Make the member's slot vacant. Each set of `kept` partitions waits in a slot of its own.

    `vanished`: the session timeout of a static member counts from now, and not from when it was asked to stop.
    """
    if member in draft.standbys:
        draft.standbys.remove(member)
    slots: list[MemberSlot] = []
    for slot in draft.member_slots:
        if slot.member != member or slot.uid != draft.known[member].uid:
            slots.append(slot)
        elif slot.vacated is None:
            for part in kept:
                slots += _split(draft, replace(slot, vacated=part))
        elif vanished and slot.expires is not None:
            slots.append(replace(slot, expires=moment(draft.now + slot.length)))
        else:
            slots.append(slot)
    draft.member_slots = slots


def _split(draft: Draft, slot: MemberSlot) -> list[MemberSlot]:
    """The vacant slots that one slot becomes: a reserved one for a static member, and one with its exclusive queues for anybody.

    A slot without partitions is dropped. A member that drains is not waited for: it is there, and is to own nothing (rule 7).
    """
    assert slot.vacated is not None
    length = draft.spec.session_timeout
    if slot.instance is None or length <= 0 or draft.draining(slot.member, slot.uid):
        return [slot] if slot.vacated else []
    exclusive = frozenset(p for p in slot.vacated if draft.queues[p.queue].exclusive)
    waiting = replace(slot, vacated=slot.vacated - exclusive, expires=moment(draft.now + length), length=length)
    return [part for part in (waiting, replace(slot, vacated=exclusive)) if part.vacated]
