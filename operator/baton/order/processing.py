"""One message in the hands of one member, as that member recorded it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple


class Processing(NamedTuple):
    """Of a message of a key, by a member."""

    key: str
    sequence: int
    """Counts the messages of the key, without holes."""
    redelivered: bool = False
    """It was marked: it may have been processed before."""
    partition: int | None = None
    member: str = ""
    """Who processed it."""
    epoch: int | None = None
    """Under which the member owned the partition."""
    time: float | None = None
    """Seconds since 1970."""
    run: str = ""
    """One run of the function, within which sequences only grow, redelivered or not; empty: not known."""
    late: bool = False
    """A sink that checks the epoch did not take the result: the work was done, and does not count."""


@dataclass(slots=True)
class ProcessedRange:
    """Sequences in a row that one member processed under one epoch."""

    first: int
    last: int
    member: str
    epoch: int | None
    partition: int | None
    since: float | None
    until: float | None

    @classmethod
    def of(cls, one: Processing) -> "ProcessedRange":
        return cls(one.sequence, one.sequence, one.member, one.epoch, one.partition, one.time, one.time)

    def grew(self, one: Processing) -> bool:
        """Whether this one is the next of it; then it is in it."""
        if one.sequence != self.last + 1 or (one.member, one.epoch, one.partition) != (self.member, self.epoch, self.partition):
            return False
        self.last, self.until = one.sequence, one.time
        return True

    def __str__(self) -> str:
        """`orders-a (partition 3, epoch 12, 2026-11-22T09:00:00.000Z)`"""
        times = [moment(at) for at in dict.fromkeys((self.since, self.until)) if at is not None]
        details = [
            f"partition {self.partition}" if self.partition is not None else "",
            f"epoch {self.epoch}" if self.epoch is not None else "",
            " to ".join(times),
        ]
        known = ", ".join(filter(None, details))
        who = self.member or "a member"
        return f"{who} ({known})" if known else who


def moment(seconds: float) -> str:
    """As RFC 3339 has it, in milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
