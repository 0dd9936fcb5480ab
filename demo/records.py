"""The records of a run for the auditor: who processed which message, in which order, at which epoch."""

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
    """The number of the message within its key: 1, 2, 3 …"""
    epoch: int
    redelivered: bool
    executor: str
    batch: int
    run: str
    """The run of the function over one partition's part of a batch; a retried task has another."""
    late: bool = False
    """Whether the sink rejected the result: it had the range already, or (plain pods) the epoch was over."""


class Fence(NamedTuple):
    """The time at which an independent witness read `epoch` in the owner record, so that it was in force by then."""

    partition: int
    epoch: int
    at_ms: int
    """Milliseconds since 1970 on the queue server's clock."""


class Attempt(NamedTuple):
    """A call directly at the queue with the credentials of a former owner of the partition."""

    partition: int
    operation: str
    epoch: int
    refused: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """All input of the verdict."""

    produced: Mapping[str, int]
    """Key -> its last sequence that the queue acknowledged to the producer; the first is 1."""
    processed: Iterable[Processed]
    """In the sink's order, which matters only within a partition."""
    fences: Iterable[Fence] = field(default=())
    attempts: Iterable[Attempt] = field(default=())
