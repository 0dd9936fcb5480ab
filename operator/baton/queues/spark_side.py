"""What the driver of a Spark query needs of a queue: it logs ranges and finishes them; executors read them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from baton.queues.kind import load
from baton.queues.kinds import KINDS
from baton.queues.logged_ranges import (
    AheadAnswer,
    AheadRequest,
    FinishAnswer,
    LogAnswer,
    PartitionBounds,
    RangeToFinish,
    RangeToLog,
    RangeToSetAside,
    SetAsideAnswer,
)
from baton.queues.protocol import QueueUnreachable


class LoggedRanges(Protocol):
    """One queue, for the driver of a query; `baton.queues.redis.ranges.RedisRanges` is one, and says what its methods do.

    Every method raises QueueUnreachable. One thread asks; another may be in `wait` meanwhile, which `interrupt` ends.
    """

    sizes_known: bool
    """It knows how many bytes entries have: `ahead` keeps to `most_bytes`."""

    sets_aside: bool
    """It has dead letters for ranges."""

    def begin(self) -> int: ...
    def fence(self, query: int, partitions: Sequence[int]) -> int: ...
    def positions(self) -> Mapping[int, PartitionBounds]: ...
    def ahead(self, query: int, requests: Sequence[AheadRequest]) -> list[AheadAnswer]: ...
    def log(self, query: int, ranges: Sequence[RangeToLog]) -> list[LogAnswer]: ...
    def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]: ...
    def set_aside(self, query: int, ranges: Sequence[RangeToSetAside], why: str) -> list[SetAsideAnswer]: ...
    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]: ...
    def interrupt(self) -> None: ...
    def address(self) -> Mapping[str, object]: ...
    def close(self) -> None: ...


OpenSparkSide = Callable[[str, str, str], LoggedRanges]
"""`QueueKind.spark`, given the queue's address, and the names of queue and group (namespace/name). Raises QueueUnreachable for no
address."""


def logged_ranges(address: str, queue: str, group: str) -> LoggedRanges:
    """By the kind of queue that the address is of. It connects when it is first asked something. Raises QueueUnreachable for an
    address that is none."""
    sides = {scheme: kind.spark for kind in KINDS if kind.spark is not None for scheme in kind.schemes}
    if (side := sides.get(address.partition("://")[0].lower())) is not None:
        opened: OpenSparkSide = load(side)
        return opened(address, queue, group)
    known = ", ".join(f"{scheme}://" for scheme in sides)
    raise QueueUnreachable(f"The address of {queue} is that of no queue that Spark can read: begin it with one of {known}")
