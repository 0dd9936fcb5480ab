"""The dead letters of a queue."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import ASCII, fullmatch
from typing import NamedTuple, Protocol


class LetterId(NamedTuple):
    """Names a dead letter of a queue. As text: `3/1795338000123-0`."""

    partition: int
    entry: str
    """Its id in the partition's dead letters: the time in milliseconds, and a count."""

    @classmethod
    def read(cls, text: str) -> "LetterId":
        """Raises ValueError."""
        match = fullmatch(r"([0-9]{1,4})/([0-9]{1,15}-[0-9]{1,15})", text, ASCII)
        if match is None:
            raise ValueError("it is no dead letter's id, such as 3/1795338000123-0")
        return cls(int(match[1]), match[2])

    def died(self) -> tuple[int, int]:
        """Grows from one letter of a partition to the next."""
        milliseconds, _, count = self.entry.partition("-")
        return int(milliseconds), int(count)

    def __str__(self) -> str:
        return f"{self.partition}/{self.entry}"


@dataclass(frozen=True, slots=True)
class LetterLine:
    """A line of a list."""

    letter: LetterId
    offset: str
    key: bytes
    """Its beginning."""
    key_size: int
    size: int
    """Bytes of the value."""
    timestamp: int | None
    """When the queue took the entry: milliseconds since 1970. None: no producer of Baton's sent it, and it is not sent again."""
    deliveries: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Letter:
    """As a whole."""

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
    """What came of it."""

    sent: int
    kept: int
    """Of which no producer of Baton's is the sender: they stay."""
    missing: int
    """There is no such letter, or not any more."""


class DeadLetters(Protocol):
    """Of one queue; `baton.queues.redis.RedisDeadLetters` is one. Raise QueueUnreachable with a sentence."""

    def counts(self) -> dict[int, int]:
        """Of each partition that there is or was: how many."""

    def until_now(self) -> str:
        """The last id that a letter can have that is there now."""

    def page(self, partition: int, after: LetterId | None = ..., limit: int = ...) -> list[LetterLine]:
        """Of a partition, in the order in which they died: those behind `after`."""

    def every(self, partition: int, last: str = ...) -> Iterator[list[LetterLine]]:
        """All pages of a partition; what is in a page may be dropped before the next is asked for."""

    def portions(self, letters: Iterable[LetterLine]) -> Iterator[list[LetterId]]:
        """As many at once as memory should hold."""

    def find(self, letter: LetterId) -> Letter | None: ...
    def redrive(self, letters: Sequence[LetterId]) -> Redriven:
        """Send them to the end of the queue, in this order, as a producer does; each goes when the queue has it."""

    def drop(self, letters: Iterable[LetterId]) -> int:
        """For good. How many there were."""

    def close(self) -> None: ...


OpenDeadLetters = Callable[[str, str, str], DeadLetters]
"""`QueueKind.dead_letters`, given the queue's address, its name (namespace/name) and where the address is written."""
