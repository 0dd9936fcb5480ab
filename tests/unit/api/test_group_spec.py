"""From a ConsumerGroup's spec to the engine's."""

from fractions import Fraction
from typing import Any

import pytest

from baton.api import Attributes, ConsumerGroupSpec, PartitionedQueueSpec, attributes
from baton.api.group import GroupRebalance, Protocol, ScaleMode
from baton.engine.observation import GroupSpec, engine_spec


def queue(delay: int) -> PartitionedQueueSpec:
    return PartitionedQueueSpec.model_validate(
        {"source": {"type": "External"}, "partitions": 4, "rebalance": {"delaySeconds": delay, "maxHandoffSeconds": 3}}
    )


def spec(**fields: Any) -> ConsumerGroupSpec:
    return ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], **fields})


def test_the_defaults_are_those_of_the_engine() -> None:
    assert engine_spec(spec(), []) == GroupSpec()


@pytest.mark.parametrize(
    ("fields", "queues", "delay"),
    [
        ({}, [2], 2.0),
        ({}, [2, 7, 5], 7.0),
        ({"rebalance": {"delaySeconds": 1}}, [2, 7], 1.0),
        ({"rebalance": {"delaySeconds": 0}}, [2], 0.0),
    ],
)
def test_the_delay_is_the_groups_or_the_longest_of_its_queues(fields: dict[str, Any], queues: list[int], delay: float) -> None:
    assert engine_spec(spec(**fields), map(queue, queues)).delay == delay


def test_everything_is_handed_on() -> None:
    made = engine_spec(
        spec(
            assignors=["range", "solace"],
            protocol="Eager",
            paused=True,
            replicas=3,
            scale={"mode": "Spark"},
            rebalance={"resyncSeconds": 7, "maxConcurrentHandoffs": 2},
            membership={"identityLabel": "app/index", "sessionTimeoutSeconds": 60},
        ),
        [],
    )
    assert made == GroupSpec(
        assignors=("range", "solace"),
        protocol=Protocol.EAGER,
        rebalance=GroupRebalance(resync_seconds=7, max_concurrent_handoffs=2),
        session_timeout=60.0,
        paused=True,
        replicas=3,
        scale_mode=ScaleMode.SPARK,
    )


def test_without_an_identity_there_is_no_static_membership() -> None:
    assert engine_spec(spec(membership={"sessionTimeoutSeconds": 60}), []).session_timeout == 0.0


# -- Zones and weights of partitions, by ranges.


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


def test_no_attributes_are_no_mistake() -> None:
    assert read() == Attributes()
    assert read().beyond(0) == ()


@pytest.mark.parametrize(
    ("entries", "zones", "said"),
    [
        ([{"partitions": "3-10", "zones": ["east"]}], ((3, 10, EAST),), "names partition 10, but the queue has 8 (0 to 7)"),
        ([{"partitions": "7-3", "zones": ["east"]}], (), "'7-3' is not a range: write the smaller number first"),
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
def test_a_contradictory_attribute_is_reported_and_the_rest_holds(
    entries: list[dict[str, Any]], zones: object, said: str
) -> None:
    made = read(*entries)
    assert made.zones == zones
    assert any(said in sentence for sentence in made.beyond(8))


def test_a_queue_without_partitions_has_none_to_name() -> None:
    assert "the queue has 0 (none)" in read({"partitions": "0", "weight": 2}).beyond(0)[0]
