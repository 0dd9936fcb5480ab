"""From a ConsumerGroup's spec to the engine's."""

from typing import Any

import pytest

from baton.api import ConsumerGroupSpec, PartitionedQueueSpec
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
