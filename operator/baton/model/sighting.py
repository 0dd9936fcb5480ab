"""Since when something that others write has not changed, by one's own clock: others' clocks are not trusted. Pure."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sighting(Generic[T]):
    """A record, and since when it has been seen unchanged (seconds, monotonic)."""

    record: T
    since: float


def sight(before: Sighting[T] | None, record: T, now: float) -> Sighting[T]:
    """Look again: the time runs on while the record is the same. `now`: after the answer that shows the record, which may have
    been written as late as that; who counts from when the question was sent finds a Lease lapsed too early."""
    if before is not None and before.record == record:
        return before
    return Sighting(record, now)
