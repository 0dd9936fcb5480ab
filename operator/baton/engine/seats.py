"""Seats: the places of the last plan's members, who comes back to them and who takes over a vacant one (rule 1)."""

from collections.abc import Iterable
from dataclasses import replace

from baton.engine.assignor import traits
from baton.engine.draft import Draft
from baton.engine.exclusive import active_members
from baton.engine.member_limit import Room
from baton.engine.state import Seat, Slot, moment
from baton.model.ids import MemberId, QueueName


def leave_to_the_active(draft: Draft) -> None:
    """What is vacant of an exclusive queue goes to who is active there: whoever took it with the seat would be active too
    (rule 8)."""
    if not any(draft.queues[partition.queue].exclusive for seat in _free(draft) for partition in seat.left or ()):
        return
    active = active_members(draft, taken(draft) + draft.standbys)
    for seat in _free(draft):
        theirs = {p: active[p.queue] for p in sorted(seat.left or ()) if p.queue in active}
        for partition, member in theirs.items():
            draft.aim(partition, member, f"{member} is active on {partition.queue}")
            draft.new_generation()
        if theirs:
            at, rest = draft.seats.index(seat), (seat.left or frozenset()) - theirs.keys()
            seatless = sorted(set(theirs.values()) - set(taken(draft)))
            draft.seats[at : at + 1] = [draft.sit(m) for m in seatless] + ([replace(seat, left=rest)] if rest else [])
            draft.standbys = [member for member in draft.standbys if member not in seatless]


def relieve(draft: Draft) -> None:
    """The standby that has waited longest takes a vacant seat."""
    for standby in _line(draft) if _free(draft) else ():
        _take_one(draft, standby, "stood by")


def take_over(draft: Draft) -> None:
    """Newcomers take vacant seats, while they are no more than these."""
    candidates = newcomers(draft)
    if len(candidates) <= len(_free(draft)):
        for member in candidates:
            _take_one(draft, member, "joined")


def vacant(draft: Draft) -> list[Seat]:
    """Seats that anybody may take: those that wait for their static member are not among them."""
    return [seat for seat in draft.seats if seat.left is not None and seat.expires is None]


def _free(draft: Draft) -> list[Seat]:
    """Vacant seats that may be taken at once. Where the one who left still works on what it had, and nothing fences it off, it
    has the holddown to come back."""
    away = draft.observation.away
    return [
        seat
        for seat in vacant(draft)
        if away.get(seat.member) != seat.uid or not draft.owned.get(seat.member, set()) & (seat.left or frozenset())
    ]


def taken(draft: Draft) -> list[MemberId]:
    """The members that have a seat."""
    return [seat.member for seat in draft.seats if seat.left is None]


def unseated(draft: Draft) -> list[MemberId]:
    """Members that are neither seated nor told to stand by, ordered by joining, then name."""
    placed = {*taken(draft), *draft.standbys}
    return sorted((m for m in draft.eligible if m not in placed), key=lambda m: (draft.eligible[m].joined, m))


def newcomers(draft: Draft) -> list[MemberId]:
    """Those of the unseated for whom there would be a partition."""
    candidates = unseated(draft)
    if not candidates:
        return []
    room = Room(draft)
    for member in taken(draft):
        room.enter(member)
    return [member for member in candidates if room.admit(member)]


def _line(draft: Draft) -> list[MemberId]:
    """Who stands by, longest first: those for whom there is nothing, and those that were left with none and keep their seat."""
    loads = draft.loads()
    idle = [member for member in taken(draft) if not loads.get(member)]
    waiting = [member for member in draft.standbys if member in idle or member not in taken(draft)]
    return waiting + [member for member in idle if member not in waiting]


def stand_by(draft: Draft, members: Iterable[MemberId]) -> None:
    """Makes standbys of these members, known to the group and without a seat."""
    for member in members:
        draft.meet(member)
        draft.standbys.append(member)


def expire_terms(draft: Draft) -> None:
    """A static member did not come back in time: its seat is for anybody, and there is no delay (rule 6). But a plan would end
    the delay of those who left other seats: as long as there are such, it waits for the end of that."""
    held = draft.holddown
    others = held is not None and held.until > draft.now and draft.at_once is None and bool(vacant(draft))
    for n, seat in enumerate(draft.seats):
        if seat.expires is None:
            continue
        over = draft.now >= seat.expires
        if over and others and held is not None:
            length = max(seat.length, moment(held.until - draft.now))
            draft.seats[n] = replace(seat, expires=held.until, length=length, late=True)
        elif over or (seat.late and not others):
            draft.seats[n] = replace(seat, expires=None)
            draft.at_once = f"{seat.member} did not come back in time"


def return_members(draft: Draft) -> None:
    """The same pod, a pod of the same name, or of the same static identity comes back. Its member may have several seats: what is
    kept for it, what an exclusive queue or one that cannot fence had for it."""
    empty = [seat for seat in draft.seats if seat.left is not None]
    if not empty:
        return
    uids = {seen.uid: member for member, seen in draft.eligible.items()}
    static = draft.eligible.items() if draft.spec.session_timeout > 0 else ()
    identities = {seen.instance: member for member, seen in static if seen.instance is not None}
    for seat in empty:
        owner = uids.get(seat.uid) or (identities.get(seat.instance) if seat.instance is not None else None)
        member = seat.member if seat.member in draft.eligible else owner
        if member is None or seat.left is None:
            continue
        reads = draft.subscribed(member)
        mine = frozenset(p for p in seat.left if p.queue in reads)
        if not mine:
            continue
        part = seat if mine == seat.left else replace(seat, left=mine)
        if part is not seat:
            at = draft.seats.index(seat)
            draft.seats[at : at + 1] = [part, replace(seat, left=seat.left - mine, expires=None)]
        _take(draft, part, member, f"{member} is back")


def _same_identity(draft: Draft, seat: Seat, member: MemberId) -> bool:
    """Static membership is on, and this is the seat's static member."""
    return draft.spec.session_timeout > 0 and seat.instance is not None and draft.eligible[member].instance == seat.instance


def _take_one(draft: Draft, member: MemberId, how: str) -> None:
    reads = draft.subscribed(member)
    for seat in _free(draft):
        if seat.left is not None and all(partition.queue in reads for partition in seat.left):
            _take(draft, seat, member, f"{member} {how} and takes the seat of {seat.member}")
            return


def _take(draft: Draft, seat: Seat, member: MemberId, why: str) -> None:
    assert seat.left is not None
    for partition in sorted(seat.left):
        slot = draft.slots[partition]
        if draft.heading(partition) == member:
            continue  # It was to go (a victim), and stays: it still has this.
        if slot.owner is None and _same_identity(draft, seat, member):
            draft.slots[partition] = Slot(slot.epoch, None, member)  # the same static member under another name
        draft.aim(partition, member, why)
        draft.new_generation()
    at = draft.seats.index(seat)
    draft.seats[at : at + 1] = [] if member in taken(draft) else [draft.sit(member)]
    if member in draft.standbys:
        draft.standbys.remove(member)
    # Others may have been balanced without this seat while it was vacant, and an old imbalance does not perpetuate itself
    # (rule 2). Where the assignor makes no balance, the engine cannot tell by counting whether there is an imbalance.
    if traits(draft).balances:
        draft.unsettled = True
    elif seat.overtaken:
        draft.trigger(f"partitions were shared out while {seat.member} was away")


def overtake(draft: Draft) -> None:
    """While these seats are vacant others are given partitions, or go without."""
    draft.seats = [seat if seat.left is None else replace(seat, overtaken=True) for seat in draft.seats]


def end_waiting(draft: Draft, queue: QueueName) -> None:
    """No static member is waited for on an exclusive queue (rule 6): what it had there is for anybody."""
    seats: list[Seat] = []
    for seat in draft.seats:
        left = frozenset(partition for partition in seat.left or () if partition.queue == queue)
        if seat.left is None or seat.expires is None or not left:
            seats.append(seat)
            continue
        if seat.left != left:
            seats.append(replace(seat, left=seat.left - left))
        seats.append(replace(seat, left=left, expires=None))
    draft.seats = seats


def promote(draft: Draft) -> None:
    """Standbys for whom there is something to own by now (the queue grew, the desired size did) are newcomers."""
    if not draft.standbys:
        return
    room = Room(draft, vacant_too=True)
    for member in taken(draft):
        room.enter(member)
    for member in unseated(draft):
        room.admit(member)
    seated = set(taken(draft))
    draft.standbys = [member for member in draft.standbys if member in seated or not room.admit(member)]
