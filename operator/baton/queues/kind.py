"""What a kind of queue brings, and what it says of itself."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

ANSWERS_WITHIN = 5.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueKind:
    """One kind. Its sides are named and not imported ("module:attribute"), so that a pod loads the one that it needs, and the
    registry needs no client of any server. `baton.queues.kinds` says what the sides are."""

    name: str
    """As spec.source.type names it."""
    about: str
    """The description of its fields, for kubectl explain."""
    resource: str
    """The CR model of its fields: a SourceFields (baton.schema.shape). For the operator alone."""
    operator: str
    """The operator's side: an OpenQueueSide (baton.queues.opening)."""
    needs: tuple[str, ...] = ()
    """Fields of which one (`needs_all`: each) has to stand in the source. Without any, the fields may be left out."""
    needs_all: bool = False
    fenced: bool
    """The queue itself refuses stale owners."""
    answers_within: float = ANSWERS_WITHIN
    """Seconds for one question of the operator's: what takes longer hangs."""
    session_required: bool
    """A pod is a member only while it keeps a session, unless spec.membership.session says otherwise: its consumers have Baton's
    library, which keeps one."""
    partitions_are_changed: str | None = None
    """Where: the queue says how many partitions it has, and spec.partitions does not. None: spec.partitions says."""
    most_partitions: int | None = None
    """None: as many as any queue."""
    keeps_finished: bool = False
    """It keeps entries that are finished with: a group can be set back to them."""
    limits_deliveries: bool = False
    """spec.maxDeliveredUnacked and spec.maxRedeliveries hold for it."""
    announces: bool = False
    """The queue itself tells its consumers of grants and pauses: they need not wait for their kubelet to refresh the ledger."""
    tells_zones: bool = False
    """Its servers say where they are, for assignors that look at zones."""
    transactions: bool = False
    """Its readers send a consumer's outputs in the transaction that finishes entries: they are `TransactionalReader`s
    (baton.queues.consumer_side)."""
    variable: str | None = None
    """The environment variable from which a pod has the address of its group's queues."""
    consumer: str | None = None
    """The consumer's side: an OpenConsumerSide (baton.queues.consumer_side)."""
    producer: str | None = None
    """What programs send with: a Producer (baton.queues.producer_side), made of address, queue, `patience` and `linger`."""
    schemes: tuple[str, ...] = ()
    """What an address of such a queue begins with, up to the ://."""
    spark: str | None = None
    """Spark's side: an OpenSparkSide (baton.queues.logged_ranges)."""
    dead_letters: str | None = None
    """Where it keeps dead letters: an OpenDeadLetters (baton.queues.dead_letters)."""
    onlooker: str | None = None
    """Shows entries and takes none: an OpenOnlooker (baton.queues.onlooker)."""
    address: str | None = None
    """Where its server is: a FindAddress (baton.queues.opening), for commands that ask it themselves. None: there are none."""

    @property
    def field(self) -> str:
        """Of spec.source."""
        return self.name[0].lower() + self.name[1:]


def load(side: str) -> Any:
    """What a side names."""
    module, _, attribute = side.partition(":")
    return getattr(import_module(module), attribute)
