"""Zones and weights of partitions, by ranges."""

from fractions import Fraction
from typing import Any

import pytest

from baton.api import Attributes, PartitionedQueueSpec, attributes

EAST, WEST = frozenset({"east"}), frozenset({"west"})


def read(*entries: dict[str, Any]) -> Attributes:
    spec = {"source": {"type": "External"}, "partitions": 10_000, "partitionAttributes": list(entries)}
    return attributes(PartitionedQueueSpec.model_validate(spec).partition_attributes)


def test_ten_thousand_partitions_are_a_few_lines() -> None:
    made = read(
        {"partitions": "5000-9999", "zones": ["west"]},
        {"partitions": "0-4999", "zones": ["east"]},
        {"partitions": "17,42-43", "weight": 5},
    )
    assert made.zones == ((0, 4999, EAST), (5000, 9999, WEST))
    assert made.weights == ((17, 17, Fraction(5)), (42, 43, Fraction(5)))
    assert made.beyond(10_000) == ()


def test_nothing_said_is_nothing_wrong() -> None:
    assert read() == Attributes()
    assert read().beyond(0) == ()


@pytest.mark.parametrize(
    ("entries", "zones", "said"),
    [
        ([{"partitions": "3-10", "zones": ["east"]}], ((3, 10, EAST),), "names partition 10, and the queue has 8 (0 to 7)"),
        ([{"partitions": "7-3", "zones": ["east"]}], (), "'7-3' is no range: write the smaller number first"),
        (
            [{"partitions": "0-5", "zones": ["east"]}, {"partitions": "4-7", "zones": ["west"]}],
            ((0, 5, EAST), (6, 7, WEST)),
            "gives partition 4 zones twice",
        ),
        (
            [{"partitions": "0-7", "zones": ["east"]}, {"partitions": "4", "zones": ["west"]}],
            ((0, 7, EAST),),
            "gives partition 4 zones twice",
        ),
        ([{"partitions": "1,1", "zones": ["east"], "weight": 1}], ((1, 1, EAST),), "gives partition 1 a weight twice"),
    ],
)
def test_what_cannot_be_meant_so_is_told_and_the_rest_holds(entries: list[dict[str, Any]], zones: object, said: str) -> None:
    made = read(*entries)
    assert made.zones == zones
    assert any(said in sentence for sentence in made.beyond(8))


def test_a_queue_without_partitions_has_none_to_name() -> None:
    assert "the queue has 0 (none)" in read({"partitions": "0", "weight": 2}).beyond(0)[0]
