"""ConsumerGroup: a fleet of pods that shares the partitions of one or more queues."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from baton.api.queue import Conditions, PartitionedQueueSpec
from baton.assignors import BUILT_IN, DEFAULT, INSTALLED_NAME
from baton.model.ids import QueueName
from baton.schema.shape import NonNegativeSeconds, ObjectName, Rule, Shape, list_map, rule, rules


class Protocol(StrEnum):
    """Whether a rebalance takes only what moves, or everything first (rule 4)."""

    COOPERATIVE = "Cooperative"
    EAGER = "Eager"


class Approval(StrEnum):
    """Whether taking a partition from a working member needs a person's approval."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class ScaleMode(StrEnum):
    """What scales the fleet: the operator through a workload, another writer of that workload, or the Spark driver."""

    WORKLOAD = "Workload"
    EXTERNAL = "External"
    SPARK = "Spark"


class ScaleSteps(StrEnum):
    """Which sizes a fleet may have."""

    EVERY = "Every"
    EVEN_SHARES = "EvenShares"


# Names and options of assignors


_OWN = INSTALLED_NAME.replace("\\", "\\\\")


def _known(names: tuple[str, ...], message: str) -> Rule:
    return rule(f"self in {list(names)} || self.matches('^{_OWN}$')", message, reason="FieldValueInvalid")


AssignorName = Annotated[
    str,
    Field(
        max_length=128,
        json_schema_extra=rules(
            _known(
                BUILT_IN,
                f"there is no such assignor: choose one of {', '.join(BUILT_IN)}, or name one of your own as <domain>/<name>, "
                "for example example.com/by-load",
            )
        ),
    ),
]
"""The name of a built-in assignor, or of one of your own."""

_WITHIN = tuple(name for name in BUILT_IN if name != "machine-room-nearby")


class AssignorOptions(Shape):
    """Options of assignors, the same as in `baton plan`."""

    virtual_nodes: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """For consistent-hash: points of each member on the ring. Default: 10."""
    partition_key: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=512,
                json_schema_extra=rules(
                    rule(
                        "self.contains('{partition}')",
                        "spec.assignorOptions.partitionKey is the same for every partition: it needs {partition}",
                        reason="FieldValueInvalid",
                    ),
                    rule(
                        "self.replace('{partition}', '').replace('{queue}', '').matches('^[^{}]*$')",
                        "spec.assignorOptions.partitionKey: the only placeholders are {queue} and {partition}",
                        reason="FieldValueInvalid",
                    ),
                ),
            ),
        ]
        | None
    ) = None
    """For consistent-hash: the text to hash, with the placeholders {queue} and {partition}. Default: {queue}-{partition}."""
    rooms: (
        Annotated[
            tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Required by machine-room: the zones whose partitions it assigns. Partitions in other zones get no new owner."""
    within: (
        Annotated[
            str,
            Field(
                max_length=128,
                json_schema_extra=rules(
                    _known(
                        _WITHIN,
                        "spec.assignorOptions.within is not the name of another assignor: choose one of "
                        f"{', '.join(_WITHIN)}, or name one of your own as <domain>/<name>",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """For machine-room-nearby: the assignor to use inside each room. Default: average."""

    def as_arguments(self) -> dict[str, object]:
        """The options that are set, by name, as assignors take them."""
        given: dict[str, object] = self.model_dump(by_alias=True, exclude_none=True)
        return given if self.rooms is None else {**given, "rooms": frozenset(self.rooms)}


ROOMS_NEEDED = rule(
    "!(self.assignors.exists(one, one == 'machine-room') || self.assignors.exists(one, one == 'machine-room-nearby') && "
    "has(self.assignorOptions) && has(self.assignorOptions.within) && self.assignorOptions.within == 'machine-room') || "
    "has(self.assignorOptions) && has(self.assignorOptions.rooms)",
    "spec.assignorOptions.rooms is missing: machine-room assigns the partitions of these rooms only, so name them",
    reason="FieldValueRequired",
)
"""A rule of the spec."""


# The status


MOST_HANDOFFS_SHOWN = 50
"""The most hand-offs listed in the status; the ledger has all of them."""

MOST_PROPOSED_SHOWN = 50
"""The most moves, and the most members, listed in a proposal of the status; the ledger has all of them."""

LONGEST_REASON = 256
"""The most characters of the reason for a move."""

LONGEST_RANGES = 256
"""The most characters of a list of partitions in the status."""


class ShownState(StrEnum):
    """The conditions in one word. Ready, Holddown, Rebalancing, Paused and ScaledToZero mean that the condition Ready is True."""

    READY = "Ready"
    HOLDDOWN = "Holddown"
    REBALANCING = "Rebalancing"
    PAUSED = "Paused"
    SCALED_TO_ZERO = "ScaledToZero"
    NOT_READY = "NotReady"
    DELETING = "Deleting"


class Handoff(Shape):
    """A hand-off of one partition."""

    queue: Annotated[str, Field(max_length=253)]
    """The queue."""
    partition: int
    """The partition."""
    giver: Annotated[Annotated[str, Field(max_length=253)] | None, Field(alias="from")] = None
    """The pod that releases the partition, if it has an owner."""
    receiver: Annotated[Annotated[str, Field(max_length=253)] | None, Field(alias="to")] = None
    """The pod that gets the partition, if known."""
    epoch: int
    """The epoch of the next grant."""
    deadline: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the giver is fenced off if it has not released the partition."""
    unacknowledged: int | None = None
    """The number of messages that the giver still has to acknowledge. Absent if the queue does not know it, or if there are none
    and the giver has not released the partition yet, for example because its `on_revoked` is running."""
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""
    """Why the partition moves."""


class ProposedMove(Shape):
    """Partitions of one queue that would move from one pod to another."""

    queue: Annotated[str, Field(max_length=253)]
    """The queue."""
    partitions: Annotated[str, Field(max_length=LONGEST_RANGES + 2)]
    """Ranges of partitions, possibly truncated."""
    giver: Annotated[str, Field(alias="from", max_length=253)]
    """The pod that would release them."""
    receiver: Annotated[str, Field(alias="to", max_length=253)]
    """The pod that would get them."""


class ProposedChange(Shape):
    """How many partitions a pod has before and after the proposal."""

    member: Annotated[str, Field(max_length=253)]
    """The pod."""
    before: int
    """The number of its partitions now."""
    after: int
    """The number of its partitions afterwards."""


class ProposalStatus(Shape):
    """A plan that waits for approval (spec.approval Manual)."""

    id: Annotated[str, Field(max_length=64)]
    """The id to approve. Another set of moves has another id."""
    created_at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When it was proposed."""
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""
    """Why the plan was made."""
    moves: int
    """Partitions that would move."""
    paused: int
    """Partitions that would be paused: those that move or, with Eager, all that have an owner."""
    paused_at_once: int
    """The most partitions paused at once."""
    longest_pause_seconds: int | None = None
    """The longest pause of a partition. Absent: a partition is paused until its consumer releases it (External)."""
    members: Annotated[list[ProposedChange], Field(max_length=MOST_PROPOSED_SHOWN, json_schema_extra=list_map("member"))] = Field(
        default_factory=list
    )
    """Members that would gain or lose partitions, at most 50."""
    handoffs: Annotated[
        list[ProposedMove], Field(max_length=MOST_PROPOSED_SHOWN, json_schema_extra=list_map("queue", "from", "to"))
    ] = Field(default_factory=list)
    """The moves by queue, giver and receiver, at most 50."""


OF_QUEUES = ("partitions", "unowned")
"""Numbers that are unknown until a queue has answered."""

Count = Annotated[int, Field(json_schema_extra=lambda schema: schema.pop("default", None))]
"""A count with the default 0 in Python and none in the CRD: there it is absent until an operator has set it."""


class GroupNumbers(Shape):
    """A group in numbers: counted by the engine; shown by the status, the metrics and `baton status`."""

    members: Count = 0
    """Members, standbys included."""
    standbys: Count = 0
    """Members without a partition."""
    partitions: Count = 0
    """Partitions of the group's queues. Absent until a queue has answered."""
    unowned: Count = 0
    """Partitions without an owner. Absent until a queue has answered."""
    moving: Count = 0
    """Hand-offs in flight or planned."""
    moves: Count = 0
    """Partitions granted to a pod other than their last owner, since the group was created."""
    lower_bound: Count = 0
    """The fewest moves that could have reached the same balances."""
    deadline_misses: Count = 0
    """Hand-offs that missed their deadline."""


class ConsumerGroupStatus(GroupNumbers):
    """The state of the group. The owner of each partition is in the ledger, the ConfigMap <group>-assignments."""

    observed_generation: int | None = None
    """The generation of the spec that this status describes."""
    state: ShownState | None = None
    """A summary of the conditions: Ready, Holddown, Rebalancing, Paused, ScaledToZero, NotReady or Deleting."""
    last_change_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When this status last changed. It is not written while nothing changes; `baton status` shows whether an operator runs."""
    hold_until: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the holddown ends. Absent while the group is paused or the plan waits for something else."""
    assignment_generation: int | None = None
    """The number of plans made for the group."""
    assignor: Annotated[str, Field(max_length=128)] | None = None
    """The assignor in use."""
    selector: Annotated[str, Field(max_length=512)] | None = None
    """The label selector of the group's pods, for autoscalers."""
    desired_replicas: int | None = None
    """The desired number of pods. Absent if it is unknown, or if more pods have the group's label."""
    replicas: int | None = None
    """The number of live pods with the group's label."""
    handoffs: Annotated[
        list[Handoff], Field(max_length=MOST_HANDOFFS_SHOWN, json_schema_extra=list_map("queue", "partition"))
    ] = Field(default_factory=list)
    """Hand-offs in flight, at most 50."""
    proposal: ProposalStatus | None = None
    """The plan that waits for approval."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, Settled, Balanced, Rebalancing, Fenced and SessionsBound; with spec.approval Manual also ProposalReady."""

    @property
    def proposed(self) -> int:
        """Moves that wait for approval."""
        return 0 if self.proposal is None else self.proposal.moves


# The resource


LONGEST_NAME = 63
"""The most characters of a group's name: pods carry it as the value of a label."""


class QueueRef(Shape):
    """A PartitionedQueue in the group's namespace."""

    name: ObjectName
    """Its name."""


class GroupRebalance(Shape):
    """When and how partitions move."""

    delay_seconds: NonNegativeSeconds | None = None
    """The holddown: seconds from a change of the fleet to the plan; 0: no holddown. A pod that returns in time causes no move.
    Default: the longest delaySeconds of the group's queues."""
    max_handoff_seconds: NonNegativeSeconds | None = None
    """How many seconds an owner has to finish its work on a partition that it loses. Default: maxHandoffSeconds of the queue."""
    resync_seconds: Annotated[int, Field(ge=1, le=3600)] = 20
    """Seconds between two comparisons of the fleet with the operator's records."""
    max_concurrent_handoffs: Annotated[int, Field(strict=True, ge=0, le=100_000)] = 0
    """The most partitions that a cooperative rebalance pauses at once. 0: no limit."""


class SessionRule(StrEnum):
    """Whether a member needs a session."""

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
    """How many seconds the partitions of a static member that left are reserved for it; 0: static membership is off."""
    session: SessionRule | None = None
    """Required: to be a member, a Ready pod also needs a session, the Lease baton-<pod>, which baton.consumer renews. Optional:
    it only has to be Ready. Default: Optional if all queues are External, else Required. Spark executors always need the session
    of their driver."""


class TargetRef(Shape):
    """An object in the group's namespace that has the subresource /scale."""

    api_version: Annotated[str, Field(max_length=317, pattern=r"^([a-z0-9.-]+/)?v[a-z0-9]+$")] = "apps/v1"
    """Its API version."""
    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """Its kind, for example Deployment."""
    name: ObjectName
    """Its name."""


class Scale(Shape):
    """How the group's pods are scaled."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.mode == 'Spark' || has(self.targetRef)",
                "spec.scale.targetRef is missing: name the workload (apiVersion, kind, name) that the operator scales (mode "
                "Workload) or that others scale (mode External)",
                field=".targetRef",
                reason="FieldValueRequired",
            ),
            rule(
                "self.mode != 'Spark' || !has(self.targetRef)",
                "spec.scale.targetRef is for spec.scale.mode Workload and External: remove it (the Spark driver reads the "
                "desired number from the ledger)",
                field=".targetRef",
                reason="FieldValueForbidden",
            ),
            rule(
                "self.mode != 'External' || self.steps != 'EvenShares'",
                "spec.scale.steps has no effect with spec.scale.mode External: remove it and scale the workload to such sizes, "
                "or set the mode to Workload",
                field=".steps",
                reason="FieldValueInvalid",
            ),
        )
    )

    mode: ScaleMode
    """Workload: the operator scales targetRef to spec.replicas. External: others scale targetRef. Spark: the driver starts and
    removes executors to match spec.replicas."""
    target_ref: TargetRef | None = None
    """The workload of the group's pods, for the modes Workload and External."""
    steps: ScaleSteps = ScaleSteps.EVERY
    """EvenShares: round spec.replicas down to a size that divides the partitions evenly (of 64: 1, 2, 4, 8, 16, 32 or 64)."""


class ConsumerGroupSpec(Shape):
    """The group's queues, and how its pods share them."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.replicas) || has(self.scale)",
                "spec.replicas has no effect without spec.scale: set spec.scale.mode to Workload (with a targetRef) or Spark, "
                'or remove both (kubectl patch cg NAME --type merge -p \'{"spec":{"replicas":null,"scale":null}}\')',
                field=".replicas",
                reason="FieldValueInvalid",
            ),
            rule(
                "!has(self.replicas) || !has(self.scale) || self.scale.mode != 'External'",
                "spec.replicas has no effect with spec.scale.mode External: remove it and scale the workload itself, or set the "
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
                        "spec.assignors names an assignor twice: name each once, in order of preference",
                        reason="FieldValueInvalid",
                    )
                ),
            },
        ),
    ] = Field(default_factory=lambda: [DEFAULT])
    """Assignors in order of preference; the group uses the first that every member supports. Built-in names, or <domain>/<name>
    for assignors installed with the operator."""
    assignor_options: AssignorOptions | None = None
    """Options of the assignors. A change starts a rebalance."""
    protocol: Protocol = Protocol.COOPERATIVE
    """Cooperative revokes only the partitions that move. Eager first revokes all."""
    rebalance: GroupRebalance = GroupRebalance()
    """When and how partitions move."""
    membership: Membership = Membership()
    """The pods that count as members, and static members."""
    paused: bool = False
    """True: no new hand-offs begin; those in flight finish."""
    approval: Approval = Approval.AUTOMATIC
    """Manual: the plan is shown in status.proposal, and working pods keep their partitions until it is approved with `baton
    approve` or the annotation baton.dev/approve. Partitions whose owner is gone or stopping move without approval."""
    replicas: Annotated[int, Field(strict=True, ge=0, le=100_000)] | None = None
    """The desired number of pods, usually set through /scale. Needs spec.scale.mode Workload or Spark. If absent with Workload,
    the operator sets it to the present size of spec.scale.targetRef."""
    scale: Scale | None = None
    """How the group's pods are scaled."""

    @property
    def queue_names(self) -> list[QueueName]:
        return [QueueName(queue.name) for queue in self.queues]


class ConsumerGroup(Shape):
    """A fleet of pods that shares the partitions of queues. Its pods are in the same namespace and have the label baton.dev/group
    with the group's name (at most 63 characters)."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"size(self.metadata.name) <= {LONGEST_NAME}",
                f"metadata.name is longer than {LONGEST_NAME} characters: choose a shorter one, as it is the value of the "
                "pods' label baton.dev/group",
                field=".metadata.name",
                reason="FieldValueInvalid",
            ),
        )
    )

    metadata: dict[str, object] = Field(default_factory=dict)
    spec: ConsumerGroupSpec
    status: ConsumerGroupStatus = ConsumerGroupStatus()


def sessions_required(spec: ConsumerGroupSpec, queues: Iterable[PartitionedQueueSpec]) -> bool:
    """Whether a pod of the group needs a session to be a member. `queues`: the group's queues that exist."""
    if spec.membership.session is not None:
        return spec.membership.session is SessionRule.REQUIRED
    return any(queue.source.kind.session_required for queue in queues)
