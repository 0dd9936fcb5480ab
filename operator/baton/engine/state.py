"""What the engine knows of a group between two steps. All of it but the views can be read back from the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from baton.api.enums import Protocol
from baton.api.group_status import GroupNumbers
from baton.engine.effects import Effect
from baton.engine.observation import Observation
from baton.engine.step_events import How
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid

PodKey = tuple[MemberId, Uid]
"""A pod: its name and its UID."""


def moment(seconds: float) -> float:
    """Times are kept to the microsecond, so that sums of the same durations are the same time."""
    return round(seconds, 6)


class PartitionRecord(NamedTuple):
    """One partition."""

    epoch: Epoch = Epoch(0)
    """At which its owner holds it; without an owner: the highest that was ever written for it."""
    owner: MemberId | None = None
    """Who holds it. A giver holds it until the next grant."""
    last: MemberId | None = None
    """Its last owner (its owner, where it has one)."""


@dataclass(frozen=True, slots=True)
class Move:
    """A hand-off that has begun: it was, or is about to be, written to the ledger."""

    receiver: MemberId | None
    """None: nobody (the partition is withdrawn, or rests until its static member returns)."""
    uid: Uid | None
    epoch: Epoch
    """Of the grant to the receiver."""
    giver: MemberId | None = None
    """Who has to let go first; None: nobody has to."""
    deadline: float = 0.0
    length: float = 0.0
    """Seconds from revoke to deadline."""
    since: float | None = None
    """When the giver was told; None where there was no giver."""
    why: str = ""
    quiet: bool = False
    """The owner is only asserted again, at a new epoch; it goes on working meanwhile."""
    missed: bool = False
    """The deadline passed before the release."""
    released: How | None = field(default=None, compare=False)
    """What was seen of the release. Not in the ledger: whoever restarts sees it again."""


@dataclass(frozen=True, slots=True)
class MemberSlot:
    """The place of a member of the last plan."""

    member: MemberId
    uid: Uid
    instance: str | None = None
    vacated: frozenset[Partition] | None = None
    """Vacant: what its holder had when it left, which waits for somebody to take the slot. None: the slot is taken."""
    expires: float | None = None
    """Vacant, of a static member: until when it is kept for it."""
    length: float = 0.0
    """Seconds for which a static member's slot is kept."""
    late: bool = False
    """Vacant, of a static member whose term is over: it waits on for the end of the holddown that ran then."""
    overtaken: bool = False
    """Vacant: partitions were shared out meanwhile, as suited the others without this slot's."""


@dataclass(frozen=True, slots=True)
class KnownMember:
    """A member that has a key in the ledger."""

    uid: Uid
    active: bool = False
    generation: int = 0
    """Of the last change to its key."""
    instance: str | None = None
    subscribed: frozenset[QueueName] | None = None
    capacity: Fraction = Fraction(1)


class KnownQueue(NamedTuple):
    """A queue as the last step left it."""

    partitions: int
    exclusive: bool = False
    incarnation: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the group was like when the engine last acted on it; a difference is a trigger."""

    assignor: str | None = None
    protocol: Protocol = Protocol.COOPERATIVE
    paused: bool = False
    request: str | None = None
    answered: str | None = None
    """The last approval that was carried out or refused."""
    tuning: str = ""
    """See `baton.engine.assignor_inputs`."""


@dataclass(frozen=True, slots=True)
class Holddown:
    """A plan waits until then (seconds, on the clock of the steps), so that what follows shortly shares it."""

    until: float
    length: float
    why: str
    pinned: bool = False
    """There is more to do than to fill slots: it runs to its end, also when all slots are taken again."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The one that is under way."""

    origins: Mapping[Partition, MemberId | None] = field(default_factory=dict)
    """Who owned what it moved, at its start. The rest is where it was."""
    full: bool = False
    """It had a plan for everybody, and did not only fill slots or place partitions."""
    eager: bool = False
    """Nothing is granted before everything is released."""
    why: str = ""
    """Of its plan."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Moves that wait for approval. Until then nothing is taken from anybody."""

    id: str
    receivers: Mapping[Partition, MemberId]
    uids: Mapping[MemberId, Uid]
    """Of the receivers."""
    why: str
    created: float


class Totals(NamedTuple):
    """Counted since the group was made."""

    moves: int = 0
    lower_bound: int = 0
    deadline_misses: int = 0


class PlanProblem(NamedTuple):
    """Why no plan can be made."""

    reason: str
    """A condition's reason, such as UnknownAssignor."""
    message: str


@dataclass(frozen=True, slots=True)
class View:
    """The end of the last step, for `summary` and for a step that finds nothing new. Not in the ledger."""

    observation: Observation
    effects: tuple[Effect, ...]
    wake_at: float | None
    problem: PlanProblem | None
    balanced: bool
    settled: bool
    hold_until: float | None
    """When what is waited out is over; None: nothing is, or what is to follow waits for something else."""
    numbers: GroupNumbers


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group. Its mappings are never changed in place."""

    group: str
    generation: int = 0
    queues: Mapping[QueueName, KnownQueue] = field(default_factory=dict)
    records: Mapping[Partition, PartitionRecord] = field(default_factory=dict)
    epoch_tombstones: Mapping[Partition, Epoch] = field(default_factory=dict)
    """The highest epochs of partitions that were withdrawn: they may come back."""
    queue_tombstones: Mapping[QueueName, Epoch] = field(default_factory=dict)
    """The highest epoch of all that was withdrawn of a queue, where it is not kept of each partition: it may come back, too."""
    known: Mapping[MemberId, KnownMember] = field(default_factory=dict)
    member_slots: tuple[MemberSlot, ...] = ()
    standbys: tuple[MemberId, ...] = ()
    """Members without a partition, who has waited longest first. One that was left with none may still have its slot."""
    moves: Mapping[Partition, Move] = field(default_factory=dict)
    waiting: Mapping[Partition, MemberId] = field(default_factory=dict)
    """Planned and not begun (maxConcurrentHandoffs): who is to receive it."""
    proposal: Proposal | None = None
    """Planned, and to be approved before it begins."""
    holddown: Holddown | None = None
    rebalance: Rebalance | None = None
    facts: Facts | None = None
    fenced: frozenset[PodKey] = frozenset()
    """Older pods whose identity a newer one has taken."""
    replicas: int | None = None
    """The desired size, where the driver has to apply it (mode Spark)."""
    victims: tuple[PodKey, ...] = ()
    """The pods that are to go (mode Spark), first chosen first."""
    totals: Totals = field(default_factory=Totals)
    view: View | None = field(default=None, compare=False)

    @classmethod
    def new(cls, group: str) -> "GroupState":
        """A group that nothing is known of. `group` is namespace/name."""
        return cls(group=group)

    @property
    def moving(self) -> int:
        """Partitions that are changing hands, or will by the plan."""
        return sum(not move.quiet for move in self.moves.values()) + len(self.waiting)

    @property
    def hold_until(self) -> float | None:
        """When the holddown or the first static member's term ends."""
        ends = [slot.expires for slot in self.member_slots if slot.expires is not None]
        if self.holddown is not None:
            ends.append(self.holddown.until)
        return min(ends, default=None)
