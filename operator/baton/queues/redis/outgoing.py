"""Entries that a producer was given, and what became of them."""

from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import Final, NamedTuple

from baton.queues.protocol import QueueUnreachable

_BATCH_BYTES = 1_000_000


class Sent(NamedTuple):
    """An entry that is in the queue."""

    partition: int
    offset: str | None
    """As its consumer has it. None: not known, for an earlier try had brought it there, or it waits while its key moves."""
    duplicate: bool = False
    """An earlier try had brought it there, whose answer was lost. It is there once."""


class Failed(NamedTuple):
    """An entry that may not be in the queue."""

    why: str
    error: type[Exception] = QueueUnreachable


class Waiting:
    """An entry on its way."""

    __slots__ = (
        "deadline", "due", "headers", "key", "may_be_there", "outcome", "producer", "sequence", "size", "slot", "told", "value",
    )  # fmt: skip

    def __init__(
        self,
        slot: int | None,
        key: bytes,
        value: bytes,
        headers: bytes,
        deadline: float,
        *,
        due: float = -inf,
        producer: str = "",
        told: "SendListener | None" = None,
    ) -> None:
        """`slot`: None for any; below 0 for a partition, `to_partition` of it. `headers`: packed. `due`: when it is to be sent at
        the latest, by the same clock as `deadline`. `producer`: who counts; '' for the outbox's own."""
        self.slot = slot
        self.key, self.value, self.headers = key, value, headers
        self.deadline, self.due = deadline, due
        self.producer = producer
        self.sequence = 1 if producer else 0
        self.may_be_there = bool(producer)
        """It was sent before, by this producer or under this name by anybody."""
        self.told = told
        self.size = len(key) + len(value) + len(headers)
        self.outcome: Sent | Failed | None = None

    @property
    def chosen_partition(self) -> int:
        """The partition that the program chose, if `slot` is below 0."""
        return to_partition(self.slot or 0)


class SendListener:
    """Whoever is to hear what became of an entry."""

    def settled(self) -> None:
        raise NotImplementedError


def to_partition(number: int) -> int:
    """As `slot` of an entry: whichever slot the partition has when the entry is sent for the first time."""
    return -1 - number


def all_known(entries: Iterable[Waiting]) -> Callable[[], bool]:
    """Asks whether each of them has an outcome; together, all calls look at each entry about once."""
    left = list(entries)

    def known() -> bool:
        while left and left[-1].outcome is not None:
            left.pop()
        return not left

    return known


def next_batch(queue: deque[Waiting], most: int) -> list[Waiting]:
    """What one script takes: of one producer."""
    batch: list[Waiting] = []
    size = 0
    while queue and len(batch) < most:
        entry = queue[0]
        if entry.outcome is None:
            if batch and (size + entry.size > _BATCH_BYTES or entry.producer != batch[0].producer):
                break
            batch.append(entry)
            size += entry.size
        queue.popleft()
    return batch


class ReadTable:
    """What a producer is to do next: see which partition has which slot (`Outbox.routed`)."""


READ_TABLE: Final = ReadTable()
Round = dict[int, list[Waiting]]
"""What a producer is to send in one round trip, by partition (`Outbox.answered` or `failed` for each)."""
