"""The time since which a record of others is unchanged, by the reader's own clock. Clocks of others are not trusted. Pure."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sighting(Generic[T]):
    """A record, and since when it has been seen unchanged (seconds, monotonic)."""

    record: T
    since: float


def sight(before: Sighting[T] | None, record: T, now: float) -> Sighting[T]:
    """The next sighting. Its time stays while the record is the same.

    `now`: the time after the answer that has the record, because the record may have been written until then. The time of the
    request would make a Lease lapse too early.
    """
    if before is not None and before.record == record:
        return before
    return Sighting(record, now)
