"""What the driver of a Spark query needs of a queue: it logs ranges and finishes them; executors read them.

Positions are the numbers of entries. A range begins behind `start`, and ends with the entry `end`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from baton.model.ids import Epoch, Uid
from baton.queues.kind import load
from baton.queues.kinds import KINDS
from baton.queues.protocol import QueueUnreachable


class PartitionBounds(NamedTuple):
    """Where a partition begins and ends for who reads it from now on. There is nothing where `last` is `committed`."""

    committed: int
    """Everything up to it is finished with."""
    before_first: int
    """A range that begins behind this one begins with the first entry that is there."""
    last: int
    """The last entry that is there."""


class AheadRequest(NamedTuple):
    """How far may the next range of a partition go?"""

    partition: int
    uid: Uid
    epoch: Epoch
    start: int
    most_entries: int
    most_bytes: int = 0
    """Of keys, values and headers; 0: any. One entry may have more."""


class Ahead(NamedTuple):
    """So far. There is nothing where `end` is the start that was asked for."""

    end: int
    last: int
    """The last entry that is there, which a later range may reach."""
    first: int
    """The first entry behind the start."""
    size: int
    """Bytes of the keys, values and headers up to the end, about."""


class Stale(NamedTuple):
    """The one asked for does not own the partition at that epoch."""


class Paused(NamedTuple):
    """The partition changes hands: no new range begins."""


class LaterQuery(NamedTuple):
    """A later query reads the queue: this one is over."""

    number: int


class RangeToLog(NamedTuple):
    """What Spark has in its offset log, of one partition."""

    partition: int
    start: int
    end: int
    partly: bool = False
    """What is there of it is enough: the queue has said that not all is (Gone)."""


class Logged(NamedTuple):
    """It can be read from now on, until it is finished."""

    seen: int
    """Entries up to this one may have been handed out before."""


class Gone(NamedTuple):
    """The range is not there any more as it was, but its entries from `first` to `last` only; none, where `last` is below."""

    first: int
    last: int


class RangeToSetAside(NamedTuple):
    """No pod can work on it."""

    partition: int
    start: int
    end: int
    failures: int
    """How often its batch has failed."""


class SetAside(NamedTuple):
    """The entries of the range are dead letters now, and it has no rows."""


class RangeToFinish(NamedTuple):
    """Everything up to `end` is done."""

    partition: int
    end: int


class Finished(NamedTuple):
    """It is done at the queue too."""


class Unlogged(NamedTuple):
    """The queue knows of no such range: the end is inside of the one that is logged, or beyond all entries."""


AheadAnswer = Ahead | Stale | Paused | LaterQuery | Gone
LogAnswer = Logged | Gone | SetAside | LaterQuery
SetAsideAnswer = SetAside | Unlogged | LaterQuery
FinishAnswer = Finished | Unlogged | LaterQuery


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
