"""The identities of members, queues and partitions, as types: a pod's name cannot be used as its UID."""

from enum import StrEnum
from typing import NamedTuple, NewType

MemberId = NewType("MemberId", str)
"""A member's name: the name of its pod."""

Uid = NewType("Uid", str)
"""A member's identity at the fence: the UID of its pod. A pod that comes back under its name has a new one."""

QueueName = NewType("QueueName", str)
"""The name of a PartitionedQueue in the group's namespace."""

Epoch = NewType("Epoch", int)
"""The number of a grant of one partition; it only grows. The first grant has epoch 1, and 0 means "never granted"."""


class Partition(NamedTuple):
    """One partition of one queue; sorts by queue, then number."""

    queue: QueueName
    number: int


class OnDeadline(StrEnum):
    """The action at the deadline of a hand-off on a queue that cannot fence."""

    WAIT = "Wait"
    FORCE = "Force"
