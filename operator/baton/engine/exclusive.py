"""Exclusive queues: one active member owns all partitions of a queue, the others stand by (rule 8)."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from baton.engine.draft import Draft
from baton.model.ids import MemberId, Partition, QueueName


def owners_of_exclusive(
    draft: Draft,
    members: Sequence[MemberId],
    claims: Mapping[MemberId, set[Partition]],
    kept: Collection[Partition],
    others: Mapping[Partition, MemberId],
) -> dict[Partition, MemberId]:
    """The owners of all exclusive queues: of each queue the member that has most of it, else the one with the smallest load.

    `others`: the owners of the non-exclusive queues, which count as load.
    """
    load = Counter(others.values())
    owners: dict[Partition, MemberId] = {}
    for queue, facts in sorted(draft.queues.items()):
        readers = [member for member in members if queue in draft.subscribed(member)]
        if not facts.exclusive or not readers:
            continue
        mine = [Partition(queue, number) for number in range(facts.partitions)]
        there = set(mine)  # without those that are being withdrawn
        has = {member: len(there & claims.get(member, set())) for member in readers}
        active = max(readers, key=lambda member: (has[member], -load[member], -readers.index(member)))
        load[active] += len(mine)
        owners.update((partition, active) for partition in mine if partition not in kept)
    return owners


def several_active(draft: Draft, members: Collection[MemberId]) -> list[QueueName]:
    """Exclusive queues that have several active members, and that one of these members reads; sorted."""
    exclusive = {queue for queue, facts in draft.queues.items() if facts.exclusive}
    if not exclusive:
        return []
    active: dict[QueueName, set[MemberId]] = {queue: set() for queue in exclusive}
    for member, partitions in draft.loads().items():
        for queue in exclusive & {partition.queue for partition in partitions}:
            active[queue].add(member)
    reads = {queue for member in members for queue in draft.subscribed(member)}
    return sorted(queue for queue, those in active.items() if len(those) > 1 and queue in reads)


def active_members(draft: Draft, line: Sequence[MemberId]) -> dict[QueueName, MemberId]:
    """The active member of each exclusive queue that has one: the member with most of its partitions.

    A tie goes to the first in `line`, then to the first to join, then to the lower name.
    """
    exclusive = {queue for queue, facts in draft.queues.items() if facts.exclusive}
    has: dict[QueueName, Counter[MemberId]] = {queue: Counter() for queue in exclusive}
    for member, partitions in draft.loads().items() if exclusive else ():
        for partition in partitions:
            if partition.queue in exclusive and draft.may_own(member, partition.queue):
                has[partition.queue][member] += 1
    place = {member: number for number, member in enumerate(line)}
    return {
        queue: min(counts, key=lambda m: (-counts[m], place.get(m, len(place)), draft.eligible[m].joined, m))
        for queue, counts in has.items()
        if counts
    }
