"""Partitions that others are about to hand over: fetched for a moment before anybody reads them. Pure.

No more than a little is fetched of each, so that nobody waits because there is enough of them.
"""

from collections.abc import Iterator, Mapping

from baton.queues.kafka.fetched_ahead import rests_until_read
from baton.queues.kafka.fetched_partition import FetchedPartition

_FOR = 2.0
"""Seconds."""
_NEAR = 1_000
"""Messages: so many that are for another are passed over. Where there are more, the partition is fetched from behind them."""


class ExpectedPartitions:
    """Of one fetcher, which sees to it that one thread at a time is here. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def add(self, partition: int, now: float) -> None:
        self._until[partition] = now + _FOR

    def discard(self, partition: int) -> bool:
        """Whether it was one of these; it is none any more."""
        return self._until.pop(partition, None) is not None

    def over(self, now: float) -> Iterator[int]:
        """Those whose time is over before anybody reads them."""
        return (partition for partition, until in list(self._until.items()) if now >= until)

    def full(self, fetched: Mapping[int, FetchedPartition]) -> Iterator[int]:
        """Those of which enough was `fetched` for now, and that do not rest yet."""
        return (number for number in self._until if not fetched[number].resting and rests_until_read(fetched[number].ahead))


def is_of_use(fetched: FetchedPartition, offset: int) -> bool:
    """Whoever begins to read at this offset goes on with what was fetched."""
    return fetched.begins_at <= offset <= fetched.next + _NEAR and fetched.failure is None
