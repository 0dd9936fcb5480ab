"""How the driver of a Spark query uses a queue: it logs ranges and finishes them, and executors read them.

Positions are entry numbers. A range contains the entries after `start`, up to and including `end`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from baton.model.ids import Epoch, Uid
from baton.queues.kind import load
from baton.queues.kinds import KINDS
from baton.queues.protocol import QueueUnreachable


class PartitionBounds(NamedTuple):
    """Where reading of a partition can begin and end. There is nothing to read if `last` equals `committed`."""

    committed: int
    """All entries up to this one are finished."""
    before_first: int
    """The number before the first existing entry: `start` of a range that begins with that entry."""
    last: int
    """The last existing entry."""
    granted: bool = True
    """False: the partition was never granted, so it is unknown where the group begins, and `committed` is `before_first`."""


class AheadRequest(NamedTuple):
    """Asks how far the next range of a partition may reach."""

    partition: int
    uid: Uid
    epoch: Epoch
    start: int
    most_entries: int
    most_bytes: int = 0
    """Bytes of keys, values and headers; 0: no limit. A single entry may have more."""


class Ahead(NamedTuple):
    """How far the next range may reach. It is empty if `end` equals the requested start."""

    end: int
    last: int
    """The last existing entry, which a later range may reach."""
    first: int
    """The first entry after the start."""
    size: int
    """Approximate bytes of keys, values and headers up to the end."""


class Stale(NamedTuple):
    """The pod of the request does not own the partition at that epoch."""


class Paused(NamedTuple):
    """The partition is about to change hands, so no new range may begin."""


class LaterQuery(NamedTuple):
    """A later query reads the queue, so this query is over."""

    number: int


class RangeToLog(NamedTuple):
    """A partition's range in Spark's offset log."""

    partition: int
    start: int
    end: int
    partly: bool = False
    """Accept that some entries of the range no longer exist (after the answer Gone)."""


class Logged(NamedTuple):
    """The range can be read until it is finished."""

    seen: int
    """Entries up to this one may have been handed out before."""


class Gone(NamedTuple):
    """The range is incomplete: only its entries from `first` to `last` exist. It has none if `last` is below `first`."""

    first: int
    last: int


class RangeToSetAside(NamedTuple):
    """A range that cannot be processed."""

    partition: int
    start: int
    end: int
    failures: int
    """How often its batch has failed."""


class SetAside(NamedTuple):
    """The entries of the range are dead letters now, and it has no rows."""


class RangeToFinish(NamedTuple):
    """All entries up to `end` are processed."""

    partition: int
    end: int


class Finished(NamedTuple):
    """The queue has finished the range too."""


class Unlogged(NamedTuple):
    """The queue has no such range: `end` is inside the logged range, or after the last entry."""


AheadAnswer = Ahead | Stale | Paused | LaterQuery | Gone
LogAnswer = Logged | Gone | SetAside | LaterQuery
SetAsideAnswer = SetAside | Unlogged | LaterQuery
FinishAnswer = Finished | Unlogged | LaterQuery


class LoggedRanges(Protocol):
    """One queue, for the driver of a query. Answers are in the order of what was asked.

    Every method raises QueueUnreachable, and may be repeated after that. All requests come from one thread; another may be in
    `wait`, which `interrupt` ends.
    """

    sizes_known: bool
    """Whether the queue knows the sizes of entries, so that `ahead` respects `most_bytes`."""

    sets_aside: bool
    """Whether ranges can be moved to dead letters."""

    @property
    def log_id(self) -> str:
        """The log that the query reads, after `begin`: positions in another log mean nothing here. Empty if no number is ever
        used again, so that positions themselves tell."""

    def begin(self) -> int:
        """Start a query and return its number. Requests of all earlier queries are rejected from now on."""

    def fence(self, query: int, partitions: Sequence[int]) -> int:
        """Make these partitions reject queries earlier than `query`. Returns the latest query of these partitions: `query`, or a
        later one that has fenced it."""

    def check(self) -> None:
        """Ask all partitions that may have readers, and return if all of them answer."""

    def positions(self) -> Mapping[int, PartitionBounds]:
        """Return the bounds of all partitions."""

    def ahead(self, query: int, requests: Sequence[AheadRequest]) -> list[AheadAnswer]:
        """Return how far the next ranges may reach. Nothing is recorded: until it is logged, a range belongs to no query."""

    def log(self, query: int, ranges: Sequence[RangeToLog]) -> list[LogAnswer]:
        """Log ranges, so that they can be read even after a change of owner. Logging a range again gives the same answer."""

    def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]:
        """Finish ranges. Finishing again changes nothing. A partition that no longer exists has the answer Unlogged."""

    def set_aside(self, query: int, ranges: Sequence[RangeToSetAside], why: str) -> list[SetAsideAnswer]:
        """Move the entries of ranges to the dead letters and finish the ranges. Setting aside again changes nothing."""

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        """Wait until there may be something new in one of these partitions, or a new grant. Returns these partitions; the empty
        set after `timeout` seconds. A partition for which `ahead` was not called, or did not reach the end, ends the wait at
        once."""

    def interrupt(self) -> None:
        """End the current wait of another thread, or the next one."""

    def address(self) -> Mapping[str, object]:
        """Return what readers in executors need to connect, for JSON. It contains the password, so it must never be shown."""

    def close(self) -> None: ...


OpenSparkSide = Callable[[str, str, str], LoggedRanges]
"""`QueueKind.spark`, called with the queue's address and the names of queue and group (namespace/name). Raises QueueUnreachable
for an invalid address."""


def logged_ranges(address: str, queue: str, group: str) -> LoggedRanges:
    """Open Spark's side of the kind that the address belongs to; it connects at its first request. Raises QueueUnreachable for an
    invalid address."""
    sides = {scheme: kind.spark for kind in KINDS if kind.spark is not None for scheme in kind.schemes}
    if (side := sides.get(address.partition("://")[0].lower())) is not None:
        opened: OpenSparkSide = load(side)
        return opened(address, queue, group)
    known = ", ".join(f"{scheme}://" for scheme in sides)
    raise QueueUnreachable(f"The address of {queue} is not one of a queue that Spark can read: begin it with one of {known}")
