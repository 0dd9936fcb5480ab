"""A group's offsets in the partitions of a queue, and setting them by hand: an optional protocol of an adapter."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from baton.model.ids import Epoch
from baton.queues.protocol import QueueAdapter


class PartitionOffsets(NamedTuple):
    """A group's offsets in a partition. An offset is the queue's own number of an entry."""

    committed: int | None
    """The first unfinished entry. None: nothing was committed yet."""
    earliest: int
    """The first entry that still exists and can be read again."""
    end: int
    """The offset after the last entry."""
    lag: int
    """The number of unfinished entries."""
    pending: int | None
    """The unfinished entries that were handed to a member. None: the queue does not know."""


class Reached(NamedTuple):
    """The result of a search for an offset."""

    offset: int
    entries: int
    """The number of unfinished entries before the offset."""


@runtime_checkable
class SetsOffsets(QueueAdapter, Protocol):
    """An adapter that reads and sets offsets. Methods may raise QueueUnreachable."""

    async def offsets(self) -> Mapping[int, PartitionOffsets]:
        """Return the known offsets by partition. Changes nothing."""

    async def reach(self, partition: int, end: int, since: int | None = None) -> Reached:
        """Find the first existing entry that was sent at `since` (milliseconds since 1970) or later, or `end` if that comes
        first. Changes nothing."""

    async def set_offset(self, partition: int, epoch: Epoch, offset: int) -> None:
        """Have the next owner begin with this entry. The partition has no owner; `epoch` is its highest epoch in the ledger. The
        last owner can no longer read. Safe to repeat.

        Raises QueueConflict if the partition was granted to a pod meanwhile or is read by other means, if the queue belongs to
        another group, or if the offset is before `earliest` or after `end`."""
