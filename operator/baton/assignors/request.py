"""What an assignor is asked, and what it answers."""

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
    """The queues it reads. Those that do not exist are ignored."""
    owned: Sequence[Partition] = ()
    """What it claims to own, in any order; a `PartitionList` is taken as it is. Claims on what does not exist are ignored."""
    generation: int = NO_GENERATION
    """The assignment that its claims come from: where several claim a partition, the newest generation wins."""
    instance: str | None = None
    """The identity of a static member."""
    zone: str | None = None
    seat: int = 0
    """Its rank by joining; equal ranks go by name. `solace`, `contiguous` and `minimal` look at it."""
    capacity: Fraction = Fraction(1)
    """How much it can carry compared with the others, above 0. Only `minimal` looks at it."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who is there, and what there is to own. The order of its mappings means nothing.

    Assignors take a request as it is: who makes one from untrusted input checks it first (`baton.cli.plan`).
    """

    queues: Mapping[QueueName, int]
    """The number of partitions of each queue."""
    members: Mapping[MemberId, Member]
    zones: Mapping[QueueName, tuple[frozenset[str], ...]] = field(default_factory=dict)
    """Per queue and partition: the zones that have a replica of it. A queue without an entry is in no zone."""
    options: Mapping[str, object] = field(default_factory=dict)
    weights: Mapping[QueueName, tuple[Fraction, ...]] = field(default_factory=dict)
    """Per queue and partition: its share of the load, from 0; 1 each in a queue without an entry. Only `minimal` looks at it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Who should own what. Every member of the request has a key in `assignment`; partitions are sorted (our own assignors answer
    with a `PartitionList` each)."""

    assignment: Mapping[MemberId, Sequence[Partition]]
    """What each member may have at once."""
    withheld: Mapping[MemberId, Sequence[Partition]] = field(default_factory=dict)
    """What a cooperative assignor will give to a member once the present holder has let go."""

    def owners(self) -> dict[Partition, MemberId]:
        """Who owns each partition in the end: the assignment together with what is withheld."""
        return {
            partition: member
            for part in (self.assignment, self.withheld)
            for member, partitions in part.items()
            for partition in partitions
        }


Assignor = Callable[[Request], Answer]
"""A pure function: equal requests have equal answers, whatever the order of their mappings."""
