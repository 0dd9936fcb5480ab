"""A group is set back ("Setting the offset" in docs/guides/kafka.md), also where a pod sleeps meanwhile."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.operator.baton_command import baton
from tests.integration.operator.conftest import namespace
from tests.integration.operator.kafka.fleet import KafkaFleet
from tests.integration.operator.kafka.test_kafka import made
from tests.integration.operator.world import Cluster, Operator
from tests.kafka_broker import KafkaBroker
from tests.kafka_broker.commands import described
from tests.waiting import eventually

Start = Callable[..., Operator]


@pytest.mark.long
async def test_a_paused_group_without_pods_is_set_back_and_continues_there(
    api: Cluster, start: Start, kubeconfig: Path, broker: KafkaBroker, tmp_path: Path
) -> None:
    name, group_id = "set-back", "set-back.set-back"
    world = await namespace(api, name)
    await start(world, "one").leads()
    broker.make_topic(name, 2)
    await made(world, broker, name)
    with KafkaFleet(world, kubeconfig, broker, {name: 2}, name, tmp_path) as fleet:
        await fleet.join("a", "b")
        await world.spread(name, 1, 1)
        await fleet.handles()
        await world.change("consumergroups", name, {"spec": {"paused": True}})
        await world.seen(name)
        fleet.freeze("a")
        await fleet.leave("b")
        await world.delete_pod("a")

        async def places() -> set[int]:
            return {place for place, _, _ in (await asyncio.to_thread(described, broker, group_id)).values()}

        async def is_set() -> bool:
            done = await baton("offsets", "reset", name, "-n", name, "--to", "earliest", "--yes", "--kubeconfig", kubeconfig)
            return done.returncode == 0 and await places() == {0}

        await eventually(is_set, "`baton offsets reset` sets the place")
        fleet.thaw("a")
        fleet.processes["a"].terminate()

        async def ended() -> bool:
            return fleet.processes["a"].poll() is not None

        await eventually(ended, "the pod that slept ends, and would commit what it has done")
        assert await places() == {0}
        before = len(fleet.handled())
        await fleet.join("c")
        await world.change("consumergroups", name, {"spec": {"paused": False}})
        await world.spread(name, 2)
        await fleet.handles()
        again = [one for one in fleet.handled()[before:] if one.pod == "c"]
        assert [next(one.offset for one in again if one.partition.number == number) for number in range(2)] == [0, 0]
