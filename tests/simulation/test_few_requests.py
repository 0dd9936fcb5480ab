"""A group asks the API server for little."""

import asyncio
from collections.abc import Mapping

import pytest

from baton.kube.api import core_path
from baton.kube.objects import queues_path
from baton.model.names import LEDGER_KEY_ANNOTATION
from tests.simulation.one_replica import OneReplica, in_virtual_time, lives


@in_virtual_time
async def test_pods_that_were_there_before_their_operator_cost_one_write_of_moves_and_one_of_grants(world: OneReplica) -> None:
    world.queue("orders", delaySeconds=0)
    for name in ("orders-a", "orders-b", "orders-c", "orders-d"):
        world.pod(name)
    world.group("orders")
    await world.until(world.counts, [1, 1, 1, 1])
    await world.until_told("Ready")
    assert world.measured("baton_ledger_writes_total", namespace="shop", group="orders") == 2
    assert sorted(set(await world.events())) == ["Granted", "Ready"], "no pod stood by for want of an answer"
    assert (await world.events()).count("Granted") == 1, "more than three members are summed up"


@pytest.mark.parametrize(
    ("source", "annotated"), [({"type": "External"}, True), ({"type": "Redis", "redis": {"url": "redis://memory:6379"}}, False)]
)
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
