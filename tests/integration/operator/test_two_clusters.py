"""Two clusters with the same namespace, group and queue, on one Redis: the second gets nothing before somebody says so."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from baton.kube.api import connect
from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Claimant, Ownership
from baton.queues.redis import RedisQueue
from cluster import Cluster as ControlPlane
from tests.integration.operator.conftest import apply_crds, namespace
from tests.integration.operator.world import Cluster, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

OLD_UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Path]:
    """The kubeconfig of another cluster."""
    with ControlPlane(node=False) as cluster:
        yield cluster.kubeconfig


@pytest.fixture
async def ours(api: Cluster, start: Callable[..., Operator]) -> World:
    world = await namespace(api, "twin")
    await start(world, "ours").leads()
    return world


@pytest.fixture
async def theirs(elsewhere: Path, tmp_path: Path) -> AsyncIterator[World]:
    async with connect(elsewhere) as (plain, _):
        api = Cluster(plain._client)
        await apply_crds(api)
        world = await namespace(api, "twin")
        operator = Operator(elsewhere, "twin", "theirs", tmp_path)
        try:
            await operator.leads()
            yield world
        finally:
            operator.kill()


async def fleet(world: World, name: str, server: RedisServer, pod: str) -> str:
    """A queue, a group of its name and one pod; the group's UID."""
    await world.redis(name, server.url, partitions=4)
    made = await world.group(name)
    await world.pod(pod, name)
    return str(made["metadata"]["uid"])


async def owners(name: str, server: RedisServer) -> dict[int, Ownership]:
    queue = RedisQueue(server.url, f"twin/{name}", Claimant(f"twin/{name}", "a test"))
    try:
        return dict((await queue.check()).owners)
    finally:
        await queue.close()


async def test_the_second_cluster_is_told_whose_the_queue_is_and_leaves_it_alone(
    ours: World, theirs: World, redis_server: RedisServer
) -> None:
    uid = await fleet(ours, "orders", redis_server, "a")
    await ours.spread("orders", 4)
    before = await owners("orders", redis_server)
    await fleet(theirs, "orders", redis_server, "b")
    message = await theirs.told("orders", "Conflict")
    assert f"belongs to another ConsumerGroup twin/orders, with the uid {uid}" in message
    assert f"kubectl annotate consumergroup orders -n twin --overwrite baton.dev/take-over={uid}" in message
    assert not any((await theirs.counts("orders")).values())
    await theirs.delete("consumergroups", "orders")
    await theirs.gone("orders")
    assert await owners("orders", redis_server) == before, "what goes is not its own"
    await ours.told("orders", "Ready")
    await theirs.group("orders")
    await theirs.told("orders", "Conflict")
    await ours.delete("consumergroups", "orders")
    await theirs.spread("orders", 4, seconds=30)
    await theirs.told("orders", "Ready")


async def test_a_queue_is_taken_over_on_purpose_and_its_former_group_goes_without_touching_it(
    ours: World, theirs: World, redis_server: RedisServer
) -> None:
    uid = await fleet(ours, "moved", redis_server, "c")
    await ours.spread("moved", 4)
    (former,) = (await ours.owned("moved")).values()
    await fleet(theirs, "moved", redis_server, "d")
    await theirs.told("moved", "Conflict")
    await theirs.change("consumergroups", "moved", {"metadata": {"annotations": {"baton.dev/take-over": uid}}})
    await theirs.spread("moved", 4, seconds=30)
    (grants,) = (await theirs.owned("moved")).values()
    assert all(grants[number] > former[number] for number in former), "a consumer of the former owner is refused"
    message = await ours.told("moved", "Conflict", seconds=30)
    assert "belongs to another ConsumerGroup twin/moved" in message
    after = await owners("moved", redis_server)
    await ours.delete("consumergroups", "moved")
    await ours.gone("moved")
    assert await owners("moved", redis_server) == after
    await theirs.told("moved", "Ready")
    assert await theirs.counts("moved") == {"d": 4}


async def test_a_group_that_was_made_again_after_its_finalizer_was_removed_takes_over_on_purpose_only(
    ours: World, redis_server: RedisServer
) -> None:
    earlier = RedisQueue(redis_server.url, "twin/again", Claimant("twin/again", OLD_UID))
    await earlier.ensure(4)
    await earlier.grant(0, Uid("an-old-pod"), Epoch(7))
    await earlier.close()
    await fleet(ours, "again", redis_server, "e")
    assert OLD_UID in await ours.told("again", "Conflict")
    await ours.change("consumergroups", "again", {"metadata": {"annotations": {"baton.dev/take-over": OLD_UID}}})
    await ours.spread("again", 4, seconds=30)
    (grants,) = (await ours.owned("again")).values()
    assert grants[0] > 7


async def test_owners_that_somebody_else_wrote_are_granted_again_above(ours: World, redis_server: RedisServer) -> None:
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


async def test_a_redis_that_lost_the_queue_is_not_taken_for_somebody_elses_deed(ours: World, redis_server: RedisServer) -> None:
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
