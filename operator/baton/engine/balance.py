"""The balance of a group: whether its members own as many partitions as they should (rules 2 and 8).

Also the lower bound of a rebalance: the least number of moves from the owners at its start to balance.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from baton.assignors import lower_bound
from baton.engine.draft import Draft
from baton.engine.placement import several_active, traits
from baton.engine.state import Rebalance
from baton.model.ids import MemberId, Partition, QueueName


def evenly_spread(draft: Draft, members: Collection[MemberId]) -> bool:
    """True if the members have what the assignor in use would give them, and no exclusive queue has several active members.

    An assignor without the trait `balances` goes by weights, zones or fixed positions: its plan counts as even.
    """
    planned = draft.facts is not None and draft.facts.assignor is not None and draft.problem is None
    carried_out = planned and not traits(draft).balances
    return (carried_out or even(draft, members)) and not several_active(draft, members)


def even(draft: Draft, members: Collection[MemberId]) -> bool:
    """True if these members are even in total and in each queue, as far as their subscriptions allow (rule 2).

    A balancing assignor would then move nothing. Exclusive queues do not count.
    """
    loads = draft.loads()
    shared = frozenset(queue for queue, facts in draft.queues.items() if not facts.exclusive)
    reads = {member: draft.subscribed(member) & shared for member in members}
    has = {member: [p for p in loads.get(member, ()) if p.queue in reads[member]] for member in members}
    if len(set(reads.values())) > 1:
        return _least_moves({p: member for member, partitions in has.items() for p in partitions}, reads) == 0
    queues: defaultdict[QueueName, Counter[MemberId]] = defaultdict(Counter)
    for member, partitions in has.items():
        for partition in partitions:
            queues[partition.queue][member] += 1
    totals = Counter({member: len(partitions) for member, partitions in has.items()})
    return all(_within_one(counts, members) for counts in (totals, *queues.values()))


def _within_one(counts: Counter[MemberId], members: Collection[MemberId]) -> bool:
    return not members or max(counts[member] for member in members) - min(counts[member] for member in members) <= 1


def _least_moves(start: Mapping[Partition, MemberId | None], reads: Mapping[MemberId, frozenset[QueueName]]) -> int:
    """Return the least number of moves from these owners to any balance. Partitions are renumbered from 0 in each queue."""
    sizes: Counter[QueueName] = Counter()
    owners: dict[Partition, MemberId] = {}
    for partition in sorted(start):
        owner = start[partition]
        if owner is not None:
            owners[Partition(partition.queue, sizes[partition.queue])] = owner
        sizes[partition.queue] += 1
    return lower_bound(sizes, reads, owners)


def within_one(draft: Draft, members: Collection[MemberId]) -> bool:
    """True if no single move would bring the totals of two of these members closer. Exclusive queues do not count."""
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


# The lower bound


def end_rebalance(draft: Draft) -> None:
    """End the rebalance once no hand-off of it runs or waits. Hand-offs that later rules of the step begin belong to the next."""
    moving = any(not move.quiet for move in draft.moves.values())
    if draft.rebalance is not None and not moving and not draft.waiting:
        least = _least_moves_of_rebalance(draft, draft.rebalance)
        draft.totals = draft.totals._replace(lower_bound=draft.totals.lower_bound + least)
        draft.rebalance = None


def _least_moves_of_rebalance(draft: Draft, rebalance: Rebalance) -> int:
    """Return the least number of moves of this rebalance.

    Vacant slots keep their partitions. A rebalance that only filled slots or placed partitions needs one move for each partition
    whose origin can no longer own it.
    """
    origins = rebalance.origins
    members = set(draft.slot_holders())
    fixed = {p: slot.member for slot in draft.member_slots if slot.vacated for p in slot.vacated}
    moved = sum(_elsewhere(origins.get(p), holder) for p, holder in fixed.items() if p in origins)
    if not rebalance.full:
        rest = (p for p in origins if p not in fixed and p in draft.records and draft.records[p].owner is not None)
        return moved + sum(origins[p] is not None and not _could_stay(draft, p, origins[p], members) for p in rest)
    start = {p: origins.get(p, record.last) for p, record in draft.records.items() if p not in fixed}
    shared = {p: owner for p, owner in start.items() if not draft.queues[p.queue].exclusive}
    reads = {member: draft.subscribed(member) for member in members}
    least = moved + _least_moves(shared, reads) + _exclusive(draft, start, members)
    overtaken = draft.spec.paused or draft.holddown is not None or draft.proposal is not None
    return min(least, _changed(draft, origins)) if overtaken else least


def _changed(draft: Draft, origins: Mapping[Partition, MemberId | None]) -> int:
    """Return the number of moves that took place.

    A rebalance may end out of balance: a pause or another trigger overtook it, or the rest waits for approval. The moves that it
    left out count for the next rebalance.
    """
    return sum(_elsewhere(origin, draft.records[p].last) for p, origin in origins.items() if p in draft.records)


def _elsewhere(origin: MemberId | None, holder: MemberId | None) -> bool:
    return origin is not None and origin != holder


def _could_stay(draft: Draft, partition: Partition, origin: MemberId | None, members: set[MemberId]) -> bool:
    return origin in members and draft.may_own(origin, partition.queue)


def _exclusive(draft: Draft, start: dict[Partition, MemberId | None], members: set[MemberId]) -> int:
    least = 0
    for queue, facts in draft.queues.items():
        readers = [member for member in members if queue in draft.subscribed(member)]
        if facts.exclusive and readers:
            owners = [owner for partition, owner in start.items() if partition.queue == queue and owner is not None]
            least += len(owners) - max(owners.count(member) for member in readers)
    return least
