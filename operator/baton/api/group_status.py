"""ConsumerGroup.status: the state of a group, its numbers, hand-offs, proposal and conditions."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from baton.api.condition import Conditions
from baton.schema.shape import Shape, list_map

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
    """The pod that releases it; none for a partition without an owner."""
    receiver: Annotated[Annotated[str, Field(max_length=253)] | None, Field(alias="to")] = None
    """The pod that gets it; none while there is no receiver."""
    epoch: int
    """The epoch of the coming grant."""
    deadline: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the giver is fenced off, unless it has released the partition."""
    unacknowledged: int | None = None
    """The number of messages that the giver still has to acknowledge; none if the queue does not know it."""
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""
    """Why it moves."""


class ProposedMove(Shape):
    """Partitions of one queue that would go from one pod to another."""

    queue: Annotated[str, Field(max_length=253)]
    """The queue."""
    partitions: Annotated[str, Field(max_length=LONGEST_RANGES + 2)]
    """The partitions as ranges; only the first of very many."""
    giver: Annotated[str, Field(alias="from", max_length=253)]
    """The pod that would release them."""
    receiver: Annotated[str, Field(alias="to", max_length=253)]
    """The pod that would get them."""


class ProposedChange(Shape):
    """The number of a pod's partitions before and after a proposal."""

    member: Annotated[str, Field(max_length=253)]
    """The pod."""
    before: int
    """The number of its partitions now."""
    after: int
    """The number of its partitions after the proposal."""


class ProposalStatus(Shape):
    """A plan that waits for approval (spec.approval Manual)."""

    id: Annotated[str, Field(max_length=64)]
    """The id to approve. It stands for these moves only. Once approved or overtaken, it never comes again."""
    created_at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """The time since which it waits."""
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""
    """The reason of the plan."""
    moves: int
    """The number of partitions that would move."""
    paused: int
    """The number of partitions that would be paused: those that move, and under protocol Eager all with an owner."""
    paused_at_once: int
    """The most partitions that would be paused at the same time."""
    longest_pause_seconds: int | None = None
    """The longest pause of one partition. None: until its consumer releases it (External queues)."""
    members: Annotated[list[ProposedChange], Field(max_length=MOST_PROPOSED_SHOWN, json_schema_extra=list_map("member"))] = Field(
        default_factory=list
    )
    """The members that would gain or lose partitions, at most 50 of them."""
    handoffs: Annotated[
        list[ProposedMove], Field(max_length=MOST_PROPOSED_SHOWN, json_schema_extra=list_map("queue", "from", "to"))
    ] = Field(default_factory=list)
    """The moves by queue, giver and receiver, at most 50 of them."""


OF_QUEUES = ("partitions", "unowned")
"""The numbers that are not known before a queue has answered."""

Count = Annotated[int, Field(json_schema_extra=lambda schema: schema.pop("default", None))]
"""0 in here, and absent in a resource that no operator has looked at: a default of the CRD's would say that one has."""


class GroupNumbers(Shape):
    """A group in numbers: what the engine counts, and what the status, the metrics and `baton status` show."""

    members: Count = 0
    """The number of members, standbys included."""
    standbys: Count = 0
    """The number of members that own no partition and wait for one."""
    partitions: Count = 0
    """The number of partitions of the group's queues. Absent as long as none of them is there and has answered."""
    unowned: Count = 0
    """The number of partitions without an owner at this moment. Absent as long as no queue is there and has answered."""
    moving: Count = 0
    """The number of hand-offs that run or are planned."""
    moves: Count = 0
    """The number of grants to another pod than the partition's last owner, since the group was created."""
    lower_bound: Count = 0
    """The fewest moves that could have reached the same balances."""
    deadline_misses: Count = 0
    """The number of hand-offs whose deadline passed before the release."""


class ConsumerGroupStatus(GroupNumbers):
    """The state of the group. The ledger, ConfigMap <group>-assignments, has the owner of each partition."""

    observed_generation: int | None = None
    """The generation of the spec that this status is about."""
    state: ShownState | None = None
    """A summary of the conditions in one word. NotReady: the condition Ready is not True, and says why. Deleting: the group takes
    its partitions back before it goes. ScaledToZero: there is no pod, and none is asked for. Otherwise Ready, Holddown (a plan
    waits for the fleet to come to rest), Rebalancing (partitions move) or Paused."""
    last_change_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When this status last changed. At rest nothing is written. Whether an operator looks after the group is in the Lease of its
    leader, which `baton status` reads."""
    hold_until: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """The end of the holddown, when a plan follows unless the change is undone. Absent in a pause, and while a plan waits for
    something else."""
    assignment_generation: int | None = None
    """How many plans the operator has made for the group."""
    assignor: Annotated[str, Field(max_length=128)] | None = None
    """The assignor in use."""
    selector: Annotated[str, Field(max_length=512)] | None = None
    """The label selector of the group's pods, for autoscalers."""
    desired_replicas: int | None = None
    """How many pods there are to be: spec.replicas, as far as spec.scale.steps lets there be so many, or with spec.scale.mode
    External the size of spec.scale.targetRef. Absent where nobody says it, and where more pods than that size have the group's
    label."""
    replicas: int | None = None
    """How many pods carry the group's label, and neither terminate nor have come to their end."""
    handoffs: Annotated[
        list[Handoff], Field(max_length=MOST_HANDOFFS_SHOWN, json_schema_extra=list_map("queue", "partition"))
    ] = Field(default_factory=list)
    """The hand-offs in flight, at most 50 of them."""
    proposal: ProposalStatus | None = None
    """The plan that waits for approval."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, Settled, Balanced, Rebalancing, Fenced and SessionsBound; with spec.approval Manual also ProposalReady."""

    @property
    def proposed(self) -> int:
        """The number of moves that wait for approval."""
        return 0 if self.proposal is None else self.proposal.moves
