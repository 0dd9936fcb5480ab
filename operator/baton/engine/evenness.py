"""Whether members are within one partition of each other (rule 2)."""

from collections.abc import Collection

from baton.engine.draft import Draft
from baton.model.ids import MemberId, QueueName


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


def as_the_assignor_has_it(draft: Draft) -> bool:
    """Other assignors than Solace's aim at something else than totals within one: weights, zones, equal numbers together. What
    they planned is as even as it will be when it has been carried out and nothing has happened since."""
    if draft.facts is None or draft.facts.assignor in (None, "solace") or draft.problem is not None:
        return False
    under_way = draft.holddown is not None or draft.waiting or draft.proposal is not None
    return not under_way and all(move.quiet for move in draft.moves.values()) and all(seat.left is None for seat in draft.seats)
