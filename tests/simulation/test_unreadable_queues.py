"""A PartitionedQueue that stopped to read, as after an upgrade with a stricter schema, or that is gone: the real controller."""

import asyncio

from baton.controller.group_loop import QUEUES_WITHIN
from baton.kube.api import core_path
from baton.kube.objects import groups_path, queues_path
from baton.model.ids import QueueName
from tests.simulation.one_replica import OneReplica, in_virtual_time
from tests.unit.controller.memory_queue import MemoryQueue

PATH = queues_path("shop", "orders")
GROUP = groups_path("shop", "orders")


def partitions(world: OneReplica, count: int) -> None:
    """Also such as the schema refuses."""
    world.change(PATH, {"metadata": {}, "spec": {"partitions": count}})


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
