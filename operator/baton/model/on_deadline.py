"""The deadline of hand-offs on queues that cannot fence."""

from enum import StrEnum


class OnDeadline(StrEnum):
    """The action at the deadline of a hand-off on a queue that cannot fence."""

    WAIT = "Wait"
    FORCE = "Force"
