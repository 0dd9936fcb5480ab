"""The attributes of a queue's partitions, by ranges: the zones of their replicas, and their weights.

Ten thousand partitions are a few lines: `[{partitions: 0-4999, zones: [east]}, {partitions: 5000-9999, zones: [west]},
{partitions: "17,42", weight: 5}]`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from re import ASCII, fullmatch
from typing import Annotated, TypeVar

from pydantic import ConfigDict, Field

from baton.model.ranges import Spans
from baton.schema.shape import Shape, rule, rules

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
    """The partitions: numbers and ranges, such as 0-49,60. A partition may be in one entry with zones and in one with a
    weight."""
    zones: (
        Annotated[
            tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
            Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """The zones with replicas of these partitions, as in the pods' label topology.kubernetes.io/zone. Default: unknown."""
    weight: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """The load of each of these partitions; other partitions have 1. For minimal and assignors of your own."""


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
