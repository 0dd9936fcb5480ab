"""What the run leaves behind for the auditor: who processed which message, in which order, under which epoch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Processed(NamedTuple):
    """One message in one run of the user's function, as the function's own sink recorded it."""

    partition: int
    offset: str
    added_ms: int
    """When the queue took the message: milliseconds since 1970, by the server's clock."""
    key: str
    sequence: int
    """Counts the messages of one key: 1, 2, 3 …"""
    epoch: int
    redelivered: bool
    executor: str
    batch: int
    run: str
    """One run of the function over one partition's part of a batch; a task that is run again has another."""
    late: bool = False
    """The sink did not take the result: it had the range already, or (plain pods) the epoch was over when it arrived."""


class Fence(NamedTuple):
    """From this moment at the latest `epoch` was in force: an independent witness read it in the owner record."""

    partition: int
    epoch: int
    at_ms: int
    """Milliseconds since 1970 on the queue server's clock."""


class Attempt(NamedTuple):
    """One call straight at the queue with the credentials of an owner that had lost the partition."""

    partition: int
    operation: str
    epoch: int
    refused: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the verdict is made from."""

    produced: Mapping[str, int]
    """Key -> its last sequence that the queue acknowledged to the producer; the first is 1."""
    processed: Iterable[Processed]
    """In the order in which the sink saw them; only the order within one partition means anything."""
    fences: Iterable[Fence] = field(default=())
    attempts: Iterable[Attempt] = field(default=())
