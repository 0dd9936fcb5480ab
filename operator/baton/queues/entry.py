"""What a consumer reads from a queue: an entry, and a sequence of entries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, overload

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


def _itself(entry: Entry) -> Entry:
    return entry


class Entries(Sequence[Entry]):
    """Entries of one partition, in order. A reader of many makes each when it is looked at: its subclass says of all of them
    what is asked of all of them, and makes none for that."""

    without_key: bytes | None = b""
    """The key of an entry that was sent without one."""
    times: Mapping[str, int] = MappingProxyType({})
    """How often entries, by offset, were handed out before and not finished with, where the queue knows that: once when they were
    first read, and then each time that one was begun (`Reader.begin_again`)."""
    attempts: Mapping[str, int] = MappingProxyType({})
    """How many attempts at entries, by offset, were made before, where the queue knows more than `times` says."""
    bounded = False
    """Those are counted for maxRedeliveries: each begins alone, so that none counts for another."""

    def __init__(self, sources: Sequence[Any], make: Callable[[Any], Entry] = _itself) -> None:
        """`make` makes an entry of its source, and may be asked for the same one again. It holds none of the others: what keeps
        one entry for long keeps no more."""
        self.sources = sources
        self.make = make

    @classmethod
    def of(cls, read: Sequence[Entry]) -> "Entries":
        """What any reader has answered."""
        return read if isinstance(read, Entries) else cls(read)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(place, slice):
            return list(map(self.make, self.sources[place]))
        return self.make(self.sources[place])

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[Entry]:
        return map(self.make, self.sources)

    @cached_property
    def offsets(self) -> Sequence[str]:
        return [entry.offset for entry in self]

    @cached_property
    def keys(self) -> Sequence[bytes]:
        """As `Entry.key`: of a message of Kafka one may be None."""
        return [entry.key for entry in self]

    @cached_property
    def values(self) -> Sequence[bytes]:
        """Likewise."""
        return [entry.value for entry in self]

    @property
    def redelivered(self) -> int:
        """How many of them were handed out before."""
        return sum(entry.redelivered for entry in self)
