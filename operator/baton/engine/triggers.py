"""Triggers besides members and partitions: the facts of the group, compared with the recorded ones."""

from dataclasses import replace

from baton.engine.assignor import assignor_in_use
from baton.engine.assignor_inputs import fingerprint
from baton.engine.draft import Draft
from baton.engine.state import Facts


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
        draft.plan_now = "the group goes on after a pause"
    if not any(slot.vacated is None for slot in draft.member_slots):
        return  # No member holds a slot yet: the first to join starts the holddown.
    if before.assignor is not None and assignor != before.assignor:
        draft.trigger(f"the assignor is {assignor} instead of {before.assignor}")
    if inputs != before.inputs:
        draft.trigger("the assignor's options, or zones or weights of partitions, changed")
    if spec.protocol != before.protocol:
        draft.trigger(f"the protocol is {spec.protocol} instead of {before.protocol}")
    if draft.observation.request not in (None, before.request):
        draft.trigger("a rebalance was asked for")


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
            draft.trigger(f"{member} reads {', '.join(sorted(more))} too")


def follow_capacities(draft: Draft) -> None:
    """A member with another capacity than before is a trigger."""
    for member, known in sorted(draft.known.items()):
        seen = draft.eligible.get(member)
        if seen is not None and seen.capacity != known.capacity:
            draft.known[member] = replace(known, capacity=seen.capacity)
            draft.trigger(f"{member} can carry {seen.capacity} instead of {known.capacity}")
