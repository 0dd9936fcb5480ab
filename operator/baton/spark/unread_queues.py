"""Queues of the group that the fleet was not told of: its executors own their partitions, and nothing of them is read."""

from collections.abc import Set

from baton.model.ids import QueueName
from baton.model.wording import first_of
from baton.queues.kinds import with_spark
from baton.spark.ownership import Ownership


def unread_queues(ownership: Ownership, named: Set[QueueName]) -> str:
    """What is wrong and the cure, for people; empty: every queue of which the fleet owns something is `named`."""
    unread = sorted({partition.queue for partition in ownership.partitions} - named)
    if not unread:
        return ""
    which = "queue" if len(unread) == 1 else "queues"
    return (
        f"The fleet owns partitions of {which} {first_of(unread, 5)} and does not read them: name each with its URL in the "
        f"queues of baton.spark.Fleet, or take it out of the ConsumerGroup's spec.queues. (Spark reads queues of {with_spark()}.)"
    )
