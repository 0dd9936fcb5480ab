"""Groups on topics of a real broker, with the operator and an API server: owners, and what they handle under load."""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions

from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.protocol import Claimant
from tests.integration.operator.conftest import namespace
from tests.integration.operator.kafka.fleet import UNHURRIED, KafkaFleet, verdict
from tests.integration.operator.world import Cluster, Operator, World
from tests.kafka_broker import ORDERED, KafkaBroker
from tests.kafka_broker.jars import USERS
from tests.kafka_broker.slowed import slowed_broker
from tests.waiting import PATIENCE, eventually

Start = Callable[..., Operator]


async def made(world: World, broker: KafkaBroker, topic: str, *, start_from: str = "Earliest", **rebalance: Any) -> None:
    """A queue and a group of the topic's name, whose pods need sessions."""
    await queue_of(world, broker, topic, topic, start_from=start_from, **rebalance)
    await world.group(topic, membership={"session": None})


async def queue_of(
    world: World, broker: KafkaBroker, name: str, topic: str, *, start_from: str = "Earliest", **rebalance: Any
) -> None:
    source = {"type": "Kafka", "kafka": {"bootstrapServers": broker.servers, "topic": topic, "startFrom": start_from}}
    await world.queue(name, source, None, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 3, **rebalance})


def send(broker: KafkaBroker, topic: str, partition: int, *values: str) -> None:
    """Returns when the broker has them."""
    producer = Producer({**ORDERED, "bootstrap.servers": broker.servers})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(PATIENCE) == 0


@asynccontextmanager
async def looking_at(broker: KafkaBroker, namespace: str, queue: str, topic: str) -> AsyncIterator[KafkaQueue]:
    """The queue as the operator sees it."""
    spec, claimant = TopicToOpen(topic=topic, queue=queue), Claimant("only looks", "")
    made = KafkaQueue(KafkaAddress((broker.servers,)), f"{namespace}.{queue}", spec, claimant)
    yield made
    await made.close()


async def test_under_load_nothing_is_lost_or_reordered_and_repetitions_are_marked(
    api: Cluster, start: Start, kubeconfig: Path, broker: KafkaBroker, tmp_path: Path
) -> None:
    world = await namespace(api, "on-kafka")
    await start(world, "one").leads()
    broker.make_topic("orders", 8)
    await made(world, broker, "orders", maxHandoffSeconds=UNHURRIED)
    with KafkaFleet(world, kubeconfig, broker, {"orders": 8}, "orders", tmp_path) as fleet:
        await fleet.join("a", "b", "c")
        await world.spread("orders", 2, 3, 3)
        await fleet.handles()
        await fleet.join("d")
        await world.spread("orders", 2, 2, 2, 2)
        await fleet.handles()
        await fleet.leave("a")
        await world.spread("orders", 2, 3, 3)
        await fleet.handles()
        assert verdict(fleet.handled(), fleet.sent).repeated == [], "a graceful change repeats nothing"

        await world.change("consumergroups", "orders", {"spec": {"rebalance": {"maxHandoffSeconds": 10}}})
        await world.seen("orders")
        await fleet.die("b")
        await world.spread("orders", 4, 4)
        await fleet.handles()
        fleet.freeze("c")
        await world.set_ready("c", False)
        await world.spread("orders", 8)
        await fleet.handles()
        fleet.thaw("c")
        await world.set_ready("c", True)
        await world.spread("orders", 4, 4)
        admin = broker.admin()
        admin.create_partitions([NewPartitions("orders", 10)])["orders"].result(PATIENCE)
        await world.spread("orders", 5, 5)
        fleet.topics["orders"] = 10
        await fleet.handles()
        await fleet.done()


async def test_a_missing_topic_is_reported_and_used_once_it_exists(api: Cluster, start: Start, broker: KafkaBroker) -> None:
    world = await namespace(api, "wrong-topics")
    await start(world, "one").leads()
    await made(world, broker, "later")
    said = await world.told("later", "QueueUnreachable")
    assert "there is no topic later" in said and "create it, or correct spec.source.kafka.topic" in said
    broker.make_topic("later", 3)
    await world.pod("later-a", "later", session=True)
    await world.spread("later", 3)
    await world.told("later", "Ready")


async def test_a_recreated_topic_is_read_from_its_beginning_by_a_group_that_began_latest(
    api: Cluster, start: Start, broker: KafkaBroker
) -> None:
    world = await namespace(api, "made-again")
    operator = await start(world, "one").leads()
    broker.make_topic("again", 1)
    await made(world, broker, "again", start_from="Latest")
    await world.pod("again-a", "again", session=True)
    await world.spread("again", 1)
    admin = broker.admin()
    admin.delete_topics(["again"])["again"].result(PATIENCE)
    await world.told("again", "QueueUnreachable")
    operator.process.send_signal(signal.SIGSTOP)
    broker.make_topic("again", 1)
    send(broker, "again", 0, "1", "2", "3")
    operator.process.send_signal(signal.SIGCONT)
    async with looking_at(broker, "made-again", "again", "again") as queue:

        async def granted() -> bool:
            return bool((await queue.check()).owners)

        await eventually(granted, "the new topic's partition is granted")
        assert (await queue.check()).lag == {0: 3}


async def test_running_pods_read_the_topic_of_a_replaced_queue(
    api: Cluster, start: Start, kubeconfig: Path, broker: KafkaBroker, tmp_path: Path
) -> None:
    world = await namespace(api, "replaced")
    await start(world, "one").leads()
    for topic in ("former", "latter"):
        broker.make_topic(topic, 2)
    await made(world, broker, "former")
    with KafkaFleet(world, kubeconfig, broker, {"former": 2}, "former", tmp_path) as fleet:
        await fleet.join("replaced-a")
        await fleet.handles(50)
        fleet.quiet()
        await world.delete("partitionedqueues", "former")
        await queue_of(world, broker, "former", "latter")
        for partition in range(2):
            send(broker, "latter", partition, "1", "2", "3")
        async with looking_at(broker, "replaced", "former", "latter") as queue:

            async def done() -> bool:
                return (await queue.check()).lag == {0: 0, 1: 0}

            await eventually(done, "the new topic is read", shown=queue.check)
    epochs = {(one.partition.number, one.epoch) for one in fleet.handled()}
    assert len(epochs) == 4, "each partition was granted once for each topic"


async def test_two_groups_with_one_group_id_conflict(api: Cluster, start: Start, broker: KafkaBroker) -> None:
    world = await namespace(api, "one-group-id")
    await start(world, "one").leads()
    broker.make_topic("shared", 2)
    for name in ("first", "second"):
        kafka = {"bootstrapServers": broker.servers, "topic": "shared", "groupId": "the-same"}
        await world.queue(name, {"type": "Kafka", "kafka": kafka}, None, rebalance={"delaySeconds": 0})
        await world.group(name, membership={"session": None})
        await world.pod(f"{name}-a", name, session=True)
        if name == "first":
            await world.spread(name, 2)
    said = await world.told("second", "Conflict")
    assert "belongs to another ConsumerGroup" in said and "spec.source.kafka.groupId" in said
    await world.delete("consumergroups", "first")
    await world.gone("first")
    await world.spread("second", 2)


# -- A broker that takes long for every answer.


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
