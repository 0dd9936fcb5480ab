"""ConsumerGroup: a fleet of pods that shares the partitions of one or more queues."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from baton.engine.observation import Approval, GroupSpec, Protocol, ScaleMode
from baton.resources.assignor import ROOMS_NEEDED, AssignorName, AssignorOptions
from baton.resources.condition import Conditions
from baton.resources.queue import ObjectName, PartitionedQueueSpec
from baton.resources.shape import NonNegativeSeconds, Shape, list_map, rule, rules

MOST_HANDOFFS_SHOWN = 50
"""The status lists at most so many moves in flight; the ledger has all of them."""

MOST_PROPOSED_SHOWN = 50
"""So many moves, and so many members, of a proposal; the ledger has all of them."""

LONGEST_RANGES = 256
"""Characters of a list of partitions in the status."""

LONGEST_NAME = 63
"""Pods carry the group's name as a label's value."""


class GroupState(StrEnum):
    READY = "Ready"
    HOLDDOWN = "Holddown"
    REBALANCING = "Rebalancing"
    PAUSED = "Paused"


class QueueRef(Shape):
    """A PartitionedQueue in the group's namespace."""

    name: ObjectName
    """Its name."""


class GroupRebalance(Shape):
    """When and how partitions are moved."""

    delay_seconds: NonNegativeSeconds | None = None
    """How long a change of the fleet is held down before partitions are handed off, so that a pod that comes back in this time
    costs no move. Seconds; 0 acts at once. Without it: the queue's (the longest of several queues')."""
    max_handoff_seconds: NonNegativeSeconds | None = None
    """How long an owner may take to finish what it has read of a partition that is taken from it. Seconds; 0 does not wait.
    Without it: the queue's."""
    resync_seconds: Annotated[int, Field(ge=1, le=3600)] = 20
    """How often the facts are compared with those recorded, in case a notification was lost. Seconds."""
    max_concurrent_handoffs: Annotated[int, Field(ge=0, le=100_000)] = 0
    """How many partitions may be paused at once in a cooperative rebalance. 0: no bound."""


class Membership(Shape):
    """Static membership: pods that come back under their identity get their partitions back."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.sessionTimeoutSeconds) || self.sessionTimeoutSeconds == 0 || has(self.identityLabel)",
                "spec.membership.sessionTimeoutSeconds needs spec.membership.identityLabel: name the pod label that tells "
                "members apart, for example apps.kubernetes.io/pod-index",
                field=".sessionTimeoutSeconds",
                reason="FieldValueInvalid",
            ),
        )
    )

    identity_label: (
        Annotated[str, Field(max_length=317, pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")] | None
    ) = None
    """The pod label whose value is the member's identity, for example apps.kubernetes.io/pod-index of a StatefulSet."""
    session_timeout_seconds: NonNegativeSeconds = 0
    """How long a member that vanished keeps its seat. Seconds; 0 turns static membership off."""


class TargetRef(Shape):
    """Something in the group's namespace that has a /scale."""

    api_version: Annotated[str, Field(max_length=317, pattern=r"^([a-z0-9.-]+/)?v[a-z0-9]+$")] = "apps/v1"
    """Its API version."""
    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """Its kind, for example Deployment."""
    name: ObjectName
    """Its name."""


class Scale(Shape):
    """How spec.replicas is carried out."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.mode != 'Workload' || has(self.targetRef)",
                "spec.scale.targetRef is missing: spec.scale.mode Workload needs to know what to scale (apiVersion, kind, name)",
                field=".targetRef",
                reason="FieldValueRequired",
            ),
            rule(
                "self.mode == 'Workload' || !has(self.targetRef)",
                "spec.scale.targetRef belongs to spec.scale.mode Workload only: remove it (the Spark driver reads the desired "
                "number in the ledger)",
                field=".targetRef",
                reason="FieldValueForbidden",
            ),
        )
    )

    mode: ScaleMode
    """Workload: the operator scales targetRef. Spark: the operator writes the desired number of executors into the ledger, and
    the driver applies it."""
    target_ref: TargetRef | None = None
    """What to scale, for mode Workload."""


class ConsumerGroupSpec(Shape):
    """Which queues, and how they are shared."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.replicas) || has(self.scale)",
                "spec.replicas does nothing without spec.scale: set spec.scale.mode to Workload (with a targetRef) or to Spark",
                field=".replicas",
                reason="FieldValueInvalid",
            ),
            ROOMS_NEEDED,
        )
    )

    queues: Annotated[list[QueueRef], Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))]
    """The queues whose partitions the group's pods share."""
    assignors: Annotated[
        list[AssignorName],
        Field(
            min_length=1,
            max_length=16,
            json_schema_extra={
                "default": ["solace"],
                "x-kubernetes-list-type": "atomic",
                **rules(
                    rule(
                        "self.all(one, self.exists_one(other, other == one))",
                        "spec.assignors names an assignor twice: name each once, in the order of preference",
                        reason="FieldValueInvalid",
                    )
                ),
            },
        ),
    ] = Field(default_factory=lambda: ["solace"])
    """Who decides who gets what, in the order of preference: the first that every member supports is used. So a fleet changes
    over by two rolling restarts. Built-in names, or <domain>/<name> of assignors that are installed beside the operator."""
    assignor_options: AssignorOptions | None = None
    """Settings of the assignors. A change rebalances."""
    protocol: Protocol = Protocol.COOPERATIVE
    """Cooperative moves only the partitions that must move; Eager takes all of them from everybody first, for consumers that know
    nothing else."""
    rebalance: GroupRebalance = GroupRebalance()
    """When and how partitions are moved."""
    membership: Membership = Membership()
    """Static membership."""
    paused: bool = False
    """Begin no new hand-off; those in flight finish."""
    approval: Approval = Approval.AUTOMATIC
    """Automatic carries a plan out when it is due; Manual shows it in status.proposal, and takes nothing from a pod that works
    on it until somebody approves: with `baton approve`, or with the annotation baton.dev/approve and the proposal's id. What has
    no owner, or one that is stopping, does not wait."""
    replicas: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """The desired number of pods, usually set through /scale by an autoscaler or kubectl scale. Needs spec.scale."""
    scale: Scale | None = None
    """How spec.replicas is carried out."""


class Handoff(Shape):
    """A partition that is changing hands."""

    queue: Annotated[str, Field(max_length=253)]
    """The queue."""
    partition: int
    """The partition."""
    giver: Annotated[Annotated[str, Field(max_length=253)] | None, Field(alias="from")] = None
    """The pod that lets it go; none for one that had no owner."""
    receiver: Annotated[Annotated[str, Field(max_length=253)] | None, Field(alias="to")] = None
    """The pod that gets it; none while there is nobody to take it."""
    epoch: int
    """The epoch at which it will be granted."""
    deadline: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the giver is fenced off if it has not let go."""
    unacknowledged: int | None = None
    """How many messages the giver still has to acknowledge; none where the queue does not know."""
    reason: Annotated[str, Field(max_length=256)] = ""
    """Why it moves."""


class ProposedMove(Shape):
    """Partitions of one queue that would go from one pod to another."""

    queue: Annotated[str, Field(max_length=253)]
    """The queue."""
    partitions: Annotated[str, Field(max_length=LONGEST_RANGES + 2)]
    """The partitions, as ranges; the first of them where there are many."""
    giver: Annotated[str, Field(alias="from", max_length=253)]
    """The pod that would let them go."""
    receiver: Annotated[str, Field(alias="to", max_length=253)]
    """The pod that would get them."""


class ProposedChange(Shape):
    """How many partitions a pod has now, and would have."""

    member: Annotated[str, Field(max_length=253)]
    """The pod."""
    before: int
    """Now."""
    after: int
    """When the proposal is carried out."""


class Proposal(Shape):
    """A plan that waits for approval (spec.approval Manual)."""

    id: Annotated[str, Field(max_length=64)]
    """What to approve. It stands for these moves and no others: approved once, or overtaken, it never comes again."""
    created_at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Since when it waits."""
    reason: Annotated[str, Field(max_length=256)] = ""
    """Why these moves are due."""
    moves: int
    """How many partitions would change hands."""
    paused: int
    """How many partitions would be paused for it. Under protocol Eager all of them."""
    paused_at_once: int
    """How many of them at the same time, at most."""
    longest_pause_seconds: int | None = None
    """How long one of them is paused at most. None: until its consumer lets go (External queues)."""
    members: Annotated[list[ProposedChange], Field(max_length=MOST_PROPOSED_SHOWN, json_schema_extra=list_map("member"))] = Field(
        default_factory=list
    )
    """Who would gain or lose, at most 50 of them."""
    handoffs: Annotated[
        list[ProposedMove], Field(max_length=MOST_PROPOSED_SHOWN, json_schema_extra=list_map("queue", "from", "to"))
    ] = Field(default_factory=list)
    """What would go where, at most 50 lines."""


class ConsumerGroupStatus(Shape):
    """What the group is doing. Who owns what is in the ledger, the ConfigMap named after the group with -assignments."""

    observed_generation: int | None = None
    """The generation of the spec that this status is about."""
    state: GroupState | None = None
    """Ready, Holddown (a change of the fleet is being waited out), Rebalancing (partitions change hands) or Paused. A summary of
    the conditions."""
    hold_until: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the holddown ends."""
    assignment_generation: int | None = None
    """Counts the plans made."""
    members: int | None = None
    """How many pods take part, standbys included."""
    standbys: int | None = None
    """How many of these own nothing and wait for a seat."""
    partitions: int | None = None
    """How many partitions the group's queues have."""
    moving: int | None = None
    """How many partitions are changing hands."""
    moves: int | None = None
    """How often a partition went to another pod than its last owner, since the group was made."""
    lower_bound: int | None = None
    """The least number of moves that would have done."""
    deadline_misses: int | None = None
    """How often a partition was taken from a pod that did not let it go in time."""
    assignor: Annotated[str, Field(max_length=128)] | None = None
    """The assignor in use."""
    selector: Annotated[str, Field(max_length=512)] | None = None
    """The label selector of the group's pods, for autoscalers."""
    replicas: int | None = None
    """How many pods carry the group's label and are not terminating."""
    handoffs: Annotated[
        list[Handoff], Field(max_length=MOST_HANDOFFS_SHOWN, json_schema_extra=list_map("queue", "partition"))
    ] = Field(default_factory=list)
    """The moves in flight, at most 50 of them."""
    proposal: Proposal | None = None
    """What waits for approval."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, Balanced, Rebalancing and Fenced; with spec.approval Manual also ProposalReady."""


class ConsumerGroup(Shape):
    """A fleet of pods that shares the partitions of queues: the pods in this namespace with the label baton.dev/group and the
    group's name."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"size(self.metadata.name) <= {LONGEST_NAME}",
                f"metadata.name is longer than {LONGEST_NAME} characters: pods carry it as the value of the label "
                "baton.dev/group, so choose a shorter one",
                reason="FieldValueInvalid",
            ),
        )
    )

    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: ConsumerGroupSpec
    status: ConsumerGroupStatus = ConsumerGroupStatus()


def engine_spec(spec: ConsumerGroupSpec, queues: Iterable[PartitionedQueueSpec]) -> GroupSpec:
    """The spec with its defaults filled in from the queues that exist: the longest of their delays."""
    delay = spec.rebalance.delay_seconds
    if delay is None:
        delay = max((queue.rebalance.delay_seconds for queue in queues), default=5)
    return GroupSpec(
        assignors=tuple(spec.assignors),
        protocol=spec.protocol,
        delay=float(delay),
        resync=float(spec.rebalance.resync_seconds),
        max_concurrent_handoffs=spec.rebalance.max_concurrent_handoffs,
        session_timeout=float(spec.membership.session_timeout_seconds) if spec.membership.identity_label else 0.0,
        paused=spec.paused,
        approval=spec.approval,
        replicas=spec.replicas,
        scale_mode=spec.scale.mode if spec.scale else None,
        options=spec.assignor_options.told() if spec.assignor_options else {},
    )
