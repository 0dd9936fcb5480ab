"""ConsumerGroup: a fleet of pods that shares the partitions of one or more queues."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from baton.api.assignor import ROOMS_NEEDED, AssignorName, AssignorOptions
from baton.api.enums import Approval, Protocol, ScaleMode, ScaleSteps
from baton.api.group_status import ConsumerGroupStatus
from baton.api.queue import PartitionedQueueSpec
from baton.assignors import DEFAULT
from baton.schema.object_name import ObjectName
from baton.schema.shape import NonNegativeSeconds, Shape, list_map, rule, rules

LONGEST_NAME = 63
"""The longest name of a group, which pods have as a label's value."""


class QueueRef(Shape):
    """A PartitionedQueue in the group's namespace."""

    name: ObjectName
    """Its name."""


class GroupRebalance(Shape):
    """When and how partitions move."""

    delay_seconds: NonNegativeSeconds | None = None
    """The holddown: the time from a change of the fleet to the plan. A pod that comes back within it costs no move. Seconds; 0
    acts at once. Default: the queue's, and of several queues the longest."""
    max_handoff_seconds: NonNegativeSeconds | None = None
    """How long an owner may take to finish what it has read of a partition that it loses. Seconds; 0 does not wait. Default: the
    queue's."""
    resync_seconds: Annotated[int, Field(ge=1, le=3600)] = 20
    """How often the operator compares the facts with the recorded ones. A lost notification costs twice that at most. Seconds."""
    max_concurrent_handoffs: Annotated[int, Field(ge=0, le=100_000)] = 0
    """The most partitions that a cooperative rebalance pauses at the same time. 0: no bound."""


class SessionRule(StrEnum):
    """Whether a member has to keep a session."""

    REQUIRED = "Required"
    OPTIONAL = "Optional"


class Membership(Shape):
    """The pods that count as members, and static members, which get their partitions back when they return."""

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
    """The pod label with the member's identity, for example apps.kubernetes.io/pod-index of a StatefulSet."""
    session_timeout_seconds: NonNegativeSeconds = 0
    """How long the partitions of a static member that vanished are reserved for it. Seconds; 0 turns static membership off."""
    session: SessionRule | None = None
    """Whether a member needs a session: the Lease baton-<pod>, which baton.consumer keeps. Required: a Ready pod without one
    gets no partitions. Optional: a Ready pod is a member. Default: Optional if all of the group's queues are External, else
    Required. Spark executors always need their driver's session."""


class TargetRef(Shape):
    """An object with a /scale in the group's namespace."""

    api_version: Annotated[str, Field(max_length=317, pattern=r"^([a-z0-9.-]+/)?v[a-z0-9]+$")] = "apps/v1"
    """Its API version."""
    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """Its kind, for example Deployment."""
    name: ObjectName
    """Its name."""


class Scale(Shape):
    """Who scales the group's pods."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.mode == 'Spark' || has(self.targetRef)",
                "spec.scale.targetRef is missing: spec.scale.mode Workload needs to know what to scale, and External what others "
                "scale (apiVersion, kind, name)",
                field=".targetRef",
                reason="FieldValueRequired",
            ),
            rule(
                "self.mode != 'Spark' || !has(self.targetRef)",
                "spec.scale.targetRef belongs to spec.scale.mode Workload and External only: remove it (the Spark driver reads "
                "the desired number in the ledger)",
                field=".targetRef",
                reason="FieldValueForbidden",
            ),
            rule(
                "self.mode != 'External' || self.steps != 'EvenShares'",
                "spec.scale.steps does nothing with spec.scale.mode External: remove it and scale the workload to such sizes, or "
                "set the mode to Workload",
                field=".steps",
                reason="FieldValueInvalid",
            ),
        )
    )

    mode: ScaleMode
    """Workload: the operator scales targetRef to spec.replicas. External: somebody else scales targetRef, a person or an
    autoscaler, and the operator only reads its size. Spark: the operator writes spec.replicas into the ledger, and the driver
    starts or removes executors."""
    target_ref: TargetRef | None = None
    """The workload that has the group's pods. For the modes Workload and External."""
    steps: ScaleSteps = ScaleSteps.EVERY
    """EvenShares: the fleet has only sizes that divide the group's partitions evenly, of spec.replicas the next smaller one: of
    64 partitions 1, 2, 4, 8, 16, 32 or 64 pods. Every: as many as spec.replicas says."""


class ConsumerGroupSpec(Shape):
    """The group's queues, and how its pods share them."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.replicas) || has(self.scale)",
                "spec.replicas does nothing without spec.scale: set spec.scale.mode to Workload (with a targetRef) or to Spark",
                field=".replicas",
                reason="FieldValueInvalid",
            ),
            rule(
                "!has(self.replicas) || !has(self.scale) || self.scale.mode != 'External'",
                "spec.replicas does nothing with spec.scale.mode External: remove it and scale the workload itself, or set the "
                "mode to Workload",
                field=".replicas",
                reason="FieldValueForbidden",
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
                "default": [DEFAULT],
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
    ] = Field(default_factory=lambda: [DEFAULT])
    """The assignors in the order of preference. The group uses the first that every member supports, so a fleet changes over by
    two rolling restarts. Built-in names, or <domain>/<name> of assignors that are installed beside the operator."""
    assignor_options: AssignorOptions | None = None
    """Options of the assignors. A change is a trigger."""
    protocol: Protocol = Protocol.COOPERATIVE
    """Cooperative revokes only the partitions that must move. Eager revokes all of them first, for consumers that need that."""
    rebalance: GroupRebalance = GroupRebalance()
    """When and how partitions move."""
    membership: Membership = Membership()
    """The pods that count as members, and static members."""
    paused: bool = False
    """True: no new hand-off begins. Hand-offs in flight finish."""
    approval: Approval = Approval.AUTOMATIC
    """Automatic: a plan begins when it is due. Manual: status.proposal shows it, and no pod that works on a partition has to
    release it before somebody approves, with `baton approve` or with the annotation baton.dev/approve and the proposal's id.
    Partitions without an owner, or with one that is stopping, do not wait."""
    replicas: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """The desired number of pods, usually set through /scale by an autoscaler or kubectl scale. Needs spec.scale with the mode
    Workload or Spark. Where it is absent with Workload, the operator sets it to the present size of spec.scale.targetRef."""
    scale: Scale | None = None
    """Who scales the group's pods."""


class ConsumerGroup(Shape):
    """A fleet of pods that shares the partitions of queues. Its pods are those of this namespace whose label baton.dev/group has
    the group's name."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"size(self.metadata.name) <= {LONGEST_NAME}",
                f"metadata.name is longer than {LONGEST_NAME} characters: pods carry it as the value of the label "
                "baton.dev/group, so choose a shorter one",
                field=".metadata.name",
                reason="FieldValueInvalid",
            ),
        )
    )

    metadata: dict[str, object] = Field(default_factory=dict)
    spec: ConsumerGroupSpec
    status: ConsumerGroupStatus = ConsumerGroupStatus()


def sessions_required(spec: ConsumerGroupSpec, queues: Iterable[PartitionedQueueSpec]) -> bool:
    """Whether a pod of the group needs a session to be a member. `queues`: those of the group that exist."""
    if spec.membership.session is not None:
        return spec.membership.session is SessionRule.REQUIRED
    return any(queue.source.kind.session_required for queue in queues)
