"""The members of a group: pods that are Ready, not stopping, not draining, not fenced off by a newer pod of the same identity,
and no victims. When a member vanishes, is asked to stop, or drops a queue, its slot becomes vacant.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from baton.engine.draft import Draft
from baton.engine.observation import ObservedMember
from baton.engine.results import Fenced, StandsBy
from baton.engine.state import MemberSlot, PodKey, moment
from baton.model.ids import MemberId, Partition
from baton.model.names import LEDGER_GROUP_KEY


def count_members(draft: Draft) -> None:
    """Fill `eligible`, and record the pods that are fenced off and the victims.

    A draining pod still fences off older pods of its identity, and counts towards the size of the fleet.
    """
    live = {
        name: member
        for name, member in draft.observation.members.items()
        if not member.terminating and name != LEDGER_GROUP_KEY  # a pod of that name has no key in the ledger
    }
    _fence_doubles(draft, live)
    draft.victims = () if draft.replicas is None else choose_victims(draft, live, draft.replicas)
    for name, _ in draft.victims:
        live.pop(name)
    draft.eligible = {name: member for name, member in live.items() if not member.draining}


def follow_identities(draft: Draft) -> None:
    """Update the identities of members to those of their pods: the label, or the spec that names the label, may have changed
    (rule 6)."""
    changed = {
        member: seen.instance
        for member, seen in draft.eligible.items()
        if (known := draft.known.get(member)) is not None and known.uid == seen.uid and known.instance != seen.instance
    }
    if not changed:
        return
    for member, instance in changed.items():
        draft.known[member] = replace(draft.known[member], instance=instance)
    draft.member_slots = [
        replace(slot, instance=changed[slot.member]) if slot.vacated is None and slot.member in changed else slot
        for slot in draft.member_slots
    ]


def _fence_doubles(draft: Draft, live: dict[MemberId, ObservedMember]) -> None:
    """Fence off the older of two live pods with one identity (rule 6), and remove it from `live`."""
    draft.fenced = frozenset()
    if draft.spec.session_timeout <= 0:
        return
    newest: dict[str, MemberId] = {}
    fenced: dict[MemberId, MemberId] = {}
    for name in sorted(live, key=lambda name: (live[name].joined, name)):
        instance = live[name].instance
        if instance is None:
            continue
        if instance in newest:
            fenced[newest[instance]] = name
        newest[instance] = name
    for older, newer in fenced.items():
        pod = live.pop(older)
        draft.fenced |= {(older, pod.uid)}
        if (older, pod.uid) not in draft.before.fenced:
            draft.events.append(Fenced(older, f"{newer} joined later with the same identity {pod.instance}"))


# Victims: the pods that a driver removes when the fleet is larger than its desired size (mode Spark)


def choose_victims(draft: Draft, live: Mapping[MemberId, ObservedMember], size: int) -> tuple[PodKey, ...]:
    """Return the pods whose loss costs the fewest moves: first draining pods, then standbys, then those with the fewest
    partitions, then the youngest.

    A victim remains a victim while the fleet is too large. If the desired size grows, the victim chosen last is spared first,
    and draining victims last.
    """
    excess = len(live) - size
    if excess <= 0:
        return ()

    def draining_first(pods: Iterable[PodKey]) -> list[PodKey]:
        return sorted(pods, key=lambda pod: not live[pod[0]].draining)

    chosen = draining_first(pod for pod in draft.victims if pod[0] in live and live[pod[0]].uid == pod[1])[:excess]
    if len(chosen) < excess:
        loads = draft.loads()
        names = {name for name, _ in chosen}
        counts = {name: len(of) for name, of in loads.items()}
        rest = cheapest_first({name: pod for name, pod in live.items() if name not in names}, {*draft.slot_holders()}, counts)
        chosen = draining_first([*chosen, *((name, live[name].uid) for name in rest[: excess - len(chosen)])])
    return tuple(chosen)


def cheapest_first(
    pods: Mapping[MemberId, ObservedMember], holders: Collection[MemberId], counts: Mapping[MemberId, int]
) -> list[MemberId]:
    """Return pods ordered by the cost of losing them. `holders`: pods that do not stand by; `counts`: partitions per pod."""
    youngest = sorted(pods, key=lambda name: (pods[name].joined, name), reverse=True)
    return sorted(youngest, key=lambda name: (not pods[name].draining, name in holders, counts.get(name, 0)))


# Departures


RELEASING = 5.0
"""Seconds of its grace period that a consumer keeps for releasing partitions."""


def notice_departures(draft: Draft) -> None:
    """Vacate the slots of members that left. A member that vanished has released its partitions; one that is stopping, or may
    still work, keeps them (rules 1, 5, 7)."""
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
    """Have static members that are asked to stop release at once, because their slots are reserved for them (rule 7)."""
    for slot in draft.member_slots:
        if slot.expires is not None and slot.vacated and draft.present(slot.member, slot.uid):
            for partition in sorted(slot.vacated):
                if draft.records[partition].owner == slot.member and draft.at_rest(partition):
                    draft.hand_off(partition, None, f"{slot.member} is stopping and keeps its slot")
                    draft.new_generation()


def release_ending(draft: Draft) -> None:
    """Have a pod that would be killed before the holddown ends release while it still can (rule 7). Its slot stays vacant."""
    for member, at in release_times(draft).items():
        for partition in sorted(draft.owned[member]) if draft.now >= at else ():
            if draft.at_rest(partition):
                draft.hand_off(partition, None, f"the grace period of {member} ends")
                draft.new_generation()


def release_times(draft: Draft) -> dict[MemberId, float]:
    """Return when terminating members have to release the partitions that no hand-off takes from them.

    That is maxHandoffSeconds before they release by themselves, or the end of the holddown if it ends before they do.
    """
    times: dict[MemberId, float] = {}
    for member in sorted(draft.owned):
        seen = draft.observation.members.get(member)
        rests = [partition for partition in draft.owned[member] if draft.at_rest(partition)]
        if seen is None or seen.ends is None or not rests or not draft.present(member, draft.known[member].uid):
            continue
        last = seen.ends - RELEASING
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
    """Handle a pod that takes no part, but whose process may still work (rule 5).

    The pod loses the partitions of queues that fence, as if it had vanished. It keeps the others until it releases them or ends.
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
    """Take the partitions of dropped queues from a member. They wait in a separate vacant slot (rule 1)."""
    reads = draft.subscribed(member)
    dropped = sorted(partition for partition in draft.owned[member] if partition.queue not in reads)
    if not dropped:
        return
    left = frozenset(partition for partition in dropped if draft.stays_put(partition))
    for partition in dropped:
        if draft.queue(partition).fenced:
            draft.owner_is_gone(partition)
        elif partition in left:
            # an External queue cannot fence, so the partition waits for the member's release
            draft.hand_off(partition, None, f"{member} does not read {partition.queue} any more")
            draft.new_generation()
    at = next((n for n, slot in enumerate(draft.member_slots) if slot.member == member), len(draft.member_slots) - 1)
    draft.member_slots[at + 1 : at + 1] = _split(draft, MemberSlot(member, draft.known[member].uid, vacated=left))


def _kept(draft: Draft, member: MemberId) -> frozenset[Partition]:
    """Return the member's partitions that no hand-off, running or planned, takes from it."""
    return frozenset(partition for partition in draft.owned[member] if draft.stays_put(partition))


def _vacate(draft: Draft, member: MemberId, *kept: frozenset[Partition], vanished: bool) -> None:
    """Make the member's slot vacant. Each set of `kept` partitions waits in a separate slot.

    `vanished`: the session timeout of a static member counts from now, and not from when the member was asked to stop.
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
    """Split a vacant slot: a reserved one for a static member, and one with its exclusive queues for any member.

    A slot without partitions is dropped. No slot is reserved for a draining member, which has not left (rule 7).
    """
    assert slot.vacated is not None
    length = draft.spec.session_timeout
    if slot.instance is None or length <= 0 or draft.draining(slot.member, slot.uid):
        return [slot] if slot.vacated else []
    exclusive = frozenset(p for p in slot.vacated if draft.queues[p.queue].exclusive)
    waiting = replace(slot, vacated=slot.vacated - exclusive, expires=moment(draft.now + length), length=length)
    return [part for part in (waiting, replace(slot, vacated=exclusive)) if part.vacated]


# The members' keys in the ledger, and the standbys


def update_member_keys(draft: Draft) -> None:
    """Set the generation of keys whose assignment changed. A member without partitions becomes a standby, with one event."""
    incoming = {move.receiver for move in draft.moves.values()} | set(draft.waiting.values())
    slots = {slot.member for slot in draft.member_slots}
    for member in sorted(draft.known):
        known = draft.known[member]
        has = bool(draft.owned[member]) or member in incoming
        waits = member in slots and draft.present(member, known.uid)  # stopping or draining, and its slot is not taken yet
        if not has and member not in draft.eligible and not waits:
            del draft.known[member]
            continue
        if not has and member in draft.eligible and member not in slots and member not in draft.standbys:
            del draft.known[member]  # a newcomer has no part in the assignment yet
            continue
        was = draft.before.known.get(member)
        if member in draft.changed_members or has != known.active:
            draft.known[member] = replace(known, active=has, generation=draft.generation)
        if not has and member in draft.eligible and (was is None or was.active or was.uid != known.uid):
            draft.events.append(StandsBy(member))
            if member not in draft.standbys:
                draft.standbys.append(member)
        elif has and member in draft.standbys:
            draft.standbys.remove(member)
