"""The dead letters of a queue."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import ASCII, fullmatch
from typing import NamedTuple, Protocol


class LetterId(NamedTuple):
    """Identifies a dead letter of a queue. As text: `3/1795338000123-0`."""

    partition: int
    entry: str
    """Its id among the partition's dead letters: the time in milliseconds, and a count."""

    @classmethod
    def read(cls, text: str) -> "LetterId":
        """Raises ValueError."""
        match = fullmatch(r"([0-9]{1,4})/([0-9]{1,15}-[0-9]{1,15})", text, ASCII)
        if match is None:
            raise ValueError("not the id of a dead letter, such as 3/1795338000123-0")
        return cls(int(match[1]), match[2])

    def died(self) -> tuple[int, int]:
        """Sort key: grows from one dead letter of a partition to the next."""
        milliseconds, _, count = self.entry.partition("-")
        return int(milliseconds), int(count)

    def __str__(self) -> str:
        return f"{self.partition}/{self.entry}"


@dataclass(frozen=True, slots=True)
class LetterLine:
    """A dead letter without its value, for lists."""

    letter: LetterId
    offset: str
    key: bytes
    """The beginning of the key."""
    key_size: int
    size: int
    """Bytes of the value."""
    timestamp: int | None
    """When the queue stored the entry: milliseconds since 1970. None: not sent by a Baton producer, so it cannot be redriven."""
    deliveries: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Letter:
    """A complete dead letter."""

    letter: LetterId
    offset: str
    key: bytes
    value: bytes
    timestamp: int | None
    deliveries: int | None
    why: str
    headers: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Redriven:
    """The result of `DeadLetters.redrive`, in numbers of dead letters."""

    sent: int
    kept: int
    """Not sent, because no Baton producer had sent them; they stay dead letters."""
    missing: int
    """Not found, perhaps because they were redriven or dropped before."""


class DeadLetters(Protocol):
    """The dead letters of one queue. Methods raise QueueUnreachable with a sentence."""

    def counts(self) -> dict[int, int]:
        """Return the number of dead letters of each partition, former partitions included."""

    def until_now(self) -> str:
        """Return an upper bound for the ids of current dead letters."""

    def page(self, partition: int, after: LetterId | None = ..., limit: int = ...) -> list[LetterLine]:
        """Return dead letters of a partition, oldest first, beginning after `after`."""

    def every(self, partition: int, last: str = ...) -> Iterator[list[LetterLine]]:
        """Yield all pages of a partition. The letters of a page may be dropped before the next page is read."""

    def portions(self, letters: Iterable[LetterLine]) -> Iterator[list[LetterId]]:
        """Split letters into portions that fit into memory."""

    def find(self, letter: LetterId) -> Letter | None: ...
    def redrive(self, letters: Sequence[LetterId]) -> Redriven:
        """Send dead letters to the end of the queue, in this order, as a producer does. Each is removed when the queue has it."""

    def drop(self, letters: Iterable[LetterId]) -> int:
        """Delete dead letters permanently. Returns how many existed."""

    def close(self) -> None: ...


OpenDeadLetters = Callable[[str, str, str], DeadLetters]
"""`QueueKind.dead_letters`, called with the queue's address, its name (namespace/name) and where the address is written."""
