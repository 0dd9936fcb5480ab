"""The description of a kind of queue: its properties, and where its code is."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

ANSWERS_WITHIN = 5.0
"""Default of `QueueKind.answers_within`, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueKind:
    """One kind of queue. Its sides are names ("module:attribute") and not imports, so that a pod loads only the one it needs, and
    the registry needs no client library. `baton.queues.kinds` describes the sides."""

    name: str
    """The value of spec.source.type."""
    about: str
    """Description of its fields, for kubectl explain."""
    resource: str
    """The CR model of its fields: a SourceFields (baton.schema.shape). Only the operator has it."""
    operator: str
    """The operator's side: an OpenQueueSide (baton.queues.opening)."""
    needs: tuple[str, ...] = ()
    """Required fields of the source: one of them, or with `needs_all` each. Empty: all fields may be left out."""
    needs_all: bool = False
    fenced: bool
    """Whether the queue itself rejects stale owners."""
    answers_within: float = ANSWERS_WITHIN
    """Seconds after which a request of the operator counts as hanging."""
    session_required: bool
    """Whether a pod is a member only while it keeps a session, unless spec.membership.session overrides that. True if consumers
    use Baton's library, which keeps one."""
    partitions_are_changed: str | None = None
    """Where the number of partitions is changed, if the queue itself defines it. None: spec.partitions does."""
    most_partitions: int | None = None
    """None: the general limit."""
    keeps_finished: bool = False
    """Whether the queue keeps finished entries, so that a group can be set back to them."""
    limits_deliveries: bool = False
    """Whether spec.maxDeliveredUnacked and spec.maxRedeliveries apply."""
    announces: bool = False
    """Whether the queue itself announces grants and pauses, so that consumers need not wait for their kubelet to refresh the
    ledger."""
    tells_zones: bool = False
    """Whether its servers know their zones, for assignors that use zones."""
    transactions: bool = False
    """Whether its readers send a consumer's outputs in the transaction that finishes entries: they are `TransactionalReader`s
    (baton.queues.consumer_side)."""
    variable: str | None = None
    """The environment variable with the address of a pod's queues."""
    consumer: str | None = None
    """The consumer's side: an OpenConsumerSide (baton.queues.consumer_side)."""
    producer: str | None = None
    """The class that programs send with: a Producer (baton.queues.producer_side), created from address, queue, `patience` and
    `linger`."""
    schemes: tuple[str, ...] = ()
    """Beginnings of an address of such a queue, up to the ://."""
    spark: str | None = None
    """Spark's side: an OpenSparkSide (baton.queues.logged_ranges)."""
    dead_letters: str | None = None
    """Access to its dead letters: an OpenDeadLetters (baton.queues.dead_letters)."""
    onlooker: str | None = None
    """Shows entries without consuming them: an OpenOnlooker (baton.queues.onlooker)."""
    address: str | None = None
    """Finds the server's address, for commands that connect to it: a FindAddress (baton.queues.opening)."""

    @property
    def field(self) -> str:
        """The name of its field in spec.source."""
        return self.name[0].lower() + self.name[1:]


def load(side: str) -> Any:
    """Import a side by its name."""
    module, _, attribute = side.partition(":")
    return getattr(import_module(module), attribute)
