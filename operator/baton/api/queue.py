"""PartitionedQueue: where the partitions of one queue are, and how gently they may be moved."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from re import ASCII, fullmatch
from typing import Annotated, Literal, TypeVar, cast

from pydantic import ConfigDict, Field, create_model

from baton.model.ids import OnDeadline
from baton.model.ranges import Spans
from baton.queues.kind import QueueKind, load
from baton.queues.kinds import KINDS, kind
from baton.schema.shape import NonNegativeSeconds, Rule, Shape, SourceFields, list_map, rule, rules

# Conditions, as the Kubernetes API conventions have them


class ConditionStatus(StrEnum):
    """As Kubernetes writes it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Shape):
    """One aspect of the state: its status, since when, and why."""

    type: Annotated[str, Field(max_length=64)]
    """The name of the condition, for example Ready."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=128)]
    """The reason in one word, for programs. The reference page about conditions lists all reasons with their cures."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """The reason in a sentence, with the cure."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the status last changed."""
    observed_generation: int | None = None
    """The generation of the spec that the condition is about."""


Conditions = Annotated[list[Condition], Field(max_length=16, json_schema_extra=list_map("type"))]


# spec.source of a PartitionedQueue: the fields of all kinds of queues, of which its type names one.


M = TypeVar("M", bound=Shape)


def _of_other(one: QueueKind) -> str:
    return (
        f"spec.source.{one.field} belongs to spec.source.type {one.name} only: remove it, or change the type (one queue has one "
        "source)"
    )


def _source_rules() -> Iterator[Rule]:
    for one in KINDS:
        here = f"spec.source.{one.field}"
        if one.needs:
            needed = (" and " if one.needs_all else " or ").join(f"{here}.{field}" for field in one.needs)
            yield rule(
                f"self.type != '{one.name}' || has(self.{one.field})",
                f"{here} is missing: spec.source.type {one.name} needs {needed}",
                field=f".{one.field}",
                reason="FieldValueRequired",
            )
        yield rule(
            f"self.type == '{one.name}' || !has(self.{one.field})",
            _of_other(one),
            field=f".{one.field}",
            reason="FieldValueForbidden",
        )
    yield rule(
        "self.type == oldSelf.type",
        "spec.source.type cannot change, for what is in the old source would be left behind: make a second "
        "PartitionedQueue and name it in the ConsumerGroup's spec.queues",
        field=".type",
        reason="FieldValueForbidden",
    )


def _model(one: QueueKind) -> type[SourceFields]:
    return cast("type[SourceFields]", load(one.resource))


def _with_the_fields_of_each_kind(model: type[M]) -> type[M]:
    """`type` names one kind, and each kind has a field for its own model."""
    names = Literal[tuple(one.name for one in KINDS)]  # type: ignore[valid-type] # for pydantic, which reads it when it runs
    about = model.model_fields["type"].description
    fields = {one.field: (_model(one) | None, Field(None, description=one.about)) for one in KINDS}
    made = create_model(model.__name__, __base__=model, __doc__=model.__doc__, type=(names, Field(description=about)), **fields)  # type: ignore[call-overload]
    return cast("type[M]", made)


@_with_the_fields_of_each_kind
class Source(Shape):
    """Exactly the source that `type` names."""

    model_config = ConfigDict(json_schema_extra=rules(*_source_rules()))

    type: str
    """Where the queue is. Cannot be changed."""

    @property
    def kind(self) -> QueueKind:
        """What its type says of itself."""
        return kind(self.type)

    @property
    def fields(self) -> SourceFields:
        """Those of its kind. Raises ValidationError where they are missing, and may not be."""
        given = getattr(self, self.kind.field)
        return given if isinstance(given, SourceFields) else _model(self.kind)()

    @property
    def on_deadline(self) -> OnDeadline:
        """What a hand-off does at its deadline, where the queue cannot fence."""
        return OnDeadline.WAIT if self.kind.fenced else self.fields.at_deadline()


# The attributes of a queue's partitions, by ranges: the zones of their replicas, and their weights.
#
# Ten thousand partitions are a few lines: `[{partitions: 0-4999, zones: [east]}, {partitions: 5000-9999, zones: [west]},
# {partitions: "17,42", weight: 5}]`.


T = TypeVar("T")


class PartitionAttributes(Shape):
    """The zones and the weight of some partitions."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.zones) || has(self.weight)",
                "an entry of spec.partitionAttributes says nothing of its partitions: give zones, or weight, or both",
                reason="FieldValueRequired",
            ),
        )
    )

    partitions: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1024,
            json_schema_extra=rules(
                rule(
                    r"self.matches('^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$')",
                    "spec.partitionAttributes: write partitions as numbers and ranges, such as 0-49,60",
                    reason="FieldValueInvalid",
                )
            ),
        ),
    ]
    """Numbers and ranges, such as 0-49,60. A partition may be in one entry with zones and in one with a weight."""
    zones: (
        Annotated[
            tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
            Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Zones with replicas of these partitions, as in the label topology.kubernetes.io/zone."""
    weight: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """The load of each of these partitions (default 1), for minimal and assignors of your own."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """All entries of a queue, each partition once: of ranges that overlap the one that begins first holds."""

    zones: Spans[frozenset[str]] = ()
    weights: Spans[Fraction] = ()
    problems: tuple[str, ...] = ()
    """What cannot be meant so, with the cure."""
    top: int = -1
    """The highest partition that is named."""

    def beyond(self, partitions: int) -> tuple[str, ...]:
        """What is wrong where the queue has this many partitions."""
        if self.top < partitions:
            return self.problems
        there = f"0 to {partitions - 1}" if partitions else "none"
        return (
            *self.problems,
            f"spec.partitionAttributes names partition {self.top}, and the queue has {partitions} ({there}): correct the range",
        )


@lru_cache(maxsize=1024)
def attributes(entries: tuple[PartitionAttributes, ...]) -> Attributes:
    """The entries as spans. Nothing in them is an error: what cannot be meant so is left out and told."""
    problems: list[str] = []
    zones: list[tuple[int, int, frozenset[str]]] = []
    weights: list[tuple[int, int, Fraction]] = []
    for entry in entries:
        for part in entry.partitions.split(","):
            match = fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part, ASCII)
            first = int(match[1]) if match else 0
            last = int(match[2] or match[1]) if match else -1
            if last < first:
                problems.append(f"spec.partitionAttributes: {part!r} is no range: write the smaller number first, such as 3-7")
                continue
            if entry.zones is not None:
                zones.append((first, last, frozenset(entry.zones)))
            if entry.weight is not None:
                weights.append((first, last, Fraction(entry.weight)))
    top = max((last for spans in (zones, weights) for _, last, _ in spans), default=-1)
    return Attributes(_apart(zones, "zones", problems), _apart(weights, "a weight", problems), tuple(problems), top)


def _apart(spans: Iterable[tuple[int, int, T]], what: str, problems: list[str]) -> Spans[T]:
    """Sorted, and the later of two that overlap cut down."""
    kept: list[tuple[int, int, T]] = []
    for span in sorted(spans, key=lambda span: span[:2]):
        first, last, value = span
        end = kept[-1][1] if kept else -1
        if first <= end:
            problems.append(f"spec.partitionAttributes gives partition {first} {what} twice: name it in one entry")
            first = end + 1
        if first <= last:
            kept.append((first, last, value))
    return tuple(kept)


# The resource


class AccessType(StrEnum):
    """Whether the members share the partitions, or one has them all. Solace's words."""

    NON_EXCLUSIVE = "NonExclusive"
    EXCLUSIVE = "Exclusive"


class PartitionScaleStatus(StrEnum):
    """In the words of Solace's broker."""

    READY = "Ready"
    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"


class QueueRebalance(Shape):
    """How gently partitions of this queue are moved."""

    delay_seconds: NonNegativeSeconds = 5
    """The holddown of groups that do not set their own. Seconds; 0 acts at once."""
    max_handoff_seconds: NonNegativeSeconds = 3
    """How long an owner may take to finish its work on a partition that it loses. Then the queue fences it off, and delivers
    unfinished entries to the next owner as redelivered. Seconds; 0 does not wait."""


def _names(kinds: Iterable[QueueKind]) -> str:
    return ", ".join(one.name for one in kinds)


_DISCOVERED = [one for one in KINDS if one.partitions_are_changed]
_LIMITED = [one for one in KINDS if one.limits_deliveries]
_MOST_UNACKED = 10_000


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
        if not one.limits_deliveries:
            for field, unset in _LIMITS.items():
                cel = f"self.source.type != '{one.name}' || {unset}"
                yield rule(cel, _no_limit(one, field), field=f".{field}", reason="FieldValueForbidden")


_LIMITS = {
    "maxDeliveredUnacked": f"self.maxDeliveredUnacked == {_MOST_UNACKED}",
    "maxRedeliveries": "!has(self.maxRedeliveries)",
}
"""By field, how the API server sees one that is not set."""


def _no_limit(of: QueueKind, field: str) -> str:
    return f"spec.{field} does nothing for {of.name}: remove it (it is for {_names(_LIMITED)})"


class PartitionedQueueSpec(Shape):
    """What the queue is."""

    model_config = ConfigDict(json_schema_extra=rules(*_rules()))

    source: Source
    """Where the queue is."""
    partitions: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None,
        description="The number of partitions. May change at any time; on Redis (at most 1,024) every key keeps its order "
        f"meanwhile. Discovered for {_names(_DISCOVERED)}.",
    )
    partition_attributes: Annotated[
        tuple[PartitionAttributes, ...], Field(max_length=256, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = Field(default_factory=tuple)
    """Zones and weights of partitions, by ranges, for assignors that use them. A change starts a rebalance."""
    access_type: AccessType = AccessType.NON_EXCLUSIVE
    """Exclusive gives all partitions to one member, and the others stand by."""
    rebalance: QueueRebalance = QueueRebalance()
    """How gently partitions are moved."""
    max_delivered_unacked: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        _MOST_UNACKED,
        description="The most unacknowledged entries of one member, over all its partitions. It does not bound Spark queries. "
        f"For {_names(_LIMITED)} only.",
    )
    max_redeliveries: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Redeliveries after which an entry becomes a dead letter. 0 or absent: never. For consumers of single entries, on Redis and
    Kafka."""


def misplaced(spec: PartitionedQueueSpec) -> str | None:
    """A field that is there, and that its kind of queue does not have: what the API server says of it."""
    of = spec.source.kind
    found = [_of_other(one) for one in KINDS if one is not of and getattr(spec.source, one.field) is not None]
    if not of.limits_deliveries:
        limits = {
            "maxDeliveredUnacked": spec.max_delivered_unacked != _MOST_UNACKED,
            "maxRedeliveries": spec.max_redeliveries is not None,
        }
        found += [_no_limit(of, field) for field, there in limits.items() if there]
    return next(iter(found), None)


class PartitionedQueueStatus(Shape):
    """The queue as the operator last saw it."""

    observed_generation: int | None = None
    """The generation of the spec that this status is about."""
    partitions: int | None = None
    """The number of partitions now."""
    partition_scale_status: PartitionScaleStatus | None = None
    """Ready: the queue has the partitions that the spec asks for; else ScalingUp or ScalingDown."""
    dead_letters: int | None = None
    """Dead letters (`baton dead-letters`). Absent: the queue keeps none, or was not asked yet."""
    conditions: Conditions = Field(default_factory=list)
    """Ready: the operator reaches the queue, and it matches the spec."""


class PartitionedQueue(Shape):
    """A queue divided into partitions. At most one pod of a ConsumerGroup owns a partition at a time."""

    metadata: dict[str, object] = Field(default_factory=dict)
    spec: PartitionedQueueSpec
    status: PartitionedQueueStatus = PartitionedQueueStatus()
