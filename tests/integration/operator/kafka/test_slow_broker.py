"""A group whose broker takes long for every answer: operator and pods go on, and neither says that it is away."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.integration.operator.conftest import namespace
from tests.integration.operator.kafka.fleet import KafkaFleet
from tests.integration.operator.world import Cluster, Operator
from tests.kafka_broker.jars import USERS
from tests.kafka_broker.slowed import slowed_broker

Start = Callable[..., Operator]
LONG = 0.5
"""Seconds for an answer."""


@pytest.mark.long
async def test_a_slow_broker_is_not_reported_as_away_and_hand_offs_lose_nothing(
    api: Cluster, start: Start, kubeconfig: Path, tmp_path: Path
) -> None:
    world = await namespace(api, "slow-broker")
    await start(world, "one").leads()
    with slowed_broker() as (broker, link):
        broker.make_topic("slow", 4)
        link.delay(LONG / 2)
        await world.secret("kafka", USERS["operator"])
        sasl = {"user": "operator", "passwordSecretRef": {"name": "kafka", "key": "url"}}
        source = {"bootstrapServers": f"127.0.0.1:{link.port}", "topic": "slow", "sasl": sasl}
        await world.queue("slow", {"type": "Kafka", "kafka": source}, None, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 3})
        await world.group("slow", membership={"session": None})
        url = f"kafka://pod:{quote(USERS['pod'])}@127.0.0.1:{link.port}"
        with KafkaFleet(world, kubeconfig, broker, {"slow": 4}, "slow", tmp_path, pods_url=url, every=0.2) as fleet:
            await fleet.join("slow-a")
            await world.spread("slow", 4)
            await fleet.handles(20)
            await fleet.join("slow-b")
            await world.spread("slow", 2, 2)
            await fleet.handles(20)
            await fleet.leave("slow-a")
            await world.spread("slow", 4)
            await fleet.done()
            said = fleet.log("slow-a") + fleet.log("slow-b")
        assert await world.events("QueueUnreachable") == []
        assert "did not answer" not in said and "does not answer" not in said, said[-3000:]
