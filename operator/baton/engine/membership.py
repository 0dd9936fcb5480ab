"""The members of a group: pods that are Ready, neither stop nor drain, are not fenced off by a newer pod of the same identity,
and are no victims."""

from dataclasses import replace

from baton.api.enums import ScaleMode
from baton.engine.draft import Draft
from baton.engine.observation import ObservedMember
from baton.engine.step_events import Fenced
from baton.engine.victims import choose_victims
from baton.model.ids import MemberId
from baton.model.names import LEDGER_GROUP_KEY


def count_members(draft: Draft) -> None:
    """Fill `eligible`, and record the pods that are fenced off and the victims.

    A pod that drains is still there: it fences off the older of its identity, and counts towards the size that the fleet has.
    """
    live = {
        name: member
        for name, member in draft.observation.members.items()
        if not member.terminating and name != LEDGER_GROUP_KEY  # a pod of that name has no key in the ledger
    }
    _fence_doubles(draft, live)
    if draft.spec.scale_mode is ScaleMode.SPARK and draft.spec.replicas is not None:
        draft.victims = choose_victims(draft, live)
    else:
        draft.victims = ()
    for name, _ in draft.victims:
        live.pop(name)
    draft.eligible = {name: member for name, member in live.items() if not member.draining}


def follow_identities(draft: Draft) -> None:
    """The identity of a member is that which its pod has now: the label, or the spec that names it, may be younger (rule 6)."""
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
