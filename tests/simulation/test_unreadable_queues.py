"""A spec that cannot be read any more, as after an upgrade with a stricter schema, or a PartitionedQueue that is gone."""

import asyncio

import pytest

from baton.controller.group_loop import QUEUES_WITHIN
from baton.kube.api import core_path
from baton.kube.objects import groups_path, queues_path
from baton.model.ids import QueueName
from baton.queues.protocol import IN_USE
from tests.simulation.one_replica import OneReplica, in_virtual_time
from tests.unit.controller.memory_queue import MemoryQueue

PATH = queues_path("shop", "orders")
GROUP = groups_path("shop", "orders")


def partitions(world: OneReplica, count: int) -> None:
    """Also such as the schema refuses."""
    world.change(PATH, {"metadata": {}, "spec": {"partitions": count}})


def external(world: OneReplica, name: str = "orders", count: int = 4) -> None:
    """Create an External queue, which waits for releases, and no pod has released a partition."""
    queue = world.queues[name] = MemoryQueue()
    queue.fenced, queue.run, queue.left = False, None, dict.fromkeys(range(4), IN_USE)
    spec = {"partitions": count, "source": {"type": "External", "redis": None}}
    if world.find(queues_path("shop", name)):
        world.change(queues_path("shop", name), {"spec": spec})
    else:
        world.make(queues_path("shop"), {"metadata": {"name": name}, "spec": spec})


async def settled(world: OneReplica) -> MemoryQueue:
    await world.serve("a")
    return world.queues["orders"]


async def with_invalid_queue(world: OneReplica) -> MemoryQueue:
    """The PartitionedQueue of a served group has become invalid when the next replica starts."""
    queue = await settled(world)
    await world.stop()
    partitions(world, -1)
    await restarted(world)
    return queue


async def restarted(world: OneReplica) -> None:
    """The replica knows of the queue what the ledger and the PartitionedQueue say."""
    world.start()
    await world.until(lambda: world.replica.elector.leading)
    await asyncio.sleep(1.0)


@in_virtual_time
async def test_a_deleted_group_waits_until_its_queue_is_valid_and_releases_it(world: OneReplica) -> None:
    queue = await with_invalid_queue(world)
    world.delete_group("orders")
    await asyncio.sleep(5.0)
    assert (world.find(GROUP) is not None, queue.released) == (True, False)
    partitions(world, 4)
    await world.until_gone(GROUP, 10.0)
    assert queue.released and all(owner.uid is None for owner in queue.records.values())


@in_virtual_time
async def test_a_queue_that_stays_invalid_is_given_up_with_an_event(world: OneReplica) -> None:
    queue = await with_invalid_queue(world)
    world.delete_group("orders")
    took = await world.until_gone(GROUP, QUEUES_WITHIN + 20.0)
    assert took >= QUEUES_WITHIN and not queue.released
    (note,) = world.notes("NotReleased")
    assert "PartitionedQueue shop/orders: spec.partitions" in note and "baton.dev/take-over" in note


@in_virtual_time
async def test_a_group_whose_queue_went_unseen_ends_with_an_event(world: OneReplica) -> None:
    queue = await settled(world)
    uid = (world.find(GROUP) or {})["metadata"]["uid"]
    await world.stop()
    world.delete_group("orders")
    world.delete(PATH)
    world.start()
    await world.until_gone(GROUP, 20.0)
    assert not queue.released
    await asyncio.sleep(1.0)
    (note,) = world.notes("NotReleased")
    assert "PartitionedQueue shop/orders is gone. If the queue still records this group" in note and uid in note


@in_virtual_time
async def test_nothing_is_granted_at_an_invalid_queue(world: OneReplica) -> None:
    queue = await with_invalid_queue(world)
    before = dict(queue.records)
    world.pod("b")
    world.delete(core_path("shop", "pods", "a"))
    await asyncio.sleep(20.0)
    entries = world.entries()
    assert queue.records == before
    assert not entries["b"].owned.get(QueueName("orders")), "the ledger says what no queue has recorded"
    partitions(world, 4)
    await world.until(world.counts, [4], 10.0)
    uid = world.entries()["b"].uid
    assert all(owner.uid == uid for owner in queue.records.values())


@in_virtual_time
async def test_an_invalid_queue_that_is_deleted_delays_nothing(world: OneReplica) -> None:
    await with_invalid_queue(world)
    world.delete(PATH)
    await world.until_told("QueueNotFound")

    def entries() -> dict[str, object]:
        return {name: entry.owned for name, entry in world.entries().items()}

    await world.until(entries, {"a": {}}, 20.0)
    world.delete_group("orders")
    await world.until_gone(GROUP, 5.0)


@in_virtual_time
async def test_a_queue_known_only_by_its_server_is_released_when_valid(world: OneReplica) -> None:
    queue = await settled(world)
    await world.stop()
    world.delete(core_path("shop", "configmaps", "orders-assignments"))
    partitions(world, -1)
    await restarted(world)
    world.delete_group("orders")
    await asyncio.sleep(1.0)
    partitions(world, 4)
    await world.until_gone(GROUP, 10.0)
    assert queue.released


@pytest.mark.parametrize("restarts", [False, True])
@in_virtual_time
async def test_an_exclusive_queue_that_becomes_invalid_keeps_its_one_active_member(world: OneReplica, restarts: bool) -> None:
    world.queue("orders")
    world.server.request("patch", PATH, body={"spec": {"accessType": "Exclusive"}})
    world.group("orders")
    world.pod("a")
    world.pod("b")
    await world.until(world.counts, [0, 4])
    await world.until_told("Ready")
    before = world.ledger()
    if restarts:
        await world.stop()
    partitions(world, -1)
    if restarts:
        world.start()
    await world.until_told("InvalidSpec")
    await asyncio.sleep(30.0)
    assert world.ledger() == before


@pytest.mark.parametrize("was_redis", [False, True])
@in_virtual_time
async def test_an_external_queue_that_becomes_invalid_still_waits_for_releases(world: OneReplica, was_redis: bool) -> None:
    """The restarted operator knows only by the ledger that the queue cannot fence, and the pod may still work."""
    if was_redis:
        world.queue("orders")
    else:
        external(world)
    world.group("orders")
    world.pod("a")
    world.pod("b")
    await world.until(world.counts, [2, 2], 20.0)
    if was_redis:
        external(world)
        await asyncio.sleep(60.0)
    await world.stop()
    partitions(world, -1)
    await restarted(world)
    world.server.request("patch", core_path("shop", "pods", "a") + "/status", body={"status": {"conditions": []}})
    await asyncio.sleep(30.0)
    partitions(world, 4)
    await asyncio.sleep(30.0)
    entry = world.entries()["a"]
    assert sum(map(len, [*entry.owned.values(), *entry.revoking.values()])) == 2, "no other pod may have them"


@in_virtual_time
async def test_an_invalid_queue_that_was_never_valid_asks_for_no_sessions(world: OneReplica) -> None:
    external(world)
    world.group("orders", membership={})
    world.pod("a")
    world.pod("b")
    await world.until(world.counts, [2, 2], 20.0)
    external(world, "more", -1)
    world.change_group("orders", queues=[{"name": "orders"}, {"name": "more"}])
    await world.until_told("InvalidSpec")
    await asyncio.sleep(30.0)
    assert world.counts() == [2, 2]


@in_virtual_time
async def test_with_an_invalid_spec_of_the_group_no_partition_is_taken_away(world: OneReplica) -> None:
    await settled(world)
    world.pod("b")
    await world.until(world.counts, [2, 2])
    world.change_group("orders", queues="none")
    await world.until_told("InvalidSpec")
    world.change(core_path("shop", "pods", "a") + "/status", {"status": {"conditions": []}})
    await asyncio.sleep(30.0)
    assert world.counts() == [2, 2]


@in_virtual_time
async def test_an_invalid_queue_does_not_make_members_of_pods_without_a_session(world: OneReplica) -> None:
    world.queue("orders")
    world.group("orders", membership={})
    world.pod("a")
    await world.until_told("NoMembers")
    await world.until(world.counts, [])
    await world.stop()
    partitions(world, -1)
    await restarted(world)
    await asyncio.sleep(20.0)
    assert world.counts() == []
