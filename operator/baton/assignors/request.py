"""An assignor's input and output."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from baton.model.ids import MemberId, Partition, QueueName

NO_GENERATION = -1
"""The generation of a claim whose member names none (Kafka's DEFAULT_GENERATION)."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member as an assignor sees it."""

    subscribed: frozenset[QueueName]
    """The queues that it reads. Assignors ignore queues that do not exist."""
    owned: Sequence[Partition] = ()
    """The partitions that it claims to own, in any order. Assignors ignore those that do not exist."""
    generation: int = NO_GENERATION
    """The assignment that its claims come from. Where several members claim a partition, the newest generation wins."""
    instance: str | None = None
    """The identity of a static member."""
    zone: str | None = None
    rank: int = 0
    """Its rank by joining. Equal ranks go by name."""
    capacity: Fraction = Fraction(1)
    """How much load it can carry compared with other members, above 0."""


@dataclass(frozen=True, slots=True)
class Request:
    """The members, and the partitions that they should own. The order of the mappings means nothing.

    Assignors do not check a request. `baton plan` checks what a user gives it (`baton.cli.plan`).
    """

    queues: Mapping[QueueName, int]
    """The number of partitions of each queue."""
    members: Mapping[MemberId, Member]
    zones: Mapping[QueueName, tuple[frozenset[str], ...]] = field(default_factory=dict)
    """By queue and partition: the zones with a replica of it. A queue without an entry is in no zone."""
    options: Mapping[str, object] = field(default_factory=dict)
    weights: Mapping[QueueName, tuple[Fraction, ...]] = field(default_factory=dict)
    """By queue and partition: its share of the load, from 0. Each partition of a queue without an entry has 1."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The planned owners. Every member of the request has a key in `assignment`. Partitions are sorted.

    Built-in assignors answer with one `PartitionList` per member.
    """

    assignment: Mapping[MemberId, Sequence[Partition]]
    """The partitions that each member may own at once."""
    withheld: Mapping[MemberId, Sequence[Partition]] = field(default_factory=dict)
    """The partitions that a member gets once the present holder has released them (Kafka, KIP-429)."""

    def owners(self) -> dict[Partition, MemberId]:
        """The owner of each partition after all releases: the assignment together with the withheld partitions."""
        return {
            partition: member
            for part in (self.assignment, self.withheld)
            for member, partitions in part.items()
            for partition in partitions
        }


Assignor = Callable[[Request], Answer]
"""A pure function: equal requests have equal answers, whatever the order of their mappings."""
