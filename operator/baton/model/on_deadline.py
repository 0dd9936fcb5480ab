"""What becomes of a hand-off that nothing can enforce."""

from enum import StrEnum


class OnDeadline(StrEnum):
    """What a hand-off does at its deadline on a queue that cannot fence."""

    WAIT = "Wait"
    FORCE = "Force"
