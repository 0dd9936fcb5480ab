"""What a reader has read of a partition: as a whole, and entry by entry."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, overload

from baton.queues.entry import Entry


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
