"""What the engine is shown of the world: one group's spec, its queues, its members, and what they say they have done.

An observation is a set of facts, not of changes: seeing the same one twice changes nothing, and the order in which its
parts were learnt does not matter. Times are seconds on the clock of `now`.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import NamedTuple

from baton.api.enums import Approval, Protocol, ScaleMode
from baton.assignors import DEFAULT
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.on_deadline import OnDeadline
from baton.model.ranges import Spans
from baton.model.session import Release


class HeldBack(IntEnum):
    """What of the decisions is left for later, because the ledger that would come of them is too large. Whoever writes the
    ledger takes the first of these with which it fits, each time from `NOTHING` on."""

    NOTHING = 0
    PLANS = 1
    """No plan, no new partition, no new standby. Vacant slots are taken, and what is planned already begins and ends."""
    ALL = 2
    """Whatever is not in flight: releases, deadlines, grants and the return of what has lost its receiver."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A ConsumerGroup's spec with its defaults filled in. All durations are seconds."""

    assignors: tuple[str, ...] = (DEFAULT,)
    protocol: Protocol = Protocol.COOPERATIVE
    delay: float = 5.0
    resync: float = 20.0
    max_concurrent_handoffs: int = 0
    """0: no bound."""
    session_timeout: float = 0.0
    """How long a static member keeps its slot after it vanished; 0: no static membership."""
    paused: bool = False
    approval: Approval = Approval.AUTOMATIC
    replicas: int | None = None
    """The desired size of the fleet; None where Baton does not scale it."""
    scale_mode: ScaleMode | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    """Of the assignors, by the names that `baton plan` has for them, as the assignors' functions take them."""


class OwnerRecord(NamedTuple):
    """What a queue itself has recorded as a partition's owner. `uid` None: granted to nobody."""

    uid: Uid | None
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """One queue of the group as its adapter and its spec describe it."""

    partitions: int
    exclusive: bool = False
    fenced: bool = True
    """The queue itself refuses stale owners. False for External: there only the consumer's word counts."""
    max_handoff: float = 3.0
    on_deadline: OnDeadline = OnDeadline.WAIT
    let_go: bool = False
    """The group is to let go of all of it. What is taken back for nobody needs nobody's word beyond its deadline: there is no
    next owner whom the last one could disturb."""
    incarnation: str | None = None
    """Identifies the server's run; when it changes, owners are asserted again at new epochs, for a restart may have
    rolled them back. None: unknown or does not apply, which is no change."""
    zones: Spans[frozenset[str]] = ()
    """Where partitions have replicas, as far as anybody says."""
    weights: Spans[Fraction] = ()
    """Shares of the load; 1 where nobody says."""
    owners: Mapping[int, OwnerRecord] = field(default_factory=dict)
    """The queue's own records. They are shown when the ledger was lost or the incarnation changed; otherwise empty."""


@dataclass(frozen=True, slots=True)
class ObservedMember:
    """A pod of the fleet that is Ready (an executor: also registered with its driver), or one that is terminating."""

    uid: Uid
    joined: float = 0.0
    """When it became Ready. Orders members by joining; ties go by name."""
    subscribed: frozenset[QueueName] | None = None
    """None: all queues of the group."""
    assignors: tuple[str, ...] | None = None
    """The assignors that it supports; None: all."""
    instance: str | None = None
    """The identity of a static member."""
    zone: str | None = None
    capacity: Fraction = Fraction(1)
    """How much it can carry compared with the others, above 0."""
    terminating: bool = False
    """Asked to stop, and still able to release what it is told to."""


class Outcome(NamedTuple):
    """What became of a Grant at the queue: `record` is the owner record that now stands there. The grant was taken if it names
    the grant's member and epoch, and refused otherwise."""

    partition: Partition
    record: OwnerRecord


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything the engine may know at one instant.

    A queue of the group that is missing from `queues` does not exist. One that exists but cannot be reached is
    shown as it was last seen, and its effects simply have no outcome yet.
    """

    spec: GroupSpec
    queues: Mapping[QueueName, ObservedQueue] = field(default_factory=dict)
    members: Mapping[MemberId, ObservedMember] = field(default_factory=dict)
    away: Mapping[MemberId, Uid] = field(default_factory=dict)
    """Pods that take no part, and whose processes may still work: not Ready, not registered with their driver, asked to stop
    without anybody to speak for them. What they have on a queue that cannot fence is theirs until they say that they have let
    go, or are not shown any more: their session has lapsed, or the pod has ended."""
    releases: Container[Release] = frozenset()
    """The word of the consumers' sessions. Asked for single partitions, for a word may be longer than anybody wants to hear."""
    drained: frozenset[tuple[Partition, Epoch]] = frozenset()
    """The word of the queues: this partition is paused under this (the giver's) epoch and nothing is outstanding."""
    outcomes: frozenset[Outcome] = frozenset()
    """Of the grants carried out since the last step."""
    request: str | None = None
    """The id of the last manual request to rebalance; a new id is a trigger."""
    approved: str | None = None
    """The id of the proposal that somebody approved last."""
    held_back: HeldBack = HeldBack.NOTHING
