"""What a consumer reads from a queue: an entry, and a sequence of entries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, overload

from baton.model.ids import Epoch, QueueName

NO_HEADERS: Mapping[str, bytes | None] = MappingProxyType({})
"""Shared by all entries without headers, to save creating and collecting one mapping per entry."""


@dataclass(slots=True, unsafe_hash=True)
class Entry:
    """One entry of one partition. Baton does not change it. It is not frozen because creating a frozen dataclass takes six times
    as long, which equals everything else that a consumer does with an entry."""

    queue: QueueName
    partition: int
    offset: str
    """Position in the partition: an opaque text that grows along the partition. Entries are acknowledged by it."""
    key: bytes = field(hash=False)
    """None for a Kafka message without a key."""
    value: bytes = field(hash=False)
    """None for a Kafka tombstone, which marks its key as deleted."""
    timestamp: int
    """When the queue stored it, by the server's clock: milliseconds since 1970."""
    epoch: Epoch
    """The epoch under which it was read; acknowledgements carry it."""
    redelivered: bool
    """Whether it was handed out before, perhaps to another consumer, and may have been processed in part or in full."""
    headers: Mapping[str, bytes | None] = field(default_factory=dict, hash=False)
    """Headers that its producer sent. The value of a Kafka header may be None."""


def _itself(entry: Entry) -> Entry:
    return entry


class Entries(Sequence[Entry]):
    """Entries of one partition, in order. A reader of large batches creates each entry on access: its subclass overrides
    `offsets`, `keys` and `values` so that they create none."""

    without_key: bytes | None = b""
    """The key of an entry that was sent without one."""
    times: Mapping[str, int] = MappingProxyType({})
    """By offset, how often unfinished entries were handed out before, if the queue counts that: once at the first read, then at
    each attempt that `Reader.begin_again` counts."""
    attempts: Mapping[str, int] = MappingProxyType({})
    """By offset, the number of earlier attempts, if the queue knows of more than `times` has."""
    bounded = False
    """Whether `times` counts towards maxRedeliveries. Then such entries are processed one at a time, so that the failure of one
    does not count for another."""

    def __init__(self, sources: Sequence[Any], make: Callable[[Any], Entry] = _itself) -> None:
        """`make` creates an entry from its source, perhaps repeatedly. An entry holds no reference to the others, so that keeping
        one in memory keeps no more."""
        self.sources = sources
        self.make = make

    @classmethod
    def of(cls, read: Sequence[Entry]) -> "Entries":
        """Wrap the answer of any reader."""
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
        """As `Entry.key`; None for a Kafka message without a key."""
        return [entry.key for entry in self]

    @cached_property
    def values(self) -> Sequence[bytes]:
        """As `Entry.value`; None for a Kafka tombstone."""
        return [entry.value for entry in self]

    @property
    def redelivered(self) -> int:
        """The number of entries that were handed out before."""
        return sum(entry.redelivered for entry in self)
