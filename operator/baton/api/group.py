"""ConsumerGroup: a fleet of pods that shares the partitions of one or more queues."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from baton.api.queue import Conditions, PartitionedQueueSpec
from baton.assignors import BUILT_IN, DEFAULT, INSTALLED_NAME
from baton.schema.shape import NonNegativeSeconds, ObjectName, Rule, Shape, list_map, rule, rules


class Protocol(StrEnum):
    """Whether a rebalance takes only what moves, or everything first (rule 4)."""

    COOPERATIVE = "Cooperative"
    EAGER = "Eager"


class Approval(StrEnum):
    """Whether a person has to approve that partitions are taken from who works on them."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class ScaleMode(StrEnum):
    """Who carries the desired size out: the operator at a workload, another writer there, or the Spark driver."""

    WORKLOAD = "Workload"
    EXTERNAL = "External"
    SPARK = "Spark"


class ScaleSteps(StrEnum):
    """Which sizes a fleet takes."""

    EVERY = "Every"
    EVEN_SHARES = "EvenShares"


# The names and options of assignors in a ConsumerGroup.


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
"""The name of a built-in assignor, or of a user's own."""

_WITHIN = tuple(name for name in BUILT_IN if name != "machine-room-nearby")


class AssignorOptions(Shape):
    """The options of the assignors that have any, as in `baton plan`."""

    virtual_nodes: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """For consistent-hash: points on the ring per member. Default: 10."""
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
                        "spec.assignorOptions.partitionKey: between braces there are {queue} and {partition} only",
                        reason="FieldValueInvalid",
                    ),
                ),
            ),
        ]
        | None
    ) = None
    """For consistent-hash: the text that is hashed, with {queue} and {partition}. Default: {queue}-{partition}."""
    rooms: (
        Annotated[
            tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Required by machine-room: the zones whose partitions it assigns. Partitions elsewhere get no new owner."""
    within: (
        Annotated[
            str,
            Field(
                max_length=128,
                json_schema_extra=rules(
                    _known(
                        _WITHIN,
                        "spec.assignorOptions.within names no other assignor: choose one of "
                        f"{', '.join(_WITHIN)}, or name one of your own as <domain>/<name>",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """For machine-room-nearby: the assignor inside each room. Default: average."""

    def as_arguments(self) -> dict[str, object]:
        """The options by name, as the assignors' functions take them."""
        raw = {
            "virtualNodes": self.virtual_nodes,
            "partitionKey": self.partition_key,
            "rooms": None if self.rooms is None else frozenset(self.rooms),
            "within": self.within,
        }
        return {name: value for name, value in raw.items() if value is not None}


ROOMS_NEEDED = rule(
    "!(self.assignors.exists(one, one == 'machine-room') || self.assignors.exists(one, one == 'machine-room-nearby') && "
    "has(self.assignorOptions) && has(self.assignorOptions.within) && self.assignorOptions.within == 'machine-room') || "
    "has(self.assignorOptions) && has(self.assignorOptions.rooms)",
    "spec.assignorOptions.rooms is missing: machine-room gives out the partitions of these rooms only, so name them",
    reason="FieldValueRequired",
)
"""Of the spec."""


# The status


MOST_HANDOFFS_SHOWN = 50
"""The most hand-offs that the status lists; the ledger has all of them."""

MOST_PROPOSED_SHOWN = 50
"""The most moves, and the most members, of a proposal in the status; the ledger has all of them."""

LONGEST_REASON = 256
"""Characters of why something moves."""

LONGEST_RANGES = 256
"""The most characters of a list of partitions in the status."""


class ShownState(StrEnum):
    """A summary of the conditions in one word. Ready, Holddown, Rebalancing, Paused and ScaledToZero stand only where the
    condition Ready is True."""

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
    """The pod that releases it, if any."""
    receiver: Annotated[Annotated[str, Field(max_length=253)] | None, Field(alias="to")] = None
    """The pod that gets it, if known."""
    epoch: int
    """The epoch of the coming grant."""
    deadline: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the giver is fenced off."""
    unacknowledged: int | None = None
    """The messages that the giver still has to acknowledge, if the queue knows the number. None too where the giver has none and
    has not released the partition yet: its `on_revoked` runs, for example."""
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""
    """Why it moves."""


class ProposedMove(Shape):
    """Partitions of one queue that would go from one pod to another."""

    queue: Annotated[str, Field(max_length=253)]
    """The queue."""
    partitions: Annotated[str, Field(max_length=LONGEST_RANGES + 2)]
    """Ranges of partitions, possibly cut."""
    giver: Annotated[str, Field(alias="from", max_length=253)]
    """The pod that would release them."""
    receiver: Annotated[str, Field(alias="to", max_length=253)]
    """The pod that would get them."""


class ProposedChange(Shape):
    """The number of a pod's partitions before and after a proposal."""

    member: Annotated[str, Field(max_length=253)]
    """The pod."""
    before: int
    """Its partitions now."""
    after: int
    """Its partitions afterwards."""


class ProposalStatus(Shape):
    """A plan that waits for approval (spec.approval Manual)."""

    id: Annotated[str, Field(max_length=64)]
    """The id to approve. It stands for these moves only."""
    created_at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When it was proposed."""
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""
    """The reason of the plan."""
    moves: int
    """Partitions that would move."""
    paused: int
    """Partitions that would be paused: those that move; with Eager, all with an owner."""
    paused_at_once: int
    """The most partitions paused at once."""
    longest_pause_seconds: int | None = None
    """The longest pause of a partition. None: until its consumer releases it (External)."""
    members: Annotated[list[ProposedChange], Field(max_length=MOST_PROPOSED_SHOWN, json_schema_extra=list_map("member"))] = Field(
        default_factory=list
    )
    """Members that would gain or lose partitions, at most 50."""
    handoffs: Annotated[
        list[ProposedMove], Field(max_length=MOST_PROPOSED_SHOWN, json_schema_extra=list_map("queue", "from", "to"))
    ] = Field(default_factory=list)
    """The moves by queue, giver and receiver, at most 50."""


OF_QUEUES = ("partitions", "unowned")
"""The numbers that are not known before a queue has answered."""

Count = Annotated[int, Field(json_schema_extra=lambda schema: schema.pop("default", None))]
"""0 in here, and absent in a resource that no operator has looked at: a default of the CRD's would say that one has."""


class GroupNumbers(Shape):
    """A group in numbers: what the engine counts, and what the status, the metrics and `baton status` show."""

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
    """Grants to another pod than the last owner, since the group was created."""
    lower_bound: Count = 0
    """The fewest moves that could have reached the same balances."""
    deadline_misses: Count = 0
    """Hand-offs that missed their deadline."""


class ConsumerGroupStatus(GroupNumbers):
    """The state of the group. The ledger, ConfigMap <group>-assignments, has the owner of each partition."""

    observed_generation: int | None = None
    """The generation of the spec that this status is about."""
    state: ShownState | None = None
    """A summary of the conditions: Ready, Holddown, Rebalancing, Paused, ScaledToZero, NotReady or Deleting."""
    last_change_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When this status last changed. At rest nothing is written; `baton status` shows whether an operator runs."""
    hold_until: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """The end of the holddown. Absent in a pause, and while a plan waits for something else."""
    assignment_generation: int | None = None
    """Plans made for the group."""
    assignor: Annotated[str, Field(max_length=128)] | None = None
    """The assignor in use."""
    selector: Annotated[str, Field(max_length=512)] | None = None
    """The label selector of the group's pods, for autoscalers."""
    desired_replicas: int | None = None
    """The desired number of pods. Absent if unknown, or if more pods than that have the group's label."""
    replicas: int | None = None
    """Live pods with the group's label."""
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
"""The longest name of a group, which pods have as a label's value."""


class QueueRef(Shape):
    """A PartitionedQueue in the group's namespace."""

    name: ObjectName
    """Its name."""


class GroupRebalance(Shape):
    """When and how partitions move."""

    delay_seconds: NonNegativeSeconds | None = None
    """The holddown, from a change of the fleet to the plan. A pod that returns within it costs no move. Seconds; 0 acts at once.
    Default: the longest of the queues'."""
    max_handoff_seconds: NonNegativeSeconds | None = None
    """How long an owner may take to finish its work on a partition that it loses. Seconds. Default: the queue's."""
    resync_seconds: Annotated[int, Field(ge=1, le=3600)] = 20
    """How often the operator compares the fleet with its records. Seconds."""
    max_concurrent_handoffs: Annotated[int, Field(strict=True, ge=0, le=100_000)] = 0
    """The most partitions that a cooperative rebalance pauses at once. 0: no bound."""


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
    """How long a vanished static member's partitions are reserved for it. Seconds; 0 turns static membership off."""
    session: SessionRule | None = None
    """Required: a Ready pod needs a session, the Lease baton-<pod>, which baton.consumer keeps. Optional: being Ready is enough.
    Default: Optional if all queues are External. Spark executors always need their driver's session."""


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
    """Workload: the operator scales targetRef to spec.replicas. External: others scale targetRef. Spark: the driver starts or
    removes executors by spec.replicas."""
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
                "spec.replicas does nothing without spec.scale: set spec.scale.mode to Workload (with a targetRef) or to Spark, "
                'or remove both (kubectl patch cg NAME --type merge -p \'{"spec":{"replicas":null,"scale":null}}\')',
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
    """In the order of preference: the group uses the first that every member supports. Built-in names, or <domain>/<name> of
    assignors installed beside the operator."""
    assignor_options: AssignorOptions | None = None
    """Options of the assignors. A change is a trigger."""
    protocol: Protocol = Protocol.COOPERATIVE
    """Cooperative revokes only the partitions that move. Eager revokes all of them first."""
    rebalance: GroupRebalance = GroupRebalance()
    """When and how partitions move."""
    membership: Membership = Membership()
    """The pods that count as members, and static members."""
    paused: bool = False
    """True: no hand-off begins; those in flight finish."""
    approval: Approval = Approval.AUTOMATIC
    """Manual: status.proposal shows a plan, and working pods keep their partitions until it is approved, by `baton approve` or by
    the annotation baton.dev/approve. Partitions without an owner, or with one that is stopping, do not wait."""
    replicas: Annotated[int, Field(strict=True, ge=0, le=100_000)] | None = None
    """The desired number of pods, usually set through /scale. Needs spec.scale.mode Workload or Spark. If absent with Workload,
    the operator sets it to the present size of spec.scale.targetRef."""
    scale: Scale | None = None
    """Who scales the group's pods."""


class ConsumerGroup(Shape):
    """A fleet of pods that shares the partitions of queues: the pods of this namespace whose label baton.dev/group is the group's
    name (63 characters at most)."""

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
