"""A Redis without room: consumers that come back as other pods get their partitions, and what has piled up is worked off."""

from collections.abc import Callable

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import RedisProducer, RedisReader
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import Cluster, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

PARTITIONS, ENTRIES = 4, 400


async def test_consumers_that_come_back_drain_a_full_redis(api: Cluster, start: Callable[..., Operator]) -> None:
    """Under an operator that begins only then, too."""
    world = await namespace(api, "full")
    operator = await start(world, "first").leads()
    with RedisServer(fsync="always") as server:
        await world.redis("full", server.url, partitions=PARTITIONS)
        await world.group("full")
        await world.pod("full-a", "full")
        await world.spread("full", PARTITIONS)
        with RedisProducer(server.url, f"{world.namespace}/full", patience=0.2) as producer:
            producer.send_many((f"key-{number}", "x" * 1000) for number in range(ENTRIES))
            with server.client() as raw:
                raw.config_set("maxmemory-policy", "noeviction")
                raw.config_set("maxmemory", 1)
            with pytest.raises(QueueUnreachable, match="is full"):
                producer.send("key", "one more")
            former = (await world.owned("full"))["full-a"]
            operator.kill()
            await start(world, "second").leads()
            await world.delete_pod("full-a")
            uid = await world.pod("full-a", "full")
            grants = await granted(world, uid, former)
            assert drained(server, world, uid, grants) == ENTRIES
            await world.told("full", "Ready")
            with server.client() as raw:
                raw.config_set("maxmemory", 0)
            producer.send("key", "one more")


async def granted(world: World, uid: Uid, former: dict[int, Epoch]) -> dict[int, Epoch]:
    """What the new pod has, once it has all of it, above what the pod before it had."""

    async def so() -> dict[int, Epoch]:
        entry = (await world.entries("full")).get("full-a")
        owned = {} if entry is None or entry.uid != uid else (await world.owned("full"))["full-a"]
        return owned if len(owned) == PARTITIONS and all(owned[number] > former[number] for number in owned) else {}

    return await eventually(so, "the new pod is granted everything", shown=lambda: world.ledger_data("full"))


def drained(server: RedisServer, world: World, uid: Uid, grants: dict[int, Epoch]) -> int:
    """How many entries the owner reads and acknowledges, until there are none."""
    done = 0
    with RedisReader(server.url, f"{world.namespace}/full", uid) as reader:
        for number, epoch in grants.items():
            while entries := reader.read(number, epoch):
                reader.ack(number, epoch, [entry.offset for entry in entries])
                done += len(entries)
    return done
