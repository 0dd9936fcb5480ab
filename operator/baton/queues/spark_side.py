"""What a Spark application needs of a queue: its driver plans ranges and commits them, its executors read them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from baton.model.ids import Epoch
from baton.queues.entry import Entry, Plan
from baton.queues.kind import load
from baton.queues.kinds import KINDS
from baton.queues.logged_ranges import (
    Ahead,
    AheadRequest,
    Finished,
    Gone,
    LaterQuery,
    Logged,
    PartitionBounds,
    Paused,
    RangeToFinish,
    RangeToLog,
    Stale,
    Unlogged,
)
from baton.queues.protocol import QueueUnreachable


class BatchReader(Protocol):
    """One queue, read in micro-batches for the members named by `uid`; `baton.queues.redis.RedisReader` is one.

    Planning, reading and committing raise StaleOwner, PartitionPaused (planning only) and QueueUnreachable. One thread asks;
    another may be in `wait` meanwhile, which `interrupt` ends.
    """

    def plan(self, partition: int, epoch: Epoch, limit: int, *, uid: str | None = ...) -> Plan | None: ...
    def read_plan(self, partition: int, epoch: Epoch, plan: Plan, *, uid: str | None = ...) -> Iterator[Entry]: ...
    def commit(self, partition: int, epoch: Epoch, plan: Plan, *, uid: str | None = ...) -> None: ...
    def let_go(self, partition: int, epoch: Epoch) -> None: ...
    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...


OpenBatchReader = Callable[[str, str, str], BatchReader]
"""`QueueKind.batches`, given the queue's address, its name (namespace/name) and who reads. Raises QueueUnreachable where the
address is none."""


class LoggedRanges(Protocol):
    """One queue, for the driver of a query; `baton.queues.redis.ranges.RedisRanges` is one, and says what its methods do.

    Every method raises QueueUnreachable. One thread asks; another may be in `wait` meanwhile, which `interrupt` ends.
    """

    def begin(self) -> int: ...
    def partitions(self) -> int: ...
    def positions(self) -> Mapping[int, PartitionBounds]: ...
    def ahead(self, query: int, requests: Sequence[AheadRequest]) -> list[Ahead | Stale | Paused | LaterQuery | Gone]: ...
    def log(self, query: int, ranges: Sequence[RangeToLog]) -> list[Logged | Gone | LaterQuery]: ...
    def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[Finished | Unlogged | LaterQuery]: ...
    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]: ...
    def interrupt(self) -> None: ...
    def address(self) -> Mapping[str, object]: ...
    def keys(self, partition: int) -> Mapping[str, object]: ...
    def close(self) -> None: ...


OpenSparkSide = Callable[[str, str], LoggedRanges]
"""`QueueKind.spark`, given the queue's address and its name (namespace/name). Raises QueueUnreachable for no address."""


def logged_ranges(address: str, queue: str) -> LoggedRanges:
    """By the kind of queue that the address is of. It connects when it is first asked something. Raises QueueUnreachable for an
    address that is none."""
    side: OpenSparkSide = load(_side(address, queue, "spark"))
    return side(address, queue)


def batch_reader(address: str, queue: str, who: str) -> BatchReader:
    """By the kind of queue that the address is of. It connects when it is first asked something. Raises QueueUnreachable for an
    address that is none."""
    side: OpenBatchReader = load(_side(address, queue, "batches"))
    return side(address, queue, who)


def _side(address: str, queue: str, name: str) -> str:
    sides = {scheme: side for kind in KINDS if (side := getattr(kind, name)) is not None for scheme in kind.schemes}
    if (side := sides.get(address.partition("://")[0].lower())) is not None:
        return str(side)
    known = ", ".join(f"{scheme}://" for scheme in sides)
    raise QueueUnreachable(f"The address of {queue} is that of no queue that Spark can read: begin it with one of {known}")
