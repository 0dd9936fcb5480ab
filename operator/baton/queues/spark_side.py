"""What a Spark application needs of a queue: its driver plans ranges and commits them, its executors read them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from baton.model.ids import Epoch
from baton.queues.entry import Entry, Plan
from baton.queues.kind import load
from baton.queues.kinds import KINDS
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


OpenSparkSide = Callable[[str, str, str], BatchReader]
"""`QueueKind.spark`, given the queue's address, its name (namespace/name) and who reads. Raises QueueUnreachable where the
address is none."""


def batch_reader(address: str, queue: str, who: str) -> BatchReader:
    """By the kind of queue that the address is of. It connects when it is first asked something. Raises QueueUnreachable for an
    address that is none."""
    kinds = [kind for kind in KINDS if kind.spark is not None]
    for kind in kinds:
        if kind.spark is not None and address.partition("://")[0].lower() in kind.schemes:
            side: OpenSparkSide = load(kind.spark)
            return side(address, queue, who)
    known = ", ".join(f"{scheme}://" for kind in kinds for scheme in kind.schemes)
    raise QueueUnreachable(f"The address of {queue} is that of no queue that Spark can read: begin it with one of {known}")
