"""A queue of another cluster's group on the same Redis: this cluster's group takes it over only on request."""

from collections.abc import Callable

import pytest
from redis import Redis

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Claimant, Ownership, QueueConflict
from baton.queues.redis import RedisQueue
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import Cluster, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

OLD_UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
async def ours(api: Cluster, start: Callable[..., Operator]) -> World:
    world = await namespace(api, "twin")
    await start(world, "ours").leads()
    return world


async def fleet(world: World, name: str, server: RedisServer, pod: str) -> None:
    """A queue, a group of its name and one pod."""
    await world.redis(name, server.url, partitions=4)
    await world.group(name)
    await world.pod(pod, name)


async def owners(name: str, server: RedisServer) -> dict[int, Ownership]:
    queue = RedisQueue(server.url, f"twin/{name}", Claimant(f"twin/{name}", "a test"))
    try:
        return dict((await queue.check()).owners)
    finally:
        await queue.close()


async def test_another_clusters_queue_is_left_alone_until_it_is_released(ours: World, redis_server: RedisServer) -> None:
    other = RedisQueue(redis_server.url, "twin/orders", Claimant("twin/orders", OLD_UID))
    await other.ensure(4)
    await other.grant(0, Uid("a-pod-elsewhere"), Epoch(7))
    before = await owners("orders", redis_server)
    await fleet(ours, "orders", redis_server, "a")
    message = await ours.told("orders", "Conflict")
    assert f"belongs to another ConsumerGroup twin/orders, with the uid {OLD_UID}" in message
    assert f"kubectl annotate consumergroup orders -n twin --overwrite baton.dev/take-over={OLD_UID}" in message
    assert not any((await ours.counts("orders")).values())
    await ours.delete("consumergroups", "orders")
    await ours.gone("orders")
    assert await owners("orders", redis_server) == before, "what goes is not its own"
    await ours.group("orders")
    await ours.told("orders", "Conflict")
    await other.grant(0, None, Epoch(8))
    await other.release()
    await other.close()
    await ours.spread("orders", 4)
    await ours.told("orders", "Ready")


async def test_a_recreated_group_takes_its_queue_over_only_on_request(ours: World, redis_server: RedisServer) -> None:
    earlier = RedisQueue(redis_server.url, "twin/again", Claimant("twin/again", OLD_UID))
    await earlier.ensure(4)
    await earlier.grant(0, Uid("an-old-pod"), Epoch(7))
    await fleet(ours, "again", redis_server, "e")
    assert OLD_UID in await ours.told("again", "Conflict")
    await ours.change("consumergroups", "again", {"metadata": {"annotations": {"baton.dev/take-over": OLD_UID}}})
    await ours.spread("again", 4)
    (grants,) = (await ours.owned("again")).values()
    assert grants[0] > 7
    with pytest.raises(QueueConflict):
        await earlier.ensure(4)
    await earlier.close()


async def test_foreign_owner_records_are_replaced_by_higher_grants(ours: World, redis_server: RedisServer) -> None:
    await fleet(ours, "drift", redis_server, "f")
    await ours.spread("drift", 4)
    stranger = RedisQueue(redis_server.url, "twin/drift", Claimant("twin/drift", "a test"))
    await stranger.grant(2, Uid("a-pod-elsewhere"), Epoch(30))
    await stranger.close()

    async def granted_again() -> bool:
        (grants,) = (await ours.owned("drift")).values()
        found = await owners("drift", redis_server)
        return len(grants) == 4 and grants[2] > 30 and {n: one.epoch for n, one in found.items()} == grants

    await eventually(granted_again, "it is granted again", shown=lambda: ours.ledger_data("drift"))
    assert "1 partition" in await ours.event("OwnersRestored", "drift")


async def test_a_redis_that_lost_the_queue_is_reported_as_empty(ours: World, redis_server: RedisServer) -> None:
    await fleet(ours, "emptied", redis_server, "g")
    await ours.spread("emptied", 4)
    with Redis.from_url(redis_server.url) as redis:
        keys = list(redis.scan_iter(match="pq:{twin/emptied*"))
        assert keys and redis.delete(*keys) == len(keys)

    async def granted_again() -> bool:
        (grants,) = (await ours.owned("emptied")).values()
        found = await owners("emptied", redis_server)
        return len(found) == 4 and {n: one.epoch for n, one in found.items()} == grants

    await eventually(granted_again, "it is granted again", shown=lambda: ours.ledger_data("emptied"))
    assert (await ours.event("OwnersRestored", "emptied")).startswith("the queue emptied came back empty")
    assert len([one for one in await ours.events("OwnersRestored") if "emptied" in one["note"]]) == 1
