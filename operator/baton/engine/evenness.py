"""The balance of a group: whether its members own as many partitions as they should (rules 2 and 8)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from baton.assignors import lower_bound
from baton.engine.assignor import traits
from baton.engine.draft import Draft
from baton.engine.exclusive import several_active
from baton.model.ids import MemberId, Partition, QueueName


def evenly_spread(draft: Draft, members: Collection[MemberId]) -> bool:
    """The members of the plan have what the assignor in use would give them, and no exclusive queue has several active members.

    An assignor without the trait `balances` goes by weights, zones or fixed positions: its plan is as even as it can be.
    """
    planned = draft.facts is not None and draft.facts.assignor is not None and draft.problem is None
    carried_out = planned and not traits(draft).balances
    return (carried_out or even(draft, members)) and not several_active(draft, members)


def even(draft: Draft, members: Collection[MemberId]) -> bool:
    """These members are even in total and in each queue, as far as their subscriptions allow (rule 2).

    A balancing assignor would then move nothing. Exclusive queues do not count.
    """
    loads = draft.loads()
    shared = frozenset(queue for queue, facts in draft.queues.items() if not facts.exclusive)
    reads = {member: draft.subscribed(member) & shared for member in members}
    has = {member: [p for p in loads.get(member, ()) if p.queue in reads[member]] for member in members}
    if len(set(reads.values())) > 1:
        return _least_moves(reads, has) == 0
    queues: defaultdict[QueueName, Counter[MemberId]] = defaultdict(Counter)
    for member, partitions in has.items():
        for partition in partitions:
            queues[partition.queue][member] += 1
    totals = Counter({member: len(partitions) for member, partitions in has.items()})
    return all(_within_one(counts, members) for counts in (totals, *queues.values()))


def _within_one(counts: Counter[MemberId], members: Collection[MemberId]) -> bool:
    return not members or max(counts[member] for member in members) - min(counts[member] for member in members) <= 1


def _least_moves(reads: Mapping[MemberId, frozenset[QueueName]], has: Mapping[MemberId, Collection[Partition]]) -> int:
    """The least number of moves from these partitions of each member to any balance."""
    sizes: Counter[QueueName] = Counter()
    owners: dict[Partition, MemberId] = {}
    for member, partitions in sorted(has.items()):
        for partition in partitions:
            owners[Partition(partition.queue, sizes[partition.queue])] = member
            sizes[partition.queue] += 1
    return lower_bound(sizes, reads, owners)


def within_one(draft: Draft, members: Collection[MemberId]) -> bool:
    """No single move would bring the totals of two of these members closer. Exclusive queues do not count."""
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
