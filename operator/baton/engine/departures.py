"""Members that went: vanished, asked to stop, or no longer subscribed. Their seats become vacant."""

from dataclasses import replace

from baton.engine.draft import Draft
from baton.engine.state import Seat, moment
from baton.model.ids import MemberId, Partition


def notice_departures(draft: Draft) -> None:
    """Rules 1, 5 and 7: who vanished has released all it had; who was asked to stop, or may still work, keeps it for now."""
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
    """A static member that is asked to stop releases at once: its seat waits for it, not for a receiver (rule 7)."""
    for seat in draft.seats:
        if seat.expires is not None and seat.left and draft.present(seat.member, seat.uid):
            for partition in sorted(seat.left):
                if draft.slots[partition].owner == seat.member and draft.settled(partition):
                    draft.aim(partition, None, f"{seat.member} is stopping and keeps its seat")
                    draft.new_generation()


def _vanish(draft: Draft, member: MemberId) -> None:
    kept = _kept(draft, member)
    for partition in sorted(draft.owned[member]):
        draft.gone(partition)
    _vacate(draft, member, kept, vanished=True)
    del draft.known[member]
    draft.touched.add(member)


def _step_aside(draft: Draft, member: MemberId) -> None:
    """It takes no part, and its process may work on. A queue refuses it what is granted to somebody else; where nothing fences,
    it keeps what it has until it lets go or is gone, and nobody is in a hurry to take it (rule 5)."""
    fenced = frozenset(partition for partition in draft.owned[member] if draft.queue(partition).fenced)
    if fenced == draft.owned[member]:
        _vanish(draft, member)
        return
    kept = _kept(draft, member)
    for partition in sorted(fenced):
        draft.gone(partition)
    _vacate(draft, member, kept & fenced, kept - fenced, vanished=False)


def _leave(draft: Draft, member: MemberId) -> None:
    _vacate(draft, member, _kept(draft, member), vanished=False)


def _unsubscribe(draft: Draft, member: MemberId) -> None:
    """Dropping a queue is leaving, for that queue: what it had there waits in a seat of its own."""
    reads = draft.subscribed(member)
    dropped = sorted(partition for partition in draft.owned[member] if partition.queue not in reads)
    if not dropped:
        return
    left = frozenset(partition for partition in dropped if draft.stays(partition))
    for partition in dropped:
        if draft.queue(partition).fenced:
            draft.gone(partition)
        elif partition in left:
            # Nothing keeps it from going on there but its own word (External): so the partition waits for that.
            draft.aim(partition, None, f"{member} does not read {partition.queue} any more")
            draft.new_generation()
    at = next((n for n, seat in enumerate(draft.seats) if seat.member == member), len(draft.seats) - 1)
    draft.seats[at + 1 : at + 1] = _split(draft, Seat(member, draft.known[member].uid, left=left))


def _kept(draft: Draft, member: MemberId) -> frozenset[Partition]:
    """What it has and neither gives away already nor is to give away."""
    return frozenset(partition for partition in draft.owned[member] if draft.stays(partition))


def _vacate(draft: Draft, member: MemberId, *kept: frozenset[Partition], vanished: bool) -> None:
    """Each part of what is kept waits in a seat of its own."""
    if member in draft.standbys:
        draft.standbys.remove(member)
    seats: list[Seat] = []
    for seat in draft.seats:
        if seat.member != member or seat.uid != draft.known[member].uid:
            seats.append(seat)
        elif seat.left is None:
            for part in kept:
                seats += _split(draft, replace(seat, left=part))
        elif vanished and seat.expires is not None:
            # A static member's term counts from when it vanished, not from when it was asked to stop.
            seats.append(replace(seat, expires=moment(draft.now + seat.length)))
        else:
            seats.append(seat)
    draft.seats = seats


def _split(draft: Draft, seat: Seat) -> list[Seat]:
    """A seat that was left: nothing, if it has no partitions; what is kept for a static member, and what others may take."""
    assert seat.left is not None
    length = draft.spec.session_timeout
    if seat.instance is None or length <= 0:
        return [seat] if seat.left else []
    exclusive = frozenset(p for p in seat.left if draft.queues[p.queue].exclusive)
    waiting = replace(seat, left=seat.left - exclusive, expires=moment(draft.now + length), length=length)
    return [part for part in (waiting, replace(seat, left=exclusive)) if part.left]
