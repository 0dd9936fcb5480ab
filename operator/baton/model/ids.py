"""The identities of the field, as types, so that a pod's name is never taken for its UID."""

from typing import NamedTuple, NewType

MemberId = NewType("MemberId", str)
"""A member's name: the name of its pod."""

Uid = NewType("Uid", str)
"""A member's identity at the fence: the UID of its pod. A pod that comes back under its name has a new one."""

QueueName = NewType("QueueName", str)
"""The name of a PartitionedQueue in the group's namespace."""

Epoch = NewType("Epoch", int)
"""Counts the grants of one partition; only grows. The first grant has epoch 1; 0 is "never granted"."""


class Partition(NamedTuple):
    """One partition of one queue; sorts by queue, then number."""

    queue: QueueName
    number: int
