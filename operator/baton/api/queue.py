"""PartitionedQueue: where a queue and its partitions are, and how its partitions are handed off."""

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
    """The status of a condition, as Kubernetes writes it."""

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
    """The reason in one word, for programs. docs/reference/conditions.md lists all reasons with their cures."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """The reason in a sentence, with the cure."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the status last changed."""
    observed_generation: int | None = None
    """The generation of the spec that the condition describes."""


Conditions = Annotated[list[Condition], Field(max_length=16, json_schema_extra=list_map("type"))]


# spec.source of a PartitionedQueue: a field for each kind of queue; `type` names the kind.


M = TypeVar("M", bound=Shape)


def _of_other(one: QueueKind) -> str:
    there = f"spec.source.{one.field} belongs to spec.source.type {one.name} only"
    return f"{there}: remove it, or change the type (one queue has one source)"


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
        "spec.source.type cannot change, because entries in the old source would be left behind: create a second "
        "PartitionedQueue and add it to the ConsumerGroup's spec.queues",
        field=".type",
        reason="FieldValueForbidden",
    )


def _model(one: QueueKind) -> type[SourceFields]:
    return cast("type[SourceFields]", load(one.resource))


def _with_the_fields_of_each_kind(model: type[M]) -> type[M]:
    """Return the model with the kinds as values of `type` and a field for the model of each kind."""
    names = Literal[tuple(one.name for one in KINDS)]  # type: ignore[valid-type] # for pydantic, which reads it when it runs
    about = model.model_fields["type"].description
    fields = {one.field: (_model(one) | None, Field(None, description=one.about)) for one in KINDS}
    made = create_model(model.__name__, __base__=model, __doc__=model.__doc__, type=(names, Field(description=about)), **fields)  # type: ignore[call-overload]
    return cast("type[M]", made)


@_with_the_fields_of_each_kind
class Source(Shape):
    """The source that `type` names, and no other."""

    model_config = ConfigDict(json_schema_extra=rules(*_source_rules()))

    type: str
    """The kind of queue. Cannot be changed."""

    @property
    def kind(self) -> QueueKind:
        """The kind that `type` names."""
        return kind(self.type)

    @property
    def fields(self) -> SourceFields:
        """The fields of the queue's kind. Raises ValidationError if they are missing and the kind needs them."""
        given = getattr(self, self.kind.field)
        return given if isinstance(given, SourceFields) else _model(self.kind)()

    @property
    def on_deadline(self) -> OnDeadline:
        """What a hand-off does at its deadline; matters only for queues that cannot fence."""
        return OnDeadline.WAIT if self.kind.fenced else self.fields.at_deadline()


# Attributes of a queue's partitions by ranges: the zones of their replicas, and their weights.
#
# Ten thousand partitions take a few lines: `[{partitions: 0-4999, zones: [east]}, {partitions: 5000-9999, zones: [west]},
# {partitions: "17,42", weight: 5}]`.


T = TypeVar("T")


class PartitionAttributes(Shape):
    """The zones and the weight of some partitions."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.zones) || has(self.weight)",
                "an entry of spec.partitionAttributes has neither zones nor weight: set at least one of them",
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
    """Numbers and ranges, such as 0-49,60. A partition may be in one entry with zones and another with a weight."""
    zones: (
        Annotated[
            tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
            Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Zones with replicas of these partitions: values of the node label topology.kubernetes.io/zone."""
    weight: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """The load of each of these partitions, 1 by default. Used by minimal and by assignors of your own."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """All entries of a queue, each partition once: where ranges overlap, the one that begins first applies."""

    zones: Spans[frozenset[str]] = ()
    weights: Spans[Fraction] = ()
    problems: tuple[str, ...] = ()
    """Mistakes in the entries, with their cures."""
    top: int = -1
    """The highest partition named in the entries; -1: none."""

    def beyond(self, partitions: int) -> tuple[str, ...]:
        """The problems for a queue with this many partitions."""
        if self.top < partitions:
            return self.problems
        there = f"0 to {partitions - 1}" if partitions else "none"
        return (
            *self.problems,
            f"spec.partitionAttributes names partition {self.top}, but the queue has {partitions} ({there}): correct the range",
        )


@lru_cache(maxsize=1024)
def attributes(entries: tuple[PartitionAttributes, ...]) -> Attributes:
    """The entries as spans. Mistakes are left out and listed in `problems`; none is an error."""
    problems: list[str] = []
    zones: list[tuple[int, int, frozenset[str]]] = []
    weights: list[tuple[int, int, Fraction]] = []
    for entry in entries:
        for part in entry.partitions.split(","):
            match = fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part, ASCII)
            first = int(match[1]) if match else 0
            last = int(match[2] or match[1]) if match else -1
            if last < first:
                problems.append(f"spec.partitionAttributes: {part!r} is not a range: write the smaller number first, such as 3-7")
                continue
            if entry.zones is not None:
                zones.append((first, last, frozenset(entry.zones)))
            if entry.weight is not None:
                weights.append((first, last, Fraction(entry.weight)))
    top = max((last for spans in (zones, weights) for _, last, _ in spans), default=-1)
    return Attributes(_apart(zones, "zones", problems), _apart(weights, "a weight", problems), tuple(problems), top)


def _apart(spans: Iterable[tuple[int, int, T]], what: str, problems: list[str]) -> Spans[T]:
    """Return the spans sorted and without overlaps: the later of two is cut."""
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
    """Whether the members share the partitions or one has all of them. The values are Solace's."""

    NON_EXCLUSIVE = "NonExclusive"
    EXCLUSIVE = "Exclusive"


class PartitionScaleStatus(StrEnum):
    """Whether the number of partitions is changing. The values are those of Solace's broker."""

    READY = "Ready"
    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"


class QueueRebalance(Shape):
    """When and how partitions of this queue move."""

    delay_seconds: NonNegativeSeconds = 5
    """The holddown in seconds of groups that do not set their own; 0: no holddown."""
    max_handoff_seconds: NonNegativeSeconds = 3
    """How many seconds an owner has to finish its work on a partition that it loses; 0: none. Then the queue fences it off and
    delivers unfinished entries to the next owner as redelivered."""


def _names(kinds: Iterable[QueueKind]) -> str:
    return ", ".join(one.name for one in kinds)


_DISCOVERED = [one for one in KINDS if one.partitions_are_changed]
_LIMITED = [one for one in KINDS if one.limits_deliveries]
_MOST_UNACKED = 10_000


def _rules() -> Iterator[Rule]:
    yield rule(
        " || ".join([*(f"self.source.type == '{one.name}'" for one in _DISCOVERED), "has(self.partitions)"]),
        f"spec.partitions is missing: set the number of partitions (it is discovered only for {_names(_DISCOVERED)})",
        field=".partitions",
        reason="FieldValueRequired",
    )
    for one in _DISCOVERED:
        yield rule(
            f"self.source.type != '{one.name}' || !has(self.partitions)",
            f"spec.partitions is discovered for {one.name}: remove it; to change the number, change {one.partitions_are_changed}",
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
"""By field, the CEL expression that is true while the field is not set."""


def _no_limit(of: QueueKind, field: str) -> str:
    return f"spec.{field} has no effect for {of.name}: remove it (it is for {_names(_LIMITED)})"


class PartitionedQueueSpec(Shape):
    """Where the queue is, its partitions and its limits."""

    model_config = ConfigDict(json_schema_extra=rules(*_rules()))

    source: Source
    """Where the queue is."""
    partitions: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None,
        description="The number of partitions. May change at any time; on Redis (at most 1,024) each key keeps its order "
        f"through the change. Discovered for {_names(_DISCOVERED)}.",
    )
    partition_attributes: Annotated[
        tuple[PartitionAttributes, ...], Field(max_length=256, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = Field(default_factory=tuple)
    """Zones and weights of partitions, by ranges, for assignors that use them. A change starts a rebalance."""
    access_type: AccessType = AccessType.NON_EXCLUSIVE
    """Exclusive gives all partitions to one member; the others stand by."""
    rebalance: QueueRebalance = QueueRebalance()
    """When and how partitions of this queue move."""
    max_delivered_unacked: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        _MOST_UNACKED,
        description="The most unacknowledged entries of one member over all its partitions. It does not limit Spark queries. "
        f"For {_names(_LIMITED)} only.",
    )
    max_redeliveries: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Redeliveries after which an entry becomes a dead letter. 0 or absent: no limit. For consumers of single entries, on Redis
    and Kafka."""


def misplaced(spec: PartitionedQueueSpec) -> str | None:
    """The API server's message about the first field that is set but not for this kind of queue, or None."""
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
    """The present number of partitions."""
    partition_scale_status: PartitionScaleStatus | None = None
    """Ready: the queue has as many partitions as the spec asks for; else ScalingUp or ScalingDown."""
    dead_letters: int | None = None
    """The number of dead letters (`baton dead-letters`). Absent: the queue has no dead letters, or was not asked yet."""
    conditions: Conditions = Field(default_factory=list)
    """Ready: the operator reaches the queue, and the queue matches the spec."""


class PartitionedQueue(Shape):
    """A queue divided into partitions. At most one pod of a ConsumerGroup owns a partition at a time."""

    metadata: dict[str, object] = Field(default_factory=dict)
    spec: PartitionedQueueSpec
    status: PartitionedQueueStatus = PartitionedQueueStatus()
