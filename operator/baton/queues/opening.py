"""What the operator's side of a kind is given to open a queue."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from baton.queues.protocol import Claimant, QueueAdapter

LOOKUP_NAMESPACE: ContextVar[str | None] = ContextVar("baton_lookup_namespace", default=None)
"""The namespace for which a task connects to a server: the event loop takes turns between the host lookups of namespaces. None:
no namespace, or the process itself."""


@dataclass(frozen=True, slots=True)
class SecretText:
    """The value of one key of a Secret."""

    text: str = field(repr=False)
    where: str
    """The Secret and the field that names it: the beginning of a sentence."""


class ReadSecret(Protocol):
    """Reads a Secret of the queue's namespace. Raises QueueUnreachable, with the cure, if it is missing or empty."""

    async def __call__(self, name: str, key: str, *, named_by: str, holds: str) -> SecretText:
        """`named_by`: the field of the spec, for messages. `holds`: what the key should contain ("URL")."""


@dataclass(frozen=True, slots=True)
class QueueToOpen:
    """A PartitionedQueue."""

    namespace: str
    name: str
    source: Any
    """The kind's own CR model (`QueueKind.resource`), as in the spec."""
    max_delivered_unacked: int
    max_redeliveries: int
    read_secret: ReadSecret
    tls_files: Path
    """Folder of the files that may be read for TLS."""

    @property
    def full_name(self) -> str:
        """namespace/name"""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a queue's server."""

    text: str = field(repr=False)
    stands_in: str
    """Where the address is written, for messages."""


OpenQueueSide = Callable[[QueueToOpen, Claimant], Awaitable[QueueAdapter]]
"""The operator's side (`QueueKind.operator`). The adapter connects at its first request. May raise QueueUnreachable."""
FindAddress = Callable[[QueueToOpen], Awaitable[ServerAddress]]
"""`QueueKind.address`. May raise QueueUnreachable."""
