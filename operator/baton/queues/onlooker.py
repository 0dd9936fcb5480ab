"""Shows the entries of a queue to people, and takes none; and sends some by hand."""

from collections.abc import Iterator
from typing import Protocol

from baton.queues.entry import Entry
from baton.queues.opening import QueueToOpen, ServerAddress
from baton.queues.producer_side import Producer


class Onlooker(Protocol):
    """Of one queue. It joins no group and changes nothing at the queue. Entries have the epoch 0, and count as not redelivered.
    Methods raise QueueUnreachable with a sentence."""

    def partitions(self) -> int:
        """How many there are, or were."""

    def peek(self, partition: int, offset: str | None = None) -> Iterator[Entry]:
        """Those that are there now, from `offset`; None: from the oldest that is not finished with. Raises ValueError for what is
        no offset, or where it is not known which are finished with."""

    def tail(self) -> Iterator[Entry | None]:
        """Those of all partitions that come from now on, without an end. None: it has begun, or nothing came for a moment."""

    def producer(self) -> Producer:
        """That the caller closes."""

    def close(self) -> None: ...


class OpenOnlooker(Protocol):
    """`QueueKind.onlooker`."""

    async def __call__(self, where: QueueToOpen | ServerAddress, name: str, group: str | None = None) -> Onlooker:
        """`where`: the queue as its spec has it, or a server that was named. `name`: namespace/name; of Kafka's, at a server that
        was named, the topic. `group`: the ConsumerGroup (namespace/name) that reads it."""
