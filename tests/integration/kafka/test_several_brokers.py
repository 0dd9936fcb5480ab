"""Three brokers, two of which fail: commits stay, and messages say what is wrong."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka.client import CoordinationType

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.reader import KafkaReader
from baton.queues.protocol import QueueUnreachable
from tests.integration.kafka.conftest import GROUP
from tests.integration.kafka.reading import read
from tests.integration.kafka.stress.rounds import coordinator_rounds
from tests.kafka_broker.cluster import RACKS, KafkaCluster
from tests.kafka_pod import shared
from tests.waiting import PATIENCE, eventually

MORTAL = (2, 3)
OFFSETS = "__consumer_offsets"
_names = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster() as running:
        yield running


MakeOperator = Callable[[str, str], KafkaQueue]


@pytest.fixture
async def operator(cluster: KafkaCluster) -> AsyncIterator[MakeOperator]:
    """`operator(topic, group)`: the operator's side, closed after the test."""
    made: list[KafkaQueue] = []

    def one(topic: str, group: str) -> KafkaQueue:
        spec = TopicToOpen(topic=topic, queue="orders")
        made.append(KafkaQueue(KafkaAddress(cluster.servers), group, spec, GROUP))
        return made[-1]

    yield one
    for queue in made:
        await queue.close()


async def coordinated_by(
    cluster: KafkaCluster, operator: MakeOperator, topic: str, nodes: tuple[int, ...]
) -> tuple[KafkaQueue, str, int]:
    """Return a group that one of these brokers coordinates: the operator's side, the group's id, and the broker."""
    asked = KafkaClient(KafkaAddress(cluster.servers), topic, "test")

    async def found() -> tuple[str, int] | None:
        group = f"shop.{topic}-{next(_names)}"
        with suppress(QueueUnreachable):  # the brokers have just begun
            node = await asked._coordinator(CoordinationType.GROUP, group)
            return (group, node) if node in nodes else None
        return None

    try:
        group, node = await eventually(found, f"a group is coordinated by one of the brokers {nodes}", PATIENCE)
    finally:
        await asked.close()
    made = operator(topic, group)

    async def ready() -> bool:
        with suppress(QueueUnreachable):  # likewise
            await made.ensure(None)
            return True
        return False

    await eventually(ready, "the operator takes the group", PATIENCE)
    return made, group, node


@pytest.mark.long
async def test_too_few_in_sync_replicas_reject_commits_with_the_reason(cluster: KafkaCluster, operator: MakeOperator) -> None:
    cluster.make_topic("few", [[1, 2, 3]])
    queue, group, _ = await coordinated_by(cluster, operator, "few", (1,))
    assert await queue.grant(0, Uid("a"), Epoch(1)) == ("a", 1, False)
    for node in MORTAL:
        cluster.broker(node).freeze()
    try:

        async def said() -> bool:
            try:
                await queue.grant(0, Uid("b"), Epoch(2))
            except QueueUnreachable as problem:
                return "min.insync.replicas" in str(problem)
            return False

        await eventually(said, "the cure is said", PATIENCE)
    finally:
        for node in MORTAL:
            cluster.broker(node).thaw()

    async def taken() -> bool:
        try:
            return await queue.grant(0, Uid("c"), Epoch(3)) == ("c", 3, False)
        except QueueUnreachable:
            return False

    await eventually(taken, "a grant is taken when they are back", PATIENCE)
    address = KafkaAddress(cluster.servers)
    reader = KafkaReader(address, group, QueueName("orders"), Uid("c"), *shared(address, group))
    try:
        assert await asyncio.to_thread(read, reader, 0, 3, 0) == []
    finally:
        await asyncio.to_thread(reader.close)


async def test_a_killed_coordinator_loses_no_confirmed_commit(
    cluster: KafkaCluster, operator: MakeOperator, tmp_path: Path
) -> None:
    cluster.make_topic("killed", [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]])
    _, group, node = await coordinated_by(cluster, operator, "killed", MORTAL)
    found, caught, said = await coordinator_rounds(cluster.servers, cluster.broker(node), "killed", group, tmp_path, 1, seed=6)
    assert caught and not any(found), (found, said[-2000:])


async def test_the_operator_stays_in_the_group_when_its_coordinator_moves(cluster: KafkaCluster, operator: MakeOperator) -> None:
    """The coordinator moves whenever brokers are restarted one after the other."""
    cluster.make_topic("moved", [[1, 2, 3]])
    queue, _, _ = await coordinated_by(cluster, operator, "moved", (1, *MORTAL))
    await in_the_group_of_its_coordinator(cluster, queue)
    before = cluster.replicas(OFFSETS)
    moved = [[*others, leader] for leader, *others in before]
    for replicas in (moved, before):
        await asyncio.to_thread(cluster.rearrange, OFFSETS, replicas)
        await in_the_group_of_its_coordinator(cluster, queue)
    assert (await queue.check()).warnings == ()


async def in_the_group_of_its_coordinator(cluster: KafkaCluster, queue: KafkaQueue) -> None:
    guard = queue._guard

    async def there() -> bool:
        group = guard._client.group
        asked = KafkaClient(KafkaAddress(cluster.servers), group, "test")
        try:
            node = await asked._coordinator(CoordinationType.GROUP, group)
        finally:
            await asked.close()
        return guard.joined and guard._client._coordinators.get((CoordinationType.GROUP, group)) == node

    await eventually(there, "the operator is in the group", PATIENCE)


async def test_partitions_are_in_the_racks_of_their_preferred_leaders(cluster: KafkaCluster, operator: MakeOperator) -> None:
    cluster.make_topic("racks", [[1, 2], [2, 1], [3, 1], [1, 3]])
    queue = operator("racks", "shop.racks")
    await queue.ensure(None)
    near = [RACKS[0], RACKS[1], RACKS[2], RACKS[0]]
    assert (await queue.check()).zones == dict(enumerate(near))


async def test_one_answering_bootstrap_server_is_enough(cluster: KafkaCluster, operator: MakeOperator) -> None:
    cluster.make_topic("begun", [[1, 2, 3]])
    cluster.broker(2).freeze()
    try:
        for server in (cluster.broker(2).servers, "127.0.0.1:1"):
            made = KafkaClient(KafkaAddress((server, cluster.broker(1).servers)), "shop.begun", "test")
            assert await made._connected()
            await made.close()
    finally:
        cluster.broker(2).thaw()
