"""Observations: one group's spec, its queues, its members, and the reports of queues and consumers.

An observation has facts, not changes. The same observation twice changes nothing, and the order in which the caller learned the
facts does not matter. Times are seconds on the clock of `now`.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import NamedTuple

from baton.api import AccessType, ConsumerGroupSpec, PartitionedQueueSpec, attributes
from baton.api.group import Approval, GroupRebalance, Protocol, ScaleMode
from baton.api.queue import QueueRebalance
from baton.assignors import DEFAULT
from baton.model.ids import Epoch, MemberId, OnDeadline, Partition, QueueName, Uid
from baton.model.ranges import Spans
from baton.model.session import Release
from baton.queues.protocol import Ownership


class HeldBack(IntEnum):
    """The decisions that wait because the ledger would become too large for a ConfigMap.

    The caller tries these in order, starting with `NOTHING`, and takes the first with which the ledger fits.
    """

    NOTHING = 0
    PLANS = 1
    """No plan, no new partition, no new standby. Vacant slots are taken, and planned hand-offs begin and end."""
    ALL = 2
    """Everything waits except hand-offs in flight: releases, deadlines, grants, and the way back if a receiver vanished."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A ConsumerGroup's spec with its defaults filled in. All durations are seconds."""

    assignors: tuple[str, ...] = (DEFAULT,)
    protocol: Protocol = Protocol.COOPERATIVE
    delay: float = 5.0
    """The length of the holddown: the group's, or the longest of its queues'."""
    rebalance: GroupRebalance = field(default_factory=GroupRebalance)
    session_timeout: float = 0.0
    """How long a slot is reserved for a static member that vanished; 0: no static membership."""
    paused: bool = False
    approval: Approval = Approval.AUTOMATIC
    replicas: int | None = None
    """The desired size of the fleet; None where Baton does not scale it."""
    scale_mode: ScaleMode | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    """The assignors' options by the names of `baton plan`, as the assignors' functions take them."""

    @property
    def most_paused(self) -> int:
        """The most partitions that a rebalance may pause at once; 0: no bound. Eager pauses all."""
        return self.rebalance.max_concurrent_handoffs if self.protocol is Protocol.COOPERATIVE else 0


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """One queue of the group, as its adapter and its spec describe it."""

    partitions: int
    exclusive: bool = False
    fenced: bool = True
    """The queue rejects earlier owners. False for External, where only the consumer's release counts."""
    max_handoff: float = 3.0
    on_deadline: OnDeadline = OnDeadline.WAIT
    given_up: bool = False
    """The group gives up the whole queue. Then a hand-off without a receiver ends at its deadline even without a release, because
    there is no next owner to disturb."""
    incarnation: str | None = None
    """Identifies the run of the queue's server. When it changes, owners are granted again at new epochs, because a restart may
    have rolled their records back. None: unknown or not applicable, which is no change."""
    zones: Spans[frozenset[str]] = ()
    """The zones of the partitions' replicas, from spec.partitionAttributes or from the queue itself."""
    zones_known: bool = True
    """False: the queue may have zones, and has not answered yet in this run of the operator."""
    weights: Spans[Fraction] = ()
    """The weights of partitions as shares of the load; 1 where spec.partitionAttributes has none."""
    owners: Mapping[int, Ownership] = field(default_factory=dict)
    """The queue's owner records by partition number; empty unless the ledger was lost or the incarnation changed."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member: its pod, and what the pod announces."""

    uid: Uid
    subscribed: frozenset[QueueName] | None = None
    """None: all queues of the group."""
    instance: str | None = None
    """The identity of a static member."""
    capacity: Fraction = Fraction(1)
    """How much load the member can carry compared with others, above 0."""


@dataclass(frozen=True, slots=True)
class ObservedMember(GroupMember):
    """A pod of the fleet that is Ready (an executor: also registered with its driver), or one that is terminating."""

    joined: float = 0.0
    """When the pod became Ready. Orders members by joining; ties go by name."""
    assignors: tuple[str, ...] | None = None
    """The assignors that the pod supports; None: all."""
    zone: str | None = None
    terminating: bool = False
    """The pod was asked to stop, and can still release partitions."""
    ends: float | None = None
    """Terminating: the end of the grace period. None: not known."""
    draining: bool = False
    """The pod has to hand its partitions over, and keeps running (rule 7). Draining may be undone."""

    @property
    def leaving(self) -> bool:
        """True if the pod gets no partitions, and other members get those that it has."""
        return self.terminating or self.draining


class Outcome(NamedTuple):
    """The result of a Grant: `record` is the owner record that the queue has now.

    The queue accepted the grant if the record has the grant's UID and epoch, and refused it otherwise.
    """

    partition: Partition
    record: Ownership


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything the engine may know at one instant.

    A queue of the group that is missing from `queues` does not exist. A queue that exists but cannot be reached is included as it
    was last seen, and its effects have no outcome yet.
    """

    spec: GroupSpec
    queues: Mapping[QueueName, ObservedQueue] = field(default_factory=dict)
    members: Mapping[MemberId, ObservedMember] = field(default_factory=dict)
    away: Mapping[MemberId, Uid] = field(default_factory=dict)
    """Pods that take no part and may still work: not Ready, not registered with their driver, or stopping without a session.

    They keep their partitions of queues that cannot fence until they release them, or are missing here because their session
    lapsed or the pod ended."""
    releases: Container[Release] = frozenset()
    """The releases that consumers' sessions report. The engine looks up single ones, because a session may report very many."""
    drained: frozenset[tuple[Partition, Epoch]] = frozenset()
    """The partitions that a queue reports as paused with nothing outstanding, and the giver's epoch of each."""
    outcomes: frozenset[Outcome] = frozenset()
    """The results of the grants that the caller carried out since the last step."""
    request: str | None = None
    """The id of the last manual request to rebalance; a new id is a trigger."""
    approved: str | None = None
    """The id of the proposal that was approved last."""
    part: int | None = None
    """The most hand-offs that a step may begin, because the ledger has no room for more. None: no bound."""
    held_back: HeldBack = HeldBack.NOTHING


# The specs of the resources, with their defaults filled in


def engine_spec(spec: ConsumerGroupSpec, queues: Iterable[PartitionedQueueSpec]) -> GroupSpec:
    """Return the group's spec with defaults. A group without a delay has the longest of its queues' delays."""
    delay = spec.rebalance.delay_seconds
    if delay is None:
        delay = max((queue.rebalance.delay_seconds for queue in queues), default=5)
    return GroupSpec(
        assignors=tuple(spec.assignors),
        protocol=spec.protocol,
        delay=float(delay),
        rebalance=spec.rebalance,
        session_timeout=float(spec.membership.session_timeout_seconds) if spec.membership.identity_label else 0.0,
        paused=spec.paused,
        approval=spec.approval,
        replicas=spec.replicas,
        scale_mode=spec.scale.mode if spec.scale else None,
        options=spec.assignor_options.as_arguments() if spec.assignor_options else {},
    )


def observed_queue(spec: PartitionedQueueSpec | None, group: ConsumerGroupSpec, partitions: int) -> ObservedQueue:
    """Return a queue as its spec describes it. `partitions`: those in operation; `spec` None: it is gone or invalid."""
    handoff = group.rebalance.max_handoff_seconds
    if spec is None:
        return ObservedQueue(partitions, max_handoff=float(QueueRebalance().max_handoff_seconds if handoff is None else handoff))
    known = attributes(spec.partition_attributes)
    return ObservedQueue(
        partitions,
        exclusive=spec.access_type is AccessType.EXCLUSIVE,
        fenced=spec.source.kind.fenced,
        max_handoff=float(spec.rebalance.max_handoff_seconds if handoff is None else handoff),
        on_deadline=spec.source.on_deadline,
        zones=known.zones,
        weights=known.weights,
    )


def even_size(replicas: int, partitions: int) -> int:
    """Return the largest size up to `replicas` that divides the partitions evenly: 64 go to 1, 2, 4, 8, 16, 32 or 64 pods.

    Without partitions it is `replicas`.
    """
    most = min(replicas, partitions)
    return next((size for size in range(most, 0, -1) if partitions % size == 0), replicas)
