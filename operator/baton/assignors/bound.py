"""The least number of moves after which a group can be balanced."""

from collections.abc import Mapping

from baton.model.ids import MemberId, Partition, QueueName


def lower_bound(
    queues: Mapping[QueueName, int],
    members: Mapping[MemberId, frozenset[QueueName]],
    owners: Mapping[Partition, MemberId],
) -> int:
    """The least moves from `owners` to any balance of these members, which are given with their subscriptions.

    Balanced means: totals as even as the subscriptions allow (within one where all are subscribed to all), and among those
    assignments every queue as even as can be. A partition that had an owner and gets another is a move, also where its owner
    is not among `members` (an orphan) or no longer subscribed; the first grant of a partition (not in `owners`) is none, and neither
    is one that nobody is left to take. Owners of partitions that do not exist are ignored.
    """
    raise NotImplementedError
