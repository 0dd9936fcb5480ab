"""What the operator's side of a kind is given to open a queue."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from baton.queues.protocol import Claimant, QueueAdapter


@dataclass(frozen=True, slots=True)
class SecretText:
    """What a Secret holds under a key."""

    text: str = field(repr=False)
    where: str
    """The Secret and who names it: the beginning of a sentence."""


class ReadSecret(Protocol):
    """Reads a Secret of the queue's namespace. Raises QueueUnreachable, with the cure, where it is missing or says nothing."""

    async def __call__(self, name: str, key: str, *, named_by: str, holds: str) -> SecretText:
        """`named_by`: the field of the spec, for messages; `holds`: what should stand there ("URL")."""


@dataclass(frozen=True, slots=True)
class QueueToOpen:
    """A PartitionedQueue."""

    namespace: str
    name: str
    source: Any
    """The kind's own CR model (`QueueKind.resource`), as the spec has it."""
    max_delivered_unacked: int
    max_redeliveries: int
    read_secret: ReadSecret
    tls_files: Path
    """The folder of the files that may be read for TLS."""

    @property
    def full_name(self) -> str:
        """namespace/name"""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a queue's server is."""

    text: str = field(repr=False)
    stands_in: str
    """Where that is written, for messages."""


OpenQueueSide = Callable[[QueueToOpen, Claimant], Awaitable[QueueAdapter]]
"""The operator's side (`QueueKind.operator`). The adapter connects when it is first asked something. May raise
QueueUnreachable."""
FindAddress = Callable[[QueueToOpen], Awaitable[ServerAddress]]
"""`QueueKind.address`. May raise QueueUnreachable."""
