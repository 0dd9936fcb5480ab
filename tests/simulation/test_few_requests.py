"""A group asks the API server for little."""

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from baton.kube.api import core_path
from baton.kube.objects import queues_path
from baton.model.names import LEDGER_KEY_ANNOTATION
from tests.simulation.one_replica import OneReplica, lives

EXTERNAL: Mapping[str, object] = {"type": "External"}
REDIS: Mapping[str, object] = {"type": "Redis", "redis": {"url": "redis://memory:6379"}}


@pytest.mark.parametrize(("source", "replaced"), [(EXTERNAL, 1), (REDIS, 2)])
def test_pods_that_were_there_before_their_operator_cost_a_finalizer_a_few_ledgers_two_statuses_and_two_events(
    source: Mapping[str, object], replaced: int
) -> None:
    async def story(world: OneReplica) -> None:
        spec = {"partitions": 4, "source": source, "rebalance": {"delaySeconds": 0}}
        world.make(queues_path("shop"), {"metadata": {"name": "orders"}, "spec": spec})
        for name in ("orders-a", "orders-b", "orders-c", "orders-d"):
            world.pod(name)
        world.group("orders")
        await world.until(world.counts, [1, 1, 1, 1])
        await world.until_told("Ready")
        await asyncio.sleep(10)
        assert sorted(await world.events()) == ["Granted", "Ready"], "no pod stood by, and grants are summed up"
        paths = ((verb, path.partition("/namespaces/shop/")[2]) for verb, path in world.asked if "/shop/" in path)
        assert Counter(one for one in paths if "pods" not in one[1]) == {
            ("patch", "consumergroups/orders"): 1,
            ("create", "configmaps"): 1,
            ("update", "configmaps/orders-assignments"): replaced,
            ("patch", "consumergroups/orders/status"): 1,
            ("patch", "partitionedqueues/orders/status"): 1,
            ("create", "events"): 2,
        }

    lives(story)


@pytest.mark.parametrize(("source", "annotated"), [(EXTERNAL, True), (REDIS, False)])
def test_kubelets_are_asked_where_the_queue_does_not_tell_its_consumers(source: Mapping[str, object], annotated: bool) -> None:
    async def story(world: OneReplica) -> None:
        world.make(queues_path("shop"), {"metadata": {"name": "orders"}, "spec": {"partitions": 4, "source": source}})
        world.group("orders")
        world.pod("orders-a")
        await world.until(world.counts, [4])
        await asyncio.sleep(1)
        pod = await world.found(core_path("shop", "pods", "orders-a"))
        assert pod is not None
        assert (LEDGER_KEY_ANNOTATION in pod["metadata"].get("annotations", {})) is annotated

    lives(story)
