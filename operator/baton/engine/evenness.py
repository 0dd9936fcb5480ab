"""Whether the partitions are spread as they should be (rules 2 and 8)."""

from collections.abc import Collection

from baton.engine.draft import Draft
from baton.model.ids import MemberId, QueueName


def evenly_spread(draft: Draft, members: Collection[MemberId]) -> bool:
    """Among these members, those of the plan: as the assignor in use makes it."""
    return (within_one(draft, members) or _as_the_assignor_has_it(draft)) and not several_active(draft, members)


def within_one(draft: Draft, members: Collection[MemberId]) -> bool:
    """No single move makes two of these members more even. Exclusive queues do not count."""
    loads = draft.loads()
    counts = {m: sum(not draft.queues[p.queue].exclusive for p in loads.get(m, ())) for m in members}
    if not counts or max(counts.values()) - min(counts.values()) <= 1:
        return True
    reads = {m: draft.subscribed(m) for m in members}
    least: dict[QueueName, int] = {}
    for member, queues in reads.items():
        for queue in queues:
            least[queue] = min(least.get(queue, counts[member]), counts[member])
    for member, count in counts.items():
        has = {p.queue for p in loads.get(member, ()) if not draft.queues[p.queue].exclusive}
        if any(queue in least and count - least[queue] > 1 for queue in has):
            return False
    return True


def several_active(draft: Draft, members: Collection[MemberId]) -> list[QueueName]:
    """Exclusive queues that have more than one active member, where a plan for these members would make it one."""
    exclusive = {queue for queue, facts in draft.queues.items() if facts.exclusive}
    if not exclusive:
        return []
    active: dict[QueueName, set[MemberId]] = {queue: set() for queue in exclusive}
    for member, partitions in draft.loads().items():
        for queue in exclusive & {partition.queue for partition in partitions}:
            active[queue].add(member)
    reads = {queue for member in members for queue in draft.subscribed(member)}
    return sorted(queue for queue, those in active.items() if len(those) > 1 and queue in reads)


def _as_the_assignor_has_it(draft: Draft) -> bool:
    """Other assignors than Solace's aim at something else than totals within one: weights, zones, equal numbers together. What
    they planned is as even as it will be when it has been carried out and nothing has happened since."""
    return draft.facts is not None and draft.facts.assignor not in (None, "solace") and draft.problem is None
