"""The state of a group between two steps. The ledger has all of it but the view."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple

from pydantic import Field

from baton.api.group import GroupNumbers, Protocol
from baton.engine.observation import GroupMember, Observation
from baton.engine.results import Effect, ReleaseCause
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid

PodKey = tuple[MemberId, Uid]
"""A pod: its name and its UID."""

Seconds = Annotated[float, Field(ge=0, le=253_402_300_799)]
"""A duration, or a time since 1970: none is after the year 9999. A ledger that says otherwise is refused."""

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""The API server accepts no greater integer."""


def moment(seconds: float) -> float:
    """Times are kept to the microsecond, so that sums of the same durations are the same time."""
    return round(seconds, 6)


class PartitionRecord(NamedTuple):
    """The record of one partition."""

    epoch: Epoch = Epoch(0)
    """The epoch of the owner's grant, or of the last one; where a move has begun without an owner, the move's."""
    owner: MemberId | None = None
    """The owner. A giver owns the partition until the next grant."""
    last: MemberId | None = None
    """The last owner: the owner, if there is one."""
    ended: Epoch = Epoch(0)
    """Without an owner: the epoch at which the last one had it. No grant above that has made any pod the owner."""

    @property
    def granted_at(self) -> Epoch:
        """The epoch of the last grant that made a pod the owner here."""
        return self.ended if self.owner is None else self.epoch


@dataclass(frozen=True, slots=True)
class Move:
    """A hand-off that has begun. The ledger has it before any effect is carried out. Times are Unix seconds."""

    receiver: MemberId | None
    """None: the partition is withdrawn, or waits without an owner."""
    uid: Uid | None
    epoch: Epoch
    """The epoch of the grant to the receiver."""
    giver: MemberId | None = None
    """The member that has to release first; None: the partition has no owner."""
    deadline: float = 0.0
    length: float = 0.0
    """Seconds from revoke to deadline."""
    since: float | None = None
    """The time of the revoke; None if there is no giver."""
    why: str = ""
    quiet: bool = False
    """The owner only gets a new epoch, and works on meanwhile."""
    missed: bool = False
    """The deadline passed before the release."""
    released: ReleaseCause | None = field(default=None, compare=False)
    """The cause of the release; None: not released. It is not in the ledger, because an observation shows it again."""


@dataclass(frozen=True, slots=True)
class MemberSlot:
    """The place of one member of the last plan. It is taken, or vacant with the partitions that its member left."""

    member: MemberId
    uid: Uid
    instance: str | None = None
    vacated: frozenset[Partition] | None = None
    """Vacant slot: the partitions that go to the member that takes it. None: the slot is taken."""
    expires: float | None = None
    """Reserved slot: the end of the session timeout, in Unix seconds. None: the slot is not reserved."""
    length: float = 0.0
    """Reserved slot: the session timeout, in seconds."""
    late: bool = False
    """Reserved slot: the session timeout is over, and the slot waits for the end of a holddown that others need."""
    overtaken: bool = False
    """Vacant slot: partitions were given to others while it was vacant."""


@dataclass(frozen=True, slots=True)
class KnownMember(GroupMember):
    """A member that has a key in the ledger, as a step took it in last."""

    active: bool = False
    generation: int = 0
    """The generation of the last change to its key."""


IN_DOUBT = "in doubt"
"""No server's incarnation: what stands of the queue is to be granted again."""


class KnownQueue(NamedTuple):
    """A queue as the last step took it in."""

    partitions: Count
    exclusive: bool = False
    incarnation: str | None = None
    """IN_DOUBT: it is unknown what the pods were told."""

    @property
    def refuses(self) -> bool:
        """It has a server, which refuses earlier owners."""
        return self.incarnation not in (None, IN_DOUBT)


class Unreleased(NamedTuple):
    """Who owned a partition that the group does not have any more, and has not released it."""

    member: MemberId
    uid: Uid
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that the engine last acted on. A difference to them is a trigger."""

    assignor: str | None = None
    protocol: Protocol = Protocol.COOPERATIVE
    paused: bool = False
    request: str | None = None
    answered: str | None = None
    """The last approval that was carried out or refused."""
    inputs: str = ""
    """See `baton.engine.placement`."""


@dataclass(frozen=True, slots=True)
class Holddown:
    """The time before a plan, in which further changes join it. Times are Unix seconds, `length` is in seconds."""

    until: Seconds
    length: Seconds
    why: str
    pinned: bool = False
    """It runs to its end even if all vacant slots are taken again."""
    rest: bool = False
    """It is over, and its plan is carried out in parts: the rest is planned when this part's hand-offs end, or at `until`."""


@dataclass(slots=True)
class Rebalance:
    """The rebalance under way. Only a draft changes one."""

    origins: dict[Partition, MemberId | None] = field(default_factory=dict)
    """The owners of the partitions that it moves, from before it. All other partitions stay."""
    full: bool = False
    """It includes a plan, and did not only fill slots or place partitions."""
    eager: bool = False
    """Protocol Eager: no partition is granted before all are released."""
    why: str = ""
    """The reason of its plan."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that waits for approval. Until then no member has to release anything. `created`: Unix seconds."""

    id: str
    receivers: Mapping[Partition, MemberId]
    uids: Mapping[MemberId, Uid]
    """The receivers' UIDs."""
    why: str
    created: float


class Totals(NamedTuple):
    """Counts since the group was created."""

    moves: Count = 0
    lower_bound: Count = 0
    deadline_misses: Count = 0


class PlanProblem(NamedTuple):
    """The reason why no plan can be made."""

    reason: str
    """A condition's reason, such as UnknownAssignor."""
    message: str


@dataclass(frozen=True, slots=True)
class View:
    """The results of the last step, for `summary` and for a step without news. They are not in the ledger."""

    observation: Observation
    effects: tuple[Effect, ...]
    wake_at: float | None
    problem: PlanProblem | None
    balanced: bool
    settled: bool
    hold_until: float | None
    """The end of the holddown or of the first reserved slot; None: neither runs, or the plan waits for something else."""
    numbers: GroupNumbers


@dataclass(slots=True)
class GroupState:
    """The state of one group. It stays as it is between steps: a step changes a copy of it, the `Draft`."""

    group: str
    generation: int = 0
    queues: dict[QueueName, KnownQueue] = field(default_factory=dict)
    records: dict[Partition, PartitionRecord] = field(default_factory=dict)
    epoch_tombstones: dict[Partition, Epoch] = field(default_factory=dict)
    """The highest epochs of withdrawn partitions, which may come back; and of those that have an owner by an earlier grant of a
    hand-off that was redirected, and is over."""
    queue_tombstones: dict[QueueName, Epoch] = field(default_factory=dict)
    """The highest epoch of a queue's withdrawn partitions, if they have no tombstones of their own."""
    unreleased: dict[Partition, Unreleased] = field(default_factory=dict)
    """The last owners of partitions that are gone, where no queue refuses them. They may still work on them."""
    known: dict[MemberId, KnownMember] = field(default_factory=dict)
    member_slots: list[MemberSlot] = field(default_factory=list)
    standbys: list[MemberId] = field(default_factory=list)
    """Members without a partition, longest waiting first. One that a plan left without partitions may hold a slot."""
    moves: dict[Partition, Move] = field(default_factory=dict)
    waiting: dict[Partition, MemberId] = field(default_factory=dict)
    """The receivers of hand-offs that are planned and not begun (maxConcurrentHandoffs)."""
    proposal: Proposal | None = None
    """The plan that waits for approval."""
    holddown: Holddown | None = None
    rebalance: Rebalance | None = None
    facts: Facts | None = None
    fenced: frozenset[PodKey] = frozenset()
    """Pods that are fenced off, because a newer pod has their identity."""
    replicas: int | None = None
    """The desired size that the driver applies (mode Spark)."""
    victims: tuple[PodKey, ...] = ()
    """The pods that the driver removes (mode Spark), in the order of choice."""
    totals: Totals = field(default_factory=Totals)
    view: View | None = field(default=None, compare=False)

    @classmethod
    def new(cls, group: str) -> "GroupState":
        """The state of a new group. `group` is namespace/name."""
        return cls(group=group)

    @property
    def moving(self) -> int:
        """The number of hand-offs that run or are planned."""
        return sum(not move.quiet for move in self.moves.values()) + len(self.waiting)

    def slot_holders(self) -> list[MemberId]:
        """The members that hold a slot, in the order of the slots."""
        return [slot.member for slot in self.member_slots if slot.vacated is None]

    @property
    def hold_until(self) -> float | None:
        """The end of the holddown or of the first reserved slot, whichever is earlier, in Unix seconds."""
        ends = [slot.expires for slot in self.member_slots if slot.expires is not None]
        if self.holddown is not None:
            ends.append(self.holddown.until)
        return min(ends, default=None)


def in_doubt(state: GroupState, queue: QueueName) -> GroupState:
    """The same state, in which what stands of this queue is to be granted again."""
    facts = state.queues[queue]._replace(incarnation=IN_DOUBT)
    return replace(state, queues={**state.queues, queue: facts}, view=None)  # what was seen last is looked at again
