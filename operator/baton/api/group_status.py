"""ConsumerGroup.status: what the operator says of a group."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from baton.api.condition import Conditions
from baton.schema.shape import Shape, list_map

MOST_HANDOFFS_SHOWN = 50
"""The status lists at most so many moves in flight; the ledger has all of them."""

MOST_PROPOSED_SHOWN = 50
"""So many moves, and so many members, of a proposal; the ledger has all of them."""

LONGEST_RANGES = 256
"""Characters of a list of partitions in the status."""


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


class ProposedMoveStatus(Shape):
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


class ProposalStatus(Shape):
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
        list[ProposedMoveStatus], Field(max_length=MOST_PROPOSED_SHOWN, json_schema_extra=list_map("queue", "from", "to"))
    ] = Field(default_factory=list)
    """What would go where, at most 50 lines."""


Count = Annotated[int, Field(json_schema_extra=lambda schema: schema.pop("default", None))]
"""0 in here, and absent in a resource that no operator has looked at: a default of the CRD's would say that one has."""


class GroupNumbers(Shape):
    """A group in numbers: what the engine counts, and what the status, the metrics and `baton status` show."""

    members: Count = 0
    """How many pods take part, standbys included."""
    standbys: Count = 0
    """How many of these own nothing and wait for a slot."""
    partitions: Count = 0
    """How many partitions the group's queues have."""
    unowned: Count = 0
    """How many of these nobody owns at this moment."""
    moving: Count = 0
    """How many partitions are changing hands."""
    moves: Count = 0
    """How often a partition went to another pod than its last owner, since the group was made."""
    lower_bound: Count = 0
    """The least number of moves that would have done."""
    deadline_misses: Count = 0
    """How often a partition was taken from a pod that did not let it go in time."""


class ConsumerGroupStatus(GroupNumbers):
    """What the group is doing. Who owns what is in the ledger, the ConfigMap named after the group with -assignments."""

    observed_generation: int | None = None
    """The generation of the spec that this status is about."""
    state: ShownState | None = None
    """A summary of the conditions in one word. NotReady: the condition Ready is not True, and says why. Deleting: partitions are
    taken back before the group goes. ScaledToZero: there is no pod, and none is asked for. Otherwise Ready, Holddown (a change of
    the fleet is being waited out), Rebalancing (partitions change hands) or Paused."""
    last_look_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When an operator last compared the group with the facts. Written with everything else, and every two minutes at rest. Where
    it is older than five minutes no operator looks after the group, and everything here is as of then."""
    hold_until: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When a plan is made, if the change of the fleet that is held down is not undone. Only while that runs: not in a pause, nor
    while a plan waits for something else."""
    assignment_generation: int | None = None
    """Counts the plans made."""
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
    proposal: ProposalStatus | None = None
    """What waits for approval."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, Settled, Balanced, Rebalancing, Fenced and SessionsBound; with spec.approval Manual also ProposalReady."""

    @property
    def proposed(self) -> int:
        """How many moves wait for approval."""
        return 0 if self.proposal is None else self.proposal.moves
