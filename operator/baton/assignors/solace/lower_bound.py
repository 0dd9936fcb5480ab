"""The least number of moves to a balance."""

from collections import Counter
from collections.abc import Collection, Mapping

from baton.assignors.solace.balance import Claims, Shares, fair_shares
from baton.model.ids import MemberId, Partition, QueueName


def lower_bound(
    queues: Mapping[QueueName, int],
    members: Mapping[MemberId, frozenset[QueueName]],
    owners: Mapping[Partition, MemberId],
) -> int:
    """The least number of moves from `owners` to any balance of these members. `members` has their subscriptions.

    `balance` says what a balance is. A partition that had an owner and gets another is a move, also where its owner is not among
    `members` (an orphan) or does not read the queue any more. The first grant of a partition (not in `owners`) is no move, and
    neither is a partition that no member reads. Owners of partitions that do not exist do not count.
    """
    return least_moves(queues, members, {partition: (owner,) for partition, owner in owners.items()})


def least_moves(
    queues: Mapping[QueueName, int],
    members: Mapping[MemberId, frozenset[QueueName]],
    holders: Mapping[Partition, Collection[MemberId]],
) -> int:
    """As `lower_bound`, where a partition may have several holders. One that goes to any of them is no move."""
    subscribed = {member: frozenset(queue for queue in wanted if queue in queues) for member, wanted in members.items()}
    read = frozenset().union(*subscribed.values())
    held: dict[QueueName, list[MemberId | None]] = {}
    contested: dict[Partition, tuple[MemberId, ...]] = {}
    had_owner = 0
    for partition, names in holders.items():
        if partition.queue not in read or not 0 <= partition.number < queues[partition.queue]:
            continue
        had_owner += bool(names)
        homes = tuple(sorted(name for name in names if partition.queue in subscribed.get(name, ())))
        if len(homes) == 1:
            held.setdefault(partition.queue, [None] * queues[partition.queue])[partition.number] = homes[0]
        elif homes:
            contested[partition] = homes
    claims = Claims(queues, sorted(subscribed), subscribed, held, contested)
    return had_owner - kept(claims, fair_shares(claims))


def kept(claims: Claims, shares: Shares) -> int:
    """How many partitions stay with one of their holders."""
    settled = Counter((partition.queue, member) for partition, member in shares.settled.items())
    stay = len(shares.settled)
    for queue, holders in claims.held.items():
        counts = shares.counts[queue]
        for member, count in Counter(holder for holder in holders if holder is not None).items():
            stay += min(count, counts.get(member, 0) - settled[queue, member])
    return stay
