"""What a consumer reads from a queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from baton.model.ids import Epoch, QueueName

NO_HEADERS: Mapping[str, bytes | None] = MappingProxyType({})
"""Of all entries that have none: a mapping of its own for each would be one more object to make, and to collect."""


@dataclass(slots=True, unsafe_hash=True)
class Entry:
    """One entry of one partition. Baton does not change it; it is not frozen, for to make a frozen one takes six times as long,
    which is as long as all else that a consumer does with it."""

    queue: QueueName
    partition: int
    offset: str
    """Its place in the partition, opaque: grows along the partition; acknowledge with it."""
    key: bytes = field(hash=False)
    """Of a message of Kafka it may be None: it has none."""
    value: bytes = field(hash=False)
    """Of a message of Kafka it may be None: a tombstone, which says that its key is deleted."""
    timestamp: int
    """When the queue took it, by the server's clock: milliseconds since 1970."""
    epoch: Epoch
    """The grant under which it was read; acknowledgements carry it."""
    redelivered: bool
    """It was handed out before, perhaps to another consumer, and may have been worked on in part or in full."""
    headers: Mapping[str, bytes | None] = field(default_factory=dict, hash=False)
    """What its producer sent beside key and value. Of a message of Kafka one may be None: it has a name alone."""
