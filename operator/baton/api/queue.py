"""PartitionedQueue: where the partitions of one queue are, and how gently they may be moved."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from baton.api.attributes import PartitionAttributes
from baton.api.condition import Conditions
from baton.api.source import Source
from baton.queues.kind import QueueKind
from baton.queues.kinds import KINDS
from baton.schema.shape import NonNegativeSeconds, Rule, Shape, rule, rules


class AccessType(StrEnum):
    """Whether the members share the partitions, or one has them all. Solace's words."""

    NON_EXCLUSIVE = "NonExclusive"
    EXCLUSIVE = "Exclusive"


class PartitionScaleStatus(StrEnum):
    """In the words of Solace's broker."""

    READY = "Ready"
    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"
    INVALID_EXCLUSIVE = "InvalidExclusive"


class QueueRebalance(Shape):
    """How gently partitions of this queue are moved."""

    delay_seconds: NonNegativeSeconds = 5
    """How long the operator waits after a change of the fleet before it hands partitions off. A pod that comes back in this time
    costs no move. Seconds; 0 acts at once."""
    max_handoff_seconds: NonNegativeSeconds = 3
    """How long an owner may take to finish what it has read of a partition that it has to give up. After that the queue fences it
    off, and delivers what it left unfinished to the next owner, marked as redelivered. Seconds; 0 does not wait."""


def _names(kinds: Iterable[QueueKind]) -> str:
    return ", ".join(one.name for one in kinds)


_DISCOVERED = [one for one in KINDS if one.partitions_are_changed]
_LIMITED = [one for one in KINDS if one.limits_unacknowledged]


def _rules() -> Iterator[Rule]:
    yield rule(
        " || ".join([*(f"self.source.type == '{one.name}'" for one in _DISCOVERED), "has(self.partitions)"]),
        "spec.partitions is missing: say into how many partitions the queue is divided (only for "
        f"{_names(_DISCOVERED)} they are discovered)",
        field=".partitions",
        reason="FieldValueRequired",
    )
    for one in _DISCOVERED:
        yield rule(
            f"self.source.type != '{one.name}' || !has(self.partitions)",
            f"spec.partitions is discovered for {one.name}: remove it, and change {one.partitions_are_changed}",
            field=".partitions",
            reason="FieldValueForbidden",
        )
    for one in KINDS:
        if one.most_partitions is not None:
            yield rule(
                f"self.source.type != '{one.name}' || !has(self.partitions) || self.partitions <= {one.most_partitions}",
                f"spec.partitions: a {one.name} queue has at most {one.most_partitions} partitions",
                field=".partitions",
                reason="FieldValueInvalid",
            )


class PartitionedQueueSpec(Shape):
    """What the queue is."""

    model_config = ConfigDict(json_schema_extra=rules(*_rules()))

    source: Source
    """Where the queue is."""
    partitions: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None,
        description="Into how many partitions the queue is divided. May change at any time; on Redis every key keeps its order "
        f"meanwhile. Discovered for {_names(_DISCOVERED)}.",
    )
    partition_attributes: Annotated[
        tuple[PartitionAttributes, ...], Field(max_length=256, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = Field(default_factory=tuple)
    """The zones and the weights of partitions, by ranges, for assignors that use them. A change starts a rebalance."""
    access_type: AccessType = AccessType.NON_EXCLUSIVE
    """NonExclusive spreads the partitions over the members of the group; Exclusive gives all of them to one member, and the
    others stand by."""
    rebalance: QueueRebalance = QueueRebalance()
    """How gently partitions are moved."""
    max_delivered_unacked: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        10_000,
        description="How many unacknowledged entries one member may have, over all its partitions. It does not bound what a "
        f"Spark query reads. For {_names(_LIMITED)}; other sources do not use it.",
    )
    max_redeliveries: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """After how many redeliveries an entry becomes a dead letter, so that its partition goes on. 0 or absent: never. For
    consumers of single entries, on Redis and Kafka; the guide of each says which tries count. With Spark the application handles
    a batch that fails."""


class PartitionedQueueStatus(Shape):
    """The queue as the operator last saw it."""

    observed_generation: int | None = None
    """The generation of the spec that this status is about."""
    partitions: int | None = None
    """How many partitions the queue has now."""
    partition_scale_status: PartitionScaleStatus | None = None
    """Whether the queue has as many partitions as spec.partitions says. InvalidExclusive: an Exclusive queue has more than one
    partition, which gains nothing, because one member gets all of them."""
    dead_letters: int | None = None
    """How many entries were set aside and wait for somebody: `baton dead-letters` lists them. Absent: the queue keeps none, or
    was not asked yet."""
    conditions: Conditions = Field(default_factory=list)
    """Ready: the operator reaches the queue, and the queue is as the spec says."""


class PartitionedQueue(Shape):
    """A queue that is divided into partitions. At most one pod of a ConsumerGroup owns a partition at a time."""

    metadata: dict[str, object] = Field(default_factory=dict)
    spec: PartitionedQueueSpec
    status: PartitionedQueueStatus = PartitionedQueueStatus()
