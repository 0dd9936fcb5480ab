"""The state of a group between two steps. The ledger has all of it except the view."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from baton.api.group import GroupNumbers, Protocol
from baton.engine.observation import GroupMember, Observation
from baton.engine.results import Effect, ReleaseCause
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid

PodKey = tuple[MemberId, Uid]
"""A pod: its name and its UID."""

Seconds = Annotated[float, Field(ge=0, le=253_402_300_799)]
"""A duration, or a time since 1970 up to the year 9999. A ledger with a larger value is rejected."""

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""The API server accepts no larger integer."""


def moment(seconds: float) -> float:
    """Round a time to the microsecond, so that sums of the same durations are equal."""
    return round(seconds, 6)


class PartitionRecord(NamedTuple):
    """The record of one partition."""

    epoch: Epoch = Epoch(0)
    """The epoch of the last grant, or of a move that began without an owner."""
    owner: MemberId | None = None
    """A giver owns the partition until the next grant."""
    last: MemberId | None = None
    """The owner, or without an owner the previous one."""
    ended: Epoch = Epoch(0)
    """Without an owner: the epoch at which the last owner had the partition. No later grant has made any pod the owner."""

    @property
    def granted_at(self) -> Epoch:
        """The epoch of the last grant that is known to have made a pod the owner."""
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
    """The owner only gets a new epoch, and keeps working."""
    missed: bool = False
    """The deadline passed before the release."""
    released: ReleaseCause | None = field(default=None, compare=False)
    """The cause of the release; None: not released. Not in the ledger, because an observation shows it again."""


@dataclass(frozen=True, slots=True)
class MemberSlot:
    """The slot of one member of the last plan: held by the member, or vacant with the partitions that the member left."""

    member: MemberId
    uid: Uid
    instance: str | None = None
    vacated: frozenset[Partition] | None = None
    """Vacant slot: the partitions that go to the member that takes it. None: the slot is held."""
    expires: float | None = None
    """Reserved slot: the end of the session timeout, in Unix seconds. None: the slot is not reserved."""
    length: float = 0.0
    """Reserved slot: the session timeout, in seconds."""
    late: bool = False
    """Reserved slot: the session timeout is over, and the slot waits for the end of a holddown for other departures."""
    overtaken: bool = False
    """Vacant slot: other members were given partitions while it was vacant."""


@dataclass(frozen=True, slots=True)
class KnownMember(GroupMember):
    """A member that has a key in the ledger, as of the last step."""

    active: bool = False
    generation: int = 0
    """The generation of the last change to its key."""


IN_DOUBT = "in doubt"
"""Stands for a server's incarnation when all partitions of the queue have to be granted again."""


class KnownQueue(NamedTuple):
    """A queue as of the last step."""

    partitions: Count
    exclusive: bool = False
    incarnation: str | None = None
    """The run of the queue's server. IN_DOUBT: it is unknown which owners the pods have read."""

    @property
    def refuses(self) -> bool:
        """True if the queue has a server, which rejects earlier owners."""
        return self.incarnation not in (None, IN_DOUBT)


class Unreleased(NamedTuple):
    """The last owner of a partition that the group no longer has, and that the owner has not released."""

    member: MemberId
    uid: Uid
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that the engine last acted on. A difference from them is a trigger."""

    assignor: str | None = None
    protocol: Protocol = Protocol.COOPERATIVE
    paused: bool = False
    request: str | None = None
    answered: str | None = None
    """The last approval that was carried out or refused."""
    inputs: str = ""
    """A digest of the assignor's inputs (`baton.engine.placement.fingerprint`)."""


@dataclass(frozen=True, slots=True)
class Holddown:
    """The time before a plan, in which further changes join it. Times are Unix seconds, `length` is in seconds."""

    until: Seconds
    length: Seconds
    why: str
    pinned: bool = False
    """The holddown runs to its end even if all vacant slots are taken again."""
    rest: bool = False
    """The holddown is over and its plan is carried out in parts. The rest is planned when this part ends, or at `until`."""


@dataclass(slots=True)
class Rebalance:
    """The rebalance under way. Only a draft changes one."""

    origins: dict[Partition, MemberId | None] = field(default_factory=dict)
    """The owners, before the rebalance, of the partitions that it moves."""
    full: bool = False
    """The rebalance includes a plan, and does not only fill slots or place partitions."""
    eager: bool = False
    """Protocol Eager: no partition is granted before all are released."""
    why: str = ""
    """The reason of the plan."""


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
    """Why no plan can be made."""

    reason: Literal["UnknownAssignor", "InvalidAssignment"]
    """The reason of the condition Ready."""
    message: str


@dataclass(frozen=True, slots=True)
class View:
    """The results of the last step, for `summary` and for a step with the same observation. Not in the ledger."""

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
    """The state of one group. A step does not change it, but a copy of it: the `Draft`."""

    group: str
    """namespace/name"""
    generation: int = 0
    queues: dict[QueueName, KnownQueue] = field(default_factory=dict)
    records: dict[Partition, PartitionRecord] = field(default_factory=dict)
    epoch_tombstones: dict[Partition, Epoch] = field(default_factory=dict)
    """The highest epochs of withdrawn partitions, which may come back; and of partitions whose owner has an earlier epoch,
    because their hand-off was redirected after the queue had accepted its first grant."""
    queue_tombstones: dict[QueueName, Epoch] = field(default_factory=dict)
    """The highest epoch of those withdrawn partitions of a queue that are not in `epoch_tombstones`."""
    unreleased: dict[Partition, Unreleased] = field(default_factory=dict)
    """The last owners of partitions that are gone. No queue rejects these owners, so they may still work."""
    known: dict[MemberId, KnownMember] = field(default_factory=dict)
    member_slots: list[MemberSlot] = field(default_factory=list)
    standbys: list[MemberId] = field(default_factory=list)
    """Members without a partition, longest waiting first. A member that a plan left without partitions may hold a slot."""
    moves: dict[Partition, Move] = field(default_factory=dict)
    waiting: dict[Partition, MemberId] = field(default_factory=dict)
    """The receivers of hand-offs that are planned and have not begun (maxConcurrentHandoffs)."""
    proposal: Proposal | None = None
    """The plan that waits for approval."""
    holddown: Holddown | None = None
    rebalance: Rebalance | None = None
    facts: Facts | None = None
    fenced: frozenset[PodKey] = frozenset()
    """Pods that are fenced off because a newer pod has the same identity."""
    replicas: int | None = None
    """The desired size that the driver applies (mode Spark)."""
    victims: tuple[PodKey, ...] = ()
    """The pods that the driver has to remove (mode Spark), in the order of choice."""
    totals: Totals = field(default_factory=Totals)
    view: View | None = field(default=None, compare=False)

    @property
    def moving(self) -> int:
        """The number of hand-offs that run or are planned."""
        return sum(not move.quiet for move in self.moves.values()) + len(self.waiting)

    def slot_holders(self) -> list[MemberId]:
        """Return the members that hold a slot, in the order of the slots."""
        return [slot.member for slot in self.member_slots if slot.vacated is None]

    @property
    def hold_until(self) -> float | None:
        """The end of the holddown or of the first reserved slot, whichever is earlier, in Unix seconds; None: neither runs."""
        ends = [slot.expires for slot in self.member_slots if slot.expires is not None]
        if self.holddown is not None:
            ends.append(self.holddown.until)
        return min(ends, default=None)


def in_doubt(state: GroupState, queue: QueueName) -> GroupState:
    """Return the state with a mark that all partitions of this queue have to be granted again.

    Without a view, the next step takes in the same observation again.
    """
    facts = state.queues[queue]._replace(incarnation=IN_DOUBT)
    return replace(state, queues={**state.queues, queue: facts}, view=None)
