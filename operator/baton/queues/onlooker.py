"""Shows the entries of a queue without consuming them, and sends entries by hand: for `baton peek`, `tail` and `send`."""

from collections.abc import Iterator
from typing import Protocol

from baton.queues.entry import Entry
from baton.queues.opening import QueueToOpen, ServerAddress
from baton.queues.producer_side import Producer


class Onlooker(Protocol):
    """Shows one queue. It joins no group and changes nothing at the queue. Entries have epoch 0 and are not marked redelivered.
    Methods raise QueueUnreachable with a sentence."""

    def partitions(self) -> int:
        """Return the number of partitions, including former ones that may still have entries."""

    def peek(self, partition: int, offset: str | None = None) -> Iterator[Entry]:
        """Yield the current entries from `offset` (None: from the oldest unfinished one). Raises ValueError for an invalid
        offset, or if the queue does not know which entries are finished."""

    def tail(self) -> Iterator[Entry | None]:
        """Yield new entries of all partitions, endlessly. Yields None once it has started, and whenever no entry came for a
        while."""

    def producer(self) -> Producer:
        """Return a producer, which the caller closes."""

    def close(self) -> None: ...


class OpenOnlooker(Protocol):
    """`QueueKind.onlooker`."""

    async def __call__(self, where: QueueToOpen | ServerAddress, name: str, group: str | None = None) -> Onlooker:
        """`where`: the queue from its spec, or the address of a server. `name`: namespace/name, or the topic at the address of a
        Kafka server. `group`: the ConsumerGroup (namespace/name) that reads the queue."""
