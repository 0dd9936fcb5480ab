"""Where a group is in the partitions of a queue, and how that is set by hand. What an adapter may be besides."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from baton.model.ids import Epoch
from baton.queues.protocol import QueueAdapter


class PartitionOffsets(NamedTuple):
    """Where a group is in a partition. An offset is the number of an entry, in the queue's own count."""

    committed: int | None
    """The first entry that is not finished with. None: nothing was committed yet."""
    earliest: int
    """The first entry that is there: nothing before it can be read again."""
    end: int
    """The offset behind the last entry."""
    lag: int
    """Entries that are not finished with."""
    pending: int | None
    """Of these, the entries that a member was handed. None: the queue does not know."""


class Reached(NamedTuple):
    """An offset that was looked for."""

    offset: int
    entries: int
    """Entries before it that are not finished with."""


@runtime_checkable
class TellsOffsets(QueueAdapter, Protocol):
    """An adapter whose queue knows them. Methods may raise QueueUnreachable."""

    async def offsets(self) -> Mapping[int, PartitionOffsets]:
        """Of each partition of which they are known. Changes nothing."""


@runtime_checkable
class SetsOffsets(TellsOffsets, Protocol):
    """An adapter that sets them."""

    async def reach(self, partition: int, end: int, since: int | None = None) -> Reached:
        """The first entry that is there and was sent at `since` (milliseconds since 1970) or later; or `end`, if that comes
        first. Changes nothing."""

    async def set_offset(self, partition: int, epoch: Epoch, offset: int) -> None:
        """Have the next owner begin with this entry. `epoch`: the highest that the ledger has for the partition, which has no
        owner; who had it last reads no more. Safe to repeat.

        Raises QueueConflict where a pod was granted it since, or reads it by other means; where the queue is another group's;
        and for an offset that is before `earliest` or behind `end`."""
