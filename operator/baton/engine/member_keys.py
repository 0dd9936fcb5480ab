"""The members' keys in the ledger, and the standbys."""

from dataclasses import replace

from baton.engine.draft import Draft
from baton.engine.step_events import StandsBy


def update_member_keys(draft: Draft) -> None:
    """Set the generation of keys whose assignment changed. A member without partitions stands by, with one event."""
    incoming = {move.receiver for move in draft.moves.values()} | set(draft.waiting.values())
    slots = {slot.member for slot in draft.member_slots}
    for member in sorted(draft.known):
        known = draft.known[member]
        has = bool(draft.owned[member]) or member in incoming
        waits = member in slots and draft.present(member, known.uid)  # it stops or drains, and its slot is not taken yet
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
